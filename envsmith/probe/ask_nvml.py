"""Questions to NVML through the `pynvml` module of nvidia-ml-py. Runs in a bounded child only: see `child`."""

from __future__ import annotations

import ctypes
from typing import Any, Callable

from envsmith.probe.ask_cuda import cuda_version, loaded_path
from envsmith.probe.child import Emit, Message
from envsmith.wire.encode import to_plain
from envsmith.wire.facts import GpuFacts


def ask_nvml(emit: Emit) -> bool:
    """Send {"part": "nvml"} and, if NVML works, {"part": "gpus"}; return whether the GPUs were listed."""
    answer: Message = {
        "part": "nvml", "path": None, "error": None, "absent": False, "driver_version": None, "cuda_version": None,
    }  # fmt: skip
    try:
        answer["path"] = loaded_path(ctypes.CDLL("libnvidia-ml.so.1"), "nvmlInit_v2")
        import pynvml
    except (OSError, ImportError, SyntaxError) as error:
        answer["error"], answer["absent"] = str(error), isinstance(error, OSError)
        emit(answer)
        return False
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        answer["error"] = f"{error} ({error.value})"
        emit(answer)
        return False
    answer["driver_version"] = _text(_ask(pynvml, pynvml.nvmlSystemGetDriverVersion))
    number = _ask(pynvml, pynvml.nvmlSystemGetCudaDriverVersion_v2)
    answer["cuda_version"] = cuda_version(number) if number else None
    emit(answer)
    gpus = _gpus(pynvml)
    if gpus is not None:
        emit({"part": "gpus", "gpus": to_plain(gpus)})
    return gpus is not None


def _ask(pynvml: Any, question: Callable[..., Any], *arguments: Any) -> Any:
    """The answer, or None if this GPU, this driver or this user gets none."""
    try:
        return question(*arguments)
    except (pynvml.NVMLError, AttributeError):
        return None


def _gpus(pynvml: Any) -> list[GpuFacts] | None:
    count = _ask(pynvml, pynvml.nvmlDeviceGetCount)
    if count is None:
        return None
    found = []
    for index in range(count):
        handle = _ask(pynvml, pynvml.nvmlDeviceGetHandleByIndex, index)
        if handle is None:
            continue  # a GPU that this container has no access to, or one that fell off the bus
        gpu = _gpu(pynvml, handle, index, None)
        found.append(gpu)
        if gpu.mig_enabled:
            found.extend(_slices(pynvml, handle, gpu))
    return found


def _slices(pynvml: Any, parent: Any, gpu: GpuFacts) -> list[GpuFacts]:
    found = []
    for number in range(_ask(pynvml, pynvml.nvmlDeviceGetMaxMigDeviceCount, parent) or 0):
        handle = _ask(pynvml, pynvml.nvmlDeviceGetMigDeviceHandleByIndex, parent, number)
        if handle is not None:
            found.append(_gpu(pynvml, handle, gpu.index, gpu))
    return found


def _gpu(pynvml: Any, handle: Any, index: int, parent: GpuFacts | None) -> GpuFacts:
    """One GPU; or a slice of `parent`, which has the parent's index and compute capability."""
    capability = _ask(pynvml, pynvml.nvmlDeviceGetCudaComputeCapability, handle)
    memory = _ask(pynvml, pynvml.nvmlDeviceGetMemoryInfo, handle)
    ecc = _ask(pynvml, pynvml.nvmlDeviceGetEccMode, handle)
    errors = _ask(
        pynvml,
        pynvml.nvmlDeviceGetTotalEccErrors,
        handle,
        pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
        pynvml.NVML_VOLATILE_ECC,
    )
    mig = _ask(pynvml, pynvml.nvmlDeviceGetMigMode, handle) if parent is None else None
    processes = _ask(pynvml, pynvml.nvmlDeviceGetComputeRunningProcesses, handle)
    own = f"{capability[0]}.{capability[1]}" if capability else None
    return GpuFacts(
        index=index,
        name=_text(_ask(pynvml, pynvml.nvmlDeviceGetName, handle)) or "",
        uuid=_text(_ask(pynvml, pynvml.nvmlDeviceGetUUID, handle)),
        compute_capability=parent.compute_capability if parent else own,
        memory_total_bytes=int(memory.total) if memory else None,
        memory_used_bytes=int(memory.used) if memory else None,
        mig_enabled=bool(mig[0]) if mig else None,
        is_mig_slice=parent is not None,
        ecc_enabled=bool(ecc[0]) if ecc else None,
        ecc_uncorrected_errors=int(errors) if errors is not None else None,
        other_processes=len(processes) if processes is not None else None,
        source="nvml",
    )


def _text(value: Any) -> str | None:
    """Releases of pynvml differ in whether they answer bytes or text."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else None
