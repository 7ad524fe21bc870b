"""Memory copied to the GPU, within it and back by the driver, with no torch.

What it proves: memory can be allocated, and random bytes come through host to device, device to device and device to
host unchanged, from pageable memory (staged by the driver) and from pinned memory (fetched by the GPU itself), at
addresses that are no multiple of a word, with nothing written beside them. Together with cuda-kernel-driver it judges
a GPU where there is no torch.
"""

from __future__ import annotations

import ctypes
import os

from envsmith.validator.check import CheckContext, CheckFailed, CheckOutcome, check
from envsmith.validator.checks.driver_gpu import driver_on_gpu
from envsmith.validator.driver import Driver
from envsmith.wire.results import Metric

# Larger than the pieces in which drivers stage pageable memory (below 1 MiB), small enough for any GPU; odd.
_SIZE_BYTES = (16 << 20) + 3
# On either side of the copied bytes; the offsets below are inside it.
_GUARD_BYTES = 4096
_WHOLE_BYTES = _SIZE_BYTES + 2 * _GUARD_BYTES
# Where the bytes lie in the first and in the second buffer on the GPU: aligned differently, and to nothing.
_OFFSETS = (_GUARD_BYTES - 5, _GUARD_BYTES - 2)
_POISON = 0xA5
_PIECE_BYTES = 1 << 16


@check(
    id="driver-memory-copy", title="Memory copies by the driver (no torch)", limit_s=60, needs_gpu=True,
    requires=("cuda-kernel-driver",), per_gpu=True,
)  # fmt: skip
def driver_memory_copy(context: CheckContext) -> CheckOutcome:
    """Copy fresh random bytes through both kinds of host memory."""
    with driver_on_gpu(context) as driver:
        buffers = [driver.allocate(_WHOLE_BYTES) for _ in range(2)]
        pageable = [ctypes.create_string_buffer(_WHOLE_BYTES) for _ in range(2)]
        _copy_around(driver, "pageable", [ctypes.addressof(buffer) for buffer in pageable], buffers)
        _copy_around(driver, "pinned", [driver.allocate_pinned(_WHOLE_BYTES) for _ in range(2)], buffers)
        free_bytes, total_bytes = driver.memory_info()
    metrics = (
        Metric("copied_bytes", _SIZE_BYTES),
        Metric("wrong_bytes", 0, 0),
        Metric("memory_free_bytes", free_bytes),
        Metric("memory_total_bytes", total_bytes),
    )
    return CheckOutcome(f"{_SIZE_BYTES} bytes right, through pageable and through pinned memory", metrics)


def _copy_around(driver: Driver, kind: str, host: list[int], device: list[int]) -> None:
    """Copy source -> first -> second -> target, and compare. host: addresses of source and target."""
    source, target = host
    data = os.urandom(_SIZE_BYTES)
    ctypes.memmove(source, data, _SIZE_BYTES)
    for address in device:
        driver.fill(address, _POISON, _WHOLE_BYTES)
    first, second = (address + offset for address, offset in zip(device, _OFFSETS))
    driver.copy_in(first, source, _SIZE_BYTES)
    driver.copy_across(second, first, _SIZE_BYTES)
    # the first buffer is looked at as well: it tells on which way the bytes went wrong
    for address, offset, way in zip(device, _OFFSETS, ("to the GPU and back", "within the GPU")):
        ctypes.memset(target, _POISON ^ 0xFF, _WHOLE_BYTES)
        driver.copy_out(target, address, _WHOLE_BYTES)
        got = ctypes.string_at(target, _WHOLE_BYTES)
        guards = bytes([_POISON]) * offset, bytes([_POISON]) * (_WHOLE_BYTES - offset - _SIZE_BYTES)
        if got != guards[0] + data + guards[1]:
            raise _failure(f"copied {way} ({kind} memory)", got[offset : offset + _SIZE_BYTES], data)


def _failure(what: str, got: bytes, data: bytes) -> CheckFailed:
    """Count what is wrong, and where; when it is none of the copied bytes, it is one beside them."""
    wrong, first = 0, -1
    for start in range(0, _SIZE_BYTES, _PIECE_BYTES):
        pair = got[start : start + _PIECE_BYTES], data[start : start + _PIECE_BYTES]
        if pair[0] != pair[1]:
            places = [i for i, (a, b) in enumerate(zip(*pair)) if a != b]
            first = start + places[0] if first < 0 else first
            wrong += len(places)
    if not wrong:
        return CheckFailed(f"{what}: bytes beside the copied ones were changed")
    metrics = (Metric("wrong_bytes", wrong, 0), Metric("copied_bytes", _SIZE_BYTES))
    return CheckFailed(
        f"{what}: {wrong} of {_SIZE_BYTES} bytes are wrong, the first at {first}: "
        f"{got[first]:#04x}, expected {data[first]:#04x}",
        metrics,
    )
