"""Several forked processes that work together, one a GPU, under one time limit."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict

from envsmith.validator.call import Answer, Call
from envsmith.validator.forked import wait_for_any

_POLL_S = 0.1
# When one rank has died the others wait for it for ever: they get this long to say something of their own.
_GRACE_S = 2.0
# Beyond the time limit, for a last look at those that hang, should this process not come to end them itself.
_LOOK_S = 10.0

Stage = Callable[[str], None]
LastLook = Callable[[Dict[int, int]], None]


@dataclass(frozen=True)
class RankAnswer:
    """What became of one rank. value is None when it gave none. stage: the last one that it entered.

    log_tail: the last lines that it printed.
    """

    rank: int
    value: Any
    stage: str
    timed_out: bool
    signal: str | None
    last_line: str
    log_tail: tuple[str, ...] = ()


def run_ranks(
    body: Callable[[int, Stage], object],
    count: int,
    limit_s: float,
    scratch: str,
    last_look: LastLook | None = None,
    grace_s: float = _GRACE_S,
) -> list[RankAnswer]:
    """Run body(rank, stage) in `count` processes side by side; none is left afterwards.

    A rank calls stage("...") before each step that can hang. last_look: called with {rank: process id} of those
    that still run at the end, before they are killed. grace_s: how long the others still get when one has died.
    """
    files = [Path(scratch) / f"rank{rank}.stage" for rank in range(count)]
    bound = [_bound(body, rank, file) for rank, file in enumerate(files)]
    calls = [Call(function, limit_s + _LOOK_S, scratch) for function in bound]

    def look(ranks: set[int]) -> None:
        if last_look is not None:
            last_look({rank: pid for rank in sorted(ranks) for pid in _pid(files[rank])})

    answers, stopped = _wait(calls, limit_s, grace_s, look)
    return [
        RankAnswer(
            rank=rank,
            value=answers[rank].value,
            stage=_stage(files[rank]),
            timed_out=answers[rank].ending.timed_out or rank in stopped,
            signal=answers[rank].ending.signal,
            last_line=answers[rank].ending.refused or " ".join(answers[rank].ending.log_tail[-1:]),
            log_tail=answers[rank].ending.log_tail,
        )
        for rank in range(count)
    ]


def _bound(body: Callable[[int, Stage], object], rank: int, file: Path) -> Callable[[], object]:
    def start() -> object:
        _write(file.with_suffix(".pid"), str(os.getpid()))
        return body(rank, lambda text: _write(file, text))

    return start


def _write(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")


def _stage(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError:
        return "starting"


def _pid(file: Path) -> list[int]:
    """The process id that a rank has told of itself, none when it has not come so far."""
    try:
        return [int(file.with_suffix(".pid").read_text(encoding="utf-8"))]
    except (OSError, ValueError):
        return []


def _wait(
    calls: list[Call], limit_s: float, grace_s: float, look: Callable[[set[int]], None]
) -> tuple[dict[int, Answer], set[int]]:
    """Wait for all, once one has died no longer than the grace; return their answers, and who was stopped."""
    answers: dict[int, Answer] = {}
    stopped: set[int] = set()
    died = False
    stop_at = time.monotonic() + limit_s
    while len(answers) < len(calls):
        running = [rank for rank in range(len(calls)) if rank not in answers]
        for rank in running:
            if calls[rank].ended:
                answers[rank] = calls[rank].answer()
                if answers[rank].value is None and not died:
                    died, stop_at = True, min(stop_at, time.monotonic() + grace_s)
        running = [rank for rank in running if rank not in answers]
        if running and not stopped and time.monotonic() > stop_at:
            stopped = set(running)
            look(stopped)
            for rank in running:
                calls[rank].stop()
        if running:
            wait_for_any((calls[rank].descriptor for rank in running), _POLL_S)
    return answers, stopped
