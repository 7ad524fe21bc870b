"""Installed Python distributions: folder names and METADATA files."""

from __future__ import annotations

import re

_CONDA = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)-(?P<version>[0-9][^-]*)-(?P<build>[^-]+)\.json")


def canonical(name: str) -> str:
    """The normal form of a distribution's name (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def dist_info(folder_name: str) -> tuple[str, str] | None:
    """(canonical name, version) of a `NAME-VERSION.dist-info` or `NAME-VERSION[-pyX.Y].egg-info` name."""
    for ending in (".dist-info", ".egg-info"):
        if folder_name.endswith(ending):
            stem = folder_name[: -len(ending)]
            break
    else:
        return None
    parts = stem.split("-")
    if ending == ".egg-info" and len(parts) > 2 and parts[-1].startswith("py"):
        parts.pop()
    if len(parts) < 2 or not parts[-1] or not parts[0]:
        return None
    return canonical("-".join(parts[:-1])), parts[-1]


def conda_record(file_name: str) -> tuple[str, str] | None:
    """(name, version) of a `conda-meta/NAME-VERSION-BUILD.json` name."""
    found = _CONDA.fullmatch(file_name)
    return (canonical(found.group("name")), found.group("version")) if found else None


def requirements(metadata: str) -> tuple[str, ...]:
    """The Requires-Dist values of a METADATA file, in order."""
    found = []
    for line in metadata.splitlines():
        if not line.strip():
            break  # the description follows
        name, colon, value = line.partition(":")
        if colon and name.strip().lower() == "requires-dist":
            found.append(value.strip())
    return tuple(found)
