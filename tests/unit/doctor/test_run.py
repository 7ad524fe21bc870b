"""The runner: facts in, outcomes out; nothing that one rule does ends the run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsmith.doctor.rule import CannotTell, Problem, rule
from envsmith.doctor.run import diagnose, root_first, run_rule
from envsmith.model.findings import Evidence, Finding, Fix, Severity
from envsmith.wire.facts import DriverFacts, Gap, GpuFacts
from tests.machines import machine, small_matrix

MATRIX = small_matrix()
EVIDENCE = (Evidence("driver", "none", "a driver"),)


def toy(body, rule_id="ENV900", because_of=()):
    return rule(id=rule_id, name="toy", severity=Severity.ERROR, since="0.1", because_of=because_of)(body)


def finding(rule_id: str, severity: Severity = Severity.ERROR, because_of: tuple[str, ...] = ()) -> Finding:
    return Finding(rule_id, "toy", severity, "", (), because_of=because_of)


def test_a_problem_becomes_a_finding_of_its_rule():
    fixes = (Fix("first"), Fix("second"))

    def body(driver: DriverFacts):
        yield Problem("wrong", EVIDENCE, fixes)
        yield Problem("odd", EVIDENCE, severity=Severity.INFO)

    outcome = run_rule(toy(body), machine(), MATRIX)
    assert outcome.status == "found"
    wrong, odd = outcome.findings
    assert (wrong.rule, wrong.severity, wrong.fix, wrong.other_fixes) == ("ENV900", Severity.ERROR, fixes[0], fixes[1:])
    assert (odd.severity, odd.fix) == (Severity.INFO, None)


def test_nothing_yielded_is_clean():
    def body(driver: DriverFacts):
        yield from ()

    assert run_rule(toy(body), machine(), MATRIX).status == "clean"


def strict(driver: DriverFacts):
    yield Problem("ran", EVIDENCE)


def wants_none(driver: DriverFacts | None):
    yield Problem(f"ran with {driver}", EVIDENCE)


def does_without(driver: DriverFacts | None = None):
    yield Problem(f"ran with {driver}", EVIDENCE)


def wants_gpus(gpus: tuple[GpuFacts, ...] | None):
    yield Problem("ran", EVIDENCE)


@pytest.mark.parametrize(
    ("body", "gaps", "status", "text"),
    [
        (strict, (), "skipped", "there is no driver here"),
        (strict, (Gap("driver", "denied", "EACCES"),), "skipped", "driver: denied (EACCES)"),
        (wants_none, (), "found", "ran with None"),
        (wants_none, (Gap("driver", "timeout"),), "skipped", "driver: timeout"),
        (does_without, (Gap("driver", "timeout"),), "found", "ran with None"),
        # a machine cannot have "no list of GPUs": None means that nobody looked
        (wants_gpus, (), "skipped", "gpus: not looked at"),
    ],
)
def test_a_missing_fact(body, gaps, status, text):
    outcome = run_rule(toy(body), replace(machine(driver=None, gpus=None), gaps=gaps), MATRIX)
    assert outcome.status == status
    assert text in (outcome.reason or outcome.findings[0].summary)


def test_a_gap_inside_a_fact_does_not_hide_the_fact():
    snapshot = replace(machine(), gaps=(Gap("driver.kernel_module_flavour", "failed"),))
    assert run_rule(toy(strict), snapshot, MATRIX).status == "found"


def test_a_rule_that_cannot_tell_is_skipped_with_its_reason():
    def body(driver: DriverFacts):
        raise CannotTell("no row for this build")
        yield

    outcome = run_rule(toy(body), machine(), MATRIX)
    assert (outcome.status, outcome.reason) == ("skipped", "no row for this build")


def test_a_broken_rule_does_not_end_the_run():
    def breaks(driver: DriverFacts):
        yield Problem("half", EVIDENCE)
        raise ZeroDivisionError("oops")

    diagnosis = diagnose(machine(), MATRIX, [toy(breaks), toy(strict, "ENV901")])
    assert [outcome.status for outcome in diagnosis.outcomes] == ["broken", "found"]
    assert diagnosis.outcomes[0].reason == "ZeroDivisionError: oops"
    assert [f.rule for f in diagnosis.findings] == ["ENV901"]
    assert diagnosis.matrix_digest == MATRIX.digest


def test_a_cause_comes_first_whatever_its_severity():
    ordered = root_first([finding("ENV001", because_of=("ENV301",)), finding("ENV301", Severity.WARNING)])
    assert [f.rule for f in ordered] == ["ENV301", "ENV001"]


def test_the_worst_comes_first_among_roots():
    ordered = root_first([finding("ENV001", Severity.INFO), finding("ENV002"), finding("ENV401", Severity.WARNING)])
    assert [f.rule for f in ordered] == ["ENV002", "ENV401", "ENV001"]


def test_a_cause_that_did_not_occur_is_dropped():
    (only,) = root_first([finding("ENV001", because_of=("ENV301",))])
    assert only.because_of == ()


IDS = ["A", "B", "C", "D"]


@given(
    st.lists(
        st.builds(finding, st.sampled_from(IDS), st.sampled_from(Severity), st.lists(st.sampled_from(IDS)).map(tuple))
    )
)
def test_ordering_loses_nothing_even_in_a_cycle(findings):
    ordered = root_first(findings)
    assert sorted(f.rule for f in ordered) == sorted(f.rule for f in findings)
