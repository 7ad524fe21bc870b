"""JUnit XML of a check, for CI systems: one testsuite, with a testcase for each check, rule and judged rate.

Elements and attributes are those that the schemas of Jenkins' xunit plugin (junit-10.xsd) and of Maven Surefire
(surefire-test-report.xsd) share, in their order. Only errors fail: a warning is a passed test that says what was found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from envsmith.model.check_run import CheckRun
from envsmith.model.findings import Finding, Outcome, Severity
from envsmith.model.rates import GOOD, LOW, RateJudgement
from envsmith.model.verdict import describe_rate
from envsmith.report.headline import headline
from envsmith.wire.results import FAIL, PASS, SKIP, CheckResult

# What XML 1.0 can hold (production Char), less the C1 controls that it discourages and terminals obey.
_ILLEGAL = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_FAILURE = "failure"
_ERROR = "error"
_SKIPPED = "skipped"


@dataclass(frozen=True)
class _Case:
    """One testcase. outcome: "failure", "error", "skipped" or "" for passed. kind: what it failed of, in a word."""

    classname: str
    name: str
    seconds: float = 0.0
    outcome: str = ""
    kind: str = ""
    message: str = ""
    output: str = ""


def junit(run: CheckRun) -> str:
    """The XML document of a run."""
    cases = [
        *(_check_case(result) for result in run.report.results),
        *(_rule_case(outcome) for outcome in run.diagnosis.outcomes),
        *(_rate_case(rate) for rate in run.rates),
    ]
    counts = {outcome: sum(case.outcome == outcome for case in cases) for outcome in (_FAILURE, _ERROR, _SKIPPED)}
    suite = ET.Element(
        "testsuite",
        name=_legal(f"envsmith check {run.subject}"),
        tests=str(len(cases)),
        failures=str(counts[_FAILURE]),
        errors=str(counts[_ERROR]),
        skipped=str(counts[_SKIPPED]),
        time=f"{run.report.seconds:.3f}",
    )
    properties = ET.SubElement(suite, "properties")
    for name, value in _properties(run):
        ET.SubElement(properties, "property", name=name, value=_legal(value))
    for case in cases:
        _add(suite, case)
    ET.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suite, encoding="unicode") + "\n"


def print_junit(run: CheckRun) -> None:
    """Print the one XML document of a run."""
    print(junit(run), end="")


def _properties(run: CheckRun) -> Iterable[tuple[str, str]]:
    yield "verdict", run.verdict.status
    yield "reason", run.verdict.reason
    yield "tool", run.report.tool
    yield "started_at", run.report.started_at
    if run.report.level:
        yield "level", run.report.level
    for label in run.report.gpus:
        yield "gpu", label


def _check_case(result: CheckResult) -> _Case:
    """A wrong answer is a failure; a crash or a timeout is an error, as the test gave no answer."""
    outcome = {PASS: "", SKIP: _SKIPPED, FAIL: _FAILURE}.get(result.status, _ERROR)
    message = result.message or result.signal or result.status
    numbers = [f"{metric.name} = {metric.value}" for metric in result.metrics]
    said = [headline(result), result.message] if result.status == PASS else []
    output = "\n".join([*filter(None, said), *numbers, *result.log_tail])
    return _Case("envsmith.checks", result.id, result.seconds, outcome, result.status, message, output)


def _rule_case(outcome: Outcome) -> _Case:
    """A finding that is an error fails; a rule that could not look is skipped, a broken one is an error."""
    classname, name = "envsmith.rules", f"{outcome.rule} {outcome.name}"
    output = "\n\n".join(_finding_text(finding) for finding in outcome.findings)
    errors = [finding.summary for finding in outcome.findings if finding.severity == Severity.ERROR]
    if errors:
        return _Case(classname, name, 0.0, _FAILURE, "ERROR", "; ".join(errors), output)
    how = {"skipped": _SKIPPED, "broken": _ERROR}.get(outcome.status, "")
    return _Case(classname, name, 0.0, how, outcome.status, outcome.reason, output)


def _finding_text(finding: Finding) -> str:
    lines = [f"{finding.severity.name}: {finding.summary}"]
    lines += [f"{fact.fact}: {fact.value} (expected: {fact.expected})" for fact in finding.evidence]
    for fix in filter(None, (finding.fix, *finding.other_fixes)):
        lines += [f"fix: {fix.text}", *(f"$ {command}" for command in fix.commands)]
    return "\n".join(lines)


def _rate_case(rate: RateJudgement) -> _Case:
    outcome = {GOOD: "", LOW: _FAILURE}.get(rate.status, _SKIPPED)
    text = describe_rate(rate)
    name = f"{rate.quantity} {rate.device}"
    output = "\n".join(filter(None, (text, rate.basis)))
    return _Case("envsmith.rates", name, 0.0, outcome, rate.status, text, output)


def _add(suite: ET.Element, case: _Case) -> None:
    element = ET.SubElement(
        suite, "testcase", classname=case.classname, name=_legal(case.name), time=f"{case.seconds:.3f}"
    )
    if case.outcome == _SKIPPED:
        ET.SubElement(element, _SKIPPED, message=_legal(case.message))
    elif case.outcome:
        problem = ET.SubElement(element, case.outcome, type=_legal(case.kind), message=_legal(case.message))
        problem.text = _legal(case.message)
    if case.output:
        ET.SubElement(element, "system-out").text = _legal(case.output)


def _legal(text: str) -> str:
    """The text without what XML cannot hold: control characters, lone surrogates, non-characters."""
    return _ILLEGAL.sub("", text)
