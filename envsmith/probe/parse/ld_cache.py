"""/etc/ld.so.cache, the file in which the dynamic loader looks libraries up (glibc's sysdeps/generic/dl-cache.h)."""

from __future__ import annotations

import struct
import sys

_MAGIC = b"glibc-ld.so.cache1.1"
_HEADER_BYTES = 48
_ENTRY_BYTES = 24
_ENTRY_LIMIT = 100000


def cached_libraries(data: bytes) -> tuple[tuple[str, str], ...]:
    """Return (soname, path) in the cache's order; empty for anything that is not such a cache.

    Older releases put this format behind an older one in the same file; offsets count from its magic string.
    """
    start = data.find(_MAGIC)
    if start < 0 or len(data) < start + _HEADER_BYTES:
        return ()
    order = "<" if sys.byteorder == "little" else ">"
    (count,) = struct.unpack_from(order + "I", data, start + len(_MAGIC))
    first = start + _HEADER_BYTES
    count = min(count, _ENTRY_LIMIT, (len(data) - first) // _ENTRY_BYTES)
    found = []
    for number in range(count):
        _, key, value = struct.unpack_from(order + "iII", data, first + number * _ENTRY_BYTES)
        soname, path = _string(data, start + key), _string(data, start + value)
        if soname and path.startswith("/"):
            found.append((soname, path))
    return tuple(found)


def _string(data: bytes, offset: int) -> str:
    end = data.find(b"\0", offset, offset + 4096)
    return data[offset:end].decode("utf-8", "surrogateescape") if end >= 0 else ""
