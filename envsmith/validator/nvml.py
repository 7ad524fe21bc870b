"""One GPU as NVML knows it, through the `pynvml` module of nvidia-ml-py."""

from __future__ import annotations

from typing import Any

from envsmith.validator.devices import Device


class NvmlGpu:
    """A GPU or a MIG slice, found by its UUID, as NVML knows nothing of CUDA_VISIBLE_DEVICES."""

    def __init__(self, device: Device) -> None:
        self._nvml = _nvml()
        self._slice = self._find(device.uuid)
        self._gpu = self._slice
        if (device.uuid or "").startswith("MIG-"):
            self._gpu = self._ask("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", self._slice)

    def of_gpu(self, question: str, *arguments: Any) -> Any:
        """What NVML answers of the whole GPU; None where this GPU, driver, pynvml or user gets no answer."""
        return self._ask(question, self._gpu, *arguments)

    def of_slice(self, question: str, *arguments: Any) -> Any:
        """The same of the MIG slice, where the device is one."""
        return self._ask(question, self._slice, *arguments)

    def _find(self, uuid: str | None) -> Any:
        if uuid is not None:
            return self._ask("nvmlDeviceGetHandleByUUID", uuid.encode())
        # a driver too old to tell a UUID: only where there is nothing to confuse the GPU with
        return self._ask("nvmlDeviceGetHandleByIndex", 0) if self._ask("nvmlDeviceGetCount") == 1 else None

    def _ask(self, question: str, *arguments: Any) -> Any:
        if self._nvml is None or None in arguments:
            return None
        try:
            return getattr(self._nvml, question)(*arguments)
        except (self._nvml.NVMLError, AttributeError):
            return None


def _nvml() -> Any:
    """The pynvml module, initialised; None where it or the library is not to be had."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # noqa: BLE001 - NVML refuses, or the environment's pynvml is broken in its own way
        return None
    return pynvml
