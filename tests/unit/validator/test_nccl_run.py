"""What is said of ranks that hang, die or fail, and how a bandwidth is computed. Without torch and NCCL."""

from __future__ import annotations

import pytest

from envsmith.validator.check import CheckContext, CheckSkipped
from envsmith.validator.checks import nccl_bandwidth as bandwidth_check
from envsmith.validator.checks.nccl_all_reduce import _plan, nccl_all_reduce
from envsmith.validator.checks.nccl_bandwidth import nccl_bandwidth
from envsmith.validator.devices import Device
from envsmith.validator.nccl import probes, run
from envsmith.validator.nccl.bandwidth import bandwidths, bus_factor
from envsmith.validator.nccl.causes import FAILED, HUNG, PASSED, UNSURE, Probe
from envsmith.validator.nccl.collectives import COLLECTIVES, COUNTS
from envsmith.validator.nccl.log import parse
from envsmith.validator.nccl.probes import error_of
from envsmith.validator.nccl.run import describe, describe_progress, told_choice, told_transport
from envsmith.validator.nccl.witness import Record
from envsmith.validator.ranks import RankAnswer
from envsmith.wire.results import QUICK, STANDARD, Metric

SUMMING = "in collective 7, all-reduce of int64 (3 elements)"


def hung(rank: int, stage: str = SUMMING) -> RankAnswer:
    return RankAnswer(rank, None, stage, True, None, "")


def died(rank: int, signal: str | None = None, log_tail: tuple[str, ...] = ()) -> RankAnswer:
    return RankAnswer(rank, None, SUMMING, False, signal, " ".join(log_tail[-1:]), log_tail)


def good(rank: int) -> RankAnswer:
    return RankAnswer(rank, {"value": 1}, "leaving the group", False, None, "")


def test_a_dead_rank_comes_before_those_that_wait_for_it() -> None:
    assert describe([hung(0), died(1, "SIGKILL"), good(2)]) == (
        f"rank 1 died while {SUMMING}: SIGKILL; rank 0 hung while {SUMMING}"
    )


def test_what_began_it_comes_first_and_the_same_is_said_once() -> None:
    lost = "torch.distributed.DistBackendError: ncclRemoteError: a remote process exiting prematurely"
    answers = [died(0, None, (lost,)), hung(1), died(2, None, ("RuntimeError: cuda gone",)), died(3, None, (lost,))]
    assert describe(answers) == (
        f"rank 2 failed while {SUMMING}: RuntimeError: cuda gone; "
        f"ranks 0, 3 failed while {SUMMING}: {lost}; rank 1 hung while {SUMMING}"
    )


def test_ranks_that_only_hang_tell_for_how_long() -> None:
    assert describe([hung(0), hung(1, "meeting the other ranks")]) == (
        f"after 60 s; rank 0 hung while {SUMMING}; rank 1 hung while meeting the other ranks"
    )


TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "/x/envsmith/validator/nccl/seat.py", line 60, in seated',
    "    torch.distributed.all_reduce(part)",
    "torch.distributed.DistBackendError: NCCL error in: /x/ProcessGroupNCCL.cpp:3690, unhandled system error",
    "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.",
    "Last error:",
    "Bootstrap : no socket interface found",
)


def test_an_error_of_nccls_is_told_with_its_last_words() -> None:
    told = error_of(died(0, None, TRACEBACK))
    assert told.startswith("torch.distributed.DistBackendError: NCCL error in:")
    assert told.endswith("Bootstrap : no socket interface found")
    assert error_of(died(0, None, ("no traceback at all",))) == "no traceback at all"
    assert error_of(died(0, "SIGSEGV", TRACEBACK)) == "SIGSEGV"


def test_the_rank_that_never_came_is_named() -> None:
    records = {0: Record(6, 6, "broadcast"), 1: Record(7, 6, "all_reduce"), 2: Record(7, 6, "all_reduce")}
    assert describe_progress(records) == (
        "rank 0 never called collective 7, while others wait in collective 7 (all_reduce)"
    )


def test_ranks_that_all_came_hang_in_the_transfer() -> None:
    records: dict[int, Record | None] = {rank: Record(7, 6, "all_reduce") for rank in range(2)}
    assert describe_progress(records) == "all ranks had called collective 7 (all_reduce), so it hung in the transfer"


