"""The set of checks as a whole, and what a run over it proves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envsmith.validator.catalogue import ALL
from envsmith.validator.devices import Device
from envsmith.validator.proof import proved
from envsmith.wire.results import CheckResult
from tests.source_tree import ROOT

H200, B200 = Device(0, "NVIDIA H200", "9.0"), Device(1, "NVIDIA B200", "10.0")
PAGE = (ROOT / "docs" / "checks.md").read_text(encoding="utf-8")


def test_ids_are_unique_and_requirements_come_first() -> None:
    ids = [check.id for check in ALL]
    assert len(set(ids)) == len(ids)
    for number, check in enumerate(ALL):
        assert set(check.requires) <= set(ids[:number])


def test_exactly_one_check_imports_torch_for_the_others() -> None:
    assert [check.id for check in ALL if check.starts_host] == ["torch-import"]
    assert all(check.needs_torch for check in ALL if "torch-import" in check.requires)


def test_each_limit_is_sane() -> None:
    assert all(30 <= check.limit_s <= 300 for check in ALL)
    assert {check.id: check.limit_s for check in ALL}["nccl-all-reduce"] == 60


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.id)
def test_each_check_has_its_place_in_the_documentation(check: object) -> None:
    from envsmith.validator.check import Check

    assert isinstance(check, Check)
    assert f"## {check.id}\n" in PAGE
    section = PAGE.split(f"## {check.id}\n")[1].split("\n## ")[0]
    assert check.title in section
    assert f"{check.limit_s:g} s" in section


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
