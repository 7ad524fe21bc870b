"""The answer of `envsmith check` for people: root cause first, what was not looked at last."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from envsmith.model.check_run import CheckRun
from envsmith.model.findings import NOT_APPLICABLE, Diagnosis, Finding, Fix, Severity, describe_gap
from envsmith.model.rates import RateJudgement
from envsmith.model.verdict import describe_rate
from envsmith.report.console import STYLES, Page, clean, verdict_style
from envsmith.report.headline import RATE_UNITS, headline
from envsmith.validator.cluster.report import report_lines
from envsmith.wire.facts import LimitFacts, Snapshot
from envsmith.wire.results import PASS, SKIP, CheckResult

_STRAY_LINES_SHOWN = 5
_GIB = 1024**3


def print_check(run: CheckRun) -> None:
    """Print a run to stdout."""
    out = Page()
    _print_findings(out, run.diagnosis)
    if run.report.results:
        print_checks(out, run.report.results)
        out.blank()
    if run.report.cluster:
        out.title("Nodes")
        for line in report_lines(run.report.cluster):
            out.line(clean(line), 2)
        out.blank()
    if run.rates:
        print_rates(out, run.rates)
        out.blank()
    _print_versions(out, run)
    _print_unseen(out, run)
    _print_verdict(out, run)


def _print_findings(out: Page, diagnosis: Diagnosis) -> None:
    """Each root with its consequences after it."""
    for number, finding in enumerate(diagnosis.findings):
        if finding.because_of:
            title = f"Consequence of {', '.join(finding.because_of)}"
        elif finding.severity == Severity.INFO:
            title = "Note"
        else:
            title = "Also found" if number else "Root cause"
        out.title(title)
        _print_finding(out, finding)
        out.blank()


def _print_finding(out: Page, finding: Finding) -> None:
    severity = finding.severity.name
    out.hanging(Text(f"{severity} {finding.rule}", STYLES[severity]), Text(clean(finding.summary), "bold"))
    for evidence in finding.evidence:
        said = Text.assemble(clean(evidence.value), ("  expected: " + clean(evidence.expected), "dim"))
        out.hanging(Text(f"{evidence.fact}:", "dim"), said, 2)
    for number, fix in enumerate(fix for fix in (finding.fix, *finding.other_fixes) if fix):
        _print_fix(out, fix, "or: " if number else "fix:")


def _print_fix(out: Page, fix: Fix, label: str) -> None:
    needs = [word for word, needed in (("root", fix.needs_root), ("a reboot", fix.needs_reboot)) if needed]
    note = f" (needs {' and '.join(needs)})" if needs else ""
    out.hanging(Text(label, "green"), Text.assemble(clean(fix.text), (note, "dim")), 2)
    for command in fix.commands:
        out.command(command, 7)


def print_checks(out: Page, results: Iterable[CheckResult]) -> None:
    """What ran, one line a check; then what was skipped, by reason."""
    out.title("Checks")
    results = tuple(results)
    for result in results:
        if result.status == SKIP:
            continue
        out.hanging(Text(f"{clean(result.status):<7}", STYLES.get(result.status, "")), _check_text(result), 2)
        for line in result.log_tail if result.status != PASS else ():
            out.hanging(Text("|", "dim"), clean(line), 10)
    for reason, titles in skipped_by_reason(results).items():
        text = Text.assemble("; ".join(titles), (f"  {reason}", "dim"))
        out.hanging(Text(f"{SKIP:<7}", STYLES[SKIP]), text, 2)


def skipped_by_reason(results: Iterable[CheckResult]) -> dict[str, list[str]]:
    """Titles of the checks that were skipped, by the reason, all made harmless."""
    skipped: dict[str, list[str]] = {}
    for result in results:
        if result.status == SKIP:
            skipped.setdefault(clean(result.message), []).append(clean(result.title))
    return skipped


def _check_text(result: CheckResult) -> Text:
    """Title and time of a check that ran, its number, and what it says."""
    text = Text.assemble(clean(result.title), (f"  {result.seconds:.1f} s", "dim"))
    number, said = headline(result), clean(result.message)
    # a message that tells rates itself tells all of them
    if result.status == PASS and number and not any(unit in said for unit in RATE_UNITS):
        text.append(f"  {number}")
    if said:
        text.append(f"  {said}", "dim" if result.status == PASS else "")
    return text


def print_rates(out: Page, rates: Iterable[RateJudgement]) -> None:
    """What was measured, against the floors."""
    out.title("Rates")
    for rate in rates:
        out.hanging(Text(f"{clean(rate.status):<12}", STYLES.get(rate.status, "")), clean(describe_rate(rate)), 2)


def _print_versions(out: Page, run: CheckRun) -> None:
    for name, text in _versions(run.report.snapshot):
        out.hanging(Text(f"{name:<7}", "bold"), clean(text))


def _versions(snapshot: Snapshot) -> Iterable[tuple[str, str]]:
    """Name and text of each line about the machine; what is unknown has no line, the gaps tell it."""
    python, torch, loaded = snapshot.python, snapshot.torch, snapshot.torch_runtime
    if python:
        yield "Python", f"{python.version}  {python.executable} ({python.environment})"
    if torch:
        parts = [torch.version, f"CUDA {torch.wheel_cuda}" if torch.wheel_cuda else "no CUDA"]
        if loaded:
            parts += [f"{name} {said}" for name, said in (("cuDNN", loaded.cudnn), ("NCCL", loaded.nccl)) if said]
        yield "torch", ", ".join(parts)
    elif not any(gap.fact == "torch" for gap in snapshot.gaps):
        yield "torch", "not installed"
    driver = snapshot.driver
    if driver:
        offers = f", offers CUDA {driver.driver_cuda}" if driver.driver_cuda else ""
        yield "Driver", f"{driver.kernel_module_version or driver.library_version or 'version unknown'}{offers}"
    for gpu in snapshot.gpus or ():
        memory = f", {_size(gpu.memory_total_bytes)}" if gpu.memory_total_bytes else ""
        yield f"GPU {gpu.index}", f"{gpu.name}, compute capability {gpu.compute_capability or 'unknown'}{memory}"
    host = snapshot.host
    if host:
        where = f", in a container ({host.container})" if host.container else ""
        yield "System", f"{host.os_name or host.os_id or 'unknown'}, {host.machine}{where}"
    if snapshot.limits:
        yield "Limits", ", ".join(_limits(snapshot.limits)) or "none"
    for toolkit in snapshot.toolkits or ():
        yield "Toolkit", f"CUDA {toolkit.toolkit_cuda or 'of unknown version'}, {toolkit.path}"


def _limits(limits: LimitFacts) -> Iterable[str]:
    if limits.shm_size_bytes is not None:
        yield f"shared memory {_size(limits.shm_size_bytes)}"
    if limits.memory_limit_bytes is not None:
        yield f"memory {_size(limits.memory_limit_bytes)}"
    if limits.cpu_limit_cores is not None:
        yield f"{limits.cpu_limit_cores:g} CPU cores"


def _size(size_bytes: int) -> str:
    return f"{size_bytes / _GIB:.1f} GiB" if size_bytes >= _GIB else f"{size_bytes / 1024**2:.0f} MiB"


def _print_unseen(out: Page, run: CheckRun) -> None:
    """What nobody could look at, and which rules that left without an answer."""
    unanswered = [outcome for outcome in run.diagnosis.outcomes if outcome.status in ("skipped", "broken")]
    lines = []
    for gap in map(describe_gap, run.report.snapshot.gaps):
        rules = ", ".join(outcome.rule for outcome in unanswered if outcome.reason == gap)
        lines.append(f"{gap}; so {rules} could not judge" if rules else gap)
    told = {describe_gap(gap) for gap in run.report.snapshot.gaps}
    lines += [
        f"{outcome.rule} {outcome.name} {outcome.status}: {outcome.reason}"
        for outcome in unanswered
        if outcome.reason not in told and not outcome.reason.startswith(NOT_APPLICABLE)
    ]
    if lines:
        out.blank()
        out.title("Not looked at")
    for line in lines:
        out.paragraph(clean(line), 2)
    if run.stray_output:
        out.blank()
        out.title("Also printed while checking, last lines")
    for line in run.stray_output[-_STRAY_LINES_SHOWN:]:
        out.hanging(Text("|", "dim"), line, 2)


def _print_verdict(out: Page, run: CheckRun) -> None:
    status = run.verdict.status
    out.blank()
    out.paragraph(Text.assemble((status, verdict_style(status)), f": {clean(run.verdict.reason)}"))
    if run.certificate:
        out.line(f"Certificate: {clean(run.certificate)}")
