"""Which products are run on which GPU, and bounds that rounding keeps and a wrong type of product does not.

The products themselves need torch and a GPU: `tests/gpu/test_rates_on_gpu.py`.
"""

from __future__ import annotations

import math
import random
import struct
from types import SimpleNamespace

import pytest

from envsmith.validator.checks.amp_matmul import cases
from envsmith.validator.checks.products import (
    BY_NAME,
    KINDS,
    LeftOut,
    bounds,
    has,
    multiply,
    narrow_kind,
    operands,
    precision,
    refuses,
)
from envsmith.validator.devices import Device

TERMS = 1024


def gpu(capability: str) -> Device:
    return Device(0, "a GPU", capability)


@pytest.mark.parametrize(
    ("capability", "kinds"),
    [
        ("5.0", ["float32", "float16"]),
        ("7.5", ["float32", "float16"]),
        ("8.0", ["float32", "tfloat32", "float16", "bfloat16"]),
        ("8.6", ["float32", "tfloat32", "float16", "bfloat16"]),
        ("8.9", ["float32", "tfloat32", "float16", "bfloat16", "float8"]),
        ("10.0", ["float32", "tfloat32", "float16", "bfloat16", "float8"]),
        ("12.1", ["float32", "tfloat32", "float16", "bfloat16", "float8"]),
    ],
)
def test_a_gpu_has_the_types_of_its_capability(capability: str, kinds: list[str]) -> None:
    assert [kind.name for kind in KINDS if has(gpu(capability), kind)] == kinds


def test_quick_runs_one_product_under_autocast() -> None:
    for capability, name in (("7.0", "float16_autocast"), ("9.0", "bfloat16_autocast")):
        (case,) = cases("quick", gpu(capability))
        assert case.name == name
        assert case.autocast
        assert case.kind is narrow_kind(gpu(capability))


@pytest.mark.parametrize("level", ["standard", "stress"])
def test_standard_runs_every_kind_and_the_awkward_layouts(level: str) -> None:
    chosen = cases(level, gpu("9.0"))
    assert {case.kind.name for case in chosen} == {kind.name for kind in KINDS}
    assert len({case.name for case in chosen}) == len(chosen)
    assert any(case.transposed for case in chosen)
    assert any(all(side % 8 for side in case.shape) for case in chosen)
    assert {case.kind.name for case in chosen if case.autocast} == {"float16", "bfloat16"}


