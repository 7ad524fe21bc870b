"""Which NVIDIA packages the installed torch pins, by their metadata."""

from __future__ import annotations

import re
from importlib import metadata
from typing import Iterable

_PIN = re.compile(r"([A-Za-z0-9._-]+)\s*(?:\[([^\]]*)\])?\s*\(?==\s*([0-9][^;,)\s]*)\)?\s*(?:;(.*))?$")
# since 2.11 the CUDA libraries are pinned by extras of this package, which holds nothing itself
_METAPACKAGE = "cuda-toolkit"


def stem(package: str) -> str:
    """The name without its CUDA suffix: "nvidia-cublas-cu12" and "nvidia-cublas" -> "nvidia-cublas"."""
    return re.sub(r"-cu\d+$", "", re.sub(r"[-_.]+", "-", package).lower())


def read_pins(requirements: Iterable[str], extras: frozenset[str] = frozenset()) -> dict[str, str]:
    """Exact pins of nvidia packages: name -> version. With extras, those of the named extras only."""
    pins = {}
    for line in requirements:
        match = _PIN.match(line.strip())
        if match is None:
            continue
        name, _, version, condition = match.groups()
        extra = re.search(r"extra\s*==\s*['\"]([^'\"]+)['\"]", condition or "")
        if (extra.group(1) in extras) if extra else not extras:
            pins[re.sub(r"[-_.]+", "-", name).lower()] = version
    return {name: version for name, version in pins.items() if name.startswith("nvidia-")}


def metapackage_extras(requirements: Iterable[str]) -> frozenset[str]:
    """The extras of cuda-toolkit that are required."""
    for line in requirements:
        match = _PIN.match(line.strip())
        if match is not None and match.group(1).lower() == _METAPACKAGE and match.group(2):
            return frozenset(extra.strip() for extra in match.group(2).split(","))
    return frozenset()


def _requirements(package: str) -> list[str]:
    try:
        return metadata.requires(package) or []
    except metadata.PackageNotFoundError:
        return []


def torch_pins() -> dict[str, str]:
    """Exact pins that the installed torch rests on; empty for builds that bring their libraries within."""
    direct = _requirements("torch")
    pins = read_pins(direct)
    extras = metapackage_extras(direct)
    if extras:
        pins.update(read_pins(_requirements(_METAPACKAGE), extras))
    return pins


def meets(version: str | None, pin: str) -> bool:
    """Whether a version is what a pin asks for: "13.1.0.3" meets "13.1.0.3" and, as PEP 440 has it, "13.1.0.3.*"."""
    if version is None:
        return False
    return f"{version}.".startswith(pin[:-1]) if pin.endswith(".*") else version == pin


def installed_version(package: str) -> str | None:
    """Version of an installed package, by its metadata."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
