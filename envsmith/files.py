"""Files that are written whole or not at all, and read within bounds."""

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

    The file gets what the umask leaves of `mode`. A link stays, and what it leads to is written. What is no regular
    file (/dev/null, /dev/stdout, a pipe) is written into: a rename would put a file in the place of the device.
    Raises UsageError where it cannot be written; then nothing is left behind and an older file stays as it was.
    """
    temporary: Path | None = None
    try:
        if _is_special(path):
            with path.open("wb") as device:
                device.write(data)
            return
        target = Path(os.path.realpath(path))
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:80]}.", suffix=".part")
        temporary = Path(name)
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        temporary.chmod(mode & ~_umask())
        temporary.replace(target)
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


def require_writable(path: Path) -> None:
    """Raise UsageError before minutes of work rather than after them."""
    if path.is_dir():
        what = "it is a folder"
    elif os.access(path if _is_special(path) else path.parent, os.W_OK):
        return
    else:
        what = f"the folder {path.parent} does not exist or is not writable"
    raise UsageError(f"cannot write {path}: {what}", "name a file in a writable folder")


def read_within(path: Path, limit_bytes: int, what: str) -> bytes:
    """Read a file that somebody named, a pipe too. what: the input in errors, "certificate".

    Raises UsageError when it cannot be read or is longer than `limit_bytes` (/dev/zero is, and would fill the memory).
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(limit_bytes + 1)
    except OSError as error:
        raise UsageError(f"cannot read {what} {path}: {error.strerror}") from error
    if len(data) > limit_bytes:
        raise UsageError(f"{what} {path} is longer than {limit_bytes} bytes, so it is none")
    return data


def _is_special(path: Path) -> bool:
    """Whether something is there that is neither a regular file nor a folder."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _umask() -> int:
    """The process's umask; the system can only tell it by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
