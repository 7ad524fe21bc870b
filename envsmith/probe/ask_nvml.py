"""Questions to NVML through the `pynvml` module of nvidia-ml-py. Runs in a bounded child only: see `child`."""

from __future__ import annotations

import ctypes
from typing import Any

from envsmith.probe.ask_cuda import cuda_version, loaded_path
from envsmith.probe.child import Emit, Message
from envsmith.probe.driver_answers import NO_SUCH_FILE
from envsmith.wire.encode import to_plain
from envsmith.wire.facts import GpuFacts


def ask_nvml(emit: Emit) -> bool:
    """Send {"part": "nvml"} and, if NVML works, what it says of each GPU; return whether it listed them.

    Each GPU is {"part": "gpu"} and one that cannot be opened {"part": "lost"}; {"part": "gpus"} ends the list.
    """
    answer: Message = {
        "part": "nvml", "path": None, "error": None, "absent": False, "driver_version": None, "cuda_version": None,
    }  # fmt: skip
    try:
        answer["path"] = loaded_path(ctypes.CDLL("libnvidia-ml.so.1"), "nvmlInit_v2")
    except OSError as error:
        answer["error"], answer["absent"] = str(error), NO_SUCH_FILE in str(error)
        emit(answer)
        return False
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception as error:  # noqa: BLE001  (NVML refuses, or the environment's pynvml is broken in its own way)
        code = getattr(error, "value", None)
        answer["error"] = str(error) if code is None else f"{error} ({code})"
        emit(answer)
        return False
    answer["driver_version"] = _text(_ask(pynvml, "nvmlSystemGetDriverVersion"))
    number = _ask(pynvml, "nvmlSystemGetCudaDriverVersion_v2")
    answer["cuda_version"] = cuda_version(number) if number else None
    emit(answer)
    return _list_gpus(pynvml, emit)


def _ask(pynvml: Any, question: str, *arguments: Any) -> Any:
    """The answer, or None if this GPU, this driver, this pynvml or this user gets none."""
    try:
        return getattr(pynvml, question)(*arguments)
    except (pynvml.NVMLError, AttributeError):
        return None


def _list_gpus(pynvml: Any, emit: Emit) -> bool:
    count = _ask(pynvml, "nvmlDeviceGetCount")
    if count is None:
        return False
    for index in range(count):
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        except pynvml.NVMLError as error:  # not this container's, or fallen off the bus
            emit({"part": "lost", "index": index, "error": f"{error} ({error.value})"})
            continue
        gpu = _gpu(pynvml, handle, index, None)
        emit({"part": "gpu", "gpu": to_plain(gpu)})
        if gpu.mig_enabled:
            _list_slices(pynvml, handle, gpu, emit)
    emit({"part": "gpus"})
    return True


def _list_slices(pynvml: Any, parent: Any, gpu: GpuFacts, emit: Emit) -> None:
    for number in range(_ask(pynvml, "nvmlDeviceGetMaxMigDeviceCount", parent) or 0):
        handle = _ask(pynvml, "nvmlDeviceGetMigDeviceHandleByIndex", parent, number)
        if handle is not None:  # numbers are places, and not every place is taken
            emit({"part": "gpu", "gpu": to_plain(_gpu(pynvml, handle, gpu.index, gpu))})


def _gpu(pynvml: Any, handle: Any, index: int, parent: GpuFacts | None) -> GpuFacts:
    """One GPU; or a slice of `parent`, which has the parent's index and compute capability."""
    capability = _ask(pynvml, "nvmlDeviceGetCudaComputeCapability", handle)
    memory = _ask(pynvml, "nvmlDeviceGetMemoryInfo", handle)
    ecc = _ask(pynvml, "nvmlDeviceGetEccMode", handle)
    kind, counter = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
    errors = _ask(pynvml, "nvmlDeviceGetTotalEccErrors", handle, kind, counter)
    mig = _ask(pynvml, "nvmlDeviceGetMigMode", handle) if parent is None else None
    processes = _ask(pynvml, "nvmlDeviceGetComputeRunningProcesses", handle)
    own = f"{capability[0]}.{capability[1]}" if capability else None
    return GpuFacts(
        index=index,
        name=_text(_ask(pynvml, "nvmlDeviceGetName", handle)) or "",
        uuid=_text(_ask(pynvml, "nvmlDeviceGetUUID", handle)),
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
