"""NVIDIA GPUs on the PCI bus, whether a driver serves them or not."""

from __future__ import annotations

from envsmith.probe.look import ABSENT, Look, collector
from envsmith.wire.facts import PciDevice

_FOLDER = "/sys/bus/pci/devices"
_NVIDIA = "0x10de"
_DISPLAY_CLASS = "0x03"  # VGA controllers are 0x0300.., 3D controllers 0x0302..


@collector("nvidia_pci_devices")
def pci_facts(look: Look) -> tuple[PciDevice, ...] | None:
    """Return the display and 3D controllers made by NVIDIA; None with a gap where the bus cannot be seen."""
    if not look.exists(_FOLDER):
        look.gap("nvidia_pci_devices", ABSENT, f"there is no {_FOLDER}")
        return None
    return tuple(
        PciDevice(address, f"{_NVIDIA[2:]}:{_word(look, address, 'device')[2:]}")
        for address in look.names(_FOLDER)
        if _word(look, address, "vendor") == _NVIDIA and _word(look, address, "class").startswith(_DISPLAY_CLASS)
    )


def _word(look: Look, address: str, name: str) -> str:
    return (look.text_or_none(f"{_FOLDER}/{address}/{name}") or "").strip()
