"""What the DistributedDataParallel check says of its ranks. The training itself needs torch."""

from __future__ import annotations

from typing import Any

import pytest

from envsmith.validator.check import CheckFailed, CheckTimedOut
from envsmith.validator.checks import ddp_step
from envsmith.validator.checks.ddp_step import gradient_limit, judge
from envsmith.validator.devices import Device
from envsmith.validator.ranks import RankAnswer
from envsmith.wire.results import Metric

GPUS = tuple(Device(index, "NVIDIA H200", "9.0") for index in range(3))
# digests of: its own parameters, those after sharing out, then gradients and parameters of two steps
GOOD = ["p", "g1", "p1", "g2", "p2"]


def told(rank: int, held: list[str] | None = None, **more: Any) -> RankAnswer:
    own = "p" if rank == 0 else f"own{rank}"
    value = {"held": [own, *(held or GOOD)], "metrics": [], "problems": [], **more}
    return RankAnswer(rank, value, "leaving the group", False, None, "")


def lost(rank: int, stage: str, signal: str | None = None, timed_out: bool = False) -> RankAnswer:
    return RankAnswer(rank, None, stage, timed_out, signal, "RuntimeError: Connection closed by peer")


def test_ranks_that_hold_the_same_pass_with_the_worst_errors() -> None:
    metrics = [
        {"name": f"step{step}.{label}.gradient_error", "value": value, "limit": 1e-5}
        for step, label, value in ((1, "0.weight", 1e-7), (1, "0.bias", 4e-7), (2, "0.weight", 2e-7))
    ]
    assert judge([told(0, metrics=metrics), told(1), told(2)], GPUS) == (Metric("gradient_error", 4e-7, 1e-5),)
    assert judge([told(0)], GPUS[:1]) == ()


@pytest.mark.parametrize(
    ("column", "what"),
    [
        (0, "the first parameters"),
        (1, "the gradients of step 1"),
        (2, "the parameters of step 1"),
        (3, "the gradients of step 2"),
        (4, "the parameters of step 2"),
    ],
)
def test_the_first_difference_is_told_with_its_ranks(column: int, what: str) -> None:
    odd = [*GOOD[:column], *["other"] * (5 - column)]
    with pytest.raises(CheckFailed) as caught:
        judge([told(0), told(1, odd), told(2)], GPUS)
    assert caught.value.message == f"{what} differ from those of rank 0 on rank 1 on cuda:1 NVIDIA H200 (9.0)"


def test_parameters_must_come_from_rank_0() -> None:
    with pytest.raises(CheckFailed, match="rank 0 lost its own parameters"):
        judge([told(0, ["own1", *GOOD[1:]]), told(1, ["own1", *GOOD[1:]])], GPUS)
    same = RankAnswer(1, {"held": ["p", *GOOD], "metrics": [], "problems": []}, "", False, None, "")
    with pytest.raises(CheckFailed, match="the same parameters before they were shared out"):
        judge([told(0), same], GPUS)


def test_gradients_that_are_the_same_and_wrong_fail() -> None:
    with pytest.raises(CheckFailed, match=r"^step1: off by 0\.9$"):
        judge([told(0, problems=["step1: off by 0.9"]), told(1)], GPUS)


def test_a_rank_that_died_comes_before_those_that_lost_it_or_wait() -> None:
    answers = [
        lost(0, "step 2: summing gradients"),
        lost(1, "step 1: changing parameters", "SIGSEGV"),
        lost(2, "step 2: summing gradients", timed_out=True),
    ]
    with pytest.raises(CheckFailed) as caught:
        judge(answers, GPUS)
    assert not isinstance(caught.value, CheckTimedOut)
    assert caught.value.message == (
        "rank 1 died while step 1: changing parameters: SIGSEGV; "
        "rank 0 died while step 2: summing gradients: RuntimeError: Connection closed by peer; "
        "rank 2 hung while step 2: summing gradients"
    )


def test_ranks_whose_clock_ran_out_hung() -> None:
    with pytest.raises(CheckTimedOut) as caught:
        judge([told(0), lost(1, "meeting the other ranks", "SIGALRM"), lost(2, "starting", timed_out=True)], GPUS)
    assert caught.value.message == "after 60 s: rank 1 hung while meeting the other ranks; rank 2 hung while starting"


def test_the_limit_is_far_below_what_tf32_would_be_off() -> None:
    """Measured with operands rounded to 10 bits: 3.6e-4; with float32: 3.5e-7."""
    for world in (1, 8, 64):
        assert 10 * 3.5e-7 < gradient_limit(world) < 0.1 * 3.6e-4


def test_a_rank_goes_on_where_dynamo_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise ModuleNotFoundError("No module named 'numpy'", name="numpy")

    alarms: list[int] = []
    monkeypatch.setattr(ddp_step.importlib, "import_module", fail)
    monkeypatch.setattr(ddp_step.signal, "alarm", alarms.append)
    ddp_step.start_the_clock(lambda _: None)
    assert len(alarms) == 1
