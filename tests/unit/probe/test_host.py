"""The operating system, and which kind of container."""

from __future__ import annotations

from pathlib import Path

import pytest

from envsmith.probe.host import host_facts, is_wsl
from tests.unit.probe.trees import BARE_HOST, gaps, plant, recorded

DOCKER_V1 = {
    "/proc/self/mountinfo": recorded("docker-cgroup-v1.mountinfo.txt"),
    "/proc/self/cgroup": recorded("docker-cgroup-v1.cgroup.txt"),
}
PODMAN_ROOT = "1 0 0:5 / / rw - overlay overlay rw,upperdir=/var/lib/containers/storage/overlay/a/diff\n"
CONTAINERD_ROOT = "1 0 0:5 / / rw - overlay overlay rw,lowerdir=/var/lib/containerd/io.containerd.snapshotter.v1\n"


def test_a_bare_host(tmp_path: Path) -> None:
    look = plant(tmp_path, BARE_HOST)
    host = host_facts(look, {})
    assert host is not None
    assert (host.os_id, host.os_version, host.os_name) == ("ubuntu", "22.04", "Ubuntu 22.04.5 LTS")
    assert host.memory_total_bytes == 65843428 * 1024
    assert host.container is None
    assert host.wsl is False
    assert host.cpu_count >= 1
    assert look.gaps == []


@pytest.mark.parametrize(
    ("files", "environ", "kind"),
    [
        ({"/.dockerenv": ""}, {}, "docker"),
        (DOCKER_V1, {}, "docker"),
        ({"/run/.containerenv": ""}, {}, "podman"),
        ({"/proc/self/mountinfo": PODMAN_ROOT}, {}, "podman"),
        ({"/proc/self/mountinfo": CONTAINERD_ROOT}, {}, "containerd"),
        ({"/.dockerenv": ""}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        ({"/proc/self/cgroup": "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-2.scope\n"}, {}, "kubernetes"),
        ({"/.singularity.d/Singularity": ""}, {}, "apptainer"),
        ({}, {"APPTAINER_CONTAINER": "/images/x.sif"}, "apptainer"),
        ({"/proc/self/cgroup": "1:name=systemd:/lxc/box\n"}, {}, "lxc"),
        ({}, {"container": "lxc"}, "lxc"),
        ({}, {"container": "systemd-nspawn"}, "other"),
        # the daemon itself, or a service of the host that has docker in its name
        ({"/proc/self/cgroup": "0::/system.slice/docker.service\n"}, {}, None),
        ({"/proc/self/cgroup": "0::/system.slice/containerd.service\n"}, {}, None),
    ],
)
def test_container_kinds(tmp_path: Path, files: dict[str, str], environ: dict[str, str], kind: str | None) -> None:
    host = host_facts(plant(tmp_path, {"/proc/meminfo": "", **files}), environ)
    assert host is not None
    assert host.container == kind


def test_wsl(tmp_path: Path) -> None:
    assert is_wsl(plant(tmp_path, {"/proc/sys/kernel/osrelease": "5.15.167.4-microsoft-standard-WSL2\n"}))
    assert is_wsl(plant(tmp_path / "one", {"/proc/version": "Linux version 4.4.0-19041-Microsoft\n"}))


def test_a_machine_without_an_os_release(tmp_path: Path) -> None:
    look = plant(tmp_path, {"/proc/meminfo": "MemTotal: 1 kB\n"})
    host = host_facts(look, {})
    assert host is not None
    assert host.os_id is None
    assert gaps(look) == {"host.os_id": "absent"}


def test_memory_that_cannot_be_told(tmp_path: Path) -> None:
    look = plant(tmp_path, {"/etc/os-release": "ID=a\n", "/proc/meminfo": "something else\n"})
    host_facts(look, {})
    assert gaps(look) == {"host.memory_total_bytes": "failed"}
