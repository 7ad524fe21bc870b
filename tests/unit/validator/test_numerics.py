"""Judging results: the part that needs no torch. The rest is proved on GPUs (`tests/gpu/test_checks_on_gpu.py`)."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from envsmith.validator.check import CheckFailed
from envsmith.validator.checks.numerics import EPSILON, judge_elements, judge_norm


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
