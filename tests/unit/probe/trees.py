"""Small file trees that stand for machines."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from envsmith.probe.look import Look

RECORDED = Path(__file__).parents[2] / "recorded" / "probe"
MIB = 1024 * 1024

BARE_HOST: Mapping[str, str] = {
    "/etc/os-release": 'ID=ubuntu\nVERSION_ID="22.04"\nPRETTY_NAME="Ubuntu 22.04.5 LTS"\n',
    "/proc/meminfo": "MemTotal:       65843428 kB\nMemFree: 1 kB\n",
    "/proc/sys/kernel/osrelease": "5.15.0-130-generic\n",
    "/proc/self/cgroup": "0::/user.slice/user-1000.slice/session-3.scope\n",
    "/proc/self/mountinfo": (
        "29 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw\n"
        "34 24 0:29 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
    ),
}


def recorded(name: str) -> str:
    """A recorded text."""
    return (RECORDED / name).read_text(encoding="utf-8")


def plant(
    root: Path,
    files: Mapping[str, str | bytes],
    links: Mapping[str, str] | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Look:
    """Write files, links (path -> target as the machine sees it) and sparse files of a size; look at them."""
    for path, content in files.items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())
    for path, size in (sizes or {}).items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("wb") as file:
            file.truncate(size)
    for path, target in (links or {}).items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)
    return Look(str(root))


def executable(root: Path, path: str, script: str) -> None:
    """Write a shell script that can be run."""
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    place.chmod(0o755)


def ld_cache(entries: Sequence[tuple[str, str]], before: bytes = b"") -> bytes:
    """A loader cache in glibc's format; `before` is what older releases put in front of it."""
    strings = b""
    table = b""
    first_string = 48 + 24 * len(entries)
    for soname, path in entries:
        key = first_string + len(strings)
        strings += soname.encode() + b"\0"
        value = first_string + len(strings)
        strings += path.encode() + b"\0"
        table += struct.pack("=iIIIQ", 0x303, key, value, 0, 0)
    header = b"glibc-ld.so.cache1.1" + struct.pack("=IIB3xI12x", len(entries), len(strings), 2, 0)
    return before + header + table + strings


def gaps(look: Look) -> dict[str, str]:
    """fact -> reason of the gaps so far."""
    return {gap.fact: gap.reason for gap in look.gaps}
