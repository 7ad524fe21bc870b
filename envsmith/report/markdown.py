"""Markdown of a check, for the summary page of a CI job. Others' text is escaped: it is neither markup nor HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable

from envsmith.model.certificate import CERTIFIED, FAILED
from envsmith.model.check_run import CheckRun
from envsmith.model.findings import Finding, Fix, describe_gap
from envsmith.model.rates import RateJudgement, called, rate_text
from envsmith.report.check_text import skipped_by_reason
from envsmith.report.console import clean
from envsmith.report.headline import headline
from envsmith.validator.cluster.report import report_lines
from envsmith.wire.results import PASS, SKIP, CheckResult

# What CommonMark or GitHub's dialect gives a meaning anywhere in a line, and at its beginning.
_MARKUP = re.compile(r"[\\`*_\[\]#~$&<>@|]|^[-+=]")
_LIST_NUMBER = re.compile(r"^(\d+)([.)])")
# Not with a backslash: HTML, "@name", which calls people on GitHub, and what cuts the cells of a table.
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;", "|": "&#124;"}
_MARKS = {CERTIFIED: "✅", FAILED: "❌"}


def markdown(run: CheckRun) -> str:
    """The document of a run: verdict first, then findings, checks, rates, and what was not looked at."""
    mark = _MARKS.get(run.verdict.status, "⚠️")
    parts = [f"## {mark} {escape(run.verdict.status)}: {escape(run.subject)}", escape(run.verdict.reason)]
    for finding in run.diagnosis.findings:
        parts += _finding(finding)
    if run.report.results:
        parts += ["### Checks", *_checks(run.report.results)]
        parts += [part for result in run.report.results if result.status != PASS for part in _last_words(result)]
    if run.report.cluster:
        parts += ["### Nodes", fenced(report_lines(run.report.cluster))]
    if run.rates:
        parts += ["### Rates", _rates(run.rates)]
    unseen = [describe_gap(gap) for gap in run.report.snapshot.gaps]
    if unseen:
        parts += ["### Not looked at", "\n".join(f"- {escape(text)}" for text in unseen)]
    return "\n\n".join(parts) + "\n"


def print_markdown(run: CheckRun) -> None:
    """Print the one document of a run."""
    print(markdown(run), end="")


def escape(text: str) -> str:
    """One line of others' text that renders as the characters it has, in a paragraph and in a cell of a table."""
    escaped = _MARKUP.sub(lambda found: _ENTITIES.get(found[0], "\\" + found[0]), clean(text).strip())
    return _LIST_NUMBER.sub(r"\1\\\2", escaped)


def fenced(lines: Iterable[str], language: str = "") -> str:
    """A code block of cleaned lines, whose fence is longer than any run of backticks in it."""
    body = [clean(line) for line in lines]
    longest = max((len(found) for line in body for found in re.findall(r"`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([fence + language, *body, fence])


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table of cells that are escaped already."""
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _finding(finding: Finding) -> list[str]:
    because = f" (because of {escape(', '.join(finding.because_of))})" if finding.because_of else ""
    parts = [f"### {finding.severity.name} {escape(finding.rule)}{because}", f"**{escape(finding.summary)}**"]
    facts = [(escape(fact.fact), escape(fact.value), escape(fact.expected)) for fact in finding.evidence]
    if facts:
        parts.append(_table(("Fact", "Seen", "Expected"), facts))
    for number, fix in enumerate(filter(None, (finding.fix, *finding.other_fixes))):
        parts += _fix(fix, "Or" if number else "Fix")
    return parts


def _fix(fix: Fix, label: str) -> list[str]:
    needs = [word for word, needed in (("root", fix.needs_root), ("a reboot", fix.needs_reboot)) if needed]
    note = f" (needs {' and '.join(needs)})" if needs else ""
    return [f"{label}: {escape(fix.text)}{note}", *([fenced(fix.commands, "sh")] if fix.commands else [])]


def _checks(results: Iterable[CheckResult]) -> list[str]:
    """What ran as a table, then what was skipped, by reason."""
    results = tuple(results)
    rows = [
        (
            escape(result.status),
            escape(result.title),
            f"{result.seconds:.1f} s",
            escape("; ".join(filter(None, (headline(result) if result.status == PASS else "", result.message)))),
        )
        for result in results
        if result.status != SKIP
    ]
    skipped = "\n".join(
        f"- skipped: {escape('; '.join(titles))}: {escape(reason)}"
        for reason, titles in skipped_by_reason(results).items()
    )
    return [*([_table(("Status", "Check", "Time", "Result"), rows)] if rows else []), *([skipped] if skipped else [])]


def _last_words(result: CheckResult) -> list[str]:
    """The last lines that a check printed before it failed."""
    return [f"Last lines of {escape(result.title)}:", fenced(result.log_tail)] if result.log_tail else []


def _rates(rates: Iterable[RateJudgement]) -> str:
    rows = [
        (
            escape(rate.status),
            escape(called(rate.quantity)),
            escape(rate.device),
            escape(rate_text(rate.measured, rate.unit)),
            escape(rate.reason),
        )
        for rate in rates
    ]
    return _table(("Judgement", "Rate", "GPU", "Measured", "Why"), rows)
