"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from envsmith.errors import UsageError


def write_whole(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Write through a temporary file beside `path` and a rename, so that nobody ever sees half of it.

    The file gets what the umask leaves of `mode`. Raises UsageError where it cannot be written; then nothing is
    left behind and an older file stays as it was.
    """
    temporary: Path | None = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:80]}.", suffix=".part")
        temporary = Path(name)
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        temporary.chmod(mode & ~_umask())
        temporary.replace(path)
        temporary = None
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"cannot write {path}: {reason}", "name a file in a writable folder") from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink()


def _umask() -> int:
    """The process's umask; the system can only tell it by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
