"""Matrix products for minutes: does the GPU keep its rate, and does it compute the same again and again?

What it proves: under full load for the whole time, every product that was looked at, about one a second, is bit for
bit the first, of which a part was compared with float64. Beside that: the lowest and the median rate, the clocks, the
temperature at the end, and all reasons for lower clocks that were seen. A single bit that flips fails the check.
"""

from __future__ import annotations

import math
import statistics
import time
from typing import Any

from envsmith.validator.check import GPU_ALONE, CheckContext, CheckFailed, CheckOutcome, check
from envsmith.validator.checks.products import Kind, narrow_kind, operands
from envsmith.validator.checks.rates import figure, judge_sample, pilot_size, warm_up, watched_windows
from envsmith.validator.checks.timing import WINDOWS, repeats_in, seconds_of_one
from envsmith.validator.checks.torch_gpu import only_gpu
from envsmith.validator.conditions import Watch
from envsmith.validator.occupied import occupied_is_no_fault
from envsmith.wire.results import STRESS, Metric

# Short enough to look often, long enough that looking costs nothing.
_WINDOW_S = 0.25


@check(
    id="rates-sustained", title="Matrix products under sustained load", limit_s=120, needs_gpu=True, needs_torch=True,
    requires=("amp-matmul",), level=STRESS, per_gpu=True, claims=GPU_ALONE,
)  # fmt: skip
def rates_sustained(context: CheckContext) -> CheckOutcome:
    """Multiply until context.stress_s seconds are over."""
    import torch

    kind = narrow_kind(context.only_device)
    with occupied_is_no_fault(context.device):
        place = only_gpu(torch)
        torch.seed()
        watch = Watch(context.only_device)
        torch.ones(1, device=place).item()  # makes the context
        watch.before()
        warm_up(torch, place)
        try:
            metrics = sustain(torch, place, kind, watch, context.stress_s)
        except CheckFailed as failed:
            raise CheckFailed(failed.message, (*failed.metrics, *watch.metrics())) from None
    values = {metric.name: metric.value for metric in metrics}
    median, lowest = (figure(float(values[f"{kind.name}_sustained_{what}_rate_tflops"])) for what in ("median", "min"))
    message = (
        f"{kind.name} {median} TFLOP/s for {context.stress_s:.0f} s (at least {lowest}); "
        f"{values['products_compared']} products equal, bit for bit"
    )
    return CheckOutcome(message, (*metrics, *watch.metrics()))


def sustain(torch: Any, place: Any, kind: Kind, watch: Watch, limit_s: float) -> list[Metric]:
    """Multiply the same two matrices for limit_s seconds, at least once. Raises CheckFailed when a result differs."""
    size = pilot_size(torch, place, kind)
    a, b = operands(torch, kind, (size,) * 3, place)
    first, result = (torch.full((size, size), math.nan, device=place, dtype=a.dtype) for _ in range(2))
    torch.matmul(a, b, out=first)
    judged = judge_sample(torch, kind, (a, b, first), f"{kind.name}_sustained")
    repeats = repeats_in(_WINDOW_S, seconds_of_one(torch, lambda: torch.matmul(a, b, out=result)))
    rates: list[float] = []
    compared = 0
    deadline = time.monotonic() + limit_s
    while not compared or time.monotonic() < deadline:
        result.fill_(math.nan)
        seconds = watched_windows(torch, lambda: torch.matmul(a, b, out=result), repeats, watch)
        rates += [2.0 * size**3 / each / 1e12 for each in seconds]
        compared += 1
        require_same(torch, result, first, compared * repeats * WINDOWS)
    name = f"{kind.name}_sustained"
    return [
        Metric(f"{name}_median_rate_tflops", round(statistics.median(rates), 2)),
        Metric(f"{name}_min_rate_tflops", round(min(rates), 2)),
        Metric("products_compared", compared),
        Metric("products_different", 0, 0),
        *judged,
    ]


def require_same(torch: Any, result: Any, first: Any, products: int) -> None:
    """Raise CheckFailed unless two results are the same, bit for bit. products: how many were made by now."""
    different = int((result.view(torch.int16) != first.view(torch.int16)).sum())
    if different:
        raise CheckFailed(
            f"product {products} of the same matrices differs from the first in {different} of {first.numel()} "
            "elements: the GPU or its memory makes errors under load",
            (Metric("products_different", 1, 0),),
        )
