"""One run of `envsmith check`: what was seen, what the rules say of it, and what it amounts to."""

from __future__ import annotations

from dataclasses import dataclass

from envsmith.model.certificate import Verdict
from envsmith.model.findings import Diagnosis
from envsmith.model.rates import RateJudgement
from envsmith.wire.results import Expectation, ValidationReport


@dataclass(frozen=True)
class CheckRun:
    """The answer of `envsmith check`.

    subject: what was examined, for people: an interpreter's path, an image, a snapshot's file name.
    image_digest: "sha256:..." of the image, None for anything else.
    stray_output: lines that came between the events and are none, printable; kept for the report of a fault.
    expectation: what the image is said to hold. plan_digest: of the plan that its labels name.
    certificate: path of the certificate that was written, if one was. rates: the measured ones, judged.
    """

    subject: str
    report: ValidationReport
    diagnosis: Diagnosis
    verdict: Verdict
    image_digest: str | None = None
    stray_output: tuple[str, ...] = ()
    certificate: str | None = None
    expectation: Expectation | None = None
    plan_digest: str | None = None
    schema: int = 1
    kind: str = "check"
    rates: tuple[RateJudgement, ...] = ()
