"""Multi-Instance GPU: where it is on, a GPU is used in slices, and CUDA shows a process one slice only.

The driver's own list is then of no use to a run that should check them all, so NVML is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from envsmith.validator.nvml_library import NvmlLibrary


@dataclass(frozen=True)
class Part:
    """What a process can be given: a slice of a GPU ("MIG-..."), or a GPU that is not sliced ("GPU-...")."""

    uuid: str
    name: str
    compute_capability: str
    memory_total_bytes: int | None


def parts_where_sliced(words: tuple[str, ...]) -> tuple[Part, ...]:
    """All parts in NVML's order if MIG is on for any GPU, else (and without NVML) none.

    words: those of CUDA_VISIBLE_DEVICES, which leave the parts that they name, in their order. Where they name
    GPUs by index, none: the driver's list holds the one device that they let a process see.
    """
    nvml = NvmlLibrary()
    parts: list[Part] = []
    sliced = False
    for index in range(nvml.ask("nvmlDeviceGetCount") or 0):
        gpu = nvml.ask("nvmlDeviceGetHandleByIndex", index)
        capability = nvml.ask("nvmlDeviceGetCudaComputeCapability", gpu)
        if gpu is None or capability is None:
            continue
        mode = nvml.ask("nvmlDeviceGetMigMode", gpu)  # the present mode, and that after a reset
        on = bool(mode and mode[0])
        sliced = sliced or on
        handles = _slices(nvml, gpu) if on else [gpu]
        parts += [part for part in (_part(nvml, handle, capability) for handle in handles) if part is not None]
    if not sliced or not words:
        return tuple(parts) if sliced else ()
    return tuple(
        part for word in words for part in parts if word[:4] in ("MIG-", "GPU-") and part.uuid.startswith(word)
    )


def _slices(nvml: NvmlLibrary, gpu: Any) -> list[Any]:
    places = range(nvml.ask("nvmlDeviceGetMaxMigDeviceCount", gpu) or 0)
    handles = (nvml.ask("nvmlDeviceGetMigDeviceHandleByIndex", gpu, place) for place in places)
    return [handle for handle in handles if handle is not None]  # not every place is taken


def _part(nvml: NvmlLibrary, handle: Any, capability: tuple[int, int]) -> Part | None:
    uuid = nvml.ask_text("nvmlDeviceGetUUID", handle)
    memory = nvml.ask("nvmlDeviceGetMemoryInfo", handle)
    if uuid is None:
        return None
    name = nvml.ask_text("nvmlDeviceGetName", handle) or "a GPU"
    return Part(uuid, name, f"{capability[0]}.{capability[1]}", int(memory.total) if memory else None)
