"""The two short forms in which Slurm writes lists: of hosts, and of tasks a node."""

from __future__ import annotations

import re

# Slurm itself knows no cluster of more nodes (MAX_SLURM_NODES in slurm/slurm.h).
HOSTS_MAX = 1 << 16
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")
_COUNT = re.compile(r"(\d{1,9})(?:\(x(\d{1,9})\))?")


def expand_hosts(text: str) -> tuple[str, ...]:
    """Host names of a node list, in its order: "gpu[003-004,12],login1" -> gpu003, gpu004, gpu12, login1.

    Raises ValueError, which says what is wrong with it.
    """
    hosts: list[str] = []
    for item in _items(text):
        names = [""]
        for literal, ranges in re.findall(r"([^\[\]]+)|\[([^\[\]]*)\]", item):
            if literal and not _NAME.fullmatch(literal):
                raise ValueError(f"{literal!r} is no part of a host's name")
            endings = [literal] if literal else _numbers(ranges)
            if len(names) * len(endings) + len(hosts) > HOSTS_MAX:
                raise ValueError(f"it names more than {HOSTS_MAX} hosts")
            names = [name + ending for name in names for ending in endings]
        hosts += names
    return tuple(hosts)


def _items(text: str) -> list[str]:
    """Split at the commas outside brackets."""
    if not re.fullmatch(r"[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*", text):
        raise ValueError("its brackets do not match")
    items = re.findall(r"(?:[^,\[\]]|\[[^\[\]]*\])+", text)
    if not items or ",".join(items) != text:
        raise ValueError("a host's name is missing")
    return items


def _numbers(ranges: str) -> list[str]:
    """The numbers of "003-004,12", as wide as they are written."""
    numbers: list[str] = []
    for part in ranges.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ValueError(f"{part!r} is no range of numbers")
        first, last = match.group(1), match.group(2) or match.group(1)
        count = int(last) - int(first) + 1
        if not 0 < count <= HOSTS_MAX:
            raise ValueError(f"{part!r} is no range of numbers from low to high")
        numbers += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return numbers


def tasks_per_node(text: str) -> tuple[int, ...]:
    """Tasks of each node: "2(x3),1" -> 2, 2, 2, 1. Raises ValueError, which says what is wrong with it."""
    counts: list[int] = []
    for part in text.split(","):
        match = _COUNT.fullmatch(part)
        if match is None:
            raise ValueError(f"{part!r} is no number of tasks")
        times = int(match.group(2) or 1)
        if len(counts) + times > HOSTS_MAX:
            raise ValueError(f"it names more than {HOSTS_MAX} nodes")
        counts += [int(match.group(1))] * times
    return tuple(counts)
