"""The files that this process has mapped, by which a library's use is proved."""

from __future__ import annotations

from pathlib import Path


def mapped_files(maps: str | None = None) -> tuple[str, ...]:
    """Paths of the mapped files, each once, in the order of their addresses. maps: text of /proc/self/maps."""
    text = Path("/proc/self/maps").read_text(errors="surrogateescape") if maps is None else maps
    found: dict[str, None] = {}
    for line in text.splitlines():
        # address, permissions, offset, device, inode, path (which may hold spaces)
        parts = line.split(None, 5)
        if len(parts) == 6 and parts[5].startswith("/"):
            found.setdefault(parts[5])
    return tuple(found)


def mapped_libraries(prefix: str, maps: str | None = None) -> tuple[str, ...]:
    """Mapped files whose name starts with the prefix: "libcudnn" gives all parts of cuDNN."""
    return tuple(path for path in mapped_files(maps) if Path(path).name.startswith(prefix))
