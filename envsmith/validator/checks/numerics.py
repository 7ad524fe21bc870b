"""How results are judged: against float64, with bounds that each check derives and explains where it has them."""

from __future__ import annotations

import contextlib
import math
from typing import Any

from envsmith.validator.check import CheckFailed
from envsmith.wire.results import Metric

_TINY = 1e-300
# Distance from 1 to the next number: 2 ** -(stored bits of the significand).
EPSILON = {
    "float64": 2.0**-52,
    "float32": 2.0**-23,
    "tfloat32": 2.0**-10,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float8_e4m3fn": 2.0**-3,
}


# Enough to use up a cached segment of 20 MB in pieces of a few dozen kilobytes.
_POISONED_MAX = 512


def poison(torch: Any, shape: tuple[int, ...], place: Any, dtype: Any) -> None:
    """Fill with NaN all memory from which torch's allocator may take the next result of that size.

    An element that a kernel never writes is then NaN, and not the right number of an earlier result. Which of
    its free blocks the allocator takes is its own affair: tensors are made until it needs new memory, then all are
    freed.
    """
    held = [torch.full(shape, math.nan, device=place, dtype=dtype)]
    if place.type != "cuda":
        return
    reserved_bytes = torch.cuda.memory_reserved(place)
    # a GPU that is full has no new memory to give, and by then all of its free blocks are filled
    with contextlib.suppress(torch.cuda.OutOfMemoryError):
        while torch.cuda.memory_reserved(place) == reserved_bytes and len(held) < _POISONED_MAX:
            held.append(torch.full(shape, math.nan, device=place, dtype=dtype))


def judge_elements(name: str, got: Any, exact: Any, bound: Any) -> Metric:
    """Compare float64 tensors element by element; return the largest |got - exact| / bound, which may be 1.

    Raises CheckFailed if it is more, or if anything is not finite: a poisoned element that was never written
    is NaN.
    """
    _require_same_shape(name, got, exact)
    unwritten = int((~got.isfinite()).sum())
    # where the bound is 0 the result must be exact
    ratio = float(((got - exact).abs() / bound.clamp_min(_TINY)).max()) if not unwritten else math.nan
    metric = Metric(name, ratio, 1.0)
    if unwritten:
        raise CheckFailed(f"{name}: {unwritten} of {got.numel()} elements are NaN or infinite", (metric,))
    if not ratio <= 1.0:
        wrong = int(((got - exact).abs() > bound).sum())
        raise CheckFailed(
            f"{name}: {wrong} of {got.numel()} elements are off by more than rounding explains "
            f"(the worst by {ratio:.3g} times the bound)",
            (metric,),
        )
    return metric


def judge_norm(name: str, got: Any, exact: Any, limit: float) -> Metric:
    """Compare float64 tensors as a whole; return |got - exact| / |exact| (Euclidean norms).

    Raises CheckFailed if it is more than the limit or not a number.
    """
    _require_same_shape(name, got, exact)
    error = float((got - exact).norm() / exact.norm())
    metric = Metric(name, error, limit)
    if not error <= limit:
        raise CheckFailed(f"{name}: {error:.3g}, more than the {limit:.3g} that rounding explains", (metric,))
    return metric


def _require_same_shape(name: str, got: Any, exact: Any) -> None:
    """Raise CheckFailed for another shape, which broadcasting would compare all the same."""
    if got.shape != exact.shape:
        raise CheckFailed(f"{name}: the result has shape {tuple(got.shape)}, expected {tuple(exact.shape)}")
