"""The part of this process in a check over several nodes: a process beside it has torch and talks to the others.

The process that runs the checks imports no torch, so it talks to the member through files in a folder of theirs:
"arrival" there, "role" back, "results" there; what the member ends with is the report.

main ── member (torch, a client of the store)
          ├── heart (serves the store where this is rank 0; counts up this rank's number)
          └── ranks of the collective
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import tempfile
import time
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Mapping, Sequence

from envsmith.validator.call import Call, call_forked
from envsmith.validator.cluster.collective import Seat, answer_of, take_part
from envsmith.validator.cluster.converse import COLLECTIVE_LIMIT_S, Duties, converse
from envsmith.validator.cluster.facts import bounded, torch_facts
from envsmith.validator.cluster.launch import Place
from envsmith.validator.cluster.meeting import BEAT_S, ClusterProblem, Meeting, first_line
from envsmith.validator.cluster.report import read_report
from envsmith.validator.cluster.roles import NCCL, Role
from envsmith.validator.cluster.verdict import without_meeting
from envsmith.validator.devices import Device
from envsmith.validator.forked import Forked, wait_for_any
from envsmith.validator.ranks import Stage, run_ranks
from envsmith.validator.warden import Ending
from envsmith.wire.results import ClusterReport

_POLL_S = 0.05
_FACTS_LIMIT_S = 60.0
# For one request to the store, which answers at once or is gone.
_REQUEST_LIMIT_S = 60.0
_PREFIX = "envsmith"
_TRY_AGAIN_S = 1.0


class Mailbox:
    """Values under names, in files of a folder, written whole."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def put(self, name: str, value: object) -> None:
        """Lay down a value."""
        unfinished = self._folder / f"{name}.part"
        unfinished.write_text(json.dumps(value, allow_nan=False), encoding="utf-8")
        unfinished.replace(self._folder / name)

    def has(self, name: str) -> bool:
        """Whether a value lies there."""
        return (self._folder / name).exists()

    def get(self, name: str) -> Any:
        """The value, waited for."""
        while not self.has(name):
            time.sleep(_POLL_S)
        return json.loads((self._folder / name).read_text(encoding="utf-8"))


class Member:
    """The member process, as a context manager: leaving it ends all that it started.

    To be entered before any other process is started, so that it is taken for none of theirs. limit_s: see converse.
    Raises OSError when no folder for temporary files can be written.
    """

    def __init__(self, place: Place, limit_s: float) -> None:
        self._place = place
        self._folder = tempfile.mkdtemp(prefix="envsmith-")
        self._box = Mailbox(self._folder)
        self._call = Call(lambda: _live(place, limit_s, self._folder), math.inf, self._folder)
        self._report: ClusterReport | None = None

    def __enter__(self) -> Member:  # noqa: PYI034 - Self came with Python 3.11
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._call.stop()
        while not self._call.ended:
            wait_for_any([self._call.descriptor], _POLL_S)
        shutil.rmtree(self._folder, ignore_errors=True)

    def arrive(self, facts: Mapping[str, str], devices: Sequence[Device]) -> Role | None:
        """Say what is compared and which GPUs are seen; return what to do, None where it came to nothing.

        Waits for all other processes, for as long as the limit is.
        """
        self._box.put("arrival", {"facts": dict(facts), "devices": [asdict(device) for device in devices]})
        while not self._call.ended:
            if self._box.has("role"):
                return Role(**self._box.get("role"))
            wait_for_any([self._call.descriptor], _POLL_S)
        return None

    def finish(self, results: Mapping[str, Any]) -> ClusterReport:
        """Say what the checks came to, take part in the rest and return the report."""
        self._box.put("results", results)
        while not self._call.ended:
            wait_for_any([self._call.descriptor], _POLL_S * 10)
        answer = self._call.answer()
        if isinstance(answer.value, dict):
            return read_report(answer.value)
        return without_meeting(self._place, f"rank {self._place.rank}: its process for this {_how(answer.ending)}")


def _how(ending: Ending) -> str:
    last = ending.refused or " ".join(ending.log_tail[-1:])
    return f"ended by {ending.signal}" if ending.signal else f"ended: {last or 'without a word'}"


def _live(place: Place, limit_s: float, folder: str) -> ClusterReport:
    """The member's life."""
    try:
        return _live_or_raise(place, limit_s, folder)
    except ClusterProblem as problem:
        return without_meeting(place, f"rank {place.rank} ({os.uname().nodename}): {problem}")


