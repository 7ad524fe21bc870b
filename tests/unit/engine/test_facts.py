"""What the answers of `docker info` mean: the image store, the free space, the way to the GPUs."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from envsmith.engine import facts
from envsmith.engine.endpoint import Endpoint

LOCAL = Endpoint("default", "unix:///var/run/docker.sock")
CONTAINERD = [["driver-type", "io.containerd.snapshotter.v1"]]


class Client:
    def __init__(self, **info: Any) -> None:
        self._info = {"OSType": "linux", "Architecture": "x86_64", "ServerVersion": "29.0.1", "Driver": "overlay2"}
        self._info |= {"Name": socket.gethostname(), "DockerRootDir": "/"} | info

    def info(self) -> dict[str, Any]:
        return self._info


@pytest.fixture(autouse=True)
def _no_docker_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.parametrize(
    ("info", "store"),
    [
        ({"Driver": "overlay2", "DriverStatus": [["Backing Filesystem", "extfs"]]}, "overlay2"),
        ({"Driver": "overlayfs", "DriverStatus": CONTAINERD}, "containerd"),
        ({"Driver": "btrfs", "DriverStatus": None}, "btrfs"),
        ({}, "unknown"),
    ],
)
def test_the_store(info: dict[str, Any], store: str) -> None:
    assert facts.image_store(info) == store


def test_a_local_engine_tells_its_free_space() -> None:
    info = facts.engine_info(Client(), LOCAL)
    assert info.free_bytes is not None
    assert info.free_bytes > 0
    assert info.platform == "linux/amd64"
    assert info.buildx is None


@pytest.mark.parametrize(
    ("client", "endpoint", "reason"),
    [
        (Client(), Endpoint("far", "tcp://10.0.0.1:2376"), "not on this machine"),
        (Client(Name="docker-desktop"), LOCAL, "not on this machine"),
        (Client(DockerRootDir="/nonexistent/docker"), LOCAL, "could not be looked at"),
    ],
)
def test_free_space_that_cannot_be_known_is_said_to_be_unknown(client: Client, endpoint: Endpoint, reason: str) -> None:
    info = facts.engine_info(client, endpoint)
    assert info.free_bytes is None
    assert reason in info.free_bytes_why_unknown


@pytest.mark.parametrize("text", ['cdiVersion: "0.5.0"\nkind: nvidia.com/gpu\n', '{"kind": "nvidia.com/gpu"}'])
def test_a_cdi_specification_on_this_machine_is_a_way(tmp_path: Path, text: str) -> None:
    (tmp_path / "nvidia.yaml").write_text(text, encoding="utf-8")
    info = {"CDISpecDirs": [str(tmp_path)], "Runtimes": {"nvidia": {}}}
    assert facts.gpu_way(info, here=True) == ("cdi", "")
    assert facts.gpu_way(info, here=False) == ("runtime", "")


def test_devices_that_the_engine_lists_are_a_way_even_far_away() -> None:
    info = {"DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=all"}]}
    assert facts.gpu_way(info, here=False) == ("cdi", "")


def test_other_devices_are_no_way(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("kind: vendor.com/net\n", encoding="utf-8")
    way, why = facts.gpu_way({"CDISpecDirs": [str(tmp_path)], "Runtimes": {"runc": {}}}, here=True)
    assert way is None
    assert "nvidia.com/gpu" in why
