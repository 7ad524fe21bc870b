"""Work that a GPU refused because others use it: that says nothing about the GPU."""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Iterator

from envsmith.validator.check import CheckFailed, CheckSkipped
from envsmith.validator.devices import Device
from envsmith.validator.driver import DEVICE_UNAVAILABLE, OUT_OF_MEMORY, DriverError
from envsmith.validator.nvml import NvmlGpu

_GIB = 1 << 30
# A CUDA context of this process takes 0.3 to 0.8 GB, with all of torch's kernels loaded (CUDA 11) up to 1.5.
_CONTEXT_BYTES = _GIB
# No check but the one of the memory itself asks for more than this part of a GPU's memory.
_ENOUGH = 0.5

# nvmlComputeMode_t of nvml.h
_COMPUTE_MODES = {
    1: "in exclusive mode and in use by another process",
    2: "in prohibited mode, in which no process may use it",
    3: "in exclusive mode and in use by another process",
}


@contextlib.contextmanager
def occupied_is_no_fault(device: Device | None) -> Iterator[None]:
    """Turn an error that other users of the GPU explain into a CheckSkipped that says so.

    device: the GPU in use, None when it is not known which. Of memory that ran out though others hold little, say how
    much there was (CheckFailed). Any other error passes.
    """
    try:
        yield
    except CheckSkipped:
        raise
    except Exception as error:
        if device is not None:
            _explain(error, device)
        raise


def _explain(error: Exception, device: Device) -> None:
    """Raise CheckSkipped or CheckFailed with more words, if there are any to be said."""
    if _is(error, OUT_OF_MEMORY, "out of memory"):
        memory = NvmlGpu(device).of_slice("nvmlDeviceGetMemoryInfo")
        if memory is None:
            return
        others_bytes = max(0, int(memory.used) - _own_bytes())
        words = (
            f"{memory.free / _GIB:.1f} of {memory.total / _GIB:.1f} GiB of memory are free, "
            f"{others_bytes / _GIB:.1f} GiB are held by other processes"
        )
        if others_bytes > (1 - _ENOUGH) * memory.total:
            raise CheckSkipped(f"{device.label} is occupied, so it was not judged: {words}") from error
        raise CheckFailed(f"{error} ({words})") from error
    if _is(error, DEVICE_UNAVAILABLE, "busy or unavailable"):
        mode = _COMPUTE_MODES.get(NvmlGpu(device).of_gpu("nvmlDeviceGetComputeMode"))
        if mode is not None:
            raise CheckSkipped(f"{device.label} is {mode} (nvidia-smi -c DEFAULT lets several use it)") from error


def _is(error: Exception, code: int, words: str) -> bool:
    return (isinstance(error, DriverError) and error.code == code) or words in str(error).lower()


def _own_bytes() -> int:
    """What this process holds of the GPU's memory, about: its context, and what torch has reserved."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return _CONTEXT_BYTES
    try:
        return _CONTEXT_BYTES + int(torch.cuda.memory_reserved())
    except RuntimeError:  # there was not even enough for a context
        return _CONTEXT_BYTES
