"""Run rules over a snapshot. One rule that cannot judge, or breaks, never ends the run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from envsmith.doctor.advice import Site
from envsmith.doctor.catalogue import all_rules
from envsmith.doctor.rule import MATRIX, SITE, CannotTell, Need, Rule
from envsmith.model.findings import NOT_APPLICABLE, Diagnosis, Finding, Outcome, describe_gap
from envsmith.model.matrix import Matrix
from envsmith.wire.facts import Snapshot

# Facts of which a machine can really have none. Of all others None can only mean that nobody looked.
_CAN_BE_NONE = {"driver", "torch", "container_toolkit"}


class _Skipped(Exception):  # noqa: N818 - an outcome
    """A fact that the rule needs is not there."""


def diagnose(snapshot: Snapshot, matrix: Matrix, rules: Iterable[Rule] | None = None) -> Diagnosis:
    """Judge a snapshot by `rules` (None = all) and order what they find, root causes first."""
    outcomes = tuple(run_rule(rule, snapshot, matrix) for rule in (all_rules() if rules is None else rules))
    findings = [finding for outcome in outcomes for finding in outcome.findings]
    return Diagnosis(outcomes=outcomes, findings=root_first(findings), matrix_digest=matrix.digest)


def run_rule(rule: Rule, snapshot: Snapshot, matrix: Matrix) -> Outcome:
    """Run one rule: "found", "clean", "skipped" with the reason, or "broken" with the exception."""
    try:
        facts = {need.fact: _supply(need, snapshot, matrix) for need in rule.needs}
        problems = list(rule.body(**facts))
    except (_Skipped, CannotTell) as reason:
        return Outcome(rule.id, rule.name, "skipped", reason=str(reason))
    except Exception as error:  # noqa: BLE001 - a broken rule is an outcome, and the others go on
        return Outcome(rule.id, rule.name, "broken", reason=f"{type(error).__name__}: {error}")
    findings = tuple(
        Finding(
            rule=rule.id,
            name=rule.name,
            severity=rule.severity if problem.severity is None else problem.severity,
            summary=problem.summary,
            evidence=problem.evidence,
            fix=problem.fixes[0] if problem.fixes else None,
            because_of=rule.because_of,
            other_fixes=problem.fixes[1:],
        )
        for problem in problems
    )
    return Outcome(rule.id, rule.name, "found" if findings else "clean", findings)


def _supply(need: Need, snapshot: Snapshot, matrix: Matrix) -> Any:
    """Return the fact, or raise _Skipped with the reason why it is not there."""
    if need.fact == MATRIX:
        return matrix
    if need.fact == SITE:
        return _site(snapshot, matrix)
    value = getattr(snapshot, need.fact)
    if value is not None or need.optional:
        return value
    gap = next((gap for gap in snapshot.gaps if gap.fact == need.fact), None)
    if gap is not None:
        raise _Skipped(describe_gap(gap))
    if need.fact not in _CAN_BE_NONE:
        raise _Skipped(f"{need.fact}: not looked at")
    if not need.none_is_an_answer:
        raise _Skipped(f"{NOT_APPLICABLE}{need.fact} here")
    return None


def _site(snapshot: Snapshot, matrix: Matrix) -> Site:
    if snapshot.host is None:
        raise _Skipped("host: not looked at")
    return Site(matrix, snapshot.host, snapshot.driver, snapshot.gpus, snapshot.python, snapshot.packages)


def root_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Order findings: each cause before its consequences, the worst first; drop causes that did not occur.

    A cycle of causes, which the catalogue should not have, leaves the findings in order of severity.
    """
    waiting = sorted(findings, key=lambda finding: (-finding.severity, finding.rule))
    present = {finding.rule for finding in waiting}
    waiting = [
        replace(finding, because_of=tuple(cause for cause in finding.because_of if cause in present))
        for finding in waiting
    ]
    ordered: list[Finding] = []
    while waiting:
        open_rules = {finding.rule for finding in waiting}
        ready = (finding for finding in waiting if not open_rules.intersection(finding.because_of))
        following = next(ready, waiting[0])
        waiting.remove(following)
        ordered.append(following)
    return tuple(ordered)
