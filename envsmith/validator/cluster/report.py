"""The report of a check over several nodes: read back from the member's answer, and put in words."""

from __future__ import annotations

from typing import Any, Mapping

from envsmith.validator.cluster.facts import describe
from envsmith.wire.results import ClusterReport, FactDifference, FactValue, Metric, RankReport


def read_report(value: Mapping[str, Any]) -> ClusterReport:
    """The report that to_plain has made plain."""
    fields = dict(value)
    fields["ranks"] = tuple(
        RankReport(**{**one, "gpus": tuple(one["gpus"]), "failing": tuple(one["failing"])}) for one in value["ranks"]
    )
    fields["differences"] = tuple(
        FactDifference(one["fact"], one["severity"], tuple(FactValue(**said) for said in one["values"]))
        for one in value["differences"]
    )
    fields["slow"] = tuple(value["slow"])
    fields["metrics"] = tuple(Metric(**metric) for metric in value["metrics"])
    return ClusterReport(**fields)


def report_lines(report: ClusterReport) -> tuple[str, ...]:
    """What rank 0 prints of the nodes: a line a process, a difference and a slow rank or link."""
    lines = [f"{report.world} processes started by {report.launcher}, meeting at {report.master}"]
    for one in report.ranks:
        where = f"rank {one.rank}" + (f" on {one.host}" if one.host else "")
        what = ", ".join(one.gpus)
        lines.append(f"{one.status:7} {where}" + (f": {what}" if what else ""))
        lines += [f"        | {text}" for text in one.failing]
    lines += [f"{one.severity:7} {describe(one)}" for one in report.differences]
    lines += [f"slow    {text}" for text in report.slow]
    return tuple(lines)


def follower_line(report: ClusterReport) -> str:
    """What a rank other than 0 prints."""
    return f"rank {report.rank} of {report.world}: {report.status}; rank 0 at {report.master} reports: {report.message}"
