"""A snapshot that can be shown to strangers: no UUIDs, host names, user names or home folders.

The same thing gets the same placeholder throughout, so that a UUID in `CUDA_VISIBLE_DEVICES` can still be matched
with its GPU. Redacting twice changes nothing.
"""

from __future__ import annotations

import os
import re
from typing import Iterator, Sequence

from envsmith.probe.strings import mapped, texts
from envsmith.wire.facts import Snapshot

_UUID = re.compile(r"(?<=GPU-|MIG-)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f])", re.IGNORECASE)
_HOME = re.compile(r"(?:(?<=/home/)|(?<=/Users/))[^/:\s,;]+")
_PLACEHOLDER = re.compile(r"(?:host|user)-\d+|00000000(?:-0000){3}-\d{12}")
_HOST_VARIABLES = ("MASTER_ADDR", "WSL_DISTRO_NAME")
# words that stand in paths and versions of every machine, and so tell nothing
_COMMON = frozenset(("root", "user", "ubuntu", "debian", "nvidia", "docker", "cuda", "torch", "localhost", "127.0.0.1"))
_SHORTEST_NAME_CHARS = 3


def redact(snapshot: Snapshot, names: Sequence[str] | None = None) -> Snapshot:
    """Return the snapshot with stable placeholders in the place of what identifies a machine or a person.

    names: further names to hide wherever they stand alone; by default this host's and this user's.
    """
    all_texts = tuple(texts(snapshot))
    uuids = _numbered((uuid for text in all_texts for uuid in _UUID.findall(text)), "00000000-0000-0000-0000-{:012d}")
    users = _numbered((name for text in all_texts for name in _HOME.findall(text)), "user-{}")
    values = (variable.value for variable in snapshot.env or () if variable.name in _HOST_VARIABLES)
    hosts = _numbered((*values, *(_own_names() if names is None else names)), "host-{}")
    alone = {name: new for name, new in {**hosts, **users}.items() if _is_telling(name)}
    words = "|".join(map(re.escape, alone)) or "(?!)"
    pattern = re.compile(rf"(?<![\w-])(?:{words})(?![\w-])")

    def hide(text: str) -> str:
        text = _UUID.sub(lambda found: uuids.get(found.group(), found.group()), text)
        text = _HOME.sub(lambda found: users.get(found.group(), found.group()), text)
        return pattern.sub(lambda found: alone[found.group()], text)

    clean: Snapshot = mapped(snapshot, hide)
    return clean


def _numbered(words: Iterator[str] | tuple[str, ...], placeholder: str) -> dict[str, str]:
    """A placeholder for each different word; numbers that placeholders among the words have are not given again."""
    different = tuple(dict.fromkeys(words))
    new = [word for word in different if word and not _PLACEHOLDER.fullmatch(word)]
    free = (text for text in map(placeholder.format, range(1, len(different) + 1)) if text not in different)
    return dict(zip(new, free))  # there are enough of them


def _is_telling(name: str) -> bool:
    return len(name) >= _SHORTEST_NAME_CHARS and name.lower() not in _COMMON


def _own_names() -> tuple[str, ...]:
    user = os.path.basename(os.path.expanduser("~"))
    return (os.uname().nodename, os.environ.get("USER", ""), os.environ.get("LOGNAME", ""), user)
