"""Run something over all GPUs, a rank each, in bounded time; when it hangs or fails, find out why."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

from envsmith.validator.check import CheckContext, CheckFailed, CheckSkipped, CheckTimedOut
from envsmith.validator.checks.torch_gpu import require_cuda_build
from envsmith.validator.nccl import causes
from envsmith.validator.nccl.collectives import Group
from envsmith.validator.nccl.log import NcclLog, parse
from envsmith.validator.nccl.probes import error_of, investigate, read_logs, situation
from envsmith.validator.nccl.seat import Seat, seated
from envsmith.validator.nccl.settings import hidden_by
from envsmith.validator.nccl.witness import Record, look, remove, segments
from envsmith.validator.ranks import RankAnswer, Stage, run_ranks
from envsmith.wire.results import Metric

# Of the collectives themselves. The probes that follow when they hang have as long again, and half as much.
COLLECTIVES_LIMIT_S = 60.0
PROBES_LIMIT_S = 150.0
# The limit of a check: both, the last look, and the ending of the ranks.
CHECK_LIMIT_S = COLLECTIVES_LIMIT_S + PROBES_LIMIT_S + 30.0

_WARNINGS_MAX = 5
_LAST_LINES_MAX = 8
# What a rank says when another one has gone: ncclRemoteError, and its sockets' words.
_CONSEQUENCES = ("ncclRemoteError", "remote process", "by remote peer", "by peer", "Broken pipe")

Work = Callable[[Group, Stage], object]


def nccl_torch() -> Any:
    """The torch module. Raises CheckSkipped when it has no NCCL."""
    import torch

    require_cuda_build(torch)
    if not (torch.distributed.is_available() and torch.distributed.is_nccl_available()):
        raise CheckSkipped("this torch was built without NCCL")
    return torch


def run_group(torch: Any, context: CheckContext, work: Work) -> tuple[list[Any], NcclLog]:
    """Fork one rank a GPU and do the work in each; return what each gave, and what NCCL said.

    This process never touches CUDA itself. Raises CheckFailed or CheckTimedOut, with the cause, when a rank dies or
    hangs.
    """
    world = len(context.devices)
    seed = int.from_bytes(os.urandom(6), "little")
    folder = Path(tempfile.mkdtemp(prefix="ranks-", dir=context.scratch))
    seen: dict[int, tuple[str, Record | None]] = {}

    def rank_body(rank: int, stage: Stage) -> object:
        with seated(torch, Seat(rank, world, rank, folder), stage, witness=rank) as place:
            return {"value": work(Group(torch, rank, world, place, seed), stage)}

    left: set[str] = set()

    def last_look(pids: dict[int, int]) -> None:
        seen.update(look(pids, folder))
        left.update(segments(pids))

    answers = run_ranks(rank_body, world, COLLECTIVES_LIMIT_S, str(folder), last_look=last_look)
    remove(left)
    log = parse(read_logs(folder))
    if any(answer.value is None for answer in answers):
        _explain(torch, context, answers, seen, log)
    return [answer.value["value"] for answer in answers], log


def told_transport(log: NcclLog) -> str:
    """The transport that NCCL names, or "unknown: " and why it does not."""
    hidden = hidden_by(os.environ)
    return f"unknown: {hidden} is set here" if hidden else log.transport


def told_choice(log: NcclLog, collective: str, size_bytes: int) -> tuple[Metric, Metric]:
    """Algorithm and protocol of a collective of that size, each "unknown: " and why where NCCL does not tell."""
    hidden = hidden_by(os.environ)
    choice = None if hidden else log.choice(collective, size_bytes)
    if choice is None:
        why = f"{hidden} is set here" if hidden else f"NCCL {log.version or ''} does not tell it".replace("  ", " ")
        return Metric("algorithm", f"unknown: {why}"), Metric("protocol", f"unknown: {why}")
    return Metric("algorithm", choice.algorithm), Metric("protocol", choice.protocol)


def _explain(
    torch: Any, context: CheckContext, answers: Sequence[RankAnswer], seen: dict[int, tuple[str, Record | None]],
    log: NcclLog,
) -> None:  # fmt: skip
    """Print what the ranks were doing, probe, and raise what was found."""
    deadline = time.monotonic() + PROBES_LIMIT_S
    for rank, (place, _) in seen.items():
        _note(f"rank {rank}: {place}")
    if log.settings:
        _note(f"in force, by NCCL: {' '.join(f'{name}={value}' for name, value in log.settings.items())}")
    for warning in log.warnings[:_WARNINGS_MAX]:
        _note(f"NCCL WARN {warning}")
    what = describe(answers)
    died = sorted((a for a in answers if a.value is None and not a.timed_out), key=_distance_from_the_root)
    for answer in died[:1]:
        for line in answer.log_tail[-_LAST_LINES_MAX:]:
            _note(f"rank {answer.rank} printed: {line}")
    cause = causes.known_cause([*log.warnings, *(error_of(answer) for answer in died)])
    if cause is None and any(answer.signal == "SIGKILL" for answer in died):
        cause = "a rank was killed from outside: look for the out-of-memory killer in `dmesg`, and at the memory limit"
    if cause is None:
        where = situation(len(context.devices), describe_progress({rank: record for rank, (_, record) in seen.items()}))
        outcomes = investigate(torch, where, context.scratch, deadline)
        for outcome in outcomes:
            gpus = "+".join(f"cuda:{gpu}" for gpu in outcome.team)
            _note(f"probe on {gpus}, {outcome.probe}: {outcome.status} {outcome.detail}".rstrip())
        cause = causes.conclude(where, outcomes)
    if log.warnings and died and log.warnings[-1] not in f"{cause} {what}":
        what += f". NCCL said: {log.warnings[-1]}"
    failure = CheckFailed if died else CheckTimedOut
    raise failure(f"{cause}. What happened: {what}", (Metric("ranks", len(answers)),))


def _note(line: str) -> None:
    """Write into the check's log: its standard output."""
    sys.stdout.write(f"{line}\n")


