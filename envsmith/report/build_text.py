"""The answer of `envsmith build` for people: the image, what is proved of it, and what to do next."""

from __future__ import annotations

from rich.text import Text

from envsmith.model.build import BuildResult, CheckSummary
from envsmith.model.certificate import CERTIFIED
from envsmith.model.check_run import CheckRun
from envsmith.quoting import shell_command
from envsmith.report.build_progress import bytes_text, duration_text
from envsmith.report.check_text import print_check
from envsmith.report.console import Page, clean, verdict_style


def print_build(result: BuildResult, run: CheckRun | None, *, good: bool) -> None:
    """Print the result to stdout. good: whether the exit status is 0; if not, the whole check is shown first."""
    out = Page()
    if run is not None and not good:
        print_check(run)
        out.blank()
    image, plan = result.image, result.plan
    fields = {
        "image": image.reference,
        "digest": image.digest,
        "size": bytes_text(image.size_bytes),
        "holds": f"torch {plan.wheel}, Python {plan.python}, {plan.os}",
        "took": duration_text(result.seconds),
    }
    for name, value in fields.items():
        out.line(Text.assemble((f"{name:<12}", "bold"), clean(value)))
    for substitution in plan.substitutions:
        text = f"{substitution.what} {substitution.used} instead of {substitution.requested}"
        out.line(Text.assemble((f"{'substituted':<12}", "bold yellow"), clean(text)))
    _print_check(result)
    if not good:
        out.paragraph(Text("The image is kept, so that it can be looked into.", "yellow"))
    _print_next(result, good)


def _print_check(result: BuildResult) -> None:
    out = Page()
    if result.check is None:
        out.line(Text.assemble((f"{'checked':<12}", "bold"), ("no: --no-check", "yellow")))
        return
    status = result.check.status
    out.line(Text.assemble((f"{'checked':<12}", "bold"), (status, verdict_style(status))))
    out.paragraph(f"{_counts(result.check)}; {clean(result.check.reason)}", 12)
    written = result.certificate or "none, since the check failed"
    out.line(Text.assemble((f"{'certificate':<12}", "bold"), clean(written)))


def _counts(check: CheckSummary) -> str:
    parts = [f"{len(check.passed)} checks passed"]
    if check.not_passed:
        parts.append(f"{len(check.not_passed)} did not")
    if check.skipped:
        parts.append(f"{len(check.skipped)} skipped")
    return ", ".join(parts)


def _print_next(result: BuildResult, good: bool) -> None:
    out = Page()
    out.blank()
    out.line(Text("next", "bold"))
    name = result.image.reference
    gpus = ["--gpus", "all"] if result.plan.wheel_cuda else []
    if good:
        out.command(shell_command(["docker", "run", "--rm", "-it", *gpus, name]), 2)
    if result.check is None or result.check.status != CERTIFIED:
        out.command(shell_command(["envsmith", "check", "--image", name]), 2)
