"""Processes that work together: their answers, and which of them hangs where."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from envsmith.validator.check import CheckFailed, CheckTimedOut
from envsmith.validator.checks.nccl_all_reduce import _judge
from envsmith.validator.ranks import RankAnswer, Stage, run_ranks
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


def answer(rank: int, error: str | None = "", *, timed_out: bool = False, died: str | None = None) -> RankAnswer:
    value = None if timed_out or died else {"error": error, "metrics": []}
    return RankAnswer(rank, value, "summing floats", timed_out, died, "")


def test_a_rank_that_tells_an_error_comes_before_those_that_hang() -> None:
    with pytest.raises(CheckFailed, match=r"^rank 1: wrong; rank 0 hung while summing floats$") as caught:
        _judge([answer(0, timed_out=True), answer(1, "wrong")])
    assert not isinstance(caught.value, CheckTimedOut)


def test_ranks_that_only_hang_are_a_timeout() -> None:
    with pytest.raises(CheckTimedOut, match=r"^after 52 s: rank 0 hung while summing floats; rank 1 hung"):
        _judge([answer(0, timed_out=True), answer(1, timed_out=True)])


def test_a_dead_rank_is_a_failure_with_its_signal() -> None:
    with pytest.raises(CheckFailed, match="rank 1 died while summing floats: SIGBUS"):
        _judge([answer(0), answer(1, died="SIGBUS")])


def test_good_ranks_pass() -> None:
    _judge([answer(0), answer(1)])
