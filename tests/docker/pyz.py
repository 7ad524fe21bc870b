"""Zip applications of one file, to stand for the bundle."""

from __future__ import annotations

import io
import zipfile


def bundle(program: str) -> bytes:
    """A zip application whose main program is this text."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("__main__.py", program)
    return buffer.getvalue()
