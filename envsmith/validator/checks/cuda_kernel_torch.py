"""CUDA kernels through PyTorch, compared with float64 on the CPU.

What it proves: the wheel holds code that this GPU runs (elementwise and reduction kernels, floats and integers),
with every element compared. "no kernel image is available" shows here. Level quick runs the elementwise kernel only.
"""

from __future__ import annotations

import math
from typing import Any

from envsmith.validator.check import CheckContext, CheckFailed, CheckOutcome, check
from envsmith.validator.checks.numerics import EPSILON, judge_elements
from envsmith.validator.checks.torch_gpu import only_gpu
from envsmith.wire.results import QUICK, Metric

# No multiples of a block, so that the last block has threads that must do nothing.
_COUNT = 1_000_003
_COUNT_QUICK = 100_003
# elements after the result that no thread may write
_GUARD = 1024


@check(
    id="cuda-kernel-torch", title="CUDA kernels through PyTorch", limit_s=120, needs_gpu=True, needs_torch=True,
    requires=("torch-import",), level=QUICK, per_gpu=True,
)  # fmt: skip
def cuda_kernel_torch(context: CheckContext) -> CheckOutcome:
    """Run them on the GPU of this process."""
    import torch

    place = only_gpu(torch)
    torch.seed()  # fresh inputs in every run
    if context.level == QUICK:
        return CheckOutcome(f"{_COUNT_QUICK} elements right", (_elementwise(torch, place, _COUNT_QUICK),))
    metrics = (_elementwise(torch, place, _COUNT), _reduction(torch, place))
    _integers(torch, place)
    return CheckOutcome(f"{_COUNT} elements, their sum and their running sum right", metrics)


def _elementwise(torch: Any, place: Any, count: int) -> Metric:
    """Sum x + y * z into a poisoned buffer, whose guard must stay untouched."""
    x, y, z = (torch.randn(count) for _ in range(3))
    buffer = torch.full((count + _GUARD,), math.nan, device=place)
    torch.addcmul(x.to(place), y.to(place), z.to(place), out=buffer[:count])
    got = buffer.cpu().double()
    if not bool(got[count:].isnan().all()):
        raise CheckFailed("a kernel wrote past the end of its result")
    exact = x.double() + y.double() * z.double()
    # two roundings, of the product and of the sum, each at most half an epsilon of its result, plus as much again
    bound = EPSILON["float32"] * (x.abs().double() + 2 * (y.double() * z.double()).abs())
    return judge_elements("elementwise_error_ratio", got[:count], exact, bound)


def _reduction(torch: Any, place: Any) -> Metric:
    """A float sum. Its kernel adds in a tree, whose depth bounds the rounding: eps * log2(n) * sum of |x|."""
    x = torch.randn(_COUNT)
    got = x.to(place).sum().cpu().double()
    exact = x.double().sum()
    bound = EPSILON["float32"] * math.log2(_COUNT) * x.double().abs().sum()
    return judge_elements("sum_error_ratio", got.reshape(1), exact.reshape(1), bound.reshape(1))


def _integers(torch: Any, place: Any) -> None:
    """Integer kernels are exact: a running sum against the CPU's."""
    x = torch.randint(-(2**31), 2**31, (_COUNT,))
    if not torch.equal(x.to(place).cumsum(0).cpu(), x.cumsum(0)):
        raise CheckFailed("a running sum of 64-bit integers is wrong")
