"""A whole run over ranks that hang, die and fail, and its probes: real processes, with a group that needs no GPU."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from envsmith.validator.check import CheckContext, CheckFailed, CheckTimedOut
from envsmith.validator.devices import Device
from envsmith.validator.nccl import probes, run
from envsmith.validator.nccl.causes import Probe
from envsmith.validator.nccl.collectives import Group
from envsmith.validator.nccl.run import run_group
from envsmith.validator.nccl.seat import Seat
from envsmith.validator.nccl.witness import arm
from envsmith.validator.ranks import Stage
from tests.unit.validator import toys

STAGE = "in collective 7, all-reduce of int64 (3 elements)"


def torch_that_recorded(called: int) -> Any:
    entries = [
        {"collective_seq_id": number, "profiling_name": "nccl:all_reduce", "state": "completed"}
        for number in range(1, called + 1)
    ]
    recorder = SimpleNamespace(_dump_nccl_trace_json=lambda: json.dumps({"entries": entries}).encode())
    return SimpleNamespace(__version__="2.11.0", _C=SimpleNamespace(_distributed_c10d=recorder))


@contextlib.contextmanager
def seated(torch: Any, seat: Seat, stage: Stage, witness: int | None = None) -> Iterator[None]:
    """As the real one, without CUDA and a group: rank 0 is one collective behind."""
    del torch
    if witness is not None:
        arm(torch_that_recorded(6 + min(seat.rank, 1)), witness, seat.folder, {})
    seat.log_file.write_text(f"vm:1:1 [{seat.rank}] NCCL INFO NCCL_PROTO set by environment to LL\n")
    stage(STAGE)
    yield None


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CheckContext:
    for name in [name for name in os.environ if name.startswith("NCCL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(run, "seated", seated)
    monkeypatch.setattr(probes, "_sum", lambda torch, seat, stage: True)
    devices = tuple(Device(index, "NVIDIA X", "9.0", str(index)) for index in range(2))
    return CheckContext(devices, None, None, str(tmp_path))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """For runs that hang: as long as a busy machine needs to start a process."""
    monkeypatch.setattr(run, "COLLECTIVES_LIMIT_S", 3.0)
    monkeypatch.setattr(probes, "PROBE_LIMIT_S", 4.0)


def forever() -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def test_good_ranks_give_their_values_and_what_nccl_said(context: CheckContext) -> None:
    values, log = run_group(None, context, lambda group, stage: group.rank * 10)
    assert values == [0, 10]
    assert log.settings == {"NCCL_PROTO": "LL"}


def test_the_rank_that_never_came_is_named_with_its_stack(
    context: CheckContext, impatient: None, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(group: Group, stage: Stage) -> None:
        forever()

    with pytest.raises(CheckTimedOut) as caught:
        run_group(None, context, work)
    assert caught.value.message == (
        "rank 0 never called collective 7, while others wait in collective 7 (all_reduce); with nothing changed, the "
        "same GPUs pass an all-reduce in new processes: NCCL and the links work. What happened: after 3 s; "
        f"ranks 0, 1 hung while {STAGE}"
    )
    log = capsys.readouterr().out.splitlines()
    assert log[0].startswith("rank 0: process ")
    assert " in forever (test_nccl_faults.py:" in log[0]
    assert " < work (test_nccl_faults.py:" in log[1]
    assert log[2:] == ["in force, by NCCL: NCCL_PROTO=LL", "probe on cuda:0+cuda:1, nothing changed: passed"]


def test_a_killed_rank_needs_no_probe(context: CheckContext, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(group: Group, stage: Stage) -> None:
        if group.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        forever()

    monkeypatch.setattr(run, "investigate", None)
    with pytest.raises(
        CheckFailed, match=f"rank 1 died while {STAGE}: SIGKILL; rank 0 hung".replace("(", r"\(").replace(")", r"\)")
    ) as caught:
        run_group(None, context, work)
    assert not isinstance(caught.value, CheckTimedOut)
    assert caught.value.message.startswith("a rank was killed from outside")


def test_an_error_of_nccls_is_told_with_its_warning(context: CheckContext, capsys: pytest.CaptureFixture[str]) -> None:
    def work(group: Group, stage: Stage) -> None:
        folder = next(Path(context.scratch).glob("ranks-*"))
        with (folder / f"nccl-all-{group.rank}.log").open("a") as log:
            log.write("\nvm:1:1 [0] init.cc:1 NCCL WARN Mismatched NCCL version detected : rank 0 version 2\n")
        raise RuntimeError("NCCL error in: x.cpp:1, invalid usage")

    with pytest.raises(CheckFailed) as caught:
        run_group(None, context, work)
    assert caught.value.message == (
        "the ranks use different versions of NCCL: Mismatched NCCL version detected : rank 0 version 2. What happened: "
        f"ranks 0, 1 failed while {STAGE}: RuntimeError: NCCL error in: x.cpp:1, invalid usage"
    )
    assert "NCCL WARN Mismatched NCCL version detected : rank 0 version 2" in capsys.readouterr().out


def test_probes_find_what_the_run_does_not_tell(
    context: CheckContext, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def probe(torch: Any, seat: Seat, stage: Stage) -> bool:
        if seat.settings.get("NCCL_P2P_DISABLE") != "1" and seat.rank == 1:
            stage(probes._LARGE_STAGE)
            time.sleep(toys.FOREVER_S)
        return True

    def work(group: Group, stage: Stage) -> None:
        if group.rank == 1:
            forever()

    monkeypatch.setattr(probes, "_sum", probe)
    with pytest.raises(CheckTimedOut) as caught:
        run_group(None, context, work)
    assert caught.value.message.startswith(
        "P2P between cuda:0 and cuda:1 does not work: the all-reduce passes with NCCL_P2P_DISABLE=1 (with nothing "
        "changed, small messages pass and large ones do not). Look at PCIe ACS"
    )
    assert caught.value.message.endswith(f"after 3 s; rank 1 hung while {STAGE}")


def test_teams_of_a_probe_do_not_wait_for_each_other(context: CheckContext, monkeypatch: pytest.MonkeyPatch) -> None:
    def probe(torch: Any, seat: Seat, stage: Stage) -> bool:
        if seat.gpu == 3:
            raise RuntimeError("gone")
        time.sleep(0.5)
        return True

    monkeypatch.setattr(probes, "_sum", probe)
    found = probes.run_probe(None, Probe({}, ((0, 1), (2, 3))), context.scratch)
    assert [(outcome.team, outcome.status) for outcome in found] == [((0, 1), "passed"), ((2, 3), "failed")]
    assert found[1].detail == "RuntimeError: gone"