@pytest.mark.parametrize("records", [{}, {0: None, 1: None}, {0: Record(1, 1, "all_reduce"), 1: None}])
def test_without_records_nobody_is_blamed(records: dict[int, Record | None]) -> None:
    assert describe_progress(records) == ""


def test_the_transport_is_unknown_where_the_user_hides_it(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (
        "NCCL INFO NCCL version 2.18.1",
        "NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct",
        "NCCL INFO AllReduce: 64 Bytes -> Algo RING proto LL channel",
    )
    log = parse(["\n".join(lines)])
    monkeypatch.delenv("NCCL_DEBUG", raising=False)
    assert told_transport(log) == "shared memory"
    assert told_choice(log, "AllReduce", 64) == (Metric("algorithm", "ring"), Metric("protocol", "LL"))
    assert told_choice(log, "AllReduce", 65)[0].value == "unknown: NCCL 2.18.1 does not tell it"
    monkeypatch.setenv("NCCL_DEBUG", "WARN")
    assert told_transport(log) == "unknown: NCCL_DEBUG=WARN is set here"
    assert told_choice(log, "AllReduce", 64)[0].value == "unknown: NCCL_DEBUG=WARN is set here"


@pytest.mark.parametrize(
    ("answers", "status", "small_passed"),
    [
        ([good(0), good(1)], PASSED, False),
        ([good(0), hung(1)], HUNG, False),
        ([hung(0, probes._LARGE_STAGE), hung(1, probes._LARGE_STAGE)], HUNG, True),
        ([hung(0), died(1, "SIGSEGV")], FAILED, False),
        ([hung(0, "making its CUDA context"), hung(1, "meeting the other ranks")], UNSURE, False),
        ([hung(0, "starting")], UNSURE, False),
    ],
)
def test_what_a_probe_gave(answers: list[RankAnswer], status: str, small_passed: bool) -> None:
    outcome = probes._outcome(Probe({}, ((0, 1),)), (0, 1), answers)
    assert (outcome.status, outcome.small_passed) == (status, small_passed)


def test_bus_bandwidth_is_that_of_nccl_tests() -> None:
    assert [bus_factor(name, 8) for name in COLLECTIVES] == [1.75, 0.875, 0.875, 1.0]
    assert bus_factor("all-reduce", 2) == 1.0
    # 1 GB in 10 ms over 8 ranks
    assert bandwidths("all-reduce", 8, 10**9, 0.01) == [
        Metric("size_bytes", 10**9),
        Metric("algorithm_bandwidth_gb_s", 100.0),
        Metric("bus_bandwidth_gb_s", 175.0),
    ]
    assert bandwidths("all-gather", 8, 10**9, 0.01) == [Metric("all_gather_bus_bandwidth_gb_s", 87.5)]
    assert bandwidths("reduce-scatter", 8, 10**9, 0.01) == [Metric("reduce_scatter_bus_bandwidth_gb_s", 87.5)]


def context(level: str, *capabilities: str) -> CheckContext:
    devices = tuple(Device(index, "NVIDIA X", each, str(index)) for index, each in enumerate(capabilities))
    return CheckContext(devices, None, None, "/nowhere", level=level)


def test_quick_is_one_all_reduce() -> None:
    assert [str(case) for case in _plan(context(QUICK, "9.0"))] == [f"all-reduce of float32 ({COUNTS[-1]} elements)"]


def test_types_are_those_that_every_gpu_has() -> None:
    def types(*capabilities: str) -> set[str]:
        return {case.dtype for case in _plan(context(STANDARD, *capabilities))}

    assert types("8.0", "9.0") == {"int64", "int32", "float32", "float16", "bfloat16"}
    assert types("9.0", "7.5") == {"int64", "int32", "float32", "float16"}
    plan = _plan(context(STANDARD, "10.0"))
    assert {case.collective for case in plan} == set(COLLECTIVES)
    assert {case.count for case in plan} == set(COUNTS)


def test_one_gpu_has_no_link_to_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bandwidth_check, "nccl_torch", lambda: None)
    with pytest.raises(CheckSkipped, match=r"^one GPU: there is no link"):
        nccl_bandwidth.body(context(STANDARD, "9.0"))


def test_the_checks_leave_room_for_the_probes() -> None:
    for check in (nccl_all_reduce, nccl_bandwidth):
        assert check.limit_s >= run.COLLECTIVES_LIMIT_S + run.PROBES_LIMIT_S + probes.PROBE_LIMIT_S
    assert nccl_bandwidth.optional
