"""The interpreter that this process runs in."""

from __future__ import annotations

import os
import sys

from envsmith.probe.look import Look, collector
from envsmith.wire.facts import PythonFacts

_RELEASE_LEVELS = {"alpha": "a", "beta": "b", "candidate": "rc"}


@collector("python")
def python_facts(look: Look) -> PythonFacts:
    """Return what the interpreter says of itself."""
    del look
    return PythonFacts(
        executable=sys.executable or "",
        version=_version(),
        implementation=sys.implementation.name,
        prefix=sys.prefix,
        environment=_environment(),
        free_threaded="t" in getattr(sys, "abiflags", ""),
    )


def _version() -> str:
    info = sys.version_info
    level = _RELEASE_LEVELS.get(info.releaselevel)
    return f"{info.major}.{info.minor}.{info.micro}" + (f"{level}{info.serial}" if level else "")


def _environment() -> str:
    if sys.prefix != sys.base_prefix:
        return "venv"
    return "conda" if os.path.isdir(os.path.join(sys.prefix, "conda-meta")) else "system"
