"""The portable bundle: one file that any Python from 3.8 on runs, the same bytes wherever it is made."""

from __future__ import annotations

import hashlib
import io
import zipfile
from importlib.util import find_spec
from pathlib import Path

from envsmith.errors import DataError
from envsmith.files import write_whole

_PACKAGE = Path(__file__).resolve().parent
# What design calls the portable set: standard library only, Python 3.8.
_PORTABLE_PARTS = ("__init__.py", "inside.py", "wire", "probe", "validator")

_SHEBANG = b"#!/usr/bin/env python3\n"
_MAIN = b"""import sys

from envsmith.inside import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
"""

# The oldest time that a zip file can hold; any fixed one serves.
_TIME = (1980, 1, 1, 0, 0, 0)
_UNIX = 3
_MODE = 0o100644


def bundle() -> bytes:
    """Return the bundle.

    Files are stored, not deflated: what a compressor writes differs between versions of zlib.
    Raises DataError when nvidia-ml-py is not installed.
    """
    buffer = io.BytesIO()
    buffer.write(_SHEBANG)
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in sorted(_contents().items()):
            entry = zipfile.ZipInfo(name, _TIME)
            entry.create_system = _UNIX
            entry.external_attr = _MODE << 16
            archive.writestr(entry, content)
    return buffer.getvalue()


def write_bundle(path: Path) -> str:
    """Write the bundle, whole or not at all, and return its digest, "sha256:<hex>".

    Raises UsageError when the path cannot be written.
    """
    data = bundle()
    write_whole(path, data, mode=0o777)
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _contents() -> dict[str, bytes]:
    """Name in the archive -> content."""
    files = {"__main__.py": _MAIN, "pynvml.py": _pynvml()}
    for part in _PORTABLE_PARTS:
        path = _PACKAGE / part
        for source in [path] if path.is_file() else path.rglob("*.py"):
            files[f"envsmith/{source.relative_to(_PACKAGE).as_posix()}"] = source.read_bytes()
    return files


def _pynvml() -> bytes:
    """The source of nvidia-ml-py's one module. NVIDIA's licence (BSD, 3 clauses) stands at its head, as it demands."""
    spec = find_spec("pynvml")
    source = Path(spec.origin).read_bytes() if spec is not None and spec.origin else b""
    if b"NVIDIA Corporation" not in source[:2000]:
        raise DataError("the module pynvml of nvidia-ml-py is missing", "reinstall envsmith-gpu")
    return source
