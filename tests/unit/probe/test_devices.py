"""Device nodes, and what they can be opened for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from envsmith.probe.devices import device_facts, node_paths
from envsmith.probe.driver_answers import is_refused
from envsmith.probe.pci import pci_facts
from envsmith.wire.facts import DeviceNode, PciDevice
from tests.unit.probe.trees import gaps, plant


def test_only_the_drivers_nodes_are_taken(tmp_path: Path) -> None:
    names = ["nvidia0", "nvidia12", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-caps/nvidia-cap1", "dxg"]
    files = {f"/dev/{name}": "" for name in [*names, "null", "nvidia-foreign", "nvme0", "nvidiax"]}
    assert set(node_paths(plant(tmp_path, files))) == {f"/dev/{name}" for name in names}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_mode_bits_count(tmp_path: Path) -> None:
    look = plant(tmp_path, {"/dev/nvidia0": ""})
    (tmp_path / "dev/nvidia0").chmod(0o400)
    assert device_facts(look) == (DeviceNode("/dev/nvidia0", True, False),)


def test_a_node_that_the_container_is_refused(tmp_path: Path) -> None:
    """The mode allows all, and opening fails: the device group of the container has lost its permission."""
    look = plant(tmp_path, {"/dev/nvidia0": "", "/dev/nvidiactl": ""})
    assert device_facts(look, refused=("/dev/nvidia0",)) == (
        DeviceNode("/dev/nvidia0", False, False),
        DeviceNode("/dev/nvidiactl", True, True),
    )


@pytest.mark.parametrize(("error", "refused"), [(PermissionError(1, "no"), True), (OSError(6, "no device"), False)])
def test_refusal_is_told_from_absence(tmp_path: Path, monkeypatch, error: OSError, refused: bool) -> None:
    node = tmp_path / "nvidia0"
    node.touch()

    def fail(*_args: object) -> int:
        raise error

    monkeypatch.setattr("envsmith.probe.driver_answers.os.open", fail)
    assert is_refused(str(node)) is refused


def test_a_node_that_opens_is_not_refused(tmp_path: Path) -> None:
    node = tmp_path / "nvidia0"
    node.touch()
    assert not is_refused(str(node))
    assert not is_refused(str(tmp_path / "gone"))


def test_gpus_on_the_bus(tmp_path: Path) -> None:
    base = "/sys/bus/pci/devices"

    def device(address: str, vendor: str, number: str, kind: str) -> dict[str, str]:
        place = f"{base}/{address}"
        return {f"{place}/vendor": vendor + "\n", f"{place}/device": number + "\n", f"{place}/class": kind + "\n"}

    files = {
        **device("0000:00:06.0", "0x10de", "0x2335", "0x030200"),
        **device("0000:00:07.0", "0x10de", "0x22ba", "0x040300"),  # the sound function of a graphics card
        **device("0000:00:08.0", "0x8086", "0x46a6", "0x030000"),
        **device("0000:00:09.0", "0x10de", "0x22a3", "0x068000"),  # an NVSwitch
    }
    assert pci_facts(plant(tmp_path, files)) == (PciDevice("0000:00:06.0", "10de:2335"),)


def test_a_machine_without_a_bus(tmp_path: Path) -> None:
    look = plant(tmp_path, {})
    assert pci_facts(look) is None
    assert gaps(look) == {"nvidia_pci_devices": "absent"}
