"""The convolutions that are checked: their shapes and types, their exact results, and how far cuDNN may be off."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from envsmith.validator.checks.cudnn_shared import gradients, torch_dtype
from envsmith.validator.checks.numerics import EPSILON

PARTS = ("forward", "input_gradient", "weight_gradient")
TYPES = ("float32", "tfloat32", "float16", "bfloat16")

# What the norm of an error may be, in epsilons of the type and relative to the norm of the exact result.
#
# float32: the rounding errors of a sum of K random products add up like a random walk; summed one after the other
# they come to 0.15 sqrt(K) epsilons. A Winograd F(4x4, 3x3) transform, which cuDNN may take, makes that 0.7 sqrt(K)
# at the smallest K here. TF32, which is switched off, comes to 2,490 epsilons, of which 384 are the most allowed.
_FLOAT32_FACTOR = 8.0
# Narrow types: sums are kept in float32, so what is seen is the rounding of the operands to TF32 (0.3 epsilons, 0.8
# where they are cut off) or of the result (0.2). More comes from Winograd's transformed operands, rounded to the
# type (3.7), and from a weight gradient that is split into S sums which are added in the type (1.3 for S = 64,
# 2.5 for S = 256). bfloat16 gets less room: an element may then be off by half of what a wrong one is off by.
_NARROW_FACTORS = {"tfloat32": 16.0, "float16": 16.0, "bfloat16": 8.0}

# Below it float16 has not the significand of bfloat16, so a value would not be the same in both.
_SMALLEST_NORMAL_FLOAT16 = 2.0**-14


@dataclass(frozen=True)
class Shape:
    """A convolution of stride 1 whose result has the size of its input: batch, channels in and out, size, kernel.

    Small enough for float64 on one core of a CPU (0.05 s); channels are multiples of 8, which tensor cores need.
    """

    batch: int
    channels_in: int
    channels_out: int
    size: tuple[int, ...]
    kernel: int = 3

    @property
    def words(self) -> str:
        """How many dimensions it has: "2d" or "3d"."""
        return f"{len(self.size)}d"

    def terms(self, part: str) -> int:
        """How many products are summed for one element of a result."""
        taps: int = self.kernel ** len(self.size)
        return {
            "forward": self.channels_in * taps,
            "input_gradient": self.channels_out * taps,
            "weight_gradient": self.batch * math.prod(self.size),
        }[part]

    def operand_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of the input, the weight, and the gradient of the result."""
        return (
            (self.batch, self.channels_in, *self.size),
            (self.channels_out, self.channels_in, *([self.kernel] * len(self.size))),
            (self.batch, self.channels_out, *self.size),
        )


PLANE = Shape(4, 24, 32, (24, 24))
VOLUME = Shape(2, 16, 24, (8, 12, 12))


@dataclass(frozen=True)
class Case:
    """One convolution, forward and backward. dtype: one of TYPES; "tfloat32" is float32 where TF32 is allowed."""

    dtype: str
    shape: Shape
    channels_last: bool = False

    @property
    def name(self) -> str:
        """For example "float16_2d_channels_last"."""
        return f"{self.dtype}_{self.shape.words}" + ("_channels_last" if self.channels_last else "")

    def limit(self, part: str) -> float:
        """The largest norm of the error, relative to the norm of the exact result; see above for the figures."""
        if self.dtype == "float32":
            return _FLOAT32_FACTOR * math.sqrt(self.shape.terms(part)) * EPSILON["float32"]
        return _NARROW_FACTORS[self.dtype] * EPSILON[self.dtype]


# One that torch always gives to cuDNN.
QUICK_CASE = Case("float32", PLANE)


def cases(types: tuple[str, ...]) -> tuple[Case, ...]:
    """Each type in two and three dimensions, in both orders of memory; the quick one comes first."""
    return tuple(Case(dtype, shape, last) for dtype in types for shape in (PLANE, VOLUME) for last in (False, True))


class References:
    """Random operands and the exact results, float64 on the CPU, made once for all cases that can share them."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._made: dict[tuple[Shape, bool], tuple[list[Any], dict[str, Any]]] = {}

    def of(self, case: Case) -> tuple[list[Any], dict[str, Any]]:
        """The operands of a case (input, weight, gradient of the result), and the exact result of each part."""
        narrow = case.dtype in ("float16", "bfloat16")
        key = (case.shape, narrow)
        if key not in self._made:
            given = operands(self._torch, case.shape, narrow)
            self._made[key] = given, convolve(self._torch, given)
        return self._made[key]


def operands(torch: Any, shape: Shape, narrow: bool) -> list[Any]:
    """Fresh random values that float32 holds exactly, all its bits in use; narrow: that float16 and bfloat16 hold."""
    values = [torch.randn(size) for size in shape.operand_shapes()]
    if narrow:
        values = [value.bfloat16().float() for value in values]
        values = [value.masked_fill(value.abs() < _SMALLEST_NORMAL_FLOAT16, 0.0) for value in values]
    return [value.double() for value in values]


def convolve(torch: Any, given: list[Any]) -> dict[str, Any]:
    """The convolution and its two gradients, wherever and in whatever type and order of memory the operands are."""
    x, weight = (tensor.detach().requires_grad_() for tensor in given[:2])
    function = torch.nn.functional.conv2d if x.dim() == 4 else torch.nn.functional.conv3d
    out = function(x, weight, padding=weight.shape[-1] // 2)
    return dict(zip(PARTS, (out.detach(), *gradients(torch, out, (x, weight), given[2]))))


def placed(torch: Any, case: Case, given: list[Any], place: Any) -> list[Any]:
    """The operands on a device, in the type and the order of memory of the case."""
    last = torch.channels_last if len(case.shape.size) == 2 else torch.channels_last_3d
    order = last if case.channels_last else torch.contiguous_format
    return [t.to(torch_dtype(torch, case.dtype)).contiguous(memory_format=order).to(place) for t in given]
