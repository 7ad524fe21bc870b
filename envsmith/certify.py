"""Certificates: issue one from a run of checks, write it, and verify one that somebody shows.

A certificate is an in-toto Statement (v1). Its digest shows that a file was edited; it is no signature, and
says nothing of who wrote it.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import msgspec

from envsmith import files
from envsmith.errors import EnvsmithError, UsageError, ValidationFailedError
from envsmith.model.certificate import (
    CERTIFIED,
    PREDICATE_TYPE,
    STATEMENT_TYPE,
    Certificate,
    Coverage,
    Environment,
    Predicate,
    Skipped,
    Subject,
)
from envsmith.model.check_run import CheckRun
from envsmith.model.findings import describe_gap
from envsmith.model.plan import Plan
from envsmith.model.rates import LOW
from envsmith.model.verdict import gpu_names, gpus_present
from envsmith.validator.catalogue import ALL
from envsmith.wire.encode import canonical_json, digest, to_plain
from envsmith.wire.facts import Snapshot
from envsmith.wire.results import LEVELS, PASS, SKIP, CheckResult, ValidationReport

PREDICATE_SCHEMA = 1


class EditedError(EnvsmithError):
    """A certificate's content is not what its digest was taken of."""


def coverage(report: ValidationReport) -> Coverage | None:
    """How much was run of what there is; None where no check was run, or by an envsmith that knew no levels."""
    if report.level not in LEVELS:
        return None
    of_level = {check.id for check in ALL if LEVELS.index(check.level) <= LEVELS.index(report.level)}
    results = {result.id for result in report.results}
    return Coverage(
        checks_run=tuple(result.id for result in report.results if result.status != SKIP),
        checks_of_level=len(of_level | results),
        left_out=tuple(check.id for check in ALL if check.id in of_level - results),
        optional_skipped=tuple(
            Skipped(result.id, result.message) for result in report.results if result.status == SKIP and result.optional
        ),
        gpus_run=report.gpus,
        gpus_present=gpus_present(report.snapshot),
    )


