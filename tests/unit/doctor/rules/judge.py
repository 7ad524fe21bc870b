"""Run one rule by its id, so that a rule's test is three lines."""

from __future__ import annotations

from envsmith.doctor.catalogue import all_rules
from envsmith.doctor.run import run_rule
from envsmith.model.findings import Finding, Outcome
from envsmith.model.matrix import Matrix
from envsmith.wire.facts import Snapshot
from tests.machines import small_matrix

MATRIX = small_matrix()


def judge(rule_id: str, snapshot: Snapshot, matrix: Matrix = MATRIX) -> Outcome:
    """Return the outcome of one rule; a broken rule fails the test with its exception's text."""
    (rule,) = (rule for rule in all_rules() if rule.id == rule_id)
    outcome = run_rule(rule, snapshot, matrix)
    assert outcome.status != "broken", outcome.reason
    return outcome


def the_finding(rule_id: str, snapshot: Snapshot, matrix: Matrix = MATRIX) -> Finding:
    """Return the one finding of a rule."""
    (finding,) = judge(rule_id, snapshot, matrix).findings
    return finding


def advice_in(finding: Finding) -> str:
    """All that the finding tells people to do, as one text."""
    fixes = [fix for fix in (finding.fix, *finding.other_fixes) if fix]
    return "\n".join(line for fix in fixes for line in (fix.text, *fix.commands))
