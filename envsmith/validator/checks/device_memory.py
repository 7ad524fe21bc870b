"""Bit patterns written to most of the GPU's free memory and read back, again and again.

What it proves: memory cells, address lines and the paths to them hold 64-bit words of random bits, of the same bits
inverted, of each word's own address, and of a bit that walks; compared exactly, by the GPU itself. Not judged is
memory that others hold; errors that the GPU's ECC corrected meanwhile are told.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from envsmith.validator.check import GPU_ALONE, CheckContext, CheckFailed, CheckOutcome, check
from envsmith.validator.checks.memory_patterns import BLOCK_BYTES, PATTERNS, Fault, Memory
from envsmith.validator.checks.torch_gpu import only_gpu
from envsmith.validator.nvml import NvmlGpu
from envsmith.wire.results import STRESS, Metric

_GIB = 1 << 30
# Left to others: a twentieth of what is free; of a small GPU 1 GiB, though never more than a tenth.
_LEFT_PART, _LEFT_PART_MAX, _LEFT_BYTES = 0.05, 0.1, _GIB
# An integrated GPU shares its memory with the whole machine, which kills processes when it runs out.
_INTEGRATED_PART = 0.5
_CHUNK_BYTES = _GIB
_TOLD = 4

# nvmlMemoryErrorType_t and nvmlEccCounterType_t of nvml.h
_CORRECTED, _VOLATILE = 0, 0


@check(
    id="device-memory", title="Patterns over most of the GPU's memory", limit_s=300, needs_gpu=True, needs_torch=True,
    requires=("cuda-kernel-torch",), per_gpu=True, claims=GPU_ALONE, level=STRESS,
)  # fmt: skip
def device_memory(context: CheckContext) -> CheckOutcome:
    """Write and verify for context.stress_s seconds, each pattern at least once."""
    import torch

    place = only_gpu(torch)
    memory = Memory(torch, place)
    for chunk in take_memory(torch, place, size_to_test(torch, place)):
        memory.add(chunk)
    gpu = NvmlGpu(context.only_device)
    corrected = _corrected_errors(gpu)
    passes, faults = run_passes(memory, context.stress_s)
    metrics = [
        Metric("memory_tested_bytes", memory.size_bytes),
        Metric("passes", passes),
        Metric("wrong_words", sum(fault.count for fault in faults), 0),
    ]
    if corrected is not None:
        metrics.append(Metric("ecc_corrected_errors", (_corrected_errors(gpu) or corrected) - corrected))
    if faults:
        raise CheckFailed(describe_faults(faults), tuple(metrics))
    message = f"{memory.size_bytes / 1e9:.1f} GB held {len(PATTERNS)} patterns in {passes} passes"
    return CheckOutcome(message, tuple(metrics))


def _corrected_errors(gpu: NvmlGpu) -> int | None:
    """Errors of this GPU's memory that its ECC has corrected since the driver was loaded; None without ECC."""
    errors = gpu.of_gpu("nvmlDeviceGetTotalEccErrors", _CORRECTED, _VOLATILE)
    return None if errors is None else int(errors)


def run_passes(memory: Memory, limit_s: float) -> tuple[int, list[Fault]]:
    """Run whole passes until the time is over or a pattern did not hold; return how many, and what was wrong."""
    deadline = time.monotonic() + limit_s
    passes = 0
    while passes < len(PATTERNS) or time.monotonic() < deadline:
        name = PATTERNS[passes % len(PATTERNS)]
        pattern = memory.prepare(name, passes // len(PATTERNS))
        memory.write(pattern)
        passes += 1
        faults = memory.verify(pattern)
        if faults:
            return passes, faults
    return passes, []


def size_to_test(torch: Any, place: Any) -> int:
    """Bytes to test of those that are free: 90 to 95 %."""
    free_bytes, _ = torch.cuda.mem_get_info(place)
    if getattr(torch.cuda.get_device_properties(place), "is_integrated", 0):
        return int(_INTEGRATED_PART * min(free_bytes, _host_available_bytes()))
    return int(free_bytes - left_bytes(free_bytes))


def left_bytes(free_bytes: int) -> int:
    """What is not to be taken of so much free memory."""
    return int(max(_LEFT_PART * free_bytes, min(_LEFT_BYTES, _LEFT_PART_MAX * free_bytes)))


def _host_available_bytes() -> int:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def take_memory(torch: Any, place: Any, size_bytes: int) -> list[Any]:
    """Allocate about so much as flat int64 tensors of whole blocks, smaller ones where free memory is in pieces.

    Raises torch's error when not even one block is to be had.
    """
    chunks: list[Any] = []
    wanted_bytes, chunk_bytes = size_bytes, _CHUNK_BYTES
    while wanted_bytes >= BLOCK_BYTES or not chunks:
        chunk_bytes = max(BLOCK_BYTES, min(chunk_bytes, wanted_bytes // BLOCK_BYTES * BLOCK_BYTES))
        try:
            chunks.append(torch.empty(chunk_bytes // 8, dtype=torch.int64, device=place))
        except RuntimeError as error:
            if "out of memory" not in str(error) or (chunk_bytes == BLOCK_BYTES and not chunks):
                raise
            if chunk_bytes == BLOCK_BYTES:
                break
            chunk_bytes = max(BLOCK_BYTES, chunk_bytes // 2)
            continue
        wanted_bytes -= chunk_bytes
    return chunks


def describe_faults(faults: list[Fault]) -> str:
    """How many words are wrong, between which addresses, and the first few with what was expected."""
    count = sum(fault.count for fault in faults)
    low, high = min(fault.first_address for fault in faults), max(fault.last_address for fault in faults)
    where = f"with pattern {faults[0].pattern!r}, at addresses {low:#x} to {high:#x}"
    parts = [f"{count} 64-bit words are wrong {where}"] if count else [f"words were wrong once {where}"]
    once = sum(fault.count == 0 for fault in faults)
    if once:
        parts.append(f"{once} of {len(faults)} bad blocks were right when read again")
    return "; ".join([*parts, *[word for fault in faults for word in fault.words][:_TOLD]])
