"""Matrix products in every type that the GPU has units for, plain and under autocast (AMP).

What it proves: cuBLAS computes every element right to the precision of its type, in float32, TF32, float16, bfloat16
and float8, also with transposed operands and with sizes that fit no tile; float32 is float32 where TF32 is forbidden;
and autocast takes the type that it should. A type that the GPU or torch does not have is left out, and named. Level
quick runs one product under autocast.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from envsmith.validator.check import CheckContext, CheckFailed, CheckOutcome, check
from envsmith.validator.checks.numerics import poison
from envsmith.validator.checks.products import (
    BY_NAME,
    Kind,
    LeftOut,
    has,
    judge_product,
    multiply,
    narrow_kind,
    operands,
    precision,
)
from envsmith.validator.checks.torch_gpu import only_gpu
from envsmith.validator.devices import Device
from envsmith.validator.occupied import occupied_is_no_fault
from envsmith.wire.results import QUICK, Metric

# (rows, terms, columns): float64 on one core of a CPU takes some 50 ms for the first.
_SHAPE = (512, 1024, 512)
_ODD_SHAPE = (333, 1027, 271)
_QUICK_SHAPE = (256, 512, 256)


@dataclass(frozen=True)
class Case:
    """One product. autocast: float32 operands, which autocast rounds to the kind. transposed: stored by columns."""

    name: str
    kind: Kind
    shape: tuple[int, int, int] = _SHAPE
    autocast: bool = False
    transposed: bool = False


_CASES = (
    Case("float32", BY_NAME["float32"]),
    Case("tfloat32", BY_NAME["tfloat32"]),
    Case("float16", BY_NAME["float16"]),
    Case("float16_transposed", BY_NAME["float16"], transposed=True),
    Case("float16_autocast", BY_NAME["float16"], _ODD_SHAPE, autocast=True),
    Case("bfloat16", BY_NAME["bfloat16"]),
    Case("bfloat16_autocast", BY_NAME["bfloat16"], autocast=True),
    Case("float8", BY_NAME["float8"]),
)


@check(
    id="amp-matmul", title="Matrix products in every type, and under autocast", limit_s=180, needs_gpu=True,
    needs_torch=True, requires=("cuda-kernel-torch",), level=QUICK, per_gpu=True,
)  # fmt: skip
def amp_matmul(context: CheckContext) -> CheckOutcome:
    """Check every product that this GPU has."""
    import torch

    metrics: list[Metric] = []
    right: list[str] = []
    left_out: list[str] = []
    with occupied_is_no_fault(context.device):
        place = only_gpu(torch)
        torch.seed()
        for case in cases(context.level, context.only_device):
            measured, reason = _try(torch, place, case, context.only_device)
            metrics += measured
            (left_out if reason else right).append(case.name + reason)
    message = f"{', '.join(right)} right" + (f"; left out: {', '.join(left_out)}" if left_out else "")
    return CheckOutcome(message, tuple(metrics))


def cases(level: str, device: Device) -> tuple[Case, ...]:
    """All, or at level quick the one that stands for the others."""
    if level != QUICK:
        return _CASES
    kind = narrow_kind(device)
    return (Case(f"{kind.name}_autocast", kind, _QUICK_SHAPE, autocast=True),)


def _try(torch: Any, place: Any, case: Case, device: Device) -> tuple[list[Metric], str]:
    """Return the metrics and "", or none and why the case was left out, in brackets. Raises CheckFailed."""
    if not has(device, case.kind):
        return [], " (not a type of this GPU)"
    try:
        return check_product(torch, place, case), ""
    except LeftOut as reason:
        return [], f" ({reason})"


def check_product(torch: Any, place: Any, case: Case) -> list[Metric]:
    """Every element of one product against float64 on the CPU. Raises LeftOut, CheckFailed."""
    kind = BY_NAME["float32"] if case.autocast else case.kind
    a, b = operands(torch, kind, case.shape, "cpu")
    if case.transposed:
        a, b = a.t().contiguous().t(), b.t().contiguous().t()
    on_gpu = a.to(place), b.to(place)
    if case.autocast:  # which rounds to the nearest, as the CPU does here
        a, b = (tensor.to(getattr(torch, case.kind.operand)) for tensor in (a, b))
    rows, terms, columns = case.shape
    result = getattr(torch, case.kind.result)
    product = multiply(torch, kind, place)
    autocast = torch.autocast(place.type, dtype=result) if case.autocast else nullcontext()
    with precision(torch, case.kind), autocast:
        poison(torch, (rows, columns), place, result)
        got = product(*on_gpu)
    if got.dtype != result:
        raise CheckFailed(f"{case.name}: the product is {got.dtype}, expected {result}")
    return judge_product(case.name, case.kind, got.cpu().double(), a.double() @ b.double(), terms)
