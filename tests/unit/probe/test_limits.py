"""Limits: the tightest control group from the own one upwards counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from envsmith.probe.limits import limit_facts
from tests.unit.probe.trees import BARE_HOST, MIB, gaps, plant, recorded

V1 = {
    "/proc/self/cgroup": recorded("docker-cgroup-v1.cgroup.txt"),
    "/proc/self/mountinfo": recorded("docker-cgroup-v1.mountinfo.txt"),
    "/dev/shm/x": "",
}
V2 = {
    "/proc/self/cgroup": "0::/\n",
    "/proc/self/mountinfo": recorded("docker-cgroup-v2.mountinfo.txt"),
    "/dev/shm/x": "",
}


def test_a_docker_container_of_version_1(tmp_path: Path) -> None:
    files = {
        **V1,
        "/sys/fs/cgroup/memory/memory.limit_in_bytes": "536870912\n",
        "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "150000\n",
        "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
    }
    limits = limit_facts(plant(tmp_path, files))
    assert limits is not None
    assert (limits.cgroup_version, limits.cpu_limit_cores, limits.memory_limit_bytes) == (1, 1.5, 512 * MIB)


def test_version_1_without_limits(tmp_path: Path) -> None:
    files = {
        **V1,
        "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
        "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
    }
    look = plant(tmp_path, files)
    limits = limit_facts(look)
    assert limits is not None
    assert (limits.cpu_limit_cores, limits.memory_limit_bytes) == (None, None)
    assert look.gaps == []


def test_a_docker_container_of_version_2(tmp_path: Path) -> None:
    files = {**V2, "/sys/fs/cgroup/memory.max": "2147483648\n", "/sys/fs/cgroup/cpu.max": "400000 100000\n"}
    limits = limit_facts(plant(tmp_path, files))
    assert limits is not None
    assert (limits.cgroup_version, limits.cpu_limit_cores, limits.memory_limit_bytes) == (2, 4.0, 2048 * MIB)


@pytest.mark.parametrize(
    ("own", "slice_", "user", "tightest"),
    [("max", "1073741824", "max", 1024 * MIB), ("1048576", "max", "2097152", MIB), ("max", "max", "max", None)],
)
def test_a_parent_may_be_tighter(tmp_path: Path, own: str, slice_: str, user: str, tightest: int | None) -> None:
    base = "/sys/fs/cgroup"
    group = f"{base}/user.slice/user-1000.slice/session-3.scope"
    files = {
        **BARE_HOST,
        f"{group}/memory.max": own,
        f"{base}/user.slice/user-1000.slice/memory.max": slice_,
        f"{base}/user.slice/memory.max": user,
        f"{group}/cpu.max": "max 100000",
        f"{base}/user.slice/cpu.max": "50000 100000",
    }
    limits = limit_facts(plant(tmp_path, files))
    assert limits is not None
    assert limits.memory_limit_bytes == tightest
    assert limits.cpu_limit_cores == 0.5


def test_what_is_not_there_is_a_gap(tmp_path: Path) -> None:
    look = plant(tmp_path, {"/proc/self/cgroup": "0::/a\n", "/proc/self/mountinfo": ""})
    limits = limit_facts(look)
    assert limits is not None
    assert limits.cgroup_version == 2
    assert gaps(look) == {
        "limits.memory_limit_bytes": "absent",
        "limits.cpu_limit_cores": "absent",
        "limits.shm_size_bytes": "absent",
        "limits.shm_free_bytes": "absent",
    }


def test_without_proc(tmp_path: Path) -> None:
    look = plant(tmp_path, {"/dev/shm/x": ""})
    limits = limit_facts(look)
    assert limits is not None
    assert limits.cgroup_version is None
    assert limits.open_files_limit is None or limits.open_files_limit > 0
    assert gaps(look)["limits.cgroup_version"] == "absent"


def test_shared_memory_is_measured(tmp_path: Path) -> None:
    limits = limit_facts(plant(tmp_path, {**V2}))
    assert limits is not None
    assert limits.shm_size_bytes is not None
    assert limits.shm_free_bytes is not None
    assert 0 <= limits.shm_free_bytes <= limits.shm_size_bytes
