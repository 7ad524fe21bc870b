"""Check an environment: run the portable bundle with its Python, then judge what came back by the rules.

A host and a container take the same way: the bundle does the looking and the checking and prints events, this
side decodes, diagnoses and draws the conclusion.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from envsmith import __version__
from envsmith.app import expect, interpreter
from envsmith.app.events import EventReader
from envsmith.compat.load import load_matrix
from envsmith.doctor.catalogue import all_rules
from envsmith.doctor.performance import judge_rates
from envsmith.doctor.run import diagnose
from envsmith.engine.command import stream
from envsmith.errors import UsageError, ValidationFailedError
from envsmith.model.certificate import CERTIFIED, FAILED, NOT_ON_GPU, Verdict
from envsmith.model.check_events import CheckEvent
from envsmith.model.check_run import CheckRun
from envsmith.model.decode import decode
from envsmith.model.findings import Severity
from envsmith.model.image import BuiltImage, ContainerRun, EngineInfo
from envsmith.model.verdict import judge
from envsmith.portable import bundle
from envsmith.wire.encode import to_plain
from envsmith.wire.facts import SNAPSHOT_SCHEMA, Snapshot
from envsmith.wire.results import PASS, STANDARD, Expectation, ValidationReport

EXIT_FINDINGS = 1
EXIT_FAILED = 5
BUNDLE_NAME = "envsmith.pyz"
_TAIL_LINES = 12
_STDERR_BYTES_MAX = 64 * 1024
# All checks of a run have their own limits; this one is for a container that does not even start them.
_CONTAINER_LIMIT_S = 3600.0
# So many checks that stress one after another, of which some take turns on a machine with few CPUs.
_STRESS_CHECKS_MAX = 32
# In a container that envsmith itself starts without a GPU, these would blame the user for it.
_ABOUT_THE_START = {"ENV001", "ENV301"}


@dataclass(frozen=True)
class CheckOptions:
    """What to run. facts_only: look, and run no check. only, skip: ids of checks. expectation: see Expectation.

    level: "quick", "standard" or "stress". seconds: how long each check of level stress works, None for the
    bundle's default. gpus: words that name GPUs where the checks run, none for all. require_gpu: of every node of a
    launch over several. no_cluster: check this machine alone there. cluster_timeout: seconds, None for the default.
    """

    facts_only: bool = False
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    expectation: Expectation | None = None
    level: str = STANDARD
    seconds: float | None = None
    gpus: tuple[str, ...] = ()
    require_gpu: bool = False
    no_cluster: bool = False
    cluster_timeout: float | None = None

    def arguments(self) -> list[str]:
        """The bundle's command line."""
        if self.facts_only:
            return ["facts", "--format", "jsonl"]
        words = ["check", "--format", "jsonl"]
        words += [word for check in self.only for word in ("--only", check)]
        words += [word for check in self.skip for word in ("--skip", check)]
        if self.level != STANDARD:
            words += ["--level", self.level]
        if self.seconds is not None:
            words += ["--seconds", str(self.seconds)]
        if self.gpus:
            words += ["--gpus", ",".join(self.gpus)]
        if self.require_gpu:
            words += ["--require-gpu"]
        if self.no_cluster:
            words += ["--no-cluster"]
        if self.cluster_timeout is not None:
            words += ["--cluster-timeout", str(self.cluster_timeout)]
        if self.expectation is not None:
            words += ["--expect", json.dumps(to_plain(self.expectation))]
        return words

    def require_sense(self) -> None:
        """Raise UsageError for an id that no check has, when none is left to run, for seconds that mean nothing."""
        from envsmith.validator.selection import SelectionError, choose, stress_seconds

        try:
            choose(self.only, self.skip, self.level)
            stress_seconds(self.seconds, self.level)
        except SelectionError as error:
            raise UsageError(str(error), error.hint) from None

    def container_limit_s(self) -> float:
        """How long a container may run, in seconds."""
        return _CONTAINER_LIMIT_S + _STRESS_CHECKS_MAX * (self.seconds or 0)


class Engine(Protocol):
    """The part of DockerEngine that a check needs."""

    def info(self) -> EngineInfo:
        """What the engine says of itself."""

    def inspect(self, reference: str) -> BuiltImage:
        """The image by name or id."""

    def run_bundle(
        self,
        image: str,
        bundle: bytes,
        arguments: Sequence[str],
        gpu: str | None,
        on_line: Callable[[str], None],
        limit_s: float,
    ) -> ContainerRun:
        """Run the bundle in a short-lived container."""


