"""Copies between pinned host memory and the GPU, both ways, with their rates.

What it proves: every byte comes through as it was, at which rate in each direction, and what the link between host
and GPU ran at while data was moving: an idle one lowers its PCIe generation. Each rate is the best of several windows,
as others on the machine can only slow a copy down. The rates are judged elsewhere, against the link.
"""

from __future__ import annotations

from typing import Any

from envsmith.validator.check import MACHINE_ALONE, CheckContext, CheckFailed, CheckOutcome, check
from envsmith.validator.checks.memory_patterns import hex_word
from envsmith.validator.checks.torch_gpu import only_gpu
from envsmith.validator.conditions import Watch
from envsmith.validator.nvml import NvmlGpu
from envsmith.validator.pcie import PcieLink, read_pcie_link
from envsmith.wire.results import Metric

# A copy of it takes a millisecond at PCIe 5 with 16 lanes, against some microseconds to start it.
_SIZE_BYTES = 64 << 20
_WORD_BYTES = 8
_WINDOWS = 6
_WINDOW_MS = 15.0
_REPEATS_MAX = 64
_POISON = -0x5A5A5A5A5A5A5A5B


@check(
    id="copy-bandwidth", title="Copies between pinned memory and the GPU", limit_s=60, needs_gpu=True, needs_torch=True,
    requires=("cuda-kernel-torch",), per_gpu=True, claims=MACHINE_ALONE,
)  # fmt: skip
def copy_bandwidth(context: CheckContext) -> CheckOutcome:
    """Copy there, copy back, compare."""
    import torch

    place = only_gpu(torch)
    torch.seed()
    words = _SIZE_BYTES // _WORD_BYTES
    source, target = (torch.empty(words, dtype=torch.int64, pin_memory=True) for _ in range(2))
    source.random_(-(2**63), None)
    on_gpu = torch.empty(words, dtype=torch.int64, device=place)
    watch, gpu = Watch(context.only_device), NvmlGpu(context.only_device)
    watch.before()
    target.fill_(_POISON)
    on_gpu.fill_(_POISON)
    to_gpu_gb_s = _best_gb_s(torch, on_gpu, source)
    end = _queue_copies(torch, on_gpu, source, _repeats(_SIZE_BYTES / to_gpu_gb_s / 1e6))[1]
    link = read_pcie_link(gpu)  # while the copies run
    watch.until(end.query)
    to_host_gb_s = _best_gb_s(torch, target, on_gpu)
    judge_copy(torch, target, source)
    rates = (
        Metric("host_to_device_gb_s", round(to_gpu_gb_s, 2)),
        Metric("device_to_host_gb_s", round(to_host_gb_s, 2)),
        Metric("size_bytes", _SIZE_BYTES),
    )
    told, words_of_link = describe_link(link, max(to_gpu_gb_s, to_host_gb_s))
    message = f"{to_gpu_gb_s:.1f} GB/s to the GPU, {to_host_gb_s:.1f} GB/s back{words_of_link}"
    return CheckOutcome(message, (*rates, *told, *watch.metrics()))


def judge_copy(torch: Any, got: Any, expected: Any) -> None:
    """Raise CheckFailed unless two int64 tensors on the CPU are the same."""
    if torch.equal(got, expected):
        return
    wrong = (got != expected).nonzero().flatten()
    first = int(wrong[0])
    raise CheckFailed(
        f"{wrong.numel()} of {expected.numel()} words came back wrong from the GPU, the first at byte "
        f"{first * _WORD_BYTES}: {hex_word(int(got[first]))}, expected {hex_word(int(expected[first]))}",
        (Metric("wrong_words", wrong.numel(), 0),),
    )


def describe_link(link: PcieLink | None, best_gb_s: float) -> tuple[tuple[Metric, ...], str]:
    """Metrics and words for the link. None of either where it is not known or not the way that the data took."""
    if link is None:
        return (), ""
    if not link.carries(best_gb_s):
        return (), f", not over PCIe (which is {link})"
    return link.metrics(), f" over {link}"


def _best_gb_s(torch: Any, to: Any, source: Any) -> float:
    """The best rate of several windows of copies, in 10^9 bytes/s."""
    repeats = _repeats(min(_window_ms(torch, to, source, 1) for _ in range(2)))  # the first wakes the link
    best_ms = min(_window_ms(torch, to, source, repeats) for _ in range(_WINDOWS)) / repeats
    return _SIZE_BYTES / (best_ms / 1000) / 1e9


def _repeats(copy_ms: float) -> int:
    """How many copies fill a window."""
    return max(1, min(_REPEATS_MAX, int(_WINDOW_MS / max(copy_ms, 1e-3))))


def _window_ms(torch: Any, to: Any, source: Any, repeats: int) -> float:
    start, end = _queue_copies(torch, to, source, repeats)
    end.synchronize()
    return float(start.elapsed_time(end))


def _queue_copies(torch: Any, to: Any, source: Any, repeats: int) -> tuple[Any, Any]:
    """Queue copies between two events; return those."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(repeats):
        to.copy_(source, non_blocking=True)
    end.record()
    return start, end
