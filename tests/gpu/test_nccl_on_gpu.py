"""NCCL on real GPUs: healthy links pass and are measured, and each injected fault is found and named.

Most of it needs two GPUs, and says so with one: there is nobody to wait for then. The verification itself is tried
with gloo on the CPU as well.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from envsmith.validator.check import Check
from envsmith.validator.checks.cuda_kernel_torch import cuda_kernel_torch
from envsmith.validator.checks.nccl_all_reduce import nccl_all_reduce
from envsmith.validator.checks.nccl_bandwidth import nccl_bandwidth
from envsmith.validator.checks.torch_import import torch_import
from envsmith.validator.nccl import collectives, probes, run
from envsmith.validator.nccl.bandwidth import SIZE_BYTES
from envsmith.validator.nccl.collectives import FLOATS, INTEGERS, Case, Group, cases, verify
from envsmith.validator.nccl.log import NVLINK_P2P, PCIE_P2P, SHARED_MEMORY, TRANSPORTS
from envsmith.validator.nccl.seat import Seat, join
from envsmith.validator.ranks import Stage, run_ranks
from envsmith.validator.supervise import Supervisor
from envsmith.wire.results import QUICK, STANDARD, CheckResult

Runner = Any


def run_checks(*checks: Check, level: str = STANDARD) -> tuple[CheckResult, ...]:
    with Supervisor((torch_import, cuda_kernel_torch, *checks), level=level) as supervisor:
        return supervisor.run_all(checks)


def values(result: CheckResult) -> dict[str, Any]:
    return {metric.name: metric.value for metric in result.metrics}


@pytest.fixture(scope="module")
def gpu_count() -> int:
    with Supervisor((torch_import,)) as supervisor:
        return len(supervisor.devices)


@pytest.fixture(scope="module")
def two_gpus(gpu_count: int) -> int:
    if gpu_count < 2:
        pytest.skip("one GPU")
    return gpu_count


@pytest.fixture(scope="module")
def healthy() -> tuple[CheckResult, CheckResult]:
    first, second = run_checks(nccl_all_reduce, nccl_bandwidth)
    return first, second


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time limits of the collectives and of a probe, shorter: those of a machine that is known to be fast."""
    monkeypatch.setattr(run, "COLLECTIVES_LIMIT_S", 12.0)
    monkeypatch.setattr(probes, "PROBE_LIMIT_S", 10.0)


def inject(monkeypatch: pytest.MonkeyPatch, collective: str, fault: Runner) -> None:
    """Run fault(real, group, case, inputs, number) in place of the collective."""
    real = collectives._RUNNERS[collective]
    monkeypatch.setitem(collectives._RUNNERS, collective, lambda *arguments: fault(real, *arguments))


def test_all_collectives_are_right(healthy: tuple[CheckResult, CheckResult], gpu_count: int) -> None:
    result = healthy[0]
    assert result.status == "pass", result
    seen = values(result)
    assert (seen["ranks"], seen["collectives"]) == (gpu_count, 80)
    # one rank sums nothing; the bound is twice that of the worst case
    assert 0 < seen["sum_error_ratio"] < 0.75 if gpu_count > 1 else seen["sum_error_ratio"] == 0
    assert len(result.ran_on) == gpu_count


def test_transport_and_algorithm_are_those_of_nccls_own_output(
    healthy: tuple[CheckResult, CheckResult], two_gpus: int
) -> None:
    result = healthy[1]
    assert result.status == "pass", result
    seen = values(result)
    assert seen["transport"] in TRANSPORTS
    assert seen["transport"] == values(healthy[0])["transport"]
    assert not str(seen["algorithm"]).startswith("unknown")
    assert seen["protocol"] in ("LL", "LL128", "Simple")
    if seen.get("nvlink_links", 0):
        assert seen["transport"] == NVLINK_P2P
        assert 1 <= seen["nvlink_generation"] <= 10
    # between a slow socket and twice the fastest NVLink: a mistaken unit would be off by a thousand
    for name in ("bus_bandwidth_gb_s", "all_gather_bus_bandwidth_gb_s", "reduce_scatter_bus_bandwidth_gb_s"):
        assert 0.05 < seen[name] < 2000
    if two_gpus == 2:
        assert seen["bus_bandwidth_gb_s"] == pytest.approx(seen["algorithm_bandwidth_gb_s"], rel=1e-3)


