"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Mapping
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


def write_folder(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write files, by name, into a folder that does not exist yet or is empty, all of them or none.

    Raises UsageError where it cannot be written or has something in it; then nothing is left behind.
    """
    folder = Path(os.path.abspath(folder))  # noqa: PTH100 - "." has no parent to write beside; links stay
    temporary: Path | None = None
    try:
        temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name[:80]}.", suffix=".part"))
        for name, data in contents.items():
            (temporary / name).write_bytes(data)
        temporary.chmod(0o777 & ~_umask())
        temporary.replace(folder)
        temporary = None
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(
            f"cannot write the folder {folder}: {reason}", "name a new folder in a writable one"
        ) from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def _umask() -> int:
    """The process's umask; the system can only tell it by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
