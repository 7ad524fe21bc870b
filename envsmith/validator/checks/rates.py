"""How fast the GPU is: matrix products in every type that it has units for, and a copy within its memory.

What it proves: the rate of a product of two large random matrices in float32, TF32, float16, bfloat16 and float8, and
of a copy that no cache holds, with part of each timed result compared with float64; beside them the clocks, the power
cap, throttling and other users of the GPU while that was measured. The rates are judged elsewhere, against the GPU's
own peaks.

Each rate is the median of several windows that follow on a quarter of a second of the same work: under full load the
power cap lowers the clocks of a large GPU within that time, and what counts for training is the rate after it.
float8 is measured with fast accumulation, as peaks are given for that.
"""

from __future__ import annotations

import contextlib
from statistics import median
from typing import Any, Callable, Iterator

from envsmith.validator.check import GPU_ALONE, CheckContext, CheckFailed, CheckOutcome, check
from envsmith.validator.checks.numerics import poison
from envsmith.validator.checks.products import (
    KINDS,
    Kind,
    LeftOut,
    has,
    judge_product,
    multiply,
    operands,
    precision,
)
from envsmith.validator.checks.timing import (
    WINDOW_S,
    queue_windows,
    repeats_in,
    seconds_each,
    seconds_of_one,
    size_for,
)
from envsmith.validator.checks.torch_gpu import only_gpu
from envsmith.validator.conditions import Watch
from envsmith.validator.occupied import occupied_is_no_fault
from envsmith.wire.results import Metric

# After it, clocks are those of a GPU under this load (seen on an H200: 780 TFLOP/s at first, then 680).
_LEAD_IN_S = 0.25
# So long a GPU that saves power at rest takes to raise its clocks.
_WARM_UP_S = 0.2
# A product of the first takes 70 ms at 0.03 TFLOP/s; one of the second is more than its launch, where that is slow.
_PILOT_SIZES = (1024, 2048)
_SLOW_TFLOPS = 1.0
_SAMPLE_ROWS, _SAMPLE_COLUMNS = 16, 256

# Some ten times the largest cache of a GPU of today (126 MB).
_COPY_BYTES = 1 << 30
_WORD_BYTES = 8


@check(
    id="rates", title="Rates of matrix products and of the GPU's memory", limit_s=120, needs_gpu=True, needs_torch=True,
    requires=("amp-matmul",), per_gpu=True, claims=GPU_ALONE,
)  # fmt: skip
def rates(context: CheckContext) -> CheckOutcome:
    """Measure every type that this GPU has, then its memory."""
    import torch

    metrics: list[Metric] = []
    left_out: list[str] = []
    with occupied_is_no_fault(context.device):
        place = only_gpu(torch)
        torch.seed()
        watch = Watch(context.only_device)
        torch.ones(1, device=place).item()  # makes the context
        watch.before()
        warm_up(torch, place)
        for kind in (kind for kind in KINDS if has(context.only_device, kind)):
            with _leaving_out(kind, left_out):
                metrics += product_rate(torch, place, kind, watch)
        metrics += copy_rate(torch, place, watch)
    return CheckOutcome(_message(metrics, left_out), (*metrics, *watch.metrics()))


@contextlib.contextmanager
def _leaving_out(kind: Kind, left_out: list[str]) -> Iterator[None]:
    """Keep why a type cannot be had here, and go on."""
    try:
        yield
    except LeftOut as reason:
        left_out.append(f"{kind.name} ({reason})")


def _message(metrics: list[Metric], left_out: list[str]) -> str:
    """The rates in one line: "float32 51.3, bfloat16 712 TFLOP/s; memory 4110 GB/s"."""
    values = {metric.name: metric.value for metric in metrics}
    ending = "_rate_tflops"
    products = ", ".join(
        f"{name[: -len(ending)]} {figure(float(value))}" for name, value in values.items() if name.endswith(ending)
    )
    text = f"{products} TFLOP/s; memory {figure(float(values['memory_bandwidth_gb_s']))} GB/s"
    return text + (f"; left out: {', '.join(left_out)}" if left_out else "")


