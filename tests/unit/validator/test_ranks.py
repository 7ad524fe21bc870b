"""Processes that work together: their answers, and which of them hangs where."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from envsmith.validator.ranks import Stage, run_ranks
from envsmith.validator.sweep import children
from tests.unit.validator import toys


def test_all_answer(tmp_path: Path) -> None:
    before = children()
    answers = run_ranks(lambda rank, stage: {"rank": rank, "pid": os.getpid()}, 3, 10.0, str(tmp_path))
    assert [answer.value["rank"] for answer in answers] == [0, 1, 2]
    assert len({answer.value["pid"] for answer in answers}) == 3
    assert not any(answer.timed_out for answer in answers)
    assert children() == before


def test_one_that_hangs_is_named_with_its_stage(tmp_path: Path) -> None:
    def body(rank: int, stage: Stage) -> object:
        stage("meeting the others")
        if rank == 1:
            stage("summing")
            time.sleep(toys.FOREVER_S)
        return {"error": ""}

    before = children()
    answers = run_ranks(body, 3, 0.5, str(tmp_path))
    assert [answer.timed_out for answer in answers] == [False, True, False]
    assert answers[1].stage == "summing"
    assert answers[2].value == {"error": ""}
    assert children() == before


def test_one_that_dies_does_not_let_the_others_wait_for_long(tmp_path: Path) -> None:
    def body(rank: int, stage: Stage) -> object:
        stage("summing")
        if rank == 0:
            os.kill(os.getpid(), signal.SIGSEGV)
        time.sleep(toys.FOREVER_S)
        return None

    started = time.monotonic()
    answers = run_ranks(body, 2, 60.0, str(tmp_path))
    assert time.monotonic() - started < 20
    assert [(answer.signal, answer.timed_out) for answer in answers] == [("SIGSEGV", False), (None, True)]


def test_before_one_that_hangs_is_killed_it_is_looked_at(tmp_path: Path) -> None:
    def body(rank: int, stage: Stage) -> object:
        if rank == 1:
            time.sleep(toys.FOREVER_S)
        return {"pid": os.getpid()}

    seen: dict[int, bytes] = {}

    def look(pids: dict[int, int]) -> None:
        seen.update({rank: Path(f"/proc/{pid}/stat").read_bytes() for rank, pid in pids.items()})

    answers = run_ranks(body, 2, 0.5, str(tmp_path), last_look=look)
    assert list(seen) == [1]
    assert [answer.timed_out for answer in answers] == [False, True]


def test_with_a_grace_as_long_as_the_limit_one_death_stops_nobody(tmp_path: Path) -> None:
    def body(rank: int, stage: Stage) -> object:
        if rank == 0:
            raise ValueError("mine alone")
        time.sleep(3)
        return {"rank": rank}

    answers = run_ranks(body, 2, 30.0, str(tmp_path), grace_s=30.0)
    assert answers[1].value == {"rank": 1}
    assert answers[0].log_tail[-1] == "ValueError: mine alone"
