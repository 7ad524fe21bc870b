"""Timing work on a GPU with CUDA events: several windows of runs, queued at once, so that the GPU never waits."""

from __future__ import annotations

from typing import Any, Callable

WINDOW_S = 0.04
WINDOWS = 5
# To hide the grain of the events (half a microsecond) and the start of the first run.
_PILOT_RUNS = 5

# Sizes of square matrices, by the rate of a small product in TFLOP/s: large enough to fill a fast GPU (a product of
# 8192 takes 1.5 ms at 700), small enough for a slow one (a product of 2048 takes 0.6 s at 0.03).
_SIZE_BY_TFLOPS = ((60.0, 8192), (4.0, 4096), (0.0, 2048))
# Two operands, two results that take turns, the normal numbers that an operand is made of: at 4 bytes each.
_BYTES_AN_ELEMENT = 20


def repeats_in(window_s: float, once_s: float) -> int:
    """How many runs fill a window."""
    return max(1, int(window_s / max(once_s, 1e-6)))


def size_for(pilot_tflops: float, free_bytes: int) -> int:
    """The size of square matrices to time at, which take at most half of the free memory where they can be smaller."""
    size = next(size for floor, size in _SIZE_BY_TFLOPS if pilot_tflops >= floor)
    while size > _SIZE_BY_TFLOPS[-1][1] and _BYTES_AN_ELEMENT * size**2 > free_bytes / 2:
        size //= 2
    return size


def queue_windows(
    torch: Any, run: Callable[[], object], repeats: int, windows: int = WINDOWS, lead_in: int = 0
) -> list[Any]:
    """Queue windows of so many runs each, after lead_in runs that are not timed; return the events around the windows.

    When the last is done, all is.
    """
    for _ in range(lead_in):
        run()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(windows + 1)]
    events[0].record()
    for event in events[1:]:
        for _ in range(repeats):
            run()
        event.record()
    return events


def seconds_each(events: list[Any], repeats: int) -> list[float]:
    """Wait for all; return the seconds of one run in each window."""
    events[-1].synchronize()
    return [start.elapsed_time(end) / 1000 / repeats for start, end in zip(events, events[1:])]


def seconds_of_one(torch: Any, run: Callable[[], object]) -> float:
    """About how long one run takes. The first, which loads code, is not counted."""
    run()
    torch.cuda.synchronize()
    return seconds_each(queue_windows(torch, run, _PILOT_RUNS, windows=1), _PILOT_RUNS)[0]
