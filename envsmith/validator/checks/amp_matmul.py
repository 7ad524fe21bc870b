"""Mixed-precision (AMP) matrix products in float16 and bfloat16 under autocast, with their rate.

What it proves: autocast takes the type it should, cuBLAS computes every element right to the type's precision,
and how fast a product that fills the GPU runs. The rate is told, not judged.
"""

from __future__ import annotations

import math
from typing import Any

from envsmith.validator.check import CheckContext, CheckFailed, CheckOutcome, check
from envsmith.validator.checks.numerics import EPSILON, judge_elements, judge_norm
from envsmith.validator.checks.torch_gpu import labels, torch_devices
from envsmith.validator.devices import Device
from envsmith.wire.results import Metric

_DTYPES = ("float16", "bfloat16")
_CHECKED_SIZE = 1024
# Tensor cores for bfloat16 came with capability 8.0; before, products in it are emulated or refused.
_BFLOAT16_MAJOR = 8

# Sizes to time at: small for a slow GPU, large enough to fill a fast one.
_PILOT_SIZE = 2048
_SIZE_BY_PILOT_TFLOPS = ((100.0, 8192), (5.0, 4096), (0.0, 2048))
_TIMED_MS = 100.0
_REPEATS_MAX = 200
_SAMPLE_ROWS, _SAMPLE_COLUMNS = 16, 256


@check(
    id="amp-matmul", title="Mixed-precision matrix products (autocast)", limit_s=180, needs_gpu=True, needs_torch=True,
    requires=("cuda-kernel-torch",),
)  # fmt: skip
def amp_matmul(context: CheckContext) -> CheckOutcome:
    """Check and time every type on every visible device."""
    import torch

    devices = torch_devices(torch, context)
    torch.seed()
    metrics: list[Metric] = []
    for device in devices:
        for dtype in _types_of(device):
            metrics += _check_product(torch, device, dtype)
            metrics += _time_product(torch, device, dtype)
    return CheckOutcome(_rates(metrics), tuple(metrics), labels(devices))


def _rates(metrics: list[Metric]) -> str:
    """Put the rates in one line: "float16 712.1 TFLOP/s, bfloat16 730.4 TFLOP/s"; several GPUs as 712.1/698.0."""
    by_type: dict[str, list[str]] = {}
    for metric in metrics:
        if metric.name.endswith("_rate_tflops"):
            dtype = metric.name.partition(".")[2].partition("_")[0]
            by_type.setdefault(dtype, []).append(str(metric.value))
    return ", ".join(f"{dtype} {'/'.join(values)} TFLOP/s" for dtype, values in by_type.items())


def _types_of(device: Device) -> tuple[str, ...]:
    major = int(device.compute_capability.split(".")[0])
    return _DTYPES if major >= _BFLOAT16_MAJOR else _DTYPES[:1]


def _check_product(torch: Any, device: Device, dtype: str) -> list[Metric]:
    """Every element of one product against float64 on the CPU.

    The float32 operands hold values of the narrow type, so autocast's rounding of them is exact.
    """
    kind = getattr(torch, dtype)
    a, b = (torch.randn(_CHECKED_SIZE, _CHECKED_SIZE).to(kind).float() for _ in range(2))
    place = torch.device("cuda", device.index)
    on_gpu = a.to(place), b.to(place)
    # freed at once: the allocator hands this memory, all NaN, to the product
    torch.full((_CHECKED_SIZE, _CHECKED_SIZE), math.nan, device=place, dtype=kind)
    with torch.autocast("cuda", dtype=kind):
        product = on_gpu[0] @ on_gpu[1]
    if product.dtype != kind:
        raise CheckFailed(f"under autocast to {dtype} on {place}, a product is {product.dtype}")
    exact = a.double() @ b.double()
    return judge_product(f"cuda{device.index}.{dtype}", dtype, product.cpu().double(), exact, _CHECKED_SIZE)


def judge_product(name: str, dtype: str, got: Any, exact: Any, terms: int) -> list[Metric]:
    """Judge a product of standard normal matrices, `terms` products an element.

    Sums are kept in float32, so what is seen is the rounding of the result to the type: at most half an epsilon
    of it. Where cuBLAS splits the sum and adds its parts in the narrow type (it may, by default), each part
    rounds too; the parts are of the size sqrt(terms), whence the second term. In the norm that is below one epsilon.
    """
    epsilon = EPSILON[dtype]
    bound = epsilon * (exact.abs() + 2 * math.sqrt(terms))
    return [
        judge_elements(f"{name}_error_ratio", got, exact, bound),
        judge_norm(f"{name}_relative_error", got, exact, epsilon),
    ]


def _time_product(torch: Any, device: Device, dtype: str) -> list[Metric]:
    """The rate of a square product, 2 n^3 operations, by CUDA events; part of the timed result is verified."""
    place = torch.device("cuda", device.index)
    pilot, _ = _rate_tflops(torch, place, dtype, _PILOT_SIZE)
    size = next(size for floor, size in _SIZE_BY_PILOT_TFLOPS if pilot >= floor)
    rate, (a, b, product) = _rate_tflops(torch, place, dtype, size)
    rows, columns = torch.randint(size, (_SAMPLE_ROWS,)), torch.randint(size, (_SAMPLE_COLUMNS,))
    got = product[rows.to(place)][:, columns.to(place)].cpu().double()
    exact = a[rows.to(place)].cpu().double() @ b[:, columns.to(place)].cpu().double()
    name = f"cuda{device.index}.{dtype}"
    judged = judge_product(f"{name}_timed", dtype, got, exact, size)
    return [Metric(f"{name}_rate_tflops", round(rate, 1)), Metric(f"{name}_timed_size", size), *judged]


def _rate_tflops(torch: Any, place: Any, dtype: str, size: int) -> tuple[float, tuple[Any, Any, Any]]:
    """Time products of random matrices under autocast; return the rate, and (a, b, product) of the last."""
    kind = getattr(torch, dtype)
    # already of the narrow type: autocast then has nothing to convert, and the product alone is timed
    a, b = (torch.randn(size, size, device=place).to(kind) for _ in range(2))
    with torch.autocast("cuda", dtype=kind):
        product = a @ b  # makes the handle and loads the kernel
        once_ms = _elapsed_ms(torch, place, a, b, 3) / 3
        repeats = max(3, min(_REPEATS_MAX, int(_TIMED_MS / max(once_ms, 1e-3))))
        elapsed_ms = _elapsed_ms(torch, place, a, b, repeats)
    operations = 2.0 * size**3 * repeats
    return operations / (elapsed_ms / 1000) / 1e12, (a, b, product)


def _elapsed_ms(torch: Any, place: Any, a: Any, b: Any, repeats: int) -> float:
    with torch.cuda.device(place):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(repeats):
            torch.matmul(a, b)
        end.record()
        torch.cuda.synchronize()
    return float(start.elapsed_time(end))