def test_with_one_gpu_no_link_is_claimed(healthy: tuple[CheckResult, CheckResult], gpu_count: int) -> None:
    if gpu_count > 1:
        pytest.skip("several GPUs")
    assert "1 rank (no link between GPUs was tested)" in healthy[0].message
    assert "transport" not in values(healthy[0])
    assert (healthy[1].status, healthy[1].message) == ("skip", "one GPU: there is no link between GPUs to measure")


def test_quick_is_one_all_reduce() -> None:
    (result,) = run_checks(nccl_all_reduce, level=QUICK)
    assert result.status == "pass", result
    assert values(result)["collectives"] == 1


BARE_LOOP = """
import os, sys, torch, torch.distributed as dist
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
data = torch.randn(int(sys.argv[1]) // 4, device="cuda")
best = 1e9
for window in range(8):
    data.normal_()
    dist.barrier()
    torch.cuda.synchronize()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(16):
        dist.all_reduce(data)
    end.record()
    torch.cuda.synchronize()
    if window:
        best = min(best, start.elapsed_time(end) / 1000 / 16)
if rank == 0:
    print("GB/s", int(sys.argv[1]) / best / 1e9)
dist.destroy_process_group()
"""


def test_the_rate_is_that_of_a_bare_loop(two_gpus: int, tmp_path: Path) -> None:
    script = tmp_path / "bare.py"
    script.write_text(BARE_LOOP, encoding="utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={two_gpus}"]
    done = subprocess.run([*command, str(script), str(SIZE_BYTES)], capture_output=True, text=True, check=True)
    bare = float(done.stdout.split("GB/s")[1].split()[0])
    _, result = run_checks(nccl_all_reduce, nccl_bandwidth)
    assert values(result)["algorithm_bandwidth_gb_s"] == pytest.approx(bare, rel=0.05)


