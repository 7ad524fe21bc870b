"""Containers on a network of their own stand for hosts: one check over all of them, as each launcher would start it."""

from __future__ import annotations

import json
import subprocess
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from envsmith.portable import bundle
from tests.docker.conftest import Built, docker

CHECK = ("check", "--only", "torch-import", "--format", "json")
_BUNDLE = "/tmp/envsmith.pyz"
# PyTorch is imported in all containers at once, on as few cores as the machine has.
_LIMIT_S = 400
_PORT = "29500"


@dataclass
class Hosts:
    """Containers of one image on one network, by number."""

    image: str
    bundle: Path
    name: str = field(default_factory=lambda: f"envsmith-test-{uuid.uuid4().hex[:12]}")
    count: int = 0

    def host(self, number: int) -> str:
        return f"{self.name}-{number}"

    def start(self, number: int, env: dict[str, str], command: list[str], *options: str) -> None:
        """Start a host. command: with its program first. options: further ones of `docker create`."""
        name = self.host(number)
        variables = [word for item in env.items() for word in ("--env", "=".join(item))]
        places = ["--network", self.name, "--name", name, "--hostname", name, "--shm-size", "256m"]
        docker("create", *places, *variables, *options, "--entrypoint", command[0], self.image, *command[1:])
        docker("cp", str(self.bundle), f"{name}:{_BUNDLE}")
        docker("start", name)
        self.count += 1

    def wait(self, number: int) -> tuple[int, str, str]:
        """Exit status, stdout and stderr of a host that ends by itself."""
        name = self.host(number)
        status = subprocess.run(
            ["docker", "wait", name], capture_output=True, text=True, check=True, timeout=_LIMIT_S
        ).stdout
        logs = subprocess.run(["docker", "logs", name], capture_output=True, text=True, check=True)
        return int(status), logs.stdout, logs.stderr


@pytest.fixture
def hosts(torch_image: Built, tmp_path: Path) -> Iterator[Hosts]:
    path = tmp_path / "envsmith.pyz"
    path.write_bytes(bundle())
    path.chmod(0o755)
    made = Hosts(torch_image.reference, path)
    docker("network", "create", made.name)
    try:
        yield made
    finally:
        for name in docker("ps", "--all", "--format", "{{.Names}}", "--filter", f"name={made.name}-").split():
            docker("rm", "--force", name)
        docker("network", "rm", made.name)


def slurm(hosts: Hosts, rank: int, world: int) -> dict[str, str]:
    """The variables of one task a node, as srun sets them."""
    return {
        "SLURM_JOB_ID": "4242", "SLURM_STEP_ID": "0", "SLURM_PROCID": str(rank), "SLURM_LOCALID": "0",
        "SLURM_NODEID": str(rank), "SLURM_NTASKS": str(world), "SLURM_STEP_NUM_TASKS": str(world),
        "SLURM_STEP_TASKS_PER_NODE": f"1(x{world})", "SLURM_STEP_NODELIST": f"{hosts.name}-[0-{world - 1}]",
    }  # fmt: skip


def kubernetes(hosts: Hosts, rank: int, world: int) -> dict[str, str]:
    """The variables of a pod of examples/kubernetes/envsmith-check-job.yaml."""
    return {
        "JOB_COMPLETION_INDEX": str(rank), "WORLD_SIZE": str(world), "MASTER_ADDR": hosts.host(0), "MASTER_PORT": _PORT,
    }  # fmt: skip


def bundled(*more: str) -> list[str]:
    return ["python3", _BUNDLE, *CHECK, *more]


def cluster(stdout: str) -> dict[str, Any]:
    return dict(json.loads(stdout)["cluster"])


def test_torchrun_with_two_processes_a_host(hosts: Hosts) -> None:
    for node in (1, 0):
        launch = ["torchrun", "--nnodes", "2", "--node-rank", str(node), "--nproc-per-node", "2"]
        where = ["--master-addr", hosts.host(0), "--master-port", _PORT, _BUNDLE]
        hosts.start(node, {"OMP_NUM_THREADS": "1"}, [*launch, *where, *CHECK])
    (status, stdout, stderr), (other_status, other, other_stderr) = hosts.wait(0), hosts.wait(1)
    assert (status, other_status) == (0, 0), stderr + other_stderr
    seen = cluster(stdout)
    assert (seen["launcher"], seen["world"], seen["status"], seen["backend"]) == ("torchrun", 4, "pass", "gloo")
    # the first process of each host runs its checks, the other one waits for it
    assert [(one["host"], one["status"]) for one in seen["ranks"]] == [
        (hosts.host(0), "pass"), (hosts.host(0), "waited"), (hosts.host(1), "pass"), (hosts.host(1), "waited"),
    ]  # fmt: skip
    assert other == ""
    assert f"rank 2 of 4: pass; rank 0 at {hosts.host(0)}:{_PORT} reports: every sum right" in other_stderr


