"""Files below /proc: memory, mounts, mapped files, the NVIDIA kernel module."""

from __future__ import annotations

import re
from dataclasses import dataclass

_MODULE_VERSION = re.compile(r"Kernel Module(?: for \S+)?\s+(\d{2,4}\.\d+(?:\.\d+)*)")
_OCTAL = re.compile(r"\\([0-3][0-7]{2})")


@dataclass(frozen=True)
class Mount:
    """One line of mountinfo. root: the part of the filesystem that is mounted; options: of the filesystem."""

    root: str
    point: str
    filesystem: str
    source: str
    options: str


def memory_total_bytes(meminfo: str) -> int | None:
    """MemTotal of /proc/meminfo, which is given in KiB."""
    found = re.search(r"^MemTotal:\s+(\d{1,15}) kB", meminfo, re.MULTILINE)
    return int(found.group(1)) * 1024 if found else None


def kernel_module(text: str) -> tuple[str | None, str | None]:
    """Version and flavour ("open" or "proprietary") from /proc/driver/nvidia/version."""
    line = next((row for row in text.splitlines() if "Kernel Module" in row), "")
    found = _MODULE_VERSION.search(line)
    if not found:
        return None, None
    return found.group(1), "open" if "Open Kernel Module" in line else "proprietary"


def mounts(mountinfo: str) -> tuple[Mount, ...]:
    """The lines of /proc/self/mountinfo, see proc_pid_mountinfo(5)."""
    found = []
    for line in mountinfo.splitlines():
        left, dash, right = line.partition(" - ")
        fields = left.split(" ")
        tail = right.split(" ")
        if dash and len(fields) >= 6 and len(tail) >= 3:
            found.append(Mount(_unescape(fields[3]), _unescape(fields[4]), tail[0], _unescape(tail[1]), tail[2]))
    return tuple(found)


def mapped_files(maps: str) -> tuple[str, ...]:
    """The files in /proc/self/maps, each once, in order of their addresses; deleted ones without the mark."""
    found: dict[str, None] = {}
    for line in maps.splitlines():
        fields = line.split(None, 5)
        if len(fields) == 6 and fields[5].startswith("/"):
            path = fields[5][: -len(" (deleted)")] if fields[5].endswith(" (deleted)") else fields[5]
            found[path] = None
    return tuple(found)


def _unescape(text: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match.group(1), 8)), text)
