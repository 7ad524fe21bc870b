"""How a run of checks becomes one of several nodes: what comes before and after it."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import replace
from typing import ContextManager

from envsmith.validator.cluster.facts import machine_facts
from envsmith.validator.cluster.launch import LAUNCHER_VARIABLES, Place
from envsmith.validator.cluster.member import Member
from envsmith.validator.cluster.verdict import as_result, summary
from envsmith.validator.supervise import Supervisor
from envsmith.wire.facts import Snapshot
from envsmith.wire.results import PASS, ClusterReport, ValidationReport

# For rank 0 to print its report and write its files.
_LINGER_S = 10.0


def joined(place: Place | None, limit_s: float) -> ContextManager[Member | None]:
    """Begin to join the others; to be entered before anything else is started. Raises OSError; see Member.

    The checks of one machine are that, so what the launcher says of its processes is taken out of this one's variables.
    """
    if place is None:
        return contextlib.nullcontext()
    for name in LAUNCHER_VARIABLES:
        os.environ.pop(name, None)
    return Member(place, limit_s)


def take_up(member: Member, tool: str, snapshot: Snapshot, supervisor: Supervisor) -> bool:
    """Meet the others; return whether this process is to run checks, on the GPUs that are left to it then."""
    role = member.arrive(machine_facts(tool, snapshot), supervisor.devices)
    if role is None or not role.checks:
        return False
    if role.owned:
        supervisor.choose_devices([str(position) for position in role.owned])
    return True


def conclude(member: Member, report: ValidationReport, missing: str) -> ValidationReport:
    """The report with what all nodes came to. missing: what was required of this process and is not there, or ""."""
    started = time.monotonic()
    cluster = member.finish(summary(report.results, report.gpus if report.results else (), missing))
    took = time.monotonic() - started
    return replace(
        report,
        seconds=round(report.seconds + took, 3),
        results=(*report.results, as_result(cluster, took)),
        proved_compute_capabilities=report.proved_compute_capabilities if cluster.status == PASS else (),
        cluster=cluster,
    )


def end(cluster: ClusterReport) -> bool:
    """Return whether the whole passed. Where it did not, who does not report first gives rank 0 the time to.

    At the first process that fails torchrun ends all others, and so do srun, where it is set up so, and a Job.
    """
    if cluster.status != PASS and cluster.rank != 0:
        time.sleep(_LINGER_S)
    return cluster.status == PASS