def check_host(python: str | None, options: CheckOptions, on_event: Callable[[CheckEvent], None]) -> CheckRun:
    """Check the environment of an interpreter of this machine; see `interpreter.choose` for `python`.

    Raises UsageError for an interpreter that is none, ValidationFailedError when the run ended before its report.
    Ctrl-C ends everything that was started.
    """
    options.require_sense()
    chosen = interpreter.choose(python, os.environ)
    reader = EventReader(on_event)
    with _scratch() as folder, (folder / "stderr").open("w+b") as errors:
        command = [str(chosen), str(folder / BUNDLE_NAME), *options.arguments()]
        try:
            status = stream(command, reader.feed, b"", os.environ, stderr=errors)
        except OSError as error:
            if error.filename is None:  # not of the start: a listener's stderr has gone, or a disk is full
                raise
            raise UsageError(
                f"{chosen} cannot be run: {error.strerror}", "name an interpreter with --python"
            ) from error
        size = errors.seek(0, os.SEEK_END)
        errors.seek(max(0, size - _STDERR_BYTES_MAX))
        for line in errors.read().decode("utf-8", "replace").splitlines():
            reader.add_stray(line)
    report = _report(reader, str(chosen), f"exit status {status}", options)
    return _conclude(str(chosen), report, reader, options)


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    """A folder with the bundle in it, removed at the end. Raises UsageError where there is no room for one."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="envsmith-")
    except OSError as error:
        raise UsageError(f"a folder for temporary files is needed: {error}", "TMPDIR names another") from error
    with folder as name:
        path = Path(name)
        try:
            (path / BUNDLE_NAME).write_bytes(bundle())
        except OSError as error:
            raise UsageError(f"cannot write to {path}: {error.strerror}", "TMPDIR names another folder") from error
        yield path


def check_image(
    engine: Engine,
    reference: str,
    options: CheckOptions,
    on_event: Callable[[CheckEvent], None],
    *,
    name: str | None = None,
) -> CheckRun:
    """Check inside a container of the image, with a GPU if the engine can give one.

    name: what people call it, where `reference` is a digest.
    Without an expectation in `options` the image is held against its own labels. Raises what the engine raises,
    and ValidationFailedError when the run ended before its report.
    """
    options.require_sense()
    image, info = engine.inspect(reference), engine.info()
    if options.expectation is None:
        options = replace(options, expectation=expect.from_labels(image.labels))
    reader = EventReader(on_event)
    limit_s = options.container_limit_s()
    ended = engine.run_bundle(image.digest, bundle(), options.arguments(), info.gpu, reader.feed, limit_s)
    for line in ended.log_tail:
        reader.add_stray(line)
    how = "stopped at its time limit" if ended.timed_out else f"exit status {ended.exit_status}"
    subject = name or reference
    report = _report(reader, subject, how, options)
    run = _conclude(subject, report, reader, options, left_out=set() if info.gpu else _ABOUT_THE_START)
    if info.gpu is None and run.verdict.status == NOT_ON_GPU:
        reason = f"the engine gives containers no GPU: {info.gpu_why_none or 'it names no way to'}"
        run = replace(run, verdict=Verdict(NOT_ON_GPU, reason))
    return replace(
        run,
        image_digest=image.digest,
        expectation=options.expectation,
        plan_digest=expect.plan_digest(image.labels),
    )


def judge_snapshot(data: bytes, name: str) -> CheckRun:
    """Judge a saved snapshot by the rules; nothing is run. Raises UsageError when it is not one."""
    snapshot = decode(data, Snapshot, f"snapshot {name}")
    if (snapshot.kind, snapshot.schema) != ("snapshot", SNAPSHOT_SCHEMA):
        raise UsageError(
            f"{name} is no snapshot of a schema known here: kind {snapshot.kind!r}, schema {snapshot.schema}",
            "make one with envsmith check --save-snapshot FILE",
        )
    return _conclude(name, _without_checks(snapshot), EventReader(lambda _: None), CheckOptions(facts_only=True))


def exit_status(run: CheckRun, *, require_gpu: bool) -> int:
    """0 good; 5 a check failed, or it is not certified though a GPU was required; 1 findings that are errors.

    Of several nodes, those that do not report have the status of the whole.
    """
    cluster = run.report.cluster
    if cluster is not None and cluster.rank != 0:
        return 0 if cluster.status == PASS else EXIT_FAILED
    if run.verdict.status == FAILED or (require_gpu and run.verdict.status != CERTIFIED):
        return EXIT_FAILED
    worst = max((finding.severity for finding in run.diagnosis.findings), default=Severity.INFO)
    return EXIT_FINDINGS if worst >= Severity.ERROR else 0


def _conclude(
    subject: str,
    report: ValidationReport,
    reader: EventReader,
    options: CheckOptions,
    left_out: set[str] | None = None,
) -> CheckRun:
    """Run the rules over what was seen, and say what all of it amounts to."""
    rules = [rule for rule in all_rules() if rule.id not in (left_out or set())]
    matrix = load_matrix()
    diagnosis = diagnose(report.snapshot, matrix, rules)
    rates = judge_rates(report, matrix)
    verdict = judge(report, complete=not (options.only or options.skip), rates=rates)
    if options.facts_only:
        verdict = Verdict(NOT_ON_GPU, "nothing was run, only looked at")
    return CheckRun(subject, report, diagnosis, verdict, stray_output=tuple(reader.stray), rates=rates)


def _report(reader: EventReader, subject: str, how: str, options: CheckOptions) -> ValidationReport:
    """The report that the bundle ended with; an ending without one is an error that shows the last lines."""
    if options.facts_only and reader.snapshot is not None:
        return _without_checks(reader.snapshot)
    if reader.report is not None:
        return reader.report
    if reader.refusal is not None:
        raise UsageError(reader.refusal, f"this was said where the checks run: {subject}")
    last = list(reader.stray)[-_TAIL_LINES:]
    raise ValidationFailedError(
        f"the check of {subject} ended before its report ({how})",
        "\n    ".join(["its last lines were:", *last]) if last else "it printed nothing",
    )


def _without_checks(snapshot: Snapshot) -> ValidationReport:
    return ValidationReport(f"envsmith {__version__}", None, snapshot.collected_at, 0.0, snapshot, ())