def issue(
    run: CheckRun,
    *,
    plan: Plan | None = None,
    context_digest: str | None = None,
    issued_at: datetime | None = None,
) -> Certificate:
    """Make the certificate of a run: of its image, or else of the machine's snapshot.

    plan, context_digest: what the image was built from, if envsmith built it. issued_at: None = now.
    """
    report = run.report
    snapshot_digest = digest(report.snapshot)
    expected = run.expectation.compute_capabilities if run.expectation else None
    predicted = plan.compute_capabilities if plan else expected or ()
    proved = report.proved_compute_capabilities if run.verdict.status == CERTIFIED else ()
    predicate = Predicate(
        verdict=run.verdict.status,
        subject_kind="image" if run.image_digest else "host",
        tool=report.tool,
        issued_at=(issued_at or datetime.now(timezone.utc)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        seconds=report.seconds,
        plan=plan,
        plan_digest=digest(plan) if plan else run.plan_digest,
        context_digest=context_digest,
        matrix_digest=run.diagnosis.matrix_digest,
        bundle_digest=report.bundle_digest,
        snapshot_digest=snapshot_digest,
        environment=_environment(report.snapshot),
        checks=report.results,
        findings=run.diagnosis.findings,
        predicted_compute_capabilities=predicted,
        predicted_from="plan" if plan else run.expectation.source if run.expectation and predicted else "",
        proved_compute_capabilities=proved,
        skipped=tuple(Skipped(result.id, result.message) for result in report.results if result.status == SKIP),
        not_looked_at=tuple(describe_gap(gap) for gap in report.snapshot.gaps),
        schema=PREDICATE_SCHEMA,
        level=report.level,
        coverage=coverage(report),
        rates=run.rates,
    )
    subject = Subject(run.subject, {"sha256": _hex(run.image_digest or snapshot_digest)})
    unsealed = Certificate(subject=(subject,), predicate=predicate)
    sealed = replace(predicate, statement_digest=_statement_digest(to_statement(unsealed)))
    return replace(unsealed, predicate=sealed)


def to_statement(certificate: Certificate) -> dict[str, Any]:
    """The certificate as plain JSON data, with the key names of in-toto."""
    return {
        "_type": certificate.type,
        "subject": to_plain(certificate.subject),
        "predicateType": certificate.predicate_type,
        "predicate": to_plain(certificate.predicate),
    }


def write(certificate: Certificate, path: Path) -> None:
    """Write the certificate as one line of canonical JSON, whole or not at all. Raises UsageError."""
    files.write_whole(path, canonical_json(to_statement(certificate)).encode("ascii") + b"\n")


def verify(data: bytes, what: str, image_digest: str | None = None) -> Certificate:
    """Read a certificate that somebody shows and hold it against itself, and against an image if one is given.

    what: the input's name in errors. image_digest: "sha256:...".
    Raises UsageError when it is no certificate of a schema that is known here, EditedError when its content was
    changed after it was issued, and ValidationFailedError when it is not about that image.
    """
    statement = _read_json(data, what)
    _require_known_schema(statement, what)
    try:
        digest_now = _statement_digest(statement)
    except RecursionError as error:
        raise UsageError(f"{what} is not a usable certificate: it is nested too deeply") from error
    if statement["predicate"].get("statement_digest") != digest_now:
        raise EditedError(
            f"{what} was edited: its content does not have the digest that it states",
            "get the certificate again from where it was issued",
        )
    renamed = {
        "type": statement["_type"],
        "predicate_type": statement["predicateType"],
        "subject": statement.get("subject"),
        "predicate": statement["predicate"],
    }
    try:
        certificate = msgspec.convert(renamed, Certificate)
    except msgspec.ValidationError as error:
        raise UsageError(f"{what} is not a usable certificate: {error}") from error
    _require_borne_out(certificate.predicate, statement["predicate"].get("plan"), what)
    if image_digest is not None:
        _require_subject(certificate, what, image_digest)
    return certificate


def _require_borne_out(predicate: Predicate, plan: Any, what: str) -> None:
    """Raise EditedError where the parts contradict each other, which no certificate that was issued does.

    plan: as it stands there, with fields that only a newer envsmith knows.
    """
    statuses = {check.status for check in predicate.checks}
    on_gpu = {check.status for check in predicate.checks if check.needs_gpu and not _rightly_skipped(check)}
    low = any(rate.status == LOW for rate in predicate.rates)
    good = statuses <= {PASS, SKIP} and on_gpu == {PASS} and not low and predicate.proved_compute_capabilities
    if predicate.verdict == CERTIFIED and not good:
        raise EditedError(f"{what} says {CERTIFIED!r}, and its own checks do not bear that out")
    if plan is not None and digest(plan) != predicate.plan_digest:
        raise EditedError(f"{what} holds another plan than the one whose digest it states")


def _rightly_skipped(check: CheckResult) -> bool:
    return check.optional and check.status == SKIP


def require_level(certificate: Certificate, least: str, what: str) -> None:
    """Raise ValidationFailedError unless the checks were of level `least` or a higher one.

    A certificate that states no level is from before there were levels, and counts as lower than all of them.
    """
    level = certificate.predicate.level
    if level not in LEVELS:
        raise ValidationFailedError(
            f"{what} states no level, and {least} is required", "check again with a newer envsmith"
        )
    if LEVELS.index(level) < LEVELS.index(least):
        raise ValidationFailedError(
            f"{what} is of level {level}, and {least} is required", f"check again with --level {least}"
        )


def _require_subject(certificate: Certificate, what: str, image_digest: str) -> None:
    """Raise ValidationFailedError unless the certificate is about that very image."""
    if certificate.predicate.subject_kind != "image":
        raise ValidationFailedError(f"{what} certifies a host, not an image", "build and check the image to certify it")
    certified = [subject.digest.get("sha256", "") for subject in certificate.subject]
    if _hex(image_digest) not in certified:
        raise ValidationFailedError(
            f"{what} is about another image: it certifies sha256:{', sha256:'.join(certified)}, not {image_digest}",
            "envsmith check --image IMAGE --certificate FILE makes one for this image",
        )


def _require_known_schema(statement: dict[str, Any], what: str) -> None:
    """Raise UsageError unless statement, predicate and schema are of kinds that are known here."""
    predicate = statement.get("predicate")
    schema = predicate.get("schema") if isinstance(predicate, dict) else None
    for name, found, known in (
        ("_type", statement.get("_type"), STATEMENT_TYPE),
        ("predicateType", statement.get("predicateType"), PREDICATE_TYPE),
        ("predicate.schema", schema, PREDICATE_SCHEMA),
    ):
        if found != known or isinstance(found, bool):
            raise UsageError(
                f"{what} is no certificate of a kind known here: {name} is {found!r}, not {known!r}",
                "a newer envsmith may read it",
            )


def _read_json(data: bytes, what: str) -> dict[str, Any]:
    """Parse strictly: UTF-8, no key twice, no NaN, an object at the top."""
    try:
        value = json.loads(
            data.decode("utf-8"), object_pairs_hook=_no_key_twice, parse_float=_number, parse_constant=_number
        )
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{what} is not a certificate: it is not JSON ({error})") from error
    if not isinstance(value, dict):
        raise UsageError(f"{what} is not a certificate: its JSON is not an object")
    return value


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return value


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a number of JSON, or too large")
    return value


def _statement_digest(statement: dict[str, Any]) -> str:
    """Digest of a statement whose own digest is left empty."""
    return digest({**statement, "predicate": {**statement["predicate"], "statement_digest": ""}})


def _environment(snapshot: Snapshot) -> Environment:
    """Versions as loaded: of torch and its libraries only if torch was really imported."""
    runtime, driver = snapshot.torch_runtime, snapshot.driver
    return Environment(
        gpus=gpu_names(snapshot),
        driver=(driver.kernel_module_version or driver.library_version) if driver else None,
        driver_cuda=driver.driver_cuda if driver else None,
        torch=runtime.version if runtime else None,
        wheel_cuda=runtime.wheel_cuda if runtime else None,
        cudnn=runtime.cudnn if runtime else None,
        nccl=runtime.nccl if runtime else None,
        python=snapshot.python.version if snapshot.python else None,
    )


def _hex(value: str) -> str:
    return value.removeprefix("sha256:")
