"""A certificate: an in-toto Statement (v1) whose predicate says what was proved, on what, and what was not.

Field names of Statement, Subject and their JSON spelling follow the in-toto attestation framework, v1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from envsmith.model.findings import Finding
from envsmith.model.plan import Plan
from envsmith.model.rates import RateJudgement
from envsmith.wire.results import CheckResult

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://github.com/envsmith/envsmith/certificate/v1"

# Verdicts. Only CERTIFIED says that every GPU check of its level ran and passed, but for optional ones.
CERTIFIED = "certified"
NOT_ON_GPU = "not certified on a GPU"
FAILED = "failed"


@dataclass(frozen=True)
class Verdict:
    """What a run of checks amounts to: CERTIFIED, NOT_ON_GPU or FAILED, and why."""

    status: str
    reason: str


@dataclass(frozen=True)
class Subject:
    """What the certificate is about. digest: {"sha256": "<hex>"} of the image, or of a host's snapshot."""

    name: str
    digest: dict[str, str]


@dataclass(frozen=True)
class Environment:
    """Versions it ran on, as loaded. Each None where unknown."""

    gpus: tuple[str, ...]
    driver: str | None
    driver_cuda: str | None
    torch: str | None
    wheel_cuda: str | None
    cudnn: str | None
    nccl: str | None
    python: str | None


@dataclass(frozen=True)
class Skipped:
    """A check that did not run, and why."""

    check: str
    reason: str


@dataclass(frozen=True)
class Coverage:
    """How much was run of what there is.

    checks_run: ids of the checks that ran, whatever they found. checks_of_level: how many the level has.
    left_out: ids of those of the level that were not asked for. optional_skipped: checks of what may rightly be
    absent, and was. gpus_run: labels. gpus_present: how many GPUs (or MIG slices) the machine has, None = not known.
    """

    checks_run: tuple[str, ...]
    checks_of_level: int
    left_out: tuple[str, ...]
    optional_skipped: tuple[Skipped, ...]
    gpus_run: tuple[str, ...]
    gpus_present: int | None


@dataclass(frozen=True)
class Predicate:
    """The claim. predicted: compute capabilities that the plan, or else the image's labels, promise machine code for;
    predicted_from: "plan", "labels" or "" for neither. proved: those of the GPUs that it ran on.
    level: "quick", "standard" or "stress", "" in a certificate from before there were levels. rates: measured rates,
    and the floors that they were held against. coverage: None in a certificate from before it was stated.

    statement_digest: "sha256:..." over the canonical JSON of the whole statement with this field empty,
    so that an edited file shows (it is no signature).
    """

    verdict: str
    subject_kind: str
    tool: str
    issued_at: str
    seconds: float
    plan: Plan | None
    plan_digest: str | None
    context_digest: str | None
    matrix_digest: str
    bundle_digest: str | None
    snapshot_digest: str
    environment: Environment
    checks: tuple[CheckResult, ...]
    findings: tuple[Finding, ...]
    predicted_compute_capabilities: tuple[str, ...]
    proved_compute_capabilities: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    not_looked_at: tuple[str, ...]
    statement_digest: str = ""
    predicted_from: str = ""
    schema: int = 1
    level: str = ""
    coverage: Coverage | None = None
    rates: tuple[RateJudgement, ...] = ()


@dataclass(frozen=True)
class Certificate:
    """The statement. JSON keys: _type, subject, predicateType, predicate."""

    subject: tuple[Subject, ...]
    predicate: Predicate
    predicate_type: str = PREDICATE_TYPE
    type: str = STATEMENT_TYPE


@dataclass(frozen=True)
class CertificateDocument:
    """What `certificate show --format json` prints: the statement with the key names of in-toto."""

    statement: dict[str, Any]
    schema: int = 1
    kind: str = "certificate"
