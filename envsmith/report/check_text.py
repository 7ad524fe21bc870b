"""The answer of `envsmith check` for people: root cause first, what was not looked at last."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from envsmith.model.certificate import CERTIFIED, FAILED
from envsmith.model.check_run import CheckRun
from envsmith.model.findings import Diagnosis, Finding, Fix, describe_gap
from envsmith.report.console import STYLES, clean, command_line, console, indented
from envsmith.wire.facts import Snapshot
from envsmith.wire.results import PASS, SKIP, CheckResult, Metric

_VERDICT_STYLES = {CERTIFIED: "bold green", FAILED: "bold red"}
_STRAY_LINES_SHOWN = 5


def print_check(run: CheckRun) -> None:
    """Print a run to stdout."""
    out = console()
    _print_findings(out, run.diagnosis)
    if run.report.results:
        _print_checks(out, run.report.results)
    _print_versions(out, run)
    _print_unseen(out, run)
    _print_verdict(out, run)


def _print_findings(out: Console, diagnosis: Diagnosis) -> None:
    """Each root with its consequences under it."""
    shown: set[str] = set()
    for finding in diagnosis.findings:
        title = "Consequence" if shown.intersection(finding.because_of) else "Root cause" if not shown else "Also found"
        shown.add(finding.rule)
        _print_finding(out, finding, title)
    if diagnosis.findings:
        out.print()


def _print_finding(out: Console, finding: Finding, title: str) -> None:
    severity = finding.severity.name
    head = Text.assemble(
        (title, "bold"), ": ", (clean(finding.summary), "bold"), "  ", (f"{severity} {finding.rule}", STYLES[severity])
    )
    out.print(indented(head, 0))
    if finding.because_of:
        out.print(indented(Text(f"because of {', '.join(finding.because_of)}", "dim"), 2))
    for evidence in finding.evidence:
        line = Text.assemble(
            (f"{evidence.fact}: ", "dim"), clean(evidence.value), (f"  expected: {clean(evidence.expected)}", "dim")
        )
        out.print(indented(line, 2))
    for number, fix in enumerate(fix for fix in (finding.fix, *finding.other_fixes) if fix):
        _print_fix(out, fix, "fix: " if number == 0 else "or:  ")


def _print_fix(out: Console, fix: Fix, label: str) -> None:
    needs = [word for word, needed in (("root", fix.needs_root), ("a reboot", fix.needs_reboot)) if needed]
    note = f" (needs {' and '.join(needs)})" if needs else ""
    out.print(indented(Text.assemble((label, "green"), clean(fix.text), (note, "dim")), 2))
    for command in fix.commands:
        command_line(out, command, 7)


def _print_checks(out: Console, results: Iterable[CheckResult]) -> None:
    out.print(Text("Checks", "bold"))
    for result in results:
        out.print(indented(check_line(result), 2))
        if result.status in (PASS, SKIP):
            continue
        for line in result.log_tail:
            out.print(indented(Text.assemble(("| ", "dim"), clean(line)), 11))
    out.print()


def check_line(result: CheckResult) -> Text:
    """One line for one check: outcome, title, time, and its numbers or the reason."""
    line = Text.assemble((f"{result.status:<8}", STYLES.get(result.status, "")), clean(result.title))
    if result.status != SKIP:
        line.append(f"  {result.seconds:.1f} s", "dim")
    numbers = headline(result.metrics)
    said = clean(result.message)
    if result.status == PASS and numbers:
        line.append(f"  {numbers}")
    elif said:
        line.append(f"  {said}", "dim" if result.status in (PASS, SKIP) else "")
    return line


def headline(metrics: Iterable[Metric]) -> str:
    """The numbers that tell most: rates, and whatever was judged against a limit; two at most."""
    metrics = list(metrics)
    rates = [metric for metric in metrics if metric.name.endswith(("_tflops", "_gb_s"))]
    judged = [metric for metric in metrics if metric.limit is not None and metric not in rates]
    return ", ".join(_number(metric) for metric in (*rates[:1], *judged)[:2])


def _number(metric: Metric) -> str:
    limit = "" if metric.limit is None else f" (limit {_short(metric.limit)})"
    return f"{clean(metric.name)} {_short(metric.value)}{limit}"


def _short(value: float | str) -> str:
    return f"{value:.3g}" if isinstance(value, float) else clean(str(value))


def _print_versions(out: Console, run: CheckRun) -> None:
    for name, text in _versions(run.report.snapshot):
        out.print(indented(Text.assemble((f"{name:<10}", "bold"), clean(text)), 0))


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
    driver = snapshot.driver
    if driver:
        offers = f", offers CUDA {driver.driver_cuda}" if driver.driver_cuda else ""
        yield "Driver", f"{driver.kernel_module_version or driver.library_version or 'version unknown'}{offers}"
    for gpu in snapshot.gpus or ():
        memory = f", {gpu.memory_total_bytes / 1024**3:.0f} GiB" if gpu.memory_total_bytes else ""
        yield f"GPU {gpu.index}", f"{gpu.name}, compute capability {gpu.compute_capability or 'unknown'}{memory}"
    host = snapshot.host
    if host:
        where = f", in a container ({host.container})" if host.container else ""
        yield "System", f"{host.os_name or host.os_id or 'unknown'}, {host.machine}{where}"


def _print_unseen(out: Console, run: CheckRun) -> None:
    """What nobody could look at, and which rules that left without an answer."""
    unseen = [describe_gap(gap) for gap in run.report.snapshot.gaps]
    unseen += [
        f"rule {outcome.rule} {outcome.name} {outcome.status}: {outcome.reason}"
        for outcome in run.diagnosis.outcomes
        if outcome.status == "broken" or (outcome.status == "skipped" and not outcome.reason.startswith("there is no"))
    ]
    if unseen:
        out.print(Text("\nNot looked at", "bold"))
    for text in unseen:
        out.print(indented(clean(text), 2))
    if run.stray_output:
        out.print(Text("\nAlso printed while checking, last lines", "bold"))
    for line in run.stray_output[-_STRAY_LINES_SHOWN:]:
        out.print(indented(Text.assemble(("| ", "dim"), line), 2))


def _print_verdict(out: Console, run: CheckRun) -> None:
    style = _VERDICT_STYLES.get(run.verdict.status, "bold yellow")
    out.print()
    out.print(indented(Text.assemble((run.verdict.status, style), f": {clean(run.verdict.reason)}"), 0))
    if run.certificate:
        out.print(Text(f"Certificate: {clean(run.certificate)}"), soft_wrap=True)
