"""Short all-reduces in processes of their own, to find out why one hangs or fails."""

from __future__ import annotations

import os
import re
import socket
import tempfile
import time
from pathlib import Path
from typing import Any, Sequence

from envsmith.validator.nccl import causes
from envsmith.validator.nccl.causes import Outcome, Probe, Situation
from envsmith.validator.nccl.seat import Seat, seated
from envsmith.validator.nccl.settings import interface_problem, user_settings
from envsmith.validator.nccl.witness import remove, segments
from envsmith.validator.ranks import RankAnswer, Stage, run_ranks

# Making contexts and meeting takes 1 to 5 s, the sums themselves nothing.
PROBE_LIMIT_S = 15.0
_GRACE_S = 2.0
_LARGE_BYTES = 32 << 20
_SMALL_STAGE, _LARGE_STAGE = "summing a small message", "summing a large message"
_ERROR = re.compile(r"^[\w.]*(?:Error|Exception)\b")
_ERROR_LENGTH_MAX = 300


def situation(gpu_count: int, behind: str) -> Situation:
    """What can be known of the machine without a probe."""
    settings = user_settings(os.environ)
    interfaces = [name for _, name in socket.if_nameindex()]
    return Situation(
        gpu_count=gpu_count,
        settings=settings,
        interface_problem=interface_problem(settings.get("NCCL_SOCKET_IFNAME"), interfaces),
        shm_bytes=_size_of_shm(),
        behind=behind,
    )


def _size_of_shm() -> int | None:
    try:
        found = os.statvfs("/dev/shm")  # noqa: S108 - asked for its size only
    except OSError:
        return None
    return found.f_frsize * found.f_blocks


def investigate(torch: Any, where: Situation, scratch: str, deadline: float) -> list[Outcome]:
    """Run probes until they tell the cause, or until `deadline` of time.monotonic() leaves no time for another."""
    outcomes: list[Outcome] = []
    while time.monotonic() + PROBE_LIMIT_S < deadline:
        probe = causes.next_probe(where, outcomes)
        if probe is None:
            break
        outcomes += run_probe(torch, probe, scratch)
    return outcomes


def run_probe(torch: Any, probe: Probe, scratch: str) -> list[Outcome]:
    """Run one probe; an outcome a team."""
    folder = Path(tempfile.mkdtemp(prefix="probe-", dir=scratch))
    seats = [
        Seat(rank, len(team), gpu, folder, f"team{number}", probe.settings)
        for number, team in enumerate(probe.teams)
        for rank, gpu in enumerate(team)
    ]
    left: set[str] = set()
    # when one has died, its team waits for it for ever, but other teams are to go on
    grace_s = _GRACE_S if len(probe.teams) == 1 else PROBE_LIMIT_S
    answers = run_ranks(
        lambda number, stage: _sum(torch, seats[number], stage), len(seats), PROBE_LIMIT_S, str(folder),
        last_look=lambda pids: left.update(segments(pids)), grace_s=grace_s,
    )  # fmt: skip
    remove(left)
    return [
        _outcome(probe, team, [a for a, seat in zip(answers, seats) if seat.name == f"team{number}"])
        for number, team in enumerate(probe.teams)
    ]


def _sum(torch: Any, seat: Seat, stage: Stage) -> bool:
    with seated(torch, seat, stage) as place:
        for what, count in ((_SMALL_STAGE, 1), (_LARGE_STAGE, _LARGE_BYTES // 8)):
            stage(what)
            data = torch.full((count,), 1 + seat.rank, dtype=torch.int64, device=place)
            torch.distributed.all_reduce(data)
            if not bool((data == seat.world * (seat.world + 1) // 2).all()):
                raise ValueError(f"{what} gave a wrong sum")
    return True


def _outcome(probe: Probe, team: tuple[int, ...], answers: Sequence[RankAnswer]) -> Outcome:
    if all(answer.value for answer in answers):
        return Outcome(probe, team, causes.PASSED)
    small_passed = all(answer.value or answer.stage == _LARGE_STAGE for answer in answers)
    errors = [error_of(answer) for answer in answers if not answer.value and not answer.timed_out]
    if errors:
        return Outcome(probe, team, causes.FAILED, errors[0], small_passed)
    hung = next(answer for answer in answers if answer.timed_out)
    early = any(answer.stage in ("starting", "making its CUDA context") for answer in answers if answer.timed_out)
    return Outcome(probe, team, causes.UNSURE if early else causes.HUNG, hung.stage, small_passed)


def error_of(answer: RankAnswer) -> str:
    """Why a rank ended without an answer: its signal, or the error that it raised, with what NCCL said of it."""
    if answer.signal is not None:
        return answer.signal
    lines = list(answer.log_tail)
    starts = [number for number, line in enumerate(lines) if _ERROR.match(line)]
    text = " ".join(" ".join(lines[starts[0] :]).split()) if starts else answer.last_line
    return text[:_ERROR_LENGTH_MAX]


def read_logs(folder: Path) -> list[str]:
    """The debug output of the ranks that left it in the folder."""
    return [path.read_text(encoding="utf-8", errors="replace") for path in sorted(folder.glob("nccl-*.log"))]
