"""The CUDA devices that a process here would see, asked of the driver in a forked process."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Sequence

from envsmith.validator.call import Answer, Call
from envsmith.validator.driver import (
    COMPUTE_CAPABILITY_MAJOR,
    COMPUTE_CAPABILITY_MINOR,
    COMPUTE_MODE,
    EXCLUSIVE_MODES,
    Driver,
    DriverError,
    DriverMissingError,
)
from envsmith.validator.forked import NoProcessError
from envsmith.validator.mig import parts_where_sliced

# A driver without persistence initialises each GPU at first use, which takes seconds on a large machine.
_LIMIT_S = 60.0


class DeviceChoiceError(Exception):
    """A device was asked for that is not there, or that the words do not say clearly."""


@dataclass(frozen=True)
class Device:
    """One CUDA device (a GPU or a MIG slice), by its index in this run.

    visible_as: the value of CUDA_VISIBLE_DEVICES with which a process sees only this one. uuid: "GPU-..." or
    "MIG-...", None where the driver does not tell. exclusive: its compute mode lets only one process use it.
    """

    index: int
    name: str
    compute_capability: str
    visible_as: str = ""
    uuid: str | None = None
    memory_total_bytes: int | None = None
    exclusive: bool = False

    @property
    def label(self) -> str:
        """For example "cuda:0 NVIDIA H200 (9.0)"."""
        return f"cuda:{self.index} {self.name} ({self.compute_capability})"

    @property
    def is_slice(self) -> bool:
        """Whether it is a MIG slice: CUDA shows a process one of those, and then no other device."""
        return self.visible_as.startswith("MIG-")


def list_devices(driver: Driver) -> tuple[Device, ...]:
    """List the devices of an initialised driver, as CUDA_VISIBLE_DEVICES of this process has them."""
    words = _visible_words()
    found = []
    for index in range(driver.device_count()):
        major = driver.attribute(index, COMPUTE_CAPABILITY_MAJOR)
        minor = driver.attribute(index, COMPUTE_CAPABILITY_MINOR)
        found.append(
            Device(
                index=index,
                name=driver.device_name(index),
                compute_capability=f"{major}.{minor}",
                visible_as=words[index] if index < len(words) else str(index),
                uuid=driver.device_uuid(index),
                memory_total_bytes=driver.memory_total_bytes(index),
                exclusive=driver.attribute(index, COMPUTE_MODE) in EXCLUSIVE_MODES,
            )
        )
    return tuple(found)


def _visible_words() -> tuple[str, ...]:
    words = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    return tuple(word.strip() for word in words if word.strip())


def visible_together(devices: Sequence[Device]) -> tuple[Device, ...]:
    """Those that one process can see at the same time: of MIG slices, only the first."""
    whole = tuple(device for device in devices if not device.is_slice)
    return whole or tuple(devices[:1])


def choose(devices: Sequence[Device], words: Sequence[str]) -> tuple[Device, ...]:
    """The devices that the words name, by index or by UUID (whole, or a prefix that only one has), renumbered.

    Raises DeviceChoiceError for a word that names none or several, and for a device that is named twice.
    """
    chosen: list[Device] = []
    there = ", ".join(f"{d.index} ({d.name}, {d.uuid or 'no UUID'})" for d in devices)
    for word in words:
        named = [device for device in devices if _is_named(device, word)]
        if not named:
            raise DeviceChoiceError(f"there is no GPU {word!r} here: this run sees {there}")
        if len(named) > 1:
            raise DeviceChoiceError(f"{word!r} names {len(named)} GPUs: this run sees {there}")
        if named[0] in chosen:
            raise DeviceChoiceError(f"{word!r} names a GPU that is named already: this run sees {there}")
        chosen += named
    return tuple(replace(device, index=index) for index, device in enumerate(chosen))


def _is_named(device: Device, word: str) -> bool:
    # at least one character beyond "GPU-", so that the kind alone names nothing
    is_prefix = device.uuid is not None and len(word) > len("GPU-") and device.uuid.lower().startswith(word.lower())
    return is_prefix or word == str(device.index)


def _look() -> dict[str, object]:
    try:
        devices = list_devices(Driver.start())
    except (DriverError, DriverMissingError) as error:
        return {"devices": (), "problem": str(error)}
    parts = parts_where_sliced(_visible_words()) if devices else ()
    slices = (
        Device(index, part.name, part.compute_capability, part.uuid, part.uuid, part.memory_total_bytes)
        for index, part in enumerate(parts)
    )
    return {"devices": tuple(slices) or devices, "problem": ""}


def device_nodes() -> tuple[str, ...]:
    """Files that only a machine (or a container) with an NVIDIA GPU has: /dev/nvidia0, or /dev/dxg under WSL."""
    return tuple(sorted(str(path) for path in Path("/dev").glob("*") if re.match(r"(nvidia\d+|dxg)$", path.name)))


def start_look(scratch: str, close: tuple[int, ...] = ()) -> Call:
    """Begin to look for devices in a process of its own; `what_was_seen` reads its answer."""
    return Call(_look, _LIMIT_S, scratch, close)


def what_was_seen(answer: Answer) -> tuple[tuple[Device, ...], str | None]:
    """Return the devices, and the reason why no GPU can be checked. Raises NoProcessError.

    Both are empty when there seems to be a GPU that CUDA cannot use: that is for a check to find wrong.
    """
    if answer.ending.refused:
        raise NoProcessError(answer.ending.refused)
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