def test_rank_0_reports_before_torchrun_ends_all_for_a_failure(hosts: Hosts) -> None:
    """Both processes fail; torchrun sends SIGTERM to the other one as soon as it sees the first."""
    launch = ["torchrun", "--nproc-per-node", "2", _BUNDLE, "check", "--only", "torch-import,torch-matches"]
    hosts.start(0, {"OMP_NUM_THREADS": "1"}, [*launch, "--expect", '{"wheel": "1.0.0+cu999"}', "--format", "json"])
    status, stdout, stderr = hosts.wait(0)
    assert status != 0
    seen = cluster(stdout)
    assert seen["status"] == "fail", stderr
    assert seen["message"].startswith(f"rank 0 ({hosts.host(0)}): torch-matches (fail): ")
    assert "rank 1 of 2: fail; rank 0 at" in stderr


def test_srun_names_the_slow_host_and_the_other_setting(hosts: Hosts) -> None:
    hosts.start(1, slurm(hosts, 1, 3), bundled(), "--cpus", "0.1")
    hosts.start(2, {**slurm(hosts, 2, 3), "NCCL_DEBUG": "WARN"}, bundled())
    hosts.start(0, slurm(hosts, 0, 3), bundled())
    ended = [hosts.wait(number) for number in range(3)]
    assert [status for status, _, _ in ended] == [0, 0, 0], ended
    seen = cluster(ended[0][1])
    assert (seen["launcher"], seen["status"], seen["master"]) == ("slurm", "pass", f"{hosts.host(0)}:24242")
    assert any(f"rank 1 ({hosts.host(1)}) takes" in text for text in seen["slow"]), seen
    (setting,) = [one for one in seen["differences"] if one["fact"] == "NCCL_DEBUG"]
    assert setting["severity"] == "warning"
    assert setting["values"] == [{"value": "not set", "ranks": "0-1"}, {"value": "WARN", "ranks": "2"}]


def test_a_pod_that_never_starts_is_named(hosts: Hosts) -> None:
    for rank in (0, 2):
        hosts.start(rank, kubernetes(hosts, rank, 3), bundled("--cluster-timeout", "60"))
    ended = {rank: hosts.wait(rank) for rank in (0, 2)}
    assert [status for status, _, _ in ended.values()] == [5, 5], ended
    seen = cluster(ended[0][1])
    said = f"rank 1 never arrived; 2 did: 0 ({hosts.host(0)}), 2 ({hosts.host(2)})"
    assert seen["message"].startswith(said)
    assert [one["status"] for one in seen["ranks"]] == ["waited", "missing", "waited"]
    assert f"rank 2 of 3: fail; rank 0 at {hosts.host(0)}:{_PORT} reports: {said}" in ended[2][2]


def test_a_host_that_dies_is_named(hosts: Hosts) -> None:
    # so slow that the others have long finished their checks and wait for it
    hosts.start(1, kubernetes(hosts, 1, 3), bundled(), "--cpus", "0.1")
    hosts.start(2, kubernetes(hosts, 2, 3), bundled())
    hosts.start(0, kubernetes(hosts, 0, 3), [word for word in bundled() if word not in ("--format", "json")])
    deadline = time.monotonic() + _LIMIT_S
    while "torch-import" not in docker("logs", hosts.host(0)):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    docker("kill", hosts.host(1))
    ended = {rank: hosts.wait(rank) for rank in (0, 2)}
    assert [status for status, _, _ in ended.values()] == [5, 5], ended
    said = f"rank 1 ({hosts.host(1)}) died during: the checks of one machine"
    assert said in ended[0][1]
    assert f"died    rank 1 on {hosts.host(1)}" in ended[0][1]
    assert said in ended[2][2]


def test_a_master_that_nobody_reaches(hosts: Hosts) -> None:
    hosts.start(1, kubernetes(hosts, 1, 2), bundled("--cluster-timeout", "20"))
    status, stdout, stderr = hosts.wait(1)
    assert (status, stdout) == (5, "")
    assert f"rank 0 was not reached at {hosts.host(0)}:{_PORT} within 20 s" in stderr


def test_variables_that_make_no_sense_are_a_usage_error(hosts: Hosts) -> None:
    hosts.start(0, {**kubernetes(hosts, 0, 2), "MASTER_PORT": "http"}, bundled())
    status, _, stderr = hosts.wait(0)
    assert status == 2
    assert "envsmith: error: MASTER_PORT is 'http', and a whole number from 1 to 65535 is expected" in stderr
