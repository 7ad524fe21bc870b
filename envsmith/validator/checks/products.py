"""Matrix products in each type that a GPU has units for: how they are asked of torch, and how they are judged."""

from __future__ import annotations

import contextlib
import math
import os
from dataclasses import dataclass
from typing import Any, Callable, Iterator

from envsmith.validator.checks.numerics import EPSILON, judge_elements, judge_norm
from envsmith.validator.devices import Device
from envsmith.wire.results import Metric


class LeftOut(Exception):  # noqa: N818 - no error: this GPU, torch or environment does not offer the type
    """Why products in a type cannot be had here."""


@dataclass(frozen=True)
class Kind:
    """A type of product. since: the compute capability from which GPUs have units for it.

    operand, result: names of torch's types.
    """

    name: str
    since: tuple[int, int]
    operand: str
    result: str


# bfloat16 below 8.0 is emulated or refused. torch._scaled_mm gives products in float8 as bfloat16, the usual choice.
KINDS = (
    Kind("float32", (0, 0), "float32", "float32"),
    Kind("tfloat32", (8, 0), "float32", "float32"),
    Kind("float16", (0, 0), "float16", "float16"),
    Kind("bfloat16", (8, 0), "bfloat16", "bfloat16"),
    Kind("float8", (8, 9), "float8_e4m3fn", "bfloat16"),
)
BY_NAME = {kind.name: kind for kind in KINDS}


def has(device: Device, kind: Kind) -> bool:
    """Whether the GPU has units for the type."""
    major, _, minor = device.compute_capability.partition(".")
    return (int(major), int(minor)) >= kind.since


def narrow_kind(device: Device) -> Kind:
    """The type that training on this GPU uses: bfloat16 where it has it, else float16."""
    return BY_NAME["bfloat16"] if has(device, BY_NAME["bfloat16"]) else BY_NAME["float16"]


@contextlib.contextmanager
def precision(torch: Any, kind: Kind) -> Iterator[None]:
    """Have float32 operands multiplied as the kind says: TF32 allowed or forbidden; as it was before on leaving.

    Raises LeftOut where the environment forces the other.
    """
    if kind.operand != "float32":
        yield
        return
    wanted = kind.name == "tfloat32"
    settings = torch.backends.cuda.matmul
    before = settings.allow_tf32
    settings.allow_tf32 = wanted
    try:
        if settings.allow_tf32 is not wanted:
            raise LeftOut("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE forces TF32 here")
        if wanted and os.environ.get("NVIDIA_TF32_OVERRIDE") == "0":
            raise LeftOut("NVIDIA_TF32_OVERRIDE=0 forbids TF32 here")
        yield
    finally:
        settings.allow_tf32 = before


def operands(torch: Any, kind: Kind, shape: tuple[int, int, int], place: Any) -> tuple[Any, Any]:
    """Fresh normal random matrices (rows, terms) and (terms, columns); shape is (rows, terms, columns).

    For float8 the second is stored by columns, as its units take it. Raises LeftOut.
    """
    rows, terms, columns = shape
    dtype = getattr(torch, kind.operand, None)
    if dtype is None:
        raise LeftOut(f"torch {torch.__version__} has no {kind.operand}")
    # made in float32: the normal numbers of older torch come in no narrow type
    a = torch.randn(rows, terms, device=place).to(dtype)
    if kind.name == "float8":
        return a, torch.randn(columns, terms, device=place).to(dtype).t()
    return a, torch.randn(terms, columns, device=place).to(dtype)


def multiply(torch: Any, kind: Kind, place: Any, fast_accumulation: bool = False) -> Callable[[Any, Any], Any]:
    """The function that multiplies two operands of the kind.

    fast_accumulation: of float8, whose units on Hopper keep sums to 14 bits only; else partial sums are moved to
    float32 again and again, which costs some of the rate. Raises LeftOut, as the function does.
    """
    if kind.name != "float8":
        matmul: Callable[[Any, Any], Any] = torch.matmul
        return matmul
    scaled = getattr(torch, "_scaled_mm", None)
    if scaled is None:
        raise LeftOut(f"torch {torch.__version__} has no product of float8")
    one = torch.ones((), device=place)

    def product(a: Any, b: Any) -> Any:
        try:
            # by name: the order changed in torch 2.5, which returns the product alone; before, a pair
            result = scaled(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=fast_accumulation)
        except (RuntimeError, TypeError) as error:
            if not refuses(error):
                raise
            raise LeftOut(f"torch {torch.__version__} offers no product of float8 on this GPU") from error
        return result[0] if isinstance(result, tuple) else result

    return product


def refuses(error: Exception) -> bool:
    """Whether torch or cuBLAS says that it does not offer a product of float8, rather than that one went wrong.

    torch 2.1 knew only capability 9.0; a build for CUDA 11 has none; cuBLAS before 12.1 lacks some.
    """
    text = str(error).lower()
    words = ("only supported", "not supported", "not_supported", "not compiled", "not implemented", "requires cuda")
    return isinstance(error, TypeError) or any(word in text for word in words)


def judge_product(name: str, kind: Kind, got: Any, exact: Any, terms: int) -> list[Metric]:
    """Judge (part of) a product of standard normal matrices, `terms` products an element; all as float64 on the CPU.

    Metrics: {name}_error_ratio and {name}_relative_error. Raises CheckFailed.
    """
    bound = bounds(kind, terms)
    return [
        judge_elements(f"{name}_error_ratio", got, exact, bound.relative * exact.abs() + bound.absolute),
        judge_norm(f"{name}_relative_error", got, exact, bound.norm),
    ]


@dataclass(frozen=True)
class Bounds:
    """An element may be off by relative * |element| + absolute, all together by `norm` of the Euclidean norm."""

    relative: float
    absolute: float
    norm: float


def bounds(kind: Kind, terms: int) -> Bounds:
    """What rounding explains in a product of standard normal matrices. Partial sums of k products have size sqrt(k).

    float32: added one after the other, the worst order, k roundings of half an epsilon of sqrt(k) make a random walk
    of 0.2 * terms * epsilon, so 4 is 20 of its standard deviations; relative to sqrt(terms), sqrt(terms) * epsilon is 6
    of those. TF32 in its place is off by 0.3 (rounded) or 0.8 (cut) * 2^-10: with 1024 terms more than 70 times that.

    tfloat32: operands are cut or rounded to 10 bits, which changes each of the products by at most 2 epsilon of it, and
    always towards zero when cut. The common part of that is at most 2 epsilon of the sum; the rest is independent, so
    by Hoeffding's inequality 10 * sqrt(terms) * epsilon is exceeded with a chance below 1e-13 an element.

    Narrow types: sums are kept in float32, and what is seen is the rounding of the result. Where cuBLAS splits a sum,
    as it may by default, its parts are rounded and added in the narrow type: 32 parts, more than it takes, were
    simulated to be off by 6 * sqrt(terms) * epsilon at most, and by one epsilon in the norm. The sums of float8, of 14
    bits where fast accumulation is asked for, were simulated to be off by a third of that.
    """
    spread = math.sqrt(terms)
    if kind.name == "float32":
        epsilon = EPSILON["float32"]
        return Bounds(0.0, 4 * terms * epsilon, spread * epsilon)
    if kind.name == "tfloat32":
        epsilon = EPSILON["tfloat32"]
        return Bounds(2 * epsilon, 10 * spread * epsilon, 2 * epsilon)
    epsilon = EPSILON[kind.result]
    return Bounds(epsilon, 12 * spread * epsilon, 2 * epsilon)
