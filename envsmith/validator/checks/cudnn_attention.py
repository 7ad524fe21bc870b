"""Scaled-dot-product attention through cuDNN, forward and backward, where torch and the GPU offer it."""

from __future__ import annotations

import math
import re
import warnings
from typing import Any, Sequence

from envsmith.validator.checks.cudnn_shared import Findings, computed_by_cudnn, cudnn_on, gradients, poison_results
from envsmith.validator.checks.numerics import EPSILON
from envsmith.validator.versions import release

# batch, heads, sequence, head; lengths that every version of cuDNN takes
_SHAPE = (2, 4, 128, 64)
# The backend came with it, as a beta; before, it was an experiment.
_SINCE_TORCH = (2, 5)

# Sums are kept in float32. The probabilities, the gradients of the scores and the result are rounded to the type,
# each to 0.2 epsilons of it in the norm; the gradients of query and key are made of all three: 0.3. Without a mask
# all positions weigh about the same, so that one bound fits all elements.
_FACTOR = 4.0

_RESULTS = ("forward", "query_gradient", "key_gradient", "value_gradient")
# How torch and the part of cuDNN that plans say that they do not offer it, apart from failing at it.
_REFUSALS = ("No available kernel", "No viable backend", "No valid execution plans", "No valid engine configs",
             "No execution plans support the graph", "CUDNN_STATUS_NOT_SUPPORTED", "is not supported")  # fmt: skip


def limit(dtype: str) -> float:
    """The largest norm of an error, relative to the norm of the exact result."""
    return _FACTOR * EPSILON[dtype]


def run_attention(torch: Any, place: Any, dtype: str, findings: Findings) -> None:
    """Run and judge attention; leave it out where it is not offered. Raises CheckFailed."""
    name = f"attention_{dtype}"
    if release(str(torch.__version__)) < _SINCE_TORCH:
        findings.left_out.append(f"{name} (needs torch 2.5)")
        return
    kind = getattr(torch, dtype)
    given = [torch.randn(_SHAPE).to(kind) for _ in range(4)]
    exact, _ = attention(torch, [tensor.double() for tensor in given], by_definition)
    with cudnn_on(torch, name), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        on_gpu = [tensor.to(place) for tensor in given]
        poison_results(torch, place, kind, on_gpu)
        try:
            results, through_cudnn = attention(torch, on_gpu, through_cudnn_only)
        except RuntimeError as error:
            reason = refusal(str(error), [str(warning.message) for warning in said])
            if reason is None:
                raise
            findings.left_out.append(f"{name} ({reason})")
            return
        results = [result.cpu() for result in results]
    for part, got, right in zip(_RESULTS, results, exact):
        findings.judge(f"{name}_{part}", name, got, right, limit(dtype))
    findings.done(name, None if through_cudnn else "another library")


def attention(torch: Any, given: Sequence[Any], function: Any) -> tuple[list[Any], bool]:
    """The result and the gradients of query, key and value, and whether cuDNN computed them."""
    leaves = [tensor.detach().requires_grad_() for tensor in given[:3]]
    out = function(torch, *leaves)
    return [out.detach(), *gradients(torch, out, leaves, given[3])], computed_by_cudnn(out)


def by_definition(torch: Any, query: Any, key: Any, value: Any) -> Any:
    """softmax(query key^T / sqrt(head)) value."""
    return torch.softmax(query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1]), -1) @ value


def through_cudnn_only(torch: Any, query: Any, key: Any, value: Any) -> Any:
    """The same by torch's function with cuDNN as the only backend. Raises RuntimeError where it is not offered."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return torch.nn.functional.scaled_dot_product_attention(query, key, value)


def refusal(error: str, said: Sequence[str]) -> str | None:
    """Why attention through cuDNN is not offered, in torch's words; None if it is offered and failed.

    torch says why in a warning that follows the line "cuDNN attention kernel not used because:".
    """
    if not any(words in error for words in _REFUSALS):
        return None
    after = False
    for warning in said:
        if after:
            return re.sub(r" ?\(Triggered internally at .*", "", warning).strip()
        after = "cudnn attention kernel not used because" in warning.lower()
    return error.strip().splitlines()[0]