def describe(answers: Sequence[RankAnswer]) -> str:
    """What became of the ranks that gave no answer, those first that the others only waited for or lost."""
    said: dict[str, list[str]] = {}
    lost = sorted((answer for answer in answers if answer.value is None), key=_distance_from_the_root)
    for answer in lost:
        how = "hung" if answer.timed_out else "failed" if answer.signal is None else "died"
        why = "" if answer.timed_out else f": {error_of(answer)}"
        said.setdefault(f"{how} while {answer.stage}{why}", []).append(str(answer.rank))
    parts = [f"rank{'s' if len(ranks) > 1 else ''} {', '.join(ranks)} {what}" for what, ranks in said.items()]
    only_hung = all(answer.timed_out for answer in lost)
    return "; ".join([*([f"after {COLLECTIVES_LIMIT_S:g} s"] if only_hung else []), *parts])


def _distance_from_the_root(answer: RankAnswer) -> tuple[bool, bool, bool, int]:
    """A key by which what began it comes first: a signal, then an error, then one for want of another rank, a hang."""
    follows = answer.signal is None and any(words in error_of(answer) for words in _CONSEQUENCES)
    return answer.timed_out, follows, answer.signal is None, answer.rank


def describe_progress(records: Mapping[int, Record | None]) -> str:
    """Which rank is behind, by the flight recorders of those that hang; "" when they do not tell."""
    known = {rank: record for rank, record in records.items() if record is not None}
    if len(known) < 2:
        return ""
    first, last = (pick(record.called for record in known.values()) for pick in (min, max))
    if first == last:
        return f"all ranks had called collective {last} ({next(iter(known.values())).last}), so it hung in the transfer"
    ahead = next(record for record in known.values() if record.called == last)
    behind = ", ".join(f"rank {rank}" for rank, record in known.items() if record.called < last)
    return f"{behind} never called collective {first + 1}, while others wait in collective {last} ({ahead.last})"
