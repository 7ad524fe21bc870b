"""The set of checks as a whole, and what a run over it proves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envsmith.validator.catalogue import ALL
from envsmith.validator.devices import Device
from envsmith.validator.proof import proved
from envsmith.validator.selection import of_level
from envsmith.wire.results import CheckResult

H200, B200 = Device(0, "NVIDIA H200", "9.0"), Device(1, "NVIDIA B200", "10.0")


def test_ids_are_unique_and_requirements_come_first() -> None:
    ids = [check.id for check in ALL]
    assert len(set(ids)) == len(ids)
    for number, check in enumerate(ALL):
        assert set(check.requires) <= set(ids[:number])


def test_exactly_one_check_imports_torch_for_the_others() -> None:
    assert [check.id for check in ALL if check.starts_host] == ["torch-import"]
    assert all(check.needs_torch for check in ALL if "torch-import" in check.requires)


def test_each_limit_is_sane() -> None:
    assert [check.id for check in ALL if not 10 <= check.limit_s <= 300] == []


def results(*labels: str, **statuses: str) -> tuple[CheckResult, ...]:
    return tuple(
        CheckResult(check.id, check.title, statuses.get(check.id.replace("-", "_"), "pass"), 0.1, ran_on=labels)
        for check in ALL
    )


def test_all_passed_on_two_gpus() -> None:
    assert proved(ALL, results(H200.label, B200.label), (H200, B200)) == ("9.0", "10.0")


def test_only_gpus_that_every_check_ran_on_count() -> None:
    some = list(results(H200.label, B200.label))
    some[-1] = replace(some[-1], ran_on=(H200.label,))
    assert proved(ALL, tuple(some), (H200, B200)) == ("9.0",)


@pytest.mark.parametrize("status", ["skip", "fail", "timeout", "crash"])
def test_a_gpu_check_that_did_not_pass_leaves_nothing_proved(status: str) -> None:
    assert proved(ALL, results(H200.label, amp_matmul=status), (H200,)) == ()


def test_a_failure_beside_the_gpu_leaves_nothing_proved() -> None:
    assert proved(ALL, results(H200.label, torch_matches="fail"), (H200,)) == ()
    assert proved(ALL, results(H200.label, companions_import="skip"), (H200,)) == ("9.0",)


def test_a_run_over_some_checks_proves_nothing() -> None:
    assert proved(ALL, results(H200.label)[:-1], (H200,)) == ()


def test_a_check_that_is_optional_may_be_skipped_but_not_left_out() -> None:
    optional = tuple(replace(check, optional=check.id == "amp-matmul") for check in ALL)
    skipped = results(H200.label, amp_matmul="skip")
    assert proved(optional, skipped, (H200,)) == ("9.0",)
    without = tuple(result for result in skipped if result.id != "amp-matmul")
    assert proved(optional, without, (H200,)) == ()
    assert proved(optional, results(H200.label, amp_matmul="fail"), (H200,)) == ()


def test_a_level_proves_by_its_own_checks() -> None:
    quick = of_level("quick")
    assert 0 < len(quick) < len(ALL)
    some = tuple(result for result in results(H200.label) if result.id in {check.id for check in quick})
    assert proved(quick, some, (H200,)) == ("9.0",)
    assert proved(of_level("standard"), some, (H200,)) == ()


def test_checks_without_a_gpu_prove_nothing_of_one() -> None:
    plain = tuple(check for check in ALL if not check.needs_gpu)
    assert proved(plain, results(H200.label), (H200,)) == ()
