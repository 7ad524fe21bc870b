"""Every copy of a CUDA library that a process with this interpreter could load."""

from __future__ import annotations

from typing import Iterator, Mapping, Sequence

from envsmith.probe.loader import library_path, loader_cache
from envsmith.probe.look import Look, collector
from envsmith.probe.parse.libraries import WHEEL_OF, cuda_library
from envsmith.probe.parse.metadata import dist_info
from envsmith.probe.toolkits import LIBRARY_FOLDERS
from envsmith.wire.facts import LibraryFacts, ToolkitFacts

# where the loader looks without a cache
_DEFAULT_FOLDERS = (
    "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
    "/lib64", "/usr/lib64", "/lib", "/usr/lib",
)  # fmt: skip


@collector("libraries")
def library_facts(
    look: Look,
    environ: Mapping[str, str],
    search_path: Sequence[str],
    prefix: str,
    toolkits: Sequence[ToolkitFacts] = (),
) -> tuple[LibraryFacts, ...]:
    """Return each file once (by real path), with the first of its origins in the order of the loader's precedence."""
    found: dict[str, LibraryFacts] = {}
    versions: dict[str, Mapping[str, str]] = {}
    for path, origin, site in _candidates(look, environ, search_path, prefix, toolkits):
        known = cuda_library(path.rsplit("/", 1)[1])
        if known is None or not look.exists(path):
            continue
        real = look.realpath(path)
        if real in found:
            continue
        version = _file_version(real, known[1])
        if site is not None:
            if site not in versions:
                versions[site] = wheel_versions(look, site)
            version = wheel_version(versions[site], known[0], version) or version
        found[real] = LibraryFacts(known[0], real, version, origin)
    return tuple(found.values())


def wheel_versions(look: Look, site: str) -> Mapping[str, str]:
    """The NVIDIA packages installed in a site-packages folder: canonical name -> version."""
    found = {}
    for name in look.names(site):
        known = dist_info(name) if name.startswith(("nvidia", "NVIDIA")) else None
        if known:
            found[known[0]] = known[1]
    return found


def wheel_version(versions: Mapping[str, str], library: str, soname_version: str | None) -> str | None:
    """The version of the wheel that brings a library; None if it is not there or two could have brought it."""
    wheel = WHEEL_OF[library]
    candidates = [versions[name] for name in versions if name == wheel or name.startswith(wheel + "-cu")]
    if soname_version is not None:
        candidates = [version for version in candidates if version.split(".")[0] == soname_version.split(".")[0]]
    return candidates[0] if len(set(candidates)) == 1 else None


def _file_version(real: str, named: str | None) -> str | None:
    known = cuda_library(real.rsplit("/", 1)[1])
    return (known[1] if known else None) or named


def _candidates(
    look: Look,
    environ: Mapping[str, str],
    search_path: Sequence[str],
    prefix: str,
    toolkits: Sequence[ToolkitFacts],
) -> Iterator[tuple[str, str, str | None]]:
    """(path, origin, site-packages folder whose metadata tells the version)."""
    for folder, origin, site in _searched_folders(look, environ, search_path, prefix):
        for name in _library_names(look, folder):
            yield f"{folder}/{name}", origin, site
    # a distribution's own toolkit lives in /usr, where not everything belongs to it
    folders = tuple(toolkit.path + "/" for toolkit in toolkits if toolkit.path not in ("/usr", "/usr/local"))
    for path in _system_paths(look):
        yield path, "toolkit" if look.realpath(path).startswith(folders) else "system", None
    for toolkit in toolkits:
        for inner in LIBRARY_FOLDERS:
            for name in _library_names(look, f"{toolkit.path}/{inner}"):
                yield f"{toolkit.path}/{inner}/{name}", "toolkit", None


def _searched_folders(
    look: Look, environ: Mapping[str, str], search_path: Sequence[str], prefix: str
) -> Iterator[tuple[str, str, str | None]]:
    for site in dict.fromkeys(folder for folder in search_path if folder.startswith("/")):
        for part in look.names(site + "/nvidia"):
            yield f"{site}/nvidia/{part}/lib", "wheel", site
        yield site + "/torch/lib", "wheel", None  # copies of torch's own: NVIDIA's packages say nothing about them
    for folder in library_path(environ):
        yield folder, "ld_library_path", None
    if look.exists(prefix + "/conda-meta"):
        yield prefix + "/lib", "conda", None


def _library_names(look: Look, folder: str) -> tuple[str, ...]:
    return tuple(name for name in look.names(folder, "libraries.path") if cuda_library(name) is not None)


def _system_paths(look: Look) -> Iterator[str]:
    """The CUDA libraries in the loader's cache, or in its default folders if there is no cache."""
    cache = loader_cache(look)
    for _, path in cache:
        if cuda_library(path.rsplit("/", 1)[1]) is not None:
            yield path
    if not cache:
        for folder in _DEFAULT_FOLDERS:
            for name in _library_names(look, folder):
                yield f"{folder}/{name}"
