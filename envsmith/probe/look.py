"""Reading a machine's files within bounds, and keeping account of what could not be read.

Paths are joined as text, with `os.path`: a probe looks at thousands of names in a few hundredths of a second.
"""

from __future__ import annotations

import errno
import functools
import itertools
import os
import stat
from typing import Callable, TypeVar

from envsmith.wire.facts import Gap

TEXT_LIMIT_BYTES = 256 * 1024
FOLDER_LIMIT_NAMES = 20000
_LINKS_MAX = 40  # as many as the kernel follows

ABSENT = "absent"
DENIED = "denied"
TIMEOUT = "timeout"
FAILED = "failed"
UNSUPPORTED = "unsupported"
NOT_LOOKED = "not-looked"

_REASONS = {
    errno.ENOENT: ABSENT,
    errno.ENOTDIR: ABSENT,
    errno.EACCES: DENIED,
    errno.EPERM: DENIED,
    errno.ENOSYS: UNSUPPORTED,
    errno.EOPNOTSUPP: UNSUPPORTED,
}

T = TypeVar("T")


class Look:
    """One look at the file tree below `root`. Gaps gather in `gaps` as collectors meet them.

    Only regular files (those of /proc and /sys included) are opened, so that a pipe or a device in the place of a
    file cannot hang the probe, and never more than the given number of bytes or names is read.
    """

    def __init__(self, root: str = "/") -> None:
        self.root = root
        self.gaps: list[Gap] = []

    def path(self, absolute: str) -> str:
        """Where an absolute path of the machine lies for this process."""
        if self.root == "/":
            return absolute
        return _below(self.root, _resolved(self.root, absolute))

    def read_bytes(self, absolute: str, limit_bytes: int = TEXT_LIMIT_BYTES) -> bytes:
        """Return the first `limit_bytes` of a regular file. Raises OSError."""
        descriptor = os.open(self.path(absolute), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "not a regular file", absolute)
            chunks = []
            left = limit_bytes
            while left > 0:
                chunk = os.read(descriptor, min(left, 65536))
                if not chunk:
                    break
                chunks.append(chunk)
                left -= len(chunk)
            return b"".join(chunks)
        finally:
            os.close(descriptor)

    def read_text(self, absolute: str, limit_bytes: int = TEXT_LIMIT_BYTES) -> str:
        """Like `read_bytes`, as UTF-8 with replacement of what is not."""
        return self.read_bytes(absolute, limit_bytes).decode("utf-8", "replace")

    def text_or_none(self, absolute: str, fact: str = "") -> str | None:
        """Return a file's text, or None. If `fact` is given, any failure but absence is also a gap."""
        try:
            return self.read_text(absolute)
        except (OSError, ValueError) as error:
            if fact and reason_of(error) != ABSENT:
                self.gap_from(fact, error)
            return None

    def names(self, folder: str, fact: str = "") -> tuple[str, ...]:
        """The names in a folder, sorted; empty if it cannot be listed.

        If `fact` is given, any failure but absence is a gap, and so is a folder of which only
        `FOLDER_LIMIT_NAMES` names were taken.
        """
        try:
            with os.scandir(self.path(folder)) as entries:
                found = sorted(entry.name for entry in itertools.islice(entries, FOLDER_LIMIT_NAMES))
                cut = next(entries, None) is not None
        except (OSError, ValueError) as error:
            if fact and reason_of(error) != ABSENT:
                self.gap_from(fact, error)
            return ()
        if fact and cut:
            self.gap(fact, FAILED, f"only the first {FOLDER_LIMIT_NAMES} names in {folder} were looked at")
        return tuple(found)

    def exists(self, absolute: str) -> bool:
        """Whether there is a file of that name (False for a dangling link or a loop of links)."""
        try:
            os.stat(self.path(absolute))
        except (OSError, ValueError):
            return False
        return True

    def realpath(self, absolute: str) -> str:
        """The path after all links, as a path of the machine: links never lead out of `root`."""
        if self.root == "/":
            return os.path.realpath(absolute)
        return _resolved(self.root, absolute)

    def gap(self, fact: str, reason: str, detail: str = "") -> None:
        """Note that a fact could not be looked at."""
        self.gaps.append(Gap(fact, reason, " ".join(detail.split())[:400]))

    def gap_from(self, fact: str, error: BaseException) -> None:
        """Note a gap with the reason that an exception stands for."""
        self.gap(fact, reason_of(error), f"{type(error).__name__}: {error}")


def reason_of(error: BaseException) -> str:
    """The gap reason that an exception stands for."""
    if isinstance(error, OSError) and error.errno is not None:
        return _REASONS.get(error.errno, FAILED)
    return FAILED


def collector(fact: str) -> Callable[[Callable[..., T]], Callable[..., T | None]]:
    """Make a function `(look, ...) -> facts` safe: whatever it raises becomes the gap `fact`, and it returns None."""

    def wrap(function: Callable[..., T]) -> Callable[..., T | None]:
        @functools.wraps(function)
        def guarded(look: Look, *args: object, **kwargs: object) -> T | None:
            try:
                return function(look, *args, **kwargs)
            except Exception as error:  # noqa: BLE001  (one odd machine must not cost all other facts)
                look.gap_from(fact, error)
                return None

        return guarded

    return wrap


def _below(root: str, absolute: str) -> str:
    return root.rstrip("/") + absolute


def _resolved(root: str, absolute: str) -> str:
    """The path after all links, each read as if `root` were `/`."""
    followed = 0
    path = "/"
    rest = [part for part in absolute.split("/") if part and part != "."]
    while rest:
        part = rest.pop(0)
        if part == "..":
            path = os.path.dirname(path)
            continue
        step = os.path.join(path, part)
        try:
            target = os.readlink(_below(root, step))
        except (OSError, ValueError):
            path = step
            continue
        followed += 1
        if followed > _LINKS_MAX:
            return absolute
        if target.startswith("/"):
            path = "/"
        rest = [piece for piece in target.split("/") if piece and piece != "."] + rest
    return path
