"""What rules find: problems with evidence and a command that mends them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from envsmith.wire.facts import Gap

# How the reason of an outcome begins whose rule has nothing to judge here; no fact is missing then.
NOT_APPLICABLE = "there is no "


class Severity(IntEnum):
    """Greater is worse."""

    INFO = 1
    WARNING = 2
    ERROR = 3


@dataclass(frozen=True)
class Evidence:
    """fact: path into the snapshot, "gpus[0].compute_capability"; value seen there; what was expected."""

    fact: str
    value: str
    expected: str


@dataclass(frozen=True)
class Fix:
    """How to mend it. commands are complete lines that can be pasted into a shell, in this order."""

    text: str
    commands: tuple[str, ...] = ()
    needs_root: bool = False
    needs_reboot: bool = False


@dataclass(frozen=True)
class Finding:
    """One problem. because_of: ids of rules whose findings, if present, are the cause of this one.

    fix: the way out to try first. other_fixes: further ways, each on its own enough.
    """

    rule: str
    name: str
    severity: Severity
    summary: str
    evidence: tuple[Evidence, ...]
    fix: Fix | None = None
    because_of: tuple[str, ...] = ()
    other_fixes: tuple[Fix, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What became of one rule. status: "clean", "found", "skipped" (reason says why) or "broken"."""

    rule: str
    name: str
    status: str
    findings: tuple[Finding, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """All outcomes; `findings` sorted root cause first, then by severity."""

    outcomes: tuple[Outcome, ...]
    findings: tuple[Finding, ...]
    matrix_digest: str
    schema: int = 1
    kind: str = "diagnosis"


def describe_gap(gap: Gap) -> str:
    """One line that says which fact is missing and why."""
    return f"{gap.fact}: {gap.reason}" + (f" ({gap.detail})" if gap.detail else "")
