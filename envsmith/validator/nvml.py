"""One GPU as NVML knows it."""

from __future__ import annotations

from typing import Any

from envsmith.validator.devices import Device
from envsmith.validator.nvml_library import NvmlLibrary


class NvmlGpu:
    """A GPU or a MIG slice, found by its UUID, as NVML knows nothing of CUDA_VISIBLE_DEVICES."""

    def __init__(self, device: Device) -> None:
        self._nvml = NvmlLibrary()
        self._slice = self._find(device.uuid)
        self._gpu = self._slice
        if (device.uuid or "").startswith("MIG-"):
            self._gpu = self._nvml.ask("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", self._slice)

    def of_gpu(self, question: str, *arguments: Any) -> Any:
        """What NVML answers of the whole GPU; None where this GPU, driver, pynvml or user gets no answer."""
        return self._nvml.ask(question, self._gpu, *arguments)

    def of_slice(self, question: str, *arguments: Any) -> Any:
        """The same of the MIG slice, where the device is one."""
        return self._nvml.ask(question, self._slice, *arguments)

    def _find(self, uuid: str | None) -> Any:
        if uuid is not None:
            return self._nvml.ask("nvmlDeviceGetHandleByUUID", uuid.encode())
        # a driver too old to tell a UUID: only where there is nothing to confuse the GPU with
        return self._nvml.ask("nvmlDeviceGetHandleByIndex", 0) if self._nvml.ask("nvmlDeviceGetCount") == 1 else None
