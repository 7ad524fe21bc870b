"""What the processes of a launch say to each other, in its order; rank 0 leads and the others follow.

arrival -> plan -> (checks of one machine) -> results -> go -> (collective) -> work -> verdict -> left
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from typing import Any, Callable, Mapping

from envsmith.validator.cluster.launch import Place
from envsmith.validator.cluster.meeting import Meeting, RankGone
from envsmith.validator.cluster.roles import Role, Seen, assign, backend
from envsmith.validator.cluster.verdict import Said, judge, without_meeting
from envsmith.wire.results import ClusterReport

# For the collective: meeting again, NCCL's start over many hosts, the sums and the timed rounds.
COLLECTIVE_LIMIT_S = 120.0
# More than that for the processes of it to be started and ended.
_GRACE_S = 60.0
_GOODBYE_S = 15.0

CHECKS = "the checks of one machine"
COLLECTIVE = "the collective over all ranks"


@dataclass(frozen=True)
class Duties:
    """What this process does between the words. checks: run those of one machine, by its role, and say what came of it.

    work: take part in the collective, by its role and what rank 0 said; an answer for each of its ranks there.
    """

    checks: Callable[[Role], Mapping[str, Any]]
    work: Callable[[Role, Mapping[str, Any]], object]


def converse(
    meeting: Meeting, place: Place, arrival: Mapping[str, Any], duties: Duties, limit_s: float
) -> ClusterReport:
    """Live through one check. limit_s: how long ranks may lag behind each other, at arrival and after their checks.

    Raises ClusterProblem where no verdict of the whole was to be had.
    """
    meeting.post("arrival", arrival)
    if place.rank == 0:
        report = _lead(meeting, place, duties, limit_s)
        meeting.post("verdict", {"status": report.status, "message": report.message})
        meeting.post("left", None)
        meeting.gather("left", _GOODBYE_S, watch=True)  # the store goes with this process
        return report
    report = _follow(meeting, place, duties, limit_s)
    try:
        meeting.post("left", None)
    except RankGone:  # it had what it wanted to say, and so have we
        pass
    return report


def _follow(meeting: Meeting, place: Place, duties: Duties, limit_s: float) -> ClusterReport:
    plan = meeting.read("plan", limit_s + _GRACE_S)
    if plan is not None:
        role = Role(**plan[str(place.rank)])
        meeting.post("results", duties.checks(role))
        go = meeting.read("go", None)
        if go is not None:
            meeting.post("work", duties.work(role, go))
    verdict = meeting.read("verdict", None)
    return replace(without_meeting(place, verdict["message"]), status=verdict["status"])


def _lead(meeting: Meeting, place: Place, duties: Duties, limit_s: float) -> ClusterReport:
    arrivals, absent = meeting.gather("arrival", limit_s, watch=False)
    said = Said(arrivals, absent)
    if absent:
        meeting.post("plan", None)
        return judge(place, said)
    seen = {rank: Seen(one["node"], tuple(one["gpus"]), one["nccl"]) for rank, one in arrivals.items()}
    roles = assign(seen)
    said = replace(said, roles=roles, backend=backend(seen))
    meeting.post("plan", {str(rank): asdict(role) for rank, role in roles.items()})

    meeting.post("results", duties.checks(roles[0]))
    results, absent = meeting.gather("results", limit_s, watch=True)
    said = replace(said, results=results, absent=absent, step=CHECKS)
    if absent:
        meeting.post("go", None)
        return judge(place, said)
    go = {
        "backend": said.backend,
        "ranks": sum(role.ranks for role in roles.values()),
        "seed": int.from_bytes(os.urandom(6), "little"),
    }
    meeting.post("go", go)
    meeting.post("work", duties.work(roles[0], go))
    work, absent = meeting.gather("work", COLLECTIVE_LIMIT_S + _GRACE_S, watch=True)
    return judge(place, replace(said, work=work, absent=absent, step=COLLECTIVE))