def cut(value: float, stored_bits: int) -> float:
    """A float32 number with fewer stored bits of its significand: TF32 has 10."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return struct.unpack("<f", struct.pack("<I", bits & ~((1 << (23 - stored_bits)) - 1)))[0]


def as_float32(value: float) -> float:
    return struct.unpack("<f", struct.pack("<f", value))[0]


def element(source: random.Random) -> tuple[list[float], list[float]]:
    """A row and a column of float32 numbers."""
    return [as_float32(source.gauss(0, 1)) for _ in range(TERMS)], [
        as_float32(source.gauss(0, 1)) for _ in range(TERMS)
    ]


def test_tf32_in_place_of_float32_is_seen_in_one_element_and_in_the_norm() -> None:
    source = random.Random(1)
    float32, tfloat32 = bounds(BY_NAME["float32"], TERMS), bounds(BY_NAME["tfloat32"], TERMS)
    errors, sums = [], []
    for _ in range(20):
        row, column = element(source)
        exact = math.fsum(a * b for a, b in zip(row, column, strict=True))
        got = math.fsum(cut(a, 10) * cut(b, 10) for a, b in zip(row, column, strict=True))
        errors.append(abs(got - exact))
        sums.append(exact)
        assert errors[-1] < 0.5 * (tfloat32.relative * abs(exact) + tfloat32.absolute)
    assert max(errors) > 50 * float32.absolute
    relative = math.hypot(*errors) / math.hypot(*sums)
    assert relative > 50 * float32.norm
    assert relative < tfloat32.norm


def test_float32_sums_in_the_worst_order_are_far_within_their_bounds() -> None:
    source = random.Random(2)
    allowed = bounds(BY_NAME["float32"], TERMS)
    for _ in range(20):
        row, column = element(source)
        exact = math.fsum(a * b for a, b in zip(row, column, strict=True))
        total = 0.0
        for a, b in zip(row, column, strict=True):
            total = as_float32(total + a * b)
        assert abs(total - exact) < 0.5 * allowed.absolute


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8"])
def test_an_element_of_another_place_is_not_within_the_bounds(name: str) -> None:
    """Two elements differ by sqrt(2 * terms), mostly: several times what is allowed."""
    for terms in (TERMS, 8192):
        allowed = bounds(BY_NAME[name], terms)
        assert math.sqrt(2 * terms) > 5 * (allowed.relative * math.sqrt(terms) + allowed.absolute)
        assert allowed.norm < 0.02


class Matmul:
    """torch.backends.cuda.matmul, whose setting an environment may force."""

    def __init__(self, forced: bool = False) -> None:
        self.forced = forced
        self.value = False

    @property
    def allow_tf32(self) -> bool:
        return self.forced or self.value

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        self.value = value


def fake_torch(matmul: Matmul) -> SimpleNamespace:
    backends = SimpleNamespace(cuda=SimpleNamespace(matmul=matmul))
    return SimpleNamespace(backends=backends, __version__="2.0.1", ones=lambda *args, **more: 1, bfloat16="bfloat16")


def test_precision_is_set_and_given_back() -> None:
    matmul = Matmul()
    with precision(fake_torch(matmul), BY_NAME["tfloat32"]):
        assert matmul.allow_tf32
    assert not matmul.allow_tf32
    matmul.allow_tf32 = True
    with precision(fake_torch(matmul), BY_NAME["float32"]):
        assert not matmul.allow_tf32
    assert matmul.allow_tf32


def test_a_precision_that_the_environment_forbids_is_left_out_and_not_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        pytest.raises(LeftOut, match="TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"),
        precision(fake_torch(Matmul(forced=True)), BY_NAME["float32"]),
    ):
        pass
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    with pytest.raises(LeftOut, match="NVIDIA_TF32_OVERRIDE=0"), precision(fake_torch(Matmul()), BY_NAME["tfloat32"]):
        pass


def test_a_torch_without_float8_leaves_it_out() -> None:
    torch = fake_torch(Matmul())
    with pytest.raises(LeftOut, match="no float8_e4m3fn"):
        operands(torch, BY_NAME["float8"], (16, 16, 16), "cpu")
    with pytest.raises(LeftOut, match="no product of float8"):
        multiply(torch, BY_NAME["float8"], "cpu")


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("torch._scaled_mm is only supported on devices with compute capability >= 9.0 or 8.9"),
        RuntimeError("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasLtMatmulAlgoGetHeuristic(`"),
        RuntimeError("_scaled_mm_out_cuda is not compiled for this platform."),
        TypeError("_scaled_mm() got an unexpected keyword argument 'use_fast_accum'"),
    ],
)
def test_a_float8_product_that_is_not_offered_is_left_out(error: Exception) -> None:
    def scaled(*args: object, **more: object) -> object:
        raise error

    torch = fake_torch(Matmul())
    torch._scaled_mm = scaled
    with pytest.raises(LeftOut, match=r"torch 2\.0\.1 offers no product of float8"):
        multiply(torch, BY_NAME["float8"], "cpu")(1, 2)


def test_a_float8_product_that_goes_wrong_is_no_missing_one() -> None:
    def scaled(*args: object, **more: object) -> object:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    torch = fake_torch(Matmul())
    torch._scaled_mm = scaled
    with pytest.raises(RuntimeError, match="illegal memory access"):
        multiply(torch, BY_NAME["float8"], "cpu")(1, 2)
    assert not refuses(RuntimeError("CUBLAS_STATUS_EXECUTION_FAILED"))


def test_the_pair_of_older_torch_is_taken_apart() -> None:
    torch = fake_torch(Matmul())
    torch._scaled_mm = lambda a, b, **more: (a * b, "the largest")
    assert multiply(torch, BY_NAME["float8"], "cpu")(2, 3) == 6
    torch._scaled_mm = lambda a, b, **more: a * b
    assert multiply(torch, BY_NAME["float8"], "cpu")(2, 3) == 6
