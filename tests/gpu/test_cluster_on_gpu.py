"""A check over several processes with real GPUs and NCCL, started by torchrun and as srun and a Job would start it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from envsmith.portable import bundle

CHECK = ("check", "--only", "cuda-kernel-driver,torch-import,cuda-kernel-torch", "--format", "json")
LIMIT_S = 300
GPUS = sum(path.name[len("nvidia") :].isdigit() for path in Path("/dev").glob("nvidia*"))


@pytest.fixture
def pyz(tmp_path: Path) -> Path:
    path = tmp_path / "envsmith.pyz"
    path.write_bytes(bundle())
    return path


def free_port() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def start(pyz: Path, env: dict[str, str], *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(pyz), *CHECK, *more]
    return subprocess.Popen(
        command, env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def start_all(pyz: Path, envs: list[dict[str, str]]) -> list[tuple[int, str, str]]:
    """Exit status, stdout and stderr of each rank; none is left running."""
    port = free_port()
    common = {"WORLD_SIZE": str(len(envs)), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    running = [start(pyz, {**common, **env}) for env in envs]
    try:
        outputs = [process.communicate(timeout=LIMIT_S) for process in running]
    finally:
        for process in running:
            process.kill()
    return [(process.returncode, *output) for process, output in zip(running, outputs, strict=True)]


def cluster(stdout: str) -> dict[str, Any]:
    return dict(json.loads(stdout)["cluster"])


def test_torchrun_with_two_processes_on_this_machine(pyz: Path) -> None:
    launch = ["-m", "torch.distributed.run", "--nproc-per-node=2", f"--master-port={free_port()}", str(pyz), *CHECK]
    done = subprocess.run([sys.executable, *launch], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    seen = cluster(done.stdout)
    assert (seen["launcher"], seen["status"], seen["backend"]) == ("torchrun", "pass", "nccl"), seen
    # both see all GPUs: the first has them, and one rank of NCCL is on each
    assert [one["status"] for one in seen["ranks"]] == ["pass", "waited"]
    assert len(seen["ranks"][0]["gpus"]) == GPUS
    metrics = {metric["name"]: metric["value"] for metric in seen["metrics"]}
    assert metrics["ranks"] == GPUS
    # in GB/s: between a slow PCIe link and the fastest NVLink there is
    assert GPUS == 1 or 0.5 < metrics["bus_bandwidth_gb_s"] < 2000, metrics
    assert "rank 1 of 2: pass; rank 0 at" in done.stderr
    assert seen["differences"] == []


@pytest.mark.skipif(GPUS < 2, reason="needs two GPUs")
def test_each_process_with_a_gpu_of_its_own_checks_that(pyz: Path) -> None:
    ended = start_all(pyz, [{"RANK": str(rank), "CUDA_VISIBLE_DEVICES": str(rank)} for rank in range(2)])
    assert [status for status, _, _ in ended] == [0, 0], ended
    seen = cluster(ended[0][1])
    assert [(one["status"], len(one["gpus"])) for one in seen["ranks"]] == [("pass", 1), ("pass", 1)]
    assert seen["backend"] == "nccl"
    assert seen["slow"] == [], "two healthy GPUs of one machine"


@pytest.mark.skipif(GPUS < 2, reason="needs two GPUs")
def test_a_setting_of_one_rank_is_a_warning(pyz: Path) -> None:
    envs = [{"RANK": str(rank), "CUDA_VISIBLE_DEVICES": str(rank)} for rank in range(2)]
    envs[1]["NCCL_P2P_LEVEL"] = "SYS"
    ended = start_all(pyz, envs)
    assert [status for status, _, _ in ended] == [0, 0], ended
    (difference,) = cluster(ended[0][1])["differences"]
    assert (difference["fact"], difference["severity"]) == ("NCCL_P2P_LEVEL", "warning")


@pytest.mark.skipif(GPUS < 2, reason="needs two GPUs")
def test_a_rank_without_gpus_is_told_from_those_with(pyz: Path) -> None:
    ended = start_all(pyz, [{"RANK": "0"}, {"RANK": "1", "CUDA_VISIBLE_DEVICES": ""}])
    assert [status for status, _, _ in ended] == [0, 0], ended
    seen = cluster(ended[0][1])
    assert [len(one["gpus"]) for one in seen["ranks"]] == [GPUS, 0]
    assert seen["backend"] == "nccl"


@pytest.mark.skipif(GPUS < 2, reason="needs two GPUs")
def test_a_rank_that_is_killed_is_named(pyz: Path) -> None:
    """Rank 1 is stopped when it has arrived: its heart stands still, and the other does not wait for ever."""
    port = free_port()
    common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    # the longer checks of rank 1 give the time to kill it in their midst
    ranks = [start(pyz, {**common, "RANK": "0", "CUDA_VISIBLE_DEVICES": "0"})]
    slow = [sys.executable, str(pyz), "check", "--level", "stress", "--seconds", "60"]
    env = {**os.environ, **common, "RANK": "1", "CUDA_VISIBLE_DEVICES": "1"}
    ranks.append(subprocess.Popen(slow, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            ranks[0].wait(45)
        ranks[1].kill()
        stdout, stderr = ranks[0].communicate(timeout=120)
    finally:
        for process in ranks:
            process.kill()
            process.communicate()
    assert ranks[0].returncode == 5, stderr
    assert "died during: the checks of one machine" in cluster(stdout)["message"]
