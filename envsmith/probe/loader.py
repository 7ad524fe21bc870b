"""Where the dynamic loader looks: LD_LIBRARY_PATH and its cache."""

from __future__ import annotations

from typing import Mapping

from envsmith.probe.look import Look
from envsmith.probe.parse.ld_cache import cached_libraries

_CACHE_LIMIT_BYTES = 16 * 1024 * 1024


def library_path(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The folders of LD_LIBRARY_PATH. Relative ones mean another folder in each process, and are passed over."""
    folders = environ.get("LD_LIBRARY_PATH", "").replace(";", ":").split(":")
    return tuple(folder.rstrip("/") for folder in folders if folder.startswith("/"))


def loader_cache(look: Look) -> tuple[tuple[str, str], ...]:
    """(soname, path) in the order of /etc/ld.so.cache; empty if there is none, as with musl."""
    try:
        return cached_libraries(look.read_bytes("/etc/ld.so.cache", _CACHE_LIMIT_BYTES))
    except OSError:
        return ()