def _live_or_raise(place: Place, limit_s: float, folder: str) -> ClusterReport:
    try:
        import torch
    except ImportError as error:
        raise ClusterProblem(f"a check over several nodes needs PyTorch in each process: {error}") from error
    if not torch.distributed.is_available():
        raise ClusterProblem(f"torch {torch.__version__} was built without torch.distributed")
    box = Mailbox(folder)
    heart = Forked(lambda: _beat(torch, place, limit_s, box), None)
    if place.rank == 0:
        while not box.has("serving"):
            if heart.ended:
                last = " ".join(heart.finish().log_tail[-1:])
                raise ClusterProblem(f"no store can be served at port {place.port}: {last} (MASTER_PORT names another)")
            time.sleep(_POLL_S)
    meeting = Meeting(connect(torch, place, limit_s), place.rank, place.world, prefix(place))
    arrival = box.get("arrival")
    devices = tuple(Device(**device) for device in arrival["devices"])
    nccl = torch.version.cuda is not None and torch.distributed.is_nccl_available()
    said = {
        "host": bounded(os.uname().nodename),
        "node": place.node,
        "gpus": [device.uuid or f"{os.uname().nodename}/{device.visible_as}" for device in devices],
        # one process of NCCL can see but one slice, and several slices of a GPU cannot work together
        "nccl": nccl and not any(device.is_slice for device in devices),
        # asked elsewhere: where torch has asked cuDNN for its version, CUDA cannot be used in a forked process
        "facts": {**arrival["facts"], **(call_forked(lambda: torch_facts(torch), _FACTS_LIMIT_S, folder).value or {})},
    }
    duties = Duties(
        checks=lambda role: _checks(box, role),
        work=lambda role, go: _work(torch, (place, role, devices), go, folder),
    )
    return converse(meeting, place, said, duties, limit_s)


def _checks(box: Mailbox, role: Role) -> Any:
    box.put("role", asdict(role))
    return box.get("results")


def prefix(place: Place) -> str:
    """Of the keys of one start of the launch."""
    return f"{_PREFIX}/{place.attempt}"


def connect(torch: Any, place: Place, limit_s: float) -> Any:
    """A client of the store. Raises ClusterProblem when it was not reached within limit_s seconds."""
    deadline = time.monotonic() + limit_s
    while True:
        left = deadline - time.monotonic()
        try:
            store = torch.distributed.TCPStore(
                place.address, place.port, None, False, timedelta(seconds=max(left, 1.0)), wait_for_workers=False
            )
        except (RuntimeError, ValueError) as error:
            if time.monotonic() + _TRY_AGAIN_S > deadline:
                raise ClusterProblem(
                    f"rank 0 was not reached at {place.address}:{place.port} within {limit_s:g} s: {first_line(error)}"
                ) from error
            time.sleep(_TRY_AGAIN_S)  # a name that is not known yet, as of a pod that has not started
            continue
        store.set_timeout(timedelta(seconds=_REQUEST_LIMIT_S))
        return store


def _beat(torch: Any, place: Place, limit_s: float, box: Mailbox) -> None:
    """The heart's life, until its parent's end."""
    if place.rank == 0 and not place.agent_store:
        store = torch.distributed.TCPStore(
            place.address, place.port, None, True, timedelta(seconds=limit_s), wait_for_workers=False
        )
    else:
        with contextlib.suppress(ClusterProblem):  # the member itself says so
            store = connect(torch, place, limit_s)
    box.put("serving", True)
    meeting = Meeting(store, place.rank, place.world, prefix(place))
    while True:
        meeting.beat()
        time.sleep(BEAT_S)


def _work(
    torch: Any, me: tuple[Place, Role, tuple[Device, ...]], go: Mapping[str, Any], folder: str
) -> list[dict[str, Any]]:
    """Run this process's ranks of the collective. me: its place and role, and the devices that it sees."""
    place, role, devices = me
    owned = [devices[i] for i in role.owned]
    seat = Seat(
        rank=role.first,
        world=go["ranks"],
        local=0,
        backend=go["backend"],
        seed=go["seed"],
        limit_s=COLLECTIVE_LIMIT_S,
        visible=",".join(device.visible_as for device in owned) if go["backend"] == NCCL else None,
    )
    seats = [replace(seat, rank=role.first + i, local=i) for i in range(role.ranks)]

    def body(local: int, stage: Stage) -> dict[str, Any]:
        stage("connecting to the store")
        store = torch.distributed.PrefixStore(f"{prefix(place)}/group", connect(torch, place, COLLECTIVE_LIMIT_S))
        store.set_timeout(timedelta(seconds=COLLECTIVE_LIMIT_S))
        return take_part(torch, seats[local], store, stage)

    answers = run_ranks(body, role.ranks, COLLECTIVE_LIMIT_S, folder)
    return [answer_of(answer, seats[answer.rank]) for answer in answers]
