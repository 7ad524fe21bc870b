"""NVIDIA Container Toolkit, CDI, and Docker's runtimes."""

from __future__ import annotations

from pathlib import Path

import pytest

from envsmith.probe.container_toolkit import container_toolkit_facts
from envsmith.probe.look import Look
from envsmith.wire.facts import ContainerToolkitFacts
from tests.unit.probe.trees import executable, gaps, plant

CTK = "echo 'NVIDIA Container Toolkit CLI version 1.17.8'\necho 'commit: f202b80a9b9d0db00d9b1d73c0128c8962c55f4d'"


def test_a_host_with_everything(tmp_path: Path) -> None:
    look = plant(
        tmp_path,
        {
            "/etc/cdi/nvidia.yaml": "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\n",
            "/etc/cdi/vendor.yaml": "kind: vendor.com/net\n",
            "/etc/cdi/notes.txt": "nvidia.com/gpu",
            "/etc/docker/daemon.json": '{"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}',
        },
        {"/var/run/cdi/nvidia.json": "/etc/cdi/nvidia.yaml"},
    )
    executable(tmp_path, "/usr/bin/nvidia-ctk", CTK)
    assert container_toolkit_facts(look, {"PATH": "/usr/bin"}) == ContainerToolkitFacts(
        "1.17.8", ("/etc/cdi/nvidia.yaml",), True
    )
    assert look.gaps == []


def test_docker_without_the_toolkit(tmp_path: Path) -> None:
    executable(tmp_path, "/usr/bin/dockerd", "exit 1")
    found = container_toolkit_facts(Look(str(tmp_path)), {"PATH": "/usr/bin"})
    assert found == ContainerToolkitFacts(None, (), False)


def test_nothing_there(tmp_path: Path) -> None:
    look = Look(str(tmp_path))
    assert container_toolkit_facts(look, {"PATH": "/usr/bin"}) is None
    assert look.gaps == []


@pytest.mark.parametrize("text", ["", "[]", "{", '{"runtimes": []}', "[" * 100_000])
def test_a_daemon_file_that_is_odd(tmp_path: Path, text: str) -> None:
    look = plant(tmp_path, {"/etc/docker/daemon.json": text})
    found = container_toolkit_facts(look, {})
    assert found is None or found.docker_runtime_configured is False
    assert (found is None) == bool(look.gaps)


@pytest.mark.parametrize(
    ("script", "reason"), [("sleep 60", "timeout"), ("echo hello", "failed"), ("exit 1", "failed")]
)
def test_a_toolkit_that_misbehaves(tmp_path: Path, script: str, reason: str) -> None:
    executable(tmp_path, "/usr/bin/nvidia-ctk", script)
    look = Look(str(tmp_path))
    assert container_toolkit_facts(look, {"PATH": "/usr/bin"}, limit_s=0.3) is None
    assert gaps(look) == {"container_toolkit.version": reason}