def test_a_deadlock_names_the_rank_that_never_came(
    two_gpus: int, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never_comes(real: Runner, group: Group, *arguments: Any) -> float:
        if group.rank == 0 and arguments[-1] == 7:
            time.sleep(600)
        return float(real(group, *arguments))

    inject(monkeypatch, "reduce-scatter", never_comes)
    (result,) = run_checks(nccl_all_reduce)
    assert result.status == "timeout", result
    assert "rank 0 never called collective 7, while others wait in collective 7" in result.message, result
    assert "with nothing changed, the same GPUs pass an all-reduce in new processes" in result.message
    assert " hung while in collective 7, reduce-scatter of int64 (3 elements)" in result.message
    log = "\n".join(result.log_tail)
    assert "in never_comes (test_nccl_on_gpu.py:" in log
    assert "rank 1: process " in log
    assert "nothing changed: passed" in log


def test_a_rank_that_is_killed_is_named(gpu_count: int, impatient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(real: Runner, group: Group, *arguments: Any) -> float:
        if group.rank == group.world - 1 and arguments[-1] == 6:
            os.kill(os.getpid(), signal.SIGKILL)
        return float(real(group, *arguments))

    inject(monkeypatch, "all-gather", dies)
    (result,) = run_checks(nccl_all_reduce)
    assert result.status == "fail", result
    assert result.message.startswith("a rank was killed from outside")
    assert (
        f"rank {gpu_count - 1} died while in collective 6, all-gather of int64 (3 elements): SIGKILL" in result.message
    )


def test_a_wrong_result_names_the_rank_that_got_it(gpu_count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(real: Runner, group: Group, case: Case, *arguments: Any) -> float:
        dist = group.torch.distributed
        sound = dist.all_reduce

        def one_element_off(tensor: Any) -> None:
            sound(tensor)
            tensor[tensor.numel() // 2] += 1

        if group.rank == group.world - 1 and case.count == 1027:
            dist.all_reduce = one_element_off
        try:
            return float(real(group, case, *arguments))
        finally:
            dist.all_reduce = sound

    inject(monkeypatch, "all-reduce", wrong)
    (result,) = run_checks(nccl_all_reduce)
    assert result.status == "fail", result
    last = gpu_count - 1
    assert result.message.startswith(f"rank {last} on cuda:{last} ")
    assert "all-reduce of int64 (1027 elements): 1 of 1027 elements are wrong (and 4 more)" in result.message
    assert result.seconds < 60  # the others did not wait for it


def test_an_interface_that_is_not_there_is_named(impatient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "nothere0")
    (result,) = run_checks(nccl_all_reduce)
    assert result.status == "fail", result
    assert "NCCL_SOCKET_IFNAME=nothere0 leaves no network interface here: there are lo" in result.message
    assert "without it the all-reduce passes" in result.message


def test_an_algorithm_that_nccl_does_not_know_is_named(
    two_gpus: int, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCCL_ALGO", "nonsense")
    (result,) = run_checks(nccl_all_reduce)
    assert result.status in ("fail", "timeout"), result
    assert "NCCL_ALGO=nonsense breaks it: without it the all-reduce passes" in result.message


def test_the_users_settings_are_in_force_and_show_in_the_transport(
    two_gpus: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCCL_P2P_DISABLE", "1")
    first, second = run_checks(nccl_all_reduce, nccl_bandwidth)
    assert (first.status, second.status) == ("pass", "pass"), (first, second)
    assert values(first)["transport"] == values(second)["transport"] == SHARED_MEMORY
    monkeypatch.delenv("NCCL_P2P_DISABLE")
    monkeypatch.setenv("NCCL_DEBUG", "WARN")
    (result,) = run_checks(nccl_all_reduce)
    assert values(result)["transport"] == "unknown: NCCL_DEBUG=WARN is set here"


def test_p2p_that_does_not_work_is_found_by_probes(
    two_gpus: int, healthy: tuple[CheckResult, CheckResult], impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last GPU hangs in everything that does not turn P2P off, in the check and in its probes."""
    if values(healthy[0])["transport"] not in (NVLINK_P2P, PCIE_P2P):
        pytest.skip("no P2P here")

    def hangs(real: Runner, group: Group, *arguments: Any) -> float:
        if group.rank == group.world - 1:
            time.sleep(600)
        return float(real(group, *arguments))

    def probe(torch: Any, seat: Seat, stage: Stage) -> bool:
        if seat.gpu == two_gpus - 1 and seat.settings.get("NCCL_P2P_DISABLE") != "1":
            stage(probes._SMALL_STAGE)
            time.sleep(600)
        return real_probe(torch, seat, stage)

    real_probe = probes._sum
    monkeypatch.setattr(probes, "_sum", probe)
    inject(monkeypatch, "all-reduce", hangs)
    (result,) = run_checks(nccl_all_reduce)
    assert result.status == "timeout", result
    assert "NCCL_P2P_DISABLE=1 works around it" in result.message
    assert result.message.startswith("P2P " if two_gpus == 2 else f"P2P of cuda:{two_gpus - 1} does not work")


@pytest.mark.parametrize("world", [1, 2, 3])
def test_the_verification_sees_one_wrong_element_and_nothing_else(world: int, tmp_path: Path) -> None:
    import torch

    plan = cases([*INTEGERS, *FLOATS], counts=(1, 3, 1027))

    def body(rank: int, stage: Stage) -> object:
        torch.set_num_threads(1)
        join(torch, Seat(rank, world, rank, tmp_path), "gloo")
        group = Group(torch, rank, world, torch.device("cpu"), seed=77)
        before, _ = verify(group, plan, stage)
        sound = torch.distributed.broadcast

        def off_by_one(tensor: Any, src: int) -> None:
            sound(tensor, src=src)
            tensor[-1] += 1

        if rank == world - 1:
            torch.distributed.broadcast = off_by_one
        after, _ = verify(group, plan, stage)
        return {"before": before, "after": after}

    answers = run_ranks(body, world, 120.0, str(tmp_path))
    assert [answer.value and answer.value["before"] for answer in answers] == [[]] * world, answers
    wrong = [len(answer.value["after"]) for answer in answers]
    assert wrong == [0] * (world - 1) + [15]
