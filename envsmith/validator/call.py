"""Call a function in a forked process and get its value back through a file."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

from envsmith.validator.forked import Ending, Forked
from envsmith.wire.encode import to_plain

# A verdict or a set of facts takes a few kilobytes.
_ANSWER_BYTES_MAX = 1 << 22


@dataclass(frozen=True)
class Answer:
    """What came back: plain JSON data, or why there is none. host_lost: the process that should fork it died."""

    ending: Ending
    value: Any = None
    problem: str | None = None
    host_lost: bool = False


class Call:
    """A function that runs in a process of its own, from the constructor until `finish`.

    The value (dataclasses, tuples, dictionaries of them) crosses as JSON, through a file in `scratch`: the
    process may close any descriptor, and may print what it likes. Of several calls at once, the one that was
    started last is to be finished first: finishing takes along whatever was started later.
    """

    def __init__(self, function: Callable[[], object], scratch: str, close_in_child: tuple[int, ...] = ()) -> None:
        handle, name = tempfile.mkstemp(dir=scratch, suffix=".json")
        os.close(handle)
        self._path = Path(name)
        self._path.unlink()
        self.forked = Forked(lambda: _answer(function, self._path), close_in_child)

    def finish(self, timed_out: bool) -> Answer:
        """End the process and all below it, and read what it has answered."""
        ending = self.forked.finish(timed_out)
        value, problem = _read(self._path)
        return Answer(ending, value, problem)


def call_forked(
    function: Callable[[], object], limit_s: float, scratch: str, close_in_child: tuple[int, ...] = ()
) -> Answer:
    """Call the function in a process of its own, for at most limit_s seconds; see Call."""
    call = Call(function, scratch, close_in_child)
    in_time = False
    try:
        in_time = call.forked.wait(limit_s)
    finally:
        answer = call.finish(timed_out=not in_time)
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
