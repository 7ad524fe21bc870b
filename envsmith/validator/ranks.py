"""Several forked processes that work together, one a GPU, under one time limit."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

from envsmith.validator.call import Call

_POLL_S = 0.005
# When one rank has died the others wait for it for ever: they get this long to say something of their own.
_GRACE_S = 2.0

Stage = Callable[[str], None]


@dataclass(frozen=True)
class RankAnswer:
    """What became of one rank. value is None when it gave none. stage: the last one that it entered."""

    rank: int
    value: Any
    stage: str
    timed_out: bool
    signal: str | None
    last_line: str


def run_ranks(body: Callable[[int, Stage], object], count: int, limit_s: float, scratch: str) -> list[RankAnswer]:
    """Run body(rank, stage) in `count` processes side by side; none is left afterwards.

    A rank calls stage("...") before each step that can hang.
    """
    files = [Path(scratch) / f"rank{rank}.stage" for rank in range(count)]
    calls: list[Call] = []
    try:
        for rank, file in enumerate(files):
            calls.append(Call(_bound(body, rank, file), scratch))
        running = _wait(calls, limit_s)
    finally:
        # the last first: see Call
        answers = [calls[rank].finish(timed_out=False) for rank in reversed(range(len(calls)))]
    return [
        RankAnswer(
            rank=rank,
            value=answer.value,
            stage=_stage(files[rank]),
            timed_out=rank in running,
            signal=answer.ending.signal,
            last_line=" ".join(answer.ending.log_tail[-1:]),
        )
        for rank, answer in enumerate(reversed(answers))
    ]


def _bound(body: Callable[[int, Stage], object], rank: int, file: Path) -> Callable[[], object]:
    return lambda: body(rank, lambda text: _write(file, text))


def _write(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")


def _stage(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError:
        return "starting"


def _wait(calls: list[Call], limit_s: float) -> set[int]:
    """Wait until all have ended, or one has died and the others had their grace; return who still runs."""
    deadline = time.monotonic() + limit_s
    while True:
        running = {rank for rank, call in enumerate(calls) if not call.forked.ended}
        if not running or time.monotonic() > deadline:
            return running
        if any(call.forked.failed for call in calls):
            deadline = min(deadline, time.monotonic() + _GRACE_S)
        for rank in running:
            calls[rank].forked.poll(_POLL_S)
