"""Judgements about wheels, drivers and GPUs, on a matrix of a few rows."""

from __future__ import annotations

import pytest

from envsmith.model import fit
from tests.machines import small_matrix

MATRIX = small_matrix()


@pytest.mark.parametrize(
    ("gpu", "binary", "ptx", "expected"),
    [
        ("9.0", ("8.0", "9.0"), (), fit.Code(fit.MACHINE_CODE, "9.0")),
        ("8.9", ("8.0", "8.6"), (), fit.Code(fit.MACHINE_CODE, "8.6")),
        ("8.0", ("8.6",), (), None),
        ("10.3", ("9.0", "10.0"), (), fit.Code(fit.MACHINE_CODE, "10.0")),
        ("12.0", ("9.0",), ("9.0",), fit.Code(fit.PTX, "9.0")),
        ("12.0", ("9.0a",), (), None),
        ("9.0", ("9.0a",), (), fit.Code(fit.MACHINE_CODE, "9.0a")),
        ("6.1", ("7.0",), ("7.0",), None),
    ],
)
def test_code_for(gpu, binary, ptx, expected):
    assert fit.code_for(gpu, binary, ptx) == expected


@pytest.mark.parametrize(
    ("wheel_cuda", "driver", "driver_cuda", "expected"),
    [
        ("12.4", "550.54.15", None, fit.NATIVE),
        ("12.4", "550.54.14", None, fit.NATIVE),
        ("12.4", "535.183.01", None, fit.MINOR_VERSION),
        ("12.4", "525.60.13", "12.0", fit.MINOR_VERSION),
        ("12.4", "470.256.02", "11.4", None),
        ("13.0", "575.57.08", "12.9", None),
        ("11.8", "580.95.05", "13.0", fit.NATIVE),
        # a compat libcuda reports its own CUDA over an older kernel driver
        ("13.0", "535.183.01", "13.0", fit.NATIVE),
    ],
)
def test_how_driver_runs(wheel_cuda, driver, driver_cuda, expected):
    assert fit.how_driver_runs(MATRIX, wheel_cuda, driver, driver_cuda) == expected


def test_a_newer_driver_never_runs_less():
    order = [None, fit.MINOR_VERSION, fit.NATIVE]
    ranks = [
        order.index(fit.how_driver_runs(MATRIX, "12.4", driver))
        for driver in ("470.1", "525.60.12", "525.60.13", "550.54.13", "550.54.14", "580.1")
    ]
    assert ranks == sorted(ranks)


def test_forward_compat_is_for_the_listed_branches():
    assert fit.forward_compat(MATRIX, "12.4", "470.256.02").package == "cuda-compat-12-4"
    assert fit.forward_compat(MATRIX, "12.4", "510.47.03") is None
    assert fit.forward_compat(MATRIX, "12.9", "470.256.02") is None


@pytest.mark.parametrize("name", ["NVIDIA H200", "H200", "nvidia h200"])
def test_product_named(name):
    assert fit.product_named(MATRIX, name).compute_capability == "9.0"


def test_an_unknown_product_is_no_product():
    assert fit.product_named(MATRIX, "NVIDIA H2000") is None
