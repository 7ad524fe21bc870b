"""What NCCL itself says of a run: its debug output, read for versions 2.14 to 2.28.

The formats are those of NCCL's source: src/transport/*.cc ("via ..."), src/graph/{topo,paths}.cc (GPUs and the paths
between them) and src/enqueue.cc ("Bytes -> Algo", from 2.20 on; numbers instead of names before 2.25, and the
collective's name from 2.23 on).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Iterable

NVLINK_P2P = "NVLink P2P"
PCIE_P2P = "PCIe P2P"
SHARED_MEMORY = "shared memory"
NETWORK = "network"
# From the fastest to the slowest: a ring is as fast as its slowest link.
TRANSPORTS = (NVLINK_P2P, PCIE_P2P, SHARED_MEMORY, NETWORK)

# NCCL_ALGO_* and NCCL_PROTO_* of src/include, in the order of their numbers, by the names of ncclAlgoToString.
_ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
_PROTOCOLS = ("LL", "LL128", "SIMPLE")
_PLAIN_NAMES = {"TREE": "tree", "RING": "ring", "NVLS_TREE": "NVLS tree", "SIMPLE": "Simple",
                "COLLNET_DIRECT": "CollNet direct", "COLLNET_CHAIN": "CollNet chain"}  # fmt: skip

# Types of path that NCCL takes over NVLink: straight, or through another GPU.
_NVLINK_PATHS = ("NVL", "NVB")

_SAID = re.compile(r"NCCL (INFO|WARN) (.*)")
_VERSION = re.compile(r"NCCL version (\d+(?:\.\d+)+)")
_LINK = re.compile(r"Channel \d+(?:/\d+)? : (\d+)\[[^\]]*\] -> (\d+)\[[^\]]*\](?: \[\w+\])? via (\w+)")
_CHOICE = re.compile(r"(?:(\w+): )?(\d+) Bytes -> Algo (\w+) proto (\w+)")
_GPU_OF_RANK = re.compile(r"GPU/([0-9A-Fa-f-]+) \((\d+)\)")
_PATHS_FROM = re.compile(r"GPU/([0-9A-Fa-f-]+) :")
_PATH_TO = re.compile(r"GPU/([0-9A-Fa-f-]+) \(\d+/[0-9.]+/(\w+)\)")
_SETTING = re.compile(r"(NCCL_\w+) set by environment to (.+?)\.?$")


@dataclass(frozen=True)
class Link:
    """One direction between two ranks. kind: "P2P", "SHM", "NET"."""

    sender: int
    receiver: int
    kind: str


@dataclass(frozen=True)
class Choice:
    """What NCCL took for a collective, which is "" where this version does not name it."""

    collective: str
    size_bytes: int
    algorithm: str
    protocol: str


@dataclass(frozen=True)
class NcclLog:
    """The debug output of all ranks. paths: (rank, rank) -> type of the path between their GPUs, "NVL" or "PHB"."""

    version: str
    links: frozenset[Link]
    paths: dict[tuple[int, int], str]
    choices: tuple[Choice, ...]
    warnings: tuple[str, ...]
    settings: dict[str, str]

    @property
    def transport(self) -> str:
        """The slowest transport between any two ranks; "unknown: ..." when the output does not tell it."""
        if not self.links:
            # NVLink's switches do the sum, so there may be no channel from one GPU to another
            nvls = any(choice.algorithm.startswith("NVLS") for choice in self.choices)
            return NVLINK_P2P if nvls else "unknown: NCCL's output names no channel"
        found = {self._transport_of(link) for link in self.links}
        return max(found, key=lambda name: TRANSPORTS.index(name) if name in TRANSPORTS else -1)

    def _transport_of(self, link: Link) -> str:
        if link.kind == "SHM":
            return SHARED_MEMORY
        if link.kind != "P2P":
            return NETWORK
        path = self.paths.get((link.sender, link.receiver))
        if path is None:
            return "unknown: P2P, but NCCL's output does not say over what"
        return NVLINK_P2P if path in _NVLINK_PATHS else PCIE_P2P

    def choice(self, collective: str, size_bytes: int) -> Choice | None:
        """The last choice for a collective ("AllReduce") of that size, None where this version does not tell."""
        fitting = [c for c in self.choices if c.size_bytes == size_bytes and c.collective in ("", collective)]
        return fitting[-1] if fitting else None


def parse(texts: Iterable[str]) -> NcclLog:
    """Read the debug output of the ranks of one group, a text a rank. Lines of any other kind are passed over."""
    said = [match.groups() for text in texts for match in map(_SAID.search, text.splitlines()) if match]
    words = [what for _, what in said]
    version = next((match.group(1) for match in map(_VERSION.search, words) if match), "")
    links = frozenset(
        Link(int(match.group(1)), int(match.group(2)), match.group(3)) for match in map(_LINK.match, words) if match
    )
    choices = tuple(_read_choice(match) for match in map(_CHOICE.match, words) if match)
    # in the order of their first appearance: every rank may say the same
    warnings = tuple(dict.fromkeys(what.strip() for level, what in said if level == "WARN" and what.strip()))
    settings = {match.group(1): match.group(2) for match in map(_SETTING.match, words) if match}
    return NcclLog(version, links, _read_paths(words), choices, warnings, settings)


def _read_choice(match: re.Match[str]) -> Choice:
    collective, size_bytes, algorithm, protocol = match.groups()
    return Choice(collective or "", int(size_bytes), _name(algorithm, _ALGORITHMS), _name(protocol, _PROTOCOLS))


def _name(word: str, by_number: tuple[str, ...]) -> str:
    if word.isdigit() and int(word) < len(by_number):
        word = by_number[int(word)]
    return _PLAIN_NAMES.get(word, word)


def _read_paths(words: list[str]) -> dict[tuple[int, int], str]:
    ranks = {gpu: int(rank) for what in words for gpu, rank in _GPU_OF_RANK.findall(what)}
    found: dict[tuple[int, int], str] = {}
    for what in words:
        start = _PATHS_FROM.match(what)
        if start is None or start.group(1) not in ranks:
            continue
        for gpu, kind in _PATH_TO.findall(what):
            if gpu in ranks:
                found[ranks[start.group(1)], ranks[gpu]] = kind
    return found
