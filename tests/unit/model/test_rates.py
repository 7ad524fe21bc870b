"""Units and peaks of measured rates: a metric and what it is held against are in one unit, by their names."""

from __future__ import annotations

from dataclasses import fields

import pytest

from envsmith.model.matrix import GpuProduct
from envsmith.model.rates import (
    NVLINK_ONE_WAY,
    PCIE,
    QUANTITIES,
    device_index,
    device_name,
    pcie_peak_gb_s,
    rate_text,
    unit_of,
)


@pytest.mark.parametrize("quantity", QUANTITIES, ids=lambda quantity: quantity.name)
def test_a_rate_and_its_peak_have_one_unit(quantity) -> None:
    assert unit_of(quantity.name) == unit_of(quantity.peak) in {"TFLOP/s", "GB/s"}
    assert quantity.peak in {field.name for field in fields(GpuProduct)} | {NVLINK_ONE_WAY, PCIE}


def test_a_rate_is_held_against_the_peak_of_its_own_type() -> None:
    types = {"float32": "fp32", "tfloat32": "tf32", "float16": "fp16", "bfloat16": "bf16", "float8": "fp8"}
    pairs = {quantity.name: quantity.peak for quantity in QUANTITIES if quantity.name.endswith("_rate_tflops")}
    assert pairs == {f"{name}_rate_tflops": f"{short}_tflops" for name, short in types.items()}


def test_the_longest_ending_is_the_unit() -> None:
    assert [unit_of(name) for name in ("a_gb_s", "a_s", "a_w", "a_bytes", "a_mhz", "a")] == [
        "GB/s", "s", "W", "bytes", "MHz", "",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("generation", "lanes", "peak"),
    [(1, 16, 4.0), (2, 16, 8.0), (3, 16, 15.75), (4, 16, 31.51), (5, 16, 63.02), (5, 8, 31.51), (6, 16, 121.0)],
)
def test_the_peak_of_a_pcie_link(generation: int, lanes: int, peak: float) -> None:
    assert pcie_peak_gb_s(generation, lanes) == pytest.approx(peak, abs=0.01)


@pytest.mark.parametrize(("generation", "lanes"), [(0, 16), (7, 16), (5, 0), (5, 3), (-1, -1)])
def test_a_link_that_there_is_not_has_no_peak(generation: int, lanes: int) -> None:
    assert pcie_peak_gb_s(generation, lanes) is None


def test_labels() -> None:
    assert device_name("cuda:10 NVIDIA H100 80GB HBM3 (9.0)") == "NVIDIA H100 80GB HBM3"
    assert device_index("cuda:10 NVIDIA H100 80GB HBM3 (9.0)") == 10
    assert (device_name("a node"), device_index("a node")) == ("", None)


def test_rates_as_people_write_them() -> None:
    assert [rate_text(value, "GB/s") for value in (0.5, 54.81, 99.96, 705.24, 4310.0)] == [
        "0.5 GB/s", "54.8 GB/s", "100 GB/s", "705 GB/s", "4310 GB/s",
    ]  # fmt: skip
