"""`envsmith build`: plan, build, check inside the image, certify."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envsmith.cli import build_options as building
from envsmith.cli import request as options
from envsmith.errors import NoSolutionError

if TYPE_CHECKING:
    from envsmith.engine.docker import DockerEngine
    from envsmith.model.build import BuildResult, CheckSummary
    from envsmith.model.check_run import CheckRun
    from envsmith.model.image import BuildOptions, BuiltImage, RenderedContext
    from envsmith.model.plan import Plan, Refusal


@click.command(short_help="Build an image, check inside it, and certify it.")
@options.planning_options
@building.building_options
@options.format_option
def build(
    tags: tuple[str, ...],
    pull: bool,
    no_cache: bool,
    progress: str,
    ca_bundle: str | None,
    index_url: str | None,
    extra_index_urls: tuple[str, ...],
    no_check: bool,
    require_gpu: bool,
    dry_run: bool,
    certificate: Path | None,
    output: str,
    **wanted: Any,
) -> int:
    """Build an image that holds what its tag says: choose versions, build, check inside the image, certify.

    Exit status: 0 good; 1 findings that are errors; 2 usage; 3 no solution; 4 not built; 5 built, but a check failed.
    """
    from envsmith.app.build import default_tag
    from envsmith.engine.reference import check_tag
    from envsmith.model.image import BuildOptions
    from envsmith.model.plan import Refusal

    as_json = options.output_format(output) == "json"
    building.refuse_contradictions(
        {"--dry-run": dry_run, "--no-check": no_check, "--tag": bool(tags), "--pull": pull, "--no-cache": no_cache,
         "--require-gpu": require_gpu, "--certificate": certificate is not None, "--format json": as_json}
    )  # fmt: skip
    live = building.live_progress(progress)
    tags = tuple(check_tag(name) for name in tags)
    plan = _plan(options.Typed(**wanted))
    if isinstance(plan, Refusal):
        _print_refusal(plan, as_json)
        return NoSolutionError.exit_status
    if dry_run:
        return _print_dockerfile(plan)
    tags = tags or (default_tag(plan),)
    how = BuildOptions(
        tags=tags,
        pull=pull,
        no_cache=no_cache,
        platform=plan.platform,
        ca_bundle=building.ca_bundle(ca_bundle),
        index_url=building.index_url("--index-url", index_url) if index_url else None,
        extra_index_urls=tuple(building.index_url("--extra-index-url", url) for url in extra_index_urls),
    )
    file = None if no_check else certificate or building.certificate_name(tags[0])
    result, run = _Work(plan, how, live, file).do()
    return _answer(result, run, as_json, require_gpu)


def _plan(typed: options.Typed) -> Plan | Refusal:
    from envsmith.app.plan import make_plan
    from envsmith.compat.load import load_matrix

    matrix = load_matrix()
    return make_plan(options.build_request(typed, matrix), matrix)


def _print_refusal(refusal: Refusal, as_json: bool) -> None:
    if as_json:
        from envsmith.report.documents import print_json

        print_json(refusal)
    else:
        from envsmith.report.plan_text import print_answer

        print_answer(refusal)


def _print_dockerfile(plan: Plan) -> int:
    from envsmith.render.dockerfile import render

    sys.stdout.write(render(plan).dockerfile)
    return 0


@dataclass(frozen=True)
class _Work:
    """certificate: where it goes; None = no check, and so none."""

    plan: Plan
    options: BuildOptions
    live: bool
    certificate: Path | None

    def do(self) -> tuple[BuildResult, CheckRun | None]:
        """Build, check, certify. Raises BuildFailedError; a check that fails is part of the answer."""
        from envsmith.engine.docker import DockerEngine
        from envsmith.files import require_writable
        from envsmith.model.build import BuildResult

        begun = time.monotonic()
        if self.certificate is not None:
            require_writable(self.certificate)
        with DockerEngine() as engine:
            image, context = self._build(engine)
            run = self._check(engine, image) if self.certificate is not None else None
        written = self._certify(run, context) if run is not None else None
        check = _summary(run) if run is not None else None
        seconds = time.monotonic() - begun
        return BuildResult(self.plan, image, context.digest, check, written, round(seconds, 1)), run

    def _build(self, engine: DockerEngine) -> tuple[BuiltImage, RenderedContext]:
        from envsmith.app.build import build_image
        from envsmith.report.build_progress import BuildProgress

        with BuildProgress(sys.stderr, self.live) as progress:
            progress.announce(self.plan, self.options.tags[0])
            return build_image(self.plan, self.options, engine, progress.on_event)

    def _check(self, engine: DockerEngine, image: BuiltImage) -> CheckRun:
        from envsmith.app.check import CheckOptions, check_image
        from envsmith.app.expect import from_plan
        from envsmith.report.check_progress import CheckProgress

        with CheckProgress(image.reference) as progress:
            # by its digest: somebody else may have given the tag to another image by now
            options = CheckOptions(expectation=from_plan(self.plan))
            return check_image(engine, image.digest, options, progress.on_event, name=image.reference)

    def _certify(self, run: CheckRun, context: RenderedContext) -> str | None:
        """Write the certificate, unless the check failed: then there is nothing to certify."""
        from envsmith import certify
        from envsmith.model.certificate import FAILED

        if run.verdict.status == FAILED or self.certificate is None:
            return None
        certify.write(certify.issue(run, plan=self.plan, context_digest=context.digest), self.certificate)
        return str(self.certificate)


def _summary(run: CheckRun) -> CheckSummary:
    from envsmith.model.build import CheckSummary
    from envsmith.wire.results import PASS, SKIP

    results = run.report.results
    return CheckSummary(
        status=run.verdict.status,
        reason=run.verdict.reason,
        passed=tuple(result.id for result in results if result.status == PASS),
        not_passed=tuple(result.id for result in results if result.status not in (PASS, SKIP)),
        skipped=tuple(result.id for result in results if result.status == SKIP),
        findings=tuple(finding.rule for finding in run.diagnosis.findings),
    )


def _answer(result: BuildResult, run: CheckRun | None, as_json: bool, require_gpu: bool) -> int:
    """Print the answer, and return the exit status."""
    status = 0
    if run is not None:
        from envsmith.app.check import exit_status

        status = exit_status(run, require_gpu=require_gpu)
    if as_json:
        from envsmith.report.documents import print_json

        print_json(result)
    else:
        from envsmith.report.build_text import print_build

        print_build(result, run, good=status == 0)
    return status
