"""One result out of those of a check's processes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envsmith.validator.devices import Device
from envsmith.validator.merge import merge
from envsmith.wire.results import CheckResult, Metric

FIRST, SECOND = Device(0, "NVIDIA H200", "9.0"), Device(1, "NVIDIA B200", "10.0")
GOOD = CheckResult(
    "rates", "Rates", "pass", 1.0, "all right", needs_gpu=True, metrics=(Metric("rate_tflops", 600.0, 500.0),)
)


def test_two_that_pass() -> None:
    merged = merge([(SECOND, replace(GOOD, seconds=3.0)), (FIRST, GOOD)])
    assert merged == replace(
        GOOD,
        seconds=3.0,
        metrics=(Metric("cuda0.rate_tflops", 600.0, 500.0), Metric("cuda1.rate_tflops", 600.0, 500.0)),
        ran_on=("cuda:0 NVIDIA H200 (9.0)", "cuda:1 NVIDIA B200 (10.0)"),
    )


def test_the_worst_counts_with_its_log_and_messages_are_told_apart() -> None:
    bad = replace(GOOD, status="crash", message="died", signal="SIGSEGV", log_tail=("last",), metrics=())
    merged = merge([(FIRST, GOOD), (SECOND, bad)])
    assert (merged.status, merged.signal, merged.log_tail) == ("crash", "SIGSEGV", ("last",))
    assert merged.message == "cuda:0: all right; cuda:1: died"
    assert merged.ran_on == ("cuda:0 NVIDIA H200 (9.0)",)
    assert [metric.name for metric in merged.metrics] == ["cuda0.rate_tflops"]


@pytest.mark.parametrize("order", [("crash", "timeout"), ("timeout", "fail"), ("fail", "skip"), ("skip", "pass")])
def test_the_order_of_statuses(order: tuple[str, str]) -> None:
    worse, better = order
    for parts in ((FIRST, SECOND), (SECOND, FIRST)):
        merged = merge([(parts[0], replace(GOOD, status=better)), (parts[1], replace(GOOD, status=worse))])
        assert merged.status == worse


def test_one_process_for_all_is_left_as_it_is() -> None:
    assert merge([(None, GOOD)]) == GOOD
