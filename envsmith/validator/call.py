"""Call a function in a forked process and get its value back through a file."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

from envsmith.validator.forked import Forked, NoProcessError, wait_for_any
from envsmith.validator.warden import Ending
from envsmith.wire.encode import to_plain

# A verdict or a set of facts takes a few kilobytes.
_ANSWER_BYTES_MAX = 1 << 22
_POLL_S = 1.0


@dataclass(frozen=True)
class Answer:
    """What came back: plain JSON data, or why there is none. host_lost: the process that should fork it died."""

    ending: Ending
    value: Any = None
    problem: str | None = None
    host_lost: bool = False


class Call(Forked):
    """A function that runs in a process of its own, from the constructor until `answer`; see Forked.

    The value (dataclasses, tuples, dictionaries of them) crosses as JSON, through a file in `scratch`: the
    process may close any descriptor, and may print what it likes.
    """

    def __init__(
        self, function: Callable[[], object], limit_s: float, scratch: str, close: tuple[int, ...] = ()
    ) -> None:
        self._path = Path(scratch) / f"{os.urandom(8).hex()}.json"
        super().__init__(lambda: _answer(function, self._path), limit_s, close)

    def answer(self) -> Answer:
        """Say how it ended and what it has answered; to be called once, when it has ended."""
        ending = self.finish()
        value, problem = _read(self._path)
        return Answer(ending, value, problem)


def call_forked(function: Callable[[], object], limit_s: float, scratch: str) -> Answer:
    """Call the function in a process of its own, for at most limit_s seconds; see Call. Raises NoProcessError."""
    call = Call(function, limit_s, scratch)
    while not call.ended:
        wait_for_any([call.descriptor], _POLL_S)
    answer = call.answer()
    if answer.ending.refused:
        raise NoProcessError(answer.ending.refused)
    return answer


def _answer(function: Callable[[], object], path: Path) -> None:
    me = os.getpid()
    value = function()
    if os.getpid() != me:  # a process that the function forked has come back out of it
        return
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(to_plain(value), allow_nan=False), encoding="utf-8")
    unfinished.replace(path)


def _read(path: Path) -> tuple[Any, str | None]:
    """Return (value, None), or (None, why there is no value)."""
    try:
        with path.open("rb") as stream:
            data = stream.read(_ANSWER_BYTES_MAX + 1)
    except OSError:
        return None, "left no verdict"
    finally:
        for leftover in (path, path.with_suffix(".part")):
            with contextlib.suppress(OSError):
                leftover.unlink()
    if len(data) > _ANSWER_BYTES_MAX:
        return None, f"left a verdict of more than {_ANSWER_BYTES_MAX} bytes"
    try:
        return json.loads(data.decode("utf-8")), None
    except ValueError:
        return None, "left an unreadable verdict"
