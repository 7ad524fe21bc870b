"""Copies of libcuda: the driver's own, cuda-compat's and the toolkit's stub."""

from __future__ import annotations

import os
from typing import Mapping

from envsmith.probe.driver_answers import STUB_LIBRARY_CODE
from envsmith.probe.loader import library_path, loader_cache
from envsmith.probe.look import Look
from envsmith.probe.parse.libraries import COMPAT_FOLDERS, UNVERSIONED_DRIVER_FOLDERS, driver_version
from envsmith.wire.facts import LibcudaFacts

# a stub has the functions' names and no code (under 0.2 MB in toolkits 10 to 13); the real ones are above 10 MB
_STUB_LIMIT_BYTES = 1024 * 1024
_WELL_KNOWN = ("/usr/local/nvidia/lib64", "/usr/lib/wsl/lib", "/usr/lib64", "/usr/lib/x86_64-linux-gnu")
_IN_TOOLKIT = ("compat", "compat/lib", "lib64/stubs")


def classify(look: Look, path: str, code: int | None = None) -> LibcudaFacts:
    """What a libcuda is, by its real path and size. code: what its cuDriverGetVersion returned, if it was called."""
    real = look.realpath(path)
    return LibcudaFacts(real, driver_version(real), _origin(look, real, code))


def other_copies(look: Look, environ: Mapping[str, str], taken: LibcudaFacts | None) -> tuple[LibcudaFacts, ...]:
    """The copies in the loader's places and in well-known ones, without the one that is taken."""
    paths = [folder + "/" + name for folder in _folders(look, environ) for name in ("libcuda.so.1", "libcuda.so")]
    paths += [path for soname, path in loader_cache(look) if soname.startswith("libcuda.so")]
    found: dict[str, LibcudaFacts] = {}
    for path in paths:
        if look.exists(path):
            copy = classify(look, path)
            found.setdefault(copy.path, copy)
    if taken is not None:
        found.pop(taken.path, None)
    return tuple(found.values())


def _folders(look: Look, environ: Mapping[str, str]) -> tuple[str, ...]:
    folders = [*library_path(environ), *_WELL_KNOWN]
    for name in look.names("/usr/local"):
        if name.startswith("cuda"):
            folders += [f"/usr/local/{name}/{inner}" for inner in _IN_TOOLKIT]
    return tuple(dict.fromkeys(folders))


def _origin(look: Look, real: str, code: int | None) -> str:
    folders = real.split("/")[:-1]
    if code == STUB_LIBRARY_CODE or "stubs" in folders:
        return "stub"
    if COMPAT_FOLDERS.intersection(folders):
        return "compat"
    if UNVERSIONED_DRIVER_FOLDERS.intersection(folders):
        return "driver"
    try:
        size = os.stat(look.path(real)).st_size
    except OSError:
        return "unknown"
    if size < _STUB_LIMIT_BYTES:
        return "stub" if size else "unknown"  # an image that was committed from a GPU container has empty files
    return "driver" if driver_version(real) else "unknown"
