"""The CUDA devices that a process here would see, asked of the driver in a forked process."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envsmith.validator.call import call_forked
from envsmith.validator.driver import (
    COMPUTE_CAPABILITY_MAJOR,
    COMPUTE_CAPABILITY_MINOR,
    Driver,
    DriverError,
    DriverMissingError,
)

# A driver without persistence initialises each GPU at first use, which takes seconds on a large machine.
_LIMIT_S = 60.0


@dataclass(frozen=True)
class Device:
    """One CUDA device (a GPU or a MIG slice), by its index in this run.

    visible_as: the value of CUDA_VISIBLE_DEVICES with which a process sees only this one. uuid: "GPU-..." or
    "MIG-...", None where the driver does not tell.
    """

    index: int
    name: str
    compute_capability: str
    visible_as: str = ""
    uuid: str | None = None
    memory_total_bytes: int | None = None

    @property
    def label(self) -> str:
        """For example "cuda:0 NVIDIA H200 (9.0)"."""
        return f"cuda:{self.index} {self.name} ({self.compute_capability})"


def list_devices(driver: Driver) -> tuple[Device, ...]:
    """List the devices of an initialised driver."""
    found = []
    for index in range(driver.device_count()):
        major = driver.attribute(index, COMPUTE_CAPABILITY_MAJOR)
        minor = driver.attribute(index, COMPUTE_CAPABILITY_MINOR)
        found.append(Device(index, driver.device_name(index), f"{major}.{minor}"))
    return tuple(found)


def _look() -> dict[str, object]:
    try:
        return {"devices": list_devices(Driver.start()), "problem": ""}
    except (DriverError, DriverMissingError) as error:
        return {"devices": (), "problem": str(error)}


def device_nodes() -> tuple[str, ...]:
    """Files that only a machine (or a container) with an NVIDIA GPU has: /dev/nvidia0, or /dev/dxg under WSL."""
    return tuple(sorted(str(path) for path in Path("/dev").glob("*") if re.match(r"(nvidia\d+|dxg)$", path.name)))


def find_devices(scratch: str) -> tuple[tuple[Device, ...], str | None]:
    """Return the devices, and the reason why no GPU can be checked.

    Both are empty when there seems to be a GPU that CUDA cannot use: that is for a check to find wrong.
    """
    answer = call_forked(_look, _LIMIT_S, scratch)
    found: dict[str, Any] = (
        answer.value if isinstance(answer.value, dict) else {"devices": [], "problem": answer.problem or ""}
    )
    devices = tuple(Device(**device) for device in found["devices"])
    if devices:
        return devices, None
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if hidden is not None and hidden.strip() in ("", "-1", "NoDevFiles"):
        return (), f"CUDA_VISIBLE_DEVICES={hidden!r} hides every GPU"
    if device_nodes():
        return (), None
    return (), f"no NVIDIA GPU here (no /dev/nvidia0; {found['problem'] or 'the driver lists none'})"
