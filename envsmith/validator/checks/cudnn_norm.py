"""Batch norm through cuDNN: training with its gradients and running statistics, and inference."""

from __future__ import annotations

import math
from typing import Any

from envsmith.validator.checks.cudnn_shared import Findings, computed_by_cudnn, cudnn_on, gradients, poison_results
from envsmith.validator.checks.numerics import EPSILON

# batch, channels, height, width: a mean is over 1,344 values
_SHAPE = (8, 32, 14, 12)
_VALUES = _SHAPE[0] * _SHAPE[2] * _SHAPE[3]
_MOMENTUM, _EPS = 0.1, 1e-5

# Means and sums are kept in float32 for every type. Their rounding errors add up like a random walk over the
# values, some more where a variance is the mean of squares less the square of the mean. A float16 result is
# then rounded, to 0.2 epsilons in the norm.
_SUM_FACTOR = 8.0
_NARROW_FACTOR = 4.0

_RESULTS = ("forward", "running_mean", "running_variance", "input_gradient", "weight_gradient", "bias_gradient",
            "inference")  # fmt: skip


def limit(dtype: str) -> float:
    """The largest norm of an error, relative to the norm of the exact result."""
    sums = _SUM_FACTOR * math.sqrt(_VALUES) * EPSILON["float32"]
    return sums if dtype == "float32" else sums + _NARROW_FACTOR * EPSILON[dtype]


def run_batch_norm(torch: Any, place: Any, dtype: str, findings: Findings) -> None:
    """Run and judge batch norm; float16 in channels_last order, which has kernels of its own. Raises CheckFailed."""
    name = f"batch_norm_{dtype}"
    kind = getattr(torch, dtype)
    order = torch.contiguous_format if dtype == "float32" else torch.channels_last
    # a mean that is not 0, so that forgetting it shows; values that the type holds exactly
    x, gradient = ((scale * torch.randn(_SHAPE) + mean).to(kind) for scale, mean in ((2.0, 1.0), (1.0, 0.0)))
    rest = [torch.randn(_SHAPE[1]) + 2.0, torch.randn(_SHAPE[1]), torch.randn(_SHAPE[1]), torch.rand(_SHAPE[1]) + 0.5]
    exact, _ = batch_norm(torch, [tensor.double() for tensor in (x, gradient, *rest)])
    with cudnn_on(torch, name):
        on_gpu = [tensor.contiguous(memory_format=order).to(place) for tensor in (x, gradient)]
        poison_results(torch, place, kind, on_gpu)
        results, through_cudnn = batch_norm(torch, [*on_gpu, *(tensor.to(place) for tensor in rest)])
        results = [result.cpu() for result in results]
    for part, got, right in zip(_RESULTS, results, exact):
        findings.judge(f"{name}_{part}", name, got, right, limit(dtype))
    findings.done(name, None if through_cudnn else "kernels of its own")


def batch_norm(torch: Any, given: list[Any]) -> tuple[list[Any], bool]:
    """All results of a training step and of inference, and whether cuDNN computed both.

    given: input, gradient of the result, weight, bias, running mean and variance; the last two are left alone.
    """
    x, gradient, weight, bias, mean, variance = given
    leaves = [tensor.detach().requires_grad_() for tensor in (x, weight, bias)]
    running = [mean.clone(), variance.clone()]
    norm = torch.nn.functional.batch_norm
    out = norm(leaves[0], *running, *leaves[1:], training=True, momentum=_MOMENTUM, eps=_EPS)
    found = gradients(torch, out, leaves, gradient)
    inference = norm(leaves[0], mean, variance, *leaves[1:], training=False, eps=_EPS)
    through_cudnn = computed_by_cudnn(out) and computed_by_cudnn(inference)
    return [out.detach(), *running, *found, inference.detach()], through_cudnn