def figure(value: float) -> str:
    """Three figures, and never an exponent: "51.3", "1310"."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def warm_up(torch: Any, place: Any) -> None:
    """Have the GPU work until its clocks have risen."""
    a = torch.randn(_PILOT_SIZES[0], _PILOT_SIZES[0], device=place)
    repeats = repeats_in(_WARM_UP_S, seconds_of_one(torch, lambda: torch.matmul(a, a)))
    queue_windows(torch, lambda: torch.matmul(a, a), repeats, windows=1)[-1].synchronize()


def pilot_size(torch: Any, place: Any, kind: Kind) -> int:
    """The size of square matrices to time at, by how fast small ones are multiplied and by the memory that is free."""
    tflops = 0.0
    for size in _PILOT_SIZES:
        tflops = _pilot_tflops(torch, place, kind, size)
        if tflops < _SLOW_TFLOPS:
            break
    free_bytes, _ = torch.cuda.mem_get_info(place)
    return size_for(tflops, free_bytes)


def _pilot_tflops(torch: Any, place: Any, kind: Kind, size: int) -> float:
    product = multiply(torch, kind, place, fast_accumulation=True)
    a, b = operands(torch, kind, (size,) * 3, place)
    with precision(torch, kind):
        return 2.0 * size**3 / seconds_of_one(torch, lambda: product(a, b)) / 1e12


def product_rate(torch: Any, place: Any, kind: Kind, watch: Watch) -> list[Metric]:
    """The rate of a square product, 2 n^3 operations, with a part of it judged. Raises LeftOut, CheckFailed."""
    size = pilot_size(torch, place, kind)
    product = multiply(torch, kind, place, fast_accumulation=True)
    a, b = operands(torch, kind, (size,) * 3, place)
    last: list[Any] = []

    def run() -> None:
        last[:] = [product(a, b)]

    with precision(torch, kind):
        once_s = seconds_of_one(torch, run)
        last.clear()
        poison(torch, (size, size), place, getattr(torch, kind.result))
        each_s = steady_s(torch, run, once_s, watch)
    judged = judge_sample(torch, kind, (a, b, last[0]), f"{kind.name}_timed")
    rate = Metric(f"{kind.name}_rate_tflops", round(2.0 * size**3 / each_s / 1e12, 2))
    return [rate, Metric(f"{kind.name}_timed_size", size), *judged]


def judge_sample(torch: Any, kind: Kind, product: tuple[Any, Any, Any], name: str) -> list[Metric]:
    """Judge some rows and columns of a square product, (a, b, a @ b) on the GPU. Raises CheckFailed."""
    a, b, got = product
    size = got.shape[0]
    rows = torch.randint(size, (_SAMPLE_ROWS,)).to(got.device)
    columns = torch.randint(size, (_SAMPLE_COLUMNS,)).to(got.device)
    exact = _wide(torch, a, 0, rows) @ _wide(torch, b, 1, columns)
    return judge_product(name, kind, got[rows][:, columns].cpu().double(), exact, size)


def _wide(torch: Any, matrix: Any, dimension: int, chosen: Any) -> Any:
    """Some rows (dimension 0) or columns of a matrix, in float64 on the CPU."""
    # float8 has no kernel to gather it: its bytes are gathered
    if matrix.element_size() == 1:
        return matrix.view(torch.uint8).index_select(dimension, chosen).cpu().view(matrix.dtype).double()
    return matrix.index_select(dimension, chosen).cpu().double()


def copy_rate(torch: Any, place: Any, watch: Watch) -> list[Metric]:
    """The rate of a copy within the GPU's memory, bytes read and written, compared in full. Raises CheckFailed."""
    torch.cuda.empty_cache()  # of what the products took
    free_bytes, _ = torch.cuda.mem_get_info(place)
    words = min(_COPY_BYTES, free_bytes // 4) // _WORD_BYTES
    source = torch.empty(words, dtype=torch.int64, device=place).random_()
    target = torch.full_like(source, -1)
    once_s = seconds_of_one(torch, lambda: target.copy_(source))
    target.fill_(-1)
    each_s = steady_s(torch, lambda: target.copy_(source), once_s, watch)
    if not torch.equal(target, source):
        wrong = int((target != source).sum())
        raise CheckFailed(f"{wrong} of {words} words differ after a copy within the GPU's memory")
    bandwidth = Metric("memory_bandwidth_gb_s", round(2 * words * _WORD_BYTES / each_s / 1e9, 1))
    return [bandwidth, Metric("memory_copy_bytes", words * _WORD_BYTES)]


def steady_s(torch: Any, run: Callable[[], object], once_s: float, watch: Watch) -> float:
    """Seconds of one run, which takes about once_s, on a GPU that has been busy with it for some time."""
    return median(watched_windows(torch, run, repeats_in(WINDOW_S, once_s), watch, repeats_in(_LEAD_IN_S, once_s)))


def watched_windows(torch: Any, run: Callable[[], object], repeats: int, watch: Watch, lead_in: int = 0) -> list[float]:
    """Seconds of one run in each of several windows, beside which NVML was asked."""
    events = queue_windows(torch, run, repeats, lead_in=lead_in)
    watch.until(events[-1].query)
    return seconds_each(events, repeats)
