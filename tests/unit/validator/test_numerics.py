"""Judging results: the part that needs no torch. The rest is proved on GPUs (`tests/gpu/test_checks_on_gpu.py`)."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from envsmith.validator.check import CheckFailed
from envsmith.validator.checks.numerics import EPSILON, judge_elements, judge_norm, poison


def test_epsilon_is_the_distance_from_one_to_the_next_number() -> None:
    assert 1.0 + EPSILON["float64"] != 1.0
    assert 1.0 + EPSILON["float64"] / 2 == 1.0
    order = ("float64", "float32", "tfloat32", "float16", "bfloat16", "float8_e4m3fn")
    assert [EPSILON[name] for name in order] == sorted(EPSILON[name] for name in order)
    assert EPSILON["tfloat32"] == EPSILON["float16"] == 2**-10  # TF32 has the significand of float16


def test_a_result_of_another_shape_is_not_broadcast() -> None:
    got, exact = SimpleNamespace(shape=(3, 1)), SimpleNamespace(shape=(3, 4))
    for judge in (judge_elements, judge_norm):
        with pytest.raises(CheckFailed, match=r"product: the result has shape \(3, 1\), expected \(3, 4\)"):
            judge("product", got, exact, 1.0)


class FakeAllocator:
    """torch with a GPU of which some blocks are free; then more memory is reserved, or there is none."""

    class OutOfMemoryError(RuntimeError):
        pass

    def __init__(self, free_blocks: int, *, full: bool) -> None:
        self.free_blocks, self.is_full, self.made, self.reserved = free_blocks, full, 0, 1
        self.cuda = SimpleNamespace(memory_reserved=lambda _: self.reserved, OutOfMemoryError=self.OutOfMemoryError)

    def full(self, shape: tuple[int, ...], value: float, *, device: object, dtype: object) -> object:
        if self.made >= self.free_blocks:
            if self.is_full:
                raise self.OutOfMemoryError
            self.reserved += 1
        self.made += 1
        return object()


@pytest.mark.parametrize(
    ("free_blocks", "full", "made"), [(7, False, 8), (1, False, 2), (7, True, 7), (9999, False, 512)]
)
def test_all_free_blocks_are_poisoned_and_little_more(free_blocks: int, full: bool, made: int) -> None:
    torch = FakeAllocator(free_blocks, full=full)
    poison(torch, (3,), SimpleNamespace(type="cuda"), "float32")
    assert torch.made == made
