"""The CUDA libraries that this very process has loaded."""

from __future__ import annotations

from typing import Mapping

from envsmith.probe.libraries import wheel_version, wheel_versions
from envsmith.probe.look import Look
from envsmith.probe.parse.libraries import cuda_library, cudnn_part
from envsmith.probe.parse.proc import mapped_files
from envsmith.wire.facts import LibraryFacts

_MAPS_LIMIT_BYTES = 32 * 1024 * 1024


def loaded_libraries(look: Look | None = None) -> tuple[LibraryFacts, ...]:
    """Return the mapped CUDA libraries, and the parts that cuDNN loads under names such as "cudnn_ops".

    Raises OSError if /proc/self/maps cannot be read.
    """
    look = look or Look()
    versions: dict[str, Mapping[str, str]] = {}
    found: list[LibraryFacts] = []
    for path in mapped_files(look.read_text("/proc/self/maps", _MAPS_LIMIT_BYTES)):
        name = path.rsplit("/", 1)[1]
        known = cuda_library(name) or cudnn_part(name)
        if known is None:
            continue
        origin, site = _origin(look, path)
        version = known[1]
        if site is not None:
            if site not in versions:
                versions[site] = wheel_versions(look, site)
            version = wheel_version(versions[site], known[0].split("_")[0], version) or version
        found.append(LibraryFacts(known[0], path, version, origin))
    return tuple(found)


def _origin(look: Look, path: str) -> tuple[str, str | None]:
    """The origin, and for a file of an NVIDIA package the site-packages folder."""
    site, nvidia, _ = path.partition("/nvidia/")
    if nvidia and site.endswith(("/site-packages", "/dist-packages")):
        return "wheel", site
    if "/site-packages/" in path or "/dist-packages/" in path:
        return "wheel", None
    folder = path.rsplit("/", 1)[0]
    if folder.endswith("/lib") and look.exists(folder[: -len("/lib")] + "/conda-meta"):
        return "conda", None
    if "/cuda" in folder or "/hpc_sdk/" in folder:
        return "toolkit", None
    return ("system", None) if folder.startswith(("/lib", "/usr/lib")) else ("other", None)
