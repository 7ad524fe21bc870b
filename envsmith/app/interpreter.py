"""Which Python to examine: the one that was named, the active environment's, or the first that has torch."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from envsmith.errors import UsageError
from envsmith.probe.run import run

# Asks the import system where torch is, without importing it. The folder that `-c` puts first is taken away, so
# that a folder `torch` in the current directory is not mistaken for it.
_HAS_TORCH = "import sys; del sys.path[0]; import importlib.util as u; sys.exit(u.find_spec('torch') is None)"
_LOOK_UP_LIMIT_S = 5.0
_CANDIDATES_MAX = 16
_NAMES = ("python3", "python")


def choose(python: str | None, environment: Mapping[str, str]) -> Path:
    """Return the interpreter to examine.

    python: an interpreter, its name on PATH, or the folder of a virtual or conda environment. None: the active
    environment (VIRTUAL_ENV, then CONDA_PREFIX), else the first python3 on PATH that has torch, else the first
    one, else the interpreter that runs envsmith. Raises UsageError when `python` names none of these.
    """
    if python is not None:
        return _named(python, environment)
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        prefix = environment.get(variable)
        active = _in_environment(Path(prefix)) if prefix else None
        if active is not None:
            return active
    candidates = list(_on_path(environment.get("PATH", os.defpath)))
    with_torch = (path for path in candidates[:_CANDIDATES_MAX] if _has_torch(path))
    return next(with_torch, candidates[0] if candidates else Path(sys.executable))


def _named(python: str, environment: Mapping[str, str]) -> Path:
    path = Path(python).expanduser()
    if path.is_dir():
        inside = _in_environment(path)
        if inside is None:
            raise UsageError(
                f"--python {python}: the folder has no bin/python", "name an interpreter or an environment"
            )
        return inside
    found = shutil.which(path, path=environment.get("PATH", os.defpath))
    if found is None:
        what = "is not executable" if path.is_file() else "does not exist"
        raise UsageError(f"--python {python}: {what}", "name an interpreter or the folder of an environment")
    return Path(found).absolute()


def _in_environment(prefix: Path) -> Path | None:
    """The interpreter of an environment. Its link is kept, not followed: the link is what makes it one."""
    paths = (prefix.absolute() / "bin" / name for name in reversed(_NAMES))
    return next((path for path in paths if os.access(path, os.X_OK)), None)


def _on_path(search: str) -> Iterator[Path]:
    """Each python3 (else python) on PATH once, in order."""
    seen = set()
    for folder in filter(None, search.split(os.pathsep)):
        for name in _NAMES:
            path = Path(folder).absolute() / name
            if path.is_file() and os.access(path, os.X_OK):
                if path not in seen:
                    seen.add(path)
                    yield path
                break


def _has_torch(python: Path) -> bool:
    return run([str(python), "-c", _HAS_TORCH], limit_s=_LOOK_UP_LIMIT_S).exit_status == 0
