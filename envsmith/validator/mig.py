"""Multi-Instance GPU: where it is on, a GPU is used in slices, and CUDA shows a process one slice only.

The driver's own list is then of no use to a run that should check them all, so NVML is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # noqa: BLE001 - not there, no NVML, or the environment's pynvml is broken in its own way
        return ()
    parts: list[Part] = []
    sliced = False
    for index in range(_ask(pynvml, "nvmlDeviceGetCount") or 0):
        gpu = _ask(pynvml, "nvmlDeviceGetHandleByIndex", index)
        capability = _ask(pynvml, "nvmlDeviceGetCudaComputeCapability", gpu)
        if gpu is None or capability is None:
            continue
        mode = _ask(pynvml, "nvmlDeviceGetMigMode", gpu)  # the present mode, and that after a reset
        on = bool(mode and mode[0])
        sliced = sliced or on
        handles = _slices(pynvml, gpu) if on else [gpu]
        parts += [part for part in (_part(pynvml, handle, capability) for handle in handles) if part is not None]
    if not sliced or not words:
        return tuple(parts) if sliced else ()
    return tuple(
        part for word in words for part in parts if word[:4] in ("MIG-", "GPU-") and part.uuid.startswith(word)
    )


def _slices(pynvml: Any, gpu: Any) -> list[Any]:
    places = range(_ask(pynvml, "nvmlDeviceGetMaxMigDeviceCount", gpu) or 0)
    handles = (_ask(pynvml, "nvmlDeviceGetMigDeviceHandleByIndex", gpu, place) for place in places)
    return [handle for handle in handles if handle is not None]  # not every place is taken


def _part(pynvml: Any, handle: Any, capability: tuple[int, int]) -> Part | None:
    uuid = _text(_ask(pynvml, "nvmlDeviceGetUUID", handle))
    memory = _ask(pynvml, "nvmlDeviceGetMemoryInfo", handle)
    if uuid is None:
        return None
    name = _text(_ask(pynvml, "nvmlDeviceGetName", handle)) or "a GPU"
    return Part(uuid, name, f"{capability[0]}.{capability[1]}", int(memory.total) if memory else None)


def _ask(pynvml: Any, question: str, *arguments: Any) -> Any:
    """The answer, or None if this GPU, this driver, this pynvml or this user gets none."""
    try:
        return getattr(pynvml, question)(*arguments)
    except (pynvml.NVMLError, AttributeError):
        return None


def _text(value: Any) -> str | None:
    """Releases of pynvml differ in whether they answer bytes or text."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else None
