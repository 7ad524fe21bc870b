"""What rank 0 makes of all that the ranks have said: pure functions over plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import Any, Mapping, Sequence

from envsmith.validator.cluster.facts import bounded, describe, differences
from envsmith.validator.cluster.launch import Place
from envsmith.validator.cluster.ranges import name_ranks
from envsmith.validator.cluster.roles import NCCL, Role
from envsmith.validator.cluster.slowness import Times, blame, slow_links, slow_ranks
from envsmith.validator.text import one_message
from envsmith.wire.results import (
    FAIL,
    PASS,
    SKIP,
    TIMEOUT,
    CheckResult,
    ClusterReport,
    FactDifference,
    Metric,
    RankReport,
)

CLUSTER = "cluster"
_TITLE = "All nodes agree and work together"
_NAMED_MAX = 8
WAITED, MISSING, DIED = "waited", "missing", "died"


@dataclass(frozen=True)
class Said:
    """All that came to rank 0, by rank. absent: why nothing came, "missing" or "died", and `step`: what was waited for.

    arrivals: see member.py. results: what the checks of one machine came to. work: what the collective came to, a list
    with an entry for each of the rank's own ranks there.
    """

    arrivals: Mapping[int, Any]
    absent: Mapping[int, str] = field(default_factory=dict)
    step: str = ""
    roles: Mapping[int, Role] = field(default_factory=dict)
    backend: str = ""
    results: Mapping[int, Any] = field(default_factory=dict)
    work: Mapping[int, Any] = field(default_factory=dict)


def judge(place: Place, said: Said) -> ClusterReport:
    """The report of the whole."""
    hosts = {rank: bounded(arrival["host"]) for rank, arrival in said.arrivals.items()}
    differ = differences({rank: arrival["facts"] for rank, arrival in said.arrivals.items()})
    wrong, hung = _wrong_in_work(said, hosts)
    slow = _slow(said, hosts) if not (wrong or hung or said.absent) else ()
    problems = [
        *_absent(said, hosts),
        *_named([describe(one) for one in differ if one.severity == FAIL]),
        *_named([_failed(rank, one, hosts) for rank, one in sorted(said.results.items()) if one["status"] == FAIL]),
        *_named(wrong),
    ]
    status = FAIL if problems else TIMEOUT if hung else PASS
    text = "; ".join([*problems, *_named(hung)]) or _praise(place, said)
    return ClusterReport(
        launcher=place.launcher,
        rank=place.rank,
        world=place.world,
        master=f"{place.address}:{place.port}",
        status=status,
        message=one_message("; ".join([text, *_remarks(differ, slow)])),
        ranks=tuple(_rank_report(rank, said, hosts) for rank in range(place.world)),
        differences=differ,
        slow=slow,
        backend=said.backend,
        metrics=_metrics(said) if status == PASS and said.work else (),
    )


def as_result(report: ClusterReport, seconds: float) -> CheckResult:
    """The report as one more result of the run, by which every way of showing and judging results holds for it."""
    return CheckResult(CLUSTER, _TITLE, report.status, round(seconds, 3), report.message, metrics=report.metrics)


def summary(results: Sequence[CheckResult], gpus: Sequence[str], missing: str) -> dict[str, Any]:
    """What a process tells rank 0 of its checks of one machine. missing: what was required and is not there, or ""."""
    failing = [f"{one.id} ({one.status}): {one.message}" for one in results if one.status not in (PASS, SKIP)]
    told = [bounded(text) for text in [*failing, *([missing] if missing else [])]]
    return {"status": FAIL if told else PASS if results else WAITED, "gpus": list(gpus), "failing": told}


def without_meeting(place: Place, message: str) -> ClusterReport:
    """The report of a rank that did not get as far as a verdict of the whole."""
    master = f"{place.address}:{place.port}"
    return ClusterReport(place.launcher, place.rank, place.world, master, FAIL, one_message(message))


def _rank_report(rank: int, said: Said, hosts: Mapping[int, str]) -> RankReport:
    if rank in said.absent:
        return RankReport(rank, hosts.get(rank, ""), said.absent[rank])
    one = said.results.get(rank)
    if one is None:  # it did not come to that
        return RankReport(rank, hosts[rank], WAITED)
    return RankReport(rank, hosts[rank], one["status"], tuple(one["gpus"]), tuple(one["failing"]))


def _absent(said: Said, hosts: Mapping[int, str]) -> list[str]:
    """Who is not there, and who is, so that the host that is missing can be told."""
    missing = [rank for rank, why in said.absent.items() if why == MISSING]
    died = [rank for rank, why in said.absent.items() if why == DIED]
    found = []
    if missing and not said.roles:
        there = ", ".join(f"{rank} ({hosts[rank]})" for rank in sorted(hosts)[:_NAMED_MAX])
        found.append(
            f"{name_ranks(missing, hosts)} never arrived; {len(hosts)} did: {there}"
            + (", ..." if len(hosts) > _NAMED_MAX else "")
        )
    elif missing:
        found.append(f"{name_ranks(missing, hosts)} gave no answer to: {said.step}")
    if died:
        found.append(f"{name_ranks(died, hosts)} died during: {said.step}")
    return found


def _failed(rank: int, result: Mapping[str, Any], hosts: Mapping[int, str]) -> str:
    return f"{name_ranks([rank], hosts)}: {'; '.join(result['failing'])}"


def _named(texts: list[str]) -> list[str]:
    more = len(texts) - _NAMED_MAX
    return texts[:_NAMED_MAX] + ([f"and {more} more"] if more > 0 else [])


def _places(said: Said) -> dict[int, int]:
    """Rank of the collective -> rank of the launch."""
    return {role.first + i: rank for rank, role in said.roles.items() for i in range(role.ranks)}


def _wrong_in_work(said: Said, hosts: Mapping[int, str]) -> tuple[list[str], list[str]]:
    """What went wrong in the collective, and who hung. A rank that died has others hang, so it comes first."""
    wrong, hung = [], []
    for rank, answers in sorted(said.work.items()):
        for answer in answers:
            who = name_ranks([rank], hosts) + (f" GPU {answer['local']}" if len(answers) > 1 else "")
            if answer["timed_out"]:
                hung.append(f"{who} hung while {answer['stage']}")
            elif answer["error"]:
                wrong.append(f"{who} while {answer['stage']}: {answer['error']}")
    return wrong, hung


def _slow(said: Said, hosts: Mapping[int, str]) -> tuple[str, ...]:
    times = {}
    for rank, answers in said.work.items():
        for answer in answers:
            node = said.arrivals[rank]["node"]
            times[answer["rank"]] = Times(answer["kind"], node, answer["work_s"], answer["link_s"])
    places = _places(said)

    def who(number: int) -> str:
        rank = places[number]
        ranks = said.roles[rank].ranks
        return name_ranks([rank], hosts) + (f" GPU {number - said.roles[rank].first}" if ranks > 1 else "")

    ends, links = blame(slow_links(times))
    found = [f"{who(n)} takes {r:.1f} times as long as the others for the same work"
             for n, r in sorted(slow_ranks(times).items())]  # fmt: skip
    found += [f"messages of {who(n)} to its neighbours and back take {r:.1f} times as long as those of others"
              for n, r in sorted(ends.items())]  # fmt: skip
    found += [f"messages between {who(a)} and {who(b)} take {r:.1f} times as long as those of other links"
              for (a, b), r in sorted(links.items())]  # fmt: skip
    return tuple(found)


def _praise(place: Place, said: Said) -> str:
    nodes = len({arrival["node"] for arrival in said.arrivals.values()})
    ranks = sum(role.ranks for role in said.roles.values())
    on = f"{ranks} GPUs" if said.backend == NCCL else f"{ranks} processes (gloo; no GPU was used)"
    return f"every sum right over {on} on {nodes} nodes, started by {place.launcher}"


def _remarks(differ: tuple[FactDifference, ...], slow: tuple[str, ...]) -> list[str]:
    warnings = [one.fact for one in differ if one.severity != FAIL]
    remarks = [f"slow: {text}" for text in _named(list(slow))]
    if warnings:
        remarks.append(f"not alike everywhere: {', '.join(_named(warnings))}")
    return remarks


def _metrics(said: Said) -> tuple[Metric, ...]:
    """Bandwidth by the definition of nccl-tests, with the time of the slowest rank."""
    answers = [answer for rank in said.work for answer in said.work[rank]]
    ranks, size_bytes = len(answers), answers[0]["size_bytes"]
    seconds = max(median(answer["all_reduce_s"]) for answer in answers)
    algorithm = size_bytes / seconds / 1e9
    return (
        Metric("ranks", ranks),
        Metric("sum_error_ratio", max(answer["error_ratio"] for answer in answers), 1.0),
        Metric("size_bytes", size_bytes),
        Metric("algorithm_bandwidth_gb_s", round(algorithm, 3)),
        Metric("bus_bandwidth_gb_s", round(algorithm * 2 * (ranks - 1) / ranks, 3)),
    )
