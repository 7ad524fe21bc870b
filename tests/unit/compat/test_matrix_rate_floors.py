"""rate_floors.json, and the columns of gpus.json that rates are held against: each in its range, and in ratio."""

from __future__ import annotations

import pytest

from envsmith.compat.load import load_matrix
from envsmith.model.rates import QUANTITIES
from envsmith.model.versions import parse

MATRIX = load_matrix()
FLOORS = MATRIX.rate_floors
ARCHITECTURES = {gpu.architecture for gpu in MATRIX.gpus}
PRODUCTS = {gpu.product for gpu in MATRIX.gpus}
PCIE = {f"PCIe {generation}" for generation in range(1, 7)}


def test_every_floor_is_of_a_known_rate_on_something_known() -> None:
    assert {row.quantity for row in FLOORS} == {quantity.name for quantity in QUANTITIES}
    for row in FLOORS:
        from_host = row.quantity in {"host_to_device_gb_s", "device_to_host_gb_s"}
        assert row.of in (PCIE if from_host else ARCHITECTURES | PRODUCTS), row
        between_gpus = row.quantity == "bus_bandwidth_gb_s"
        assert (row.transport is not None, row.algorithm is not None) == (between_gpus, between_gpus), row


def test_no_product_is_called_like_an_architecture() -> None:
    assert set() == PRODUCTS & ARCHITECTURES


def test_floors_are_shares_of_the_peak_and_below_what_was_measured() -> None:
    for row in FLOORS:
        assert row.floor_fraction is None or 0.2 <= row.floor_fraction <= 0.8, row
        assert row.measured_fraction is None or 0.3 <= row.measured_fraction <= 1.0, row
        assert row.basis, row
        assert (row.confidence == "measured") == (row.measured_fraction is not None), row
        if row.measured_fraction is not None and row.floor_fraction is not None:
            assert row.floor_fraction == pytest.approx(0.7 * row.measured_fraction, abs=0.01), row


def test_a_guess_is_more_lenient_than_what_was_measured() -> None:
    measured = {row.quantity: row.floor_fraction for row in FLOORS if row.confidence == "measured"}
    for row in FLOORS:
        if row.confidence == "inferred" and row.quantity in measured:
            assert row.floor_fraction is None or row.floor_fraction < measured[row.quantity], row


def test_what_we_measured_lies_between_floor_and_peak() -> None:
    h200 = next(gpu for gpu in MATRIX.gpus if gpu.product == "H200 SXM")
    seen = {
        "bfloat16_rate_tflops": ((672, 686), h200.bf16_tflops),
        "float16_rate_tflops": ((642, 644), h200.fp16_tflops),
        "float8_rate_tflops": ((1145, 1240), h200.fp8_tflops),
        "tfloat32_rate_tflops": ((317, 357), h200.tf32_tflops),
        "float32_rate_tflops": ((43.5, 51.4), h200.fp32_tflops),
        "memory_bandwidth_gb_s": ((4236, 4270), h200.memory_bandwidth_gb_s),
        "bus_bandwidth_gb_s": ((288, 288), (h200.nvlink_gb_s or 0) / 2),
    }
    for quantity, ((lowest, highest), peak) in seen.items():
        row = next(row for row in FLOORS if (row.quantity, row.of) == (quantity, "H200 SXM"))
        assert peak
        assert row.measured_fraction == pytest.approx(lowest / peak, abs=0.01), quantity
        assert row.floor_fraction is not None
        assert row.floor_fraction * peak < lowest <= highest < peak, quantity


def test_no_reference_is_for_nvls() -> None:
    assert {row.algorithm for row in FLOORS} == {None, "ring"}


@pytest.mark.parametrize(
    ("above", "below", "least", "most"),
    [
        # the tensor cores of every generation beat the plain units, at most by this factor
        ("fp16_tflops", "fp32_tflops", 1.9, 36),
        ("bf16_tflops", "fp32_tflops", 1.9, 36),
        ("tf32_tflops", "fp32_tflops", 0.99, 18),
        ("bf16_tflops", "tf32_tflops", 1.9, 2.1),
        ("fp8_tflops", "bf16_tflops", 1.9, 2.1),
        ("fp4_tflops", "fp8_tflops", 1.9, 3.1),
    ],
)
def test_columns_stand_in_ratio(above: str, below: str, least: float, most: float) -> None:
    ratios = {
        gpu.product: getattr(gpu, above) / getattr(gpu, below)
        for gpu in MATRIX.gpus
        if getattr(gpu, above)
        and getattr(gpu, below)
        # Jetsons count their few units at clocks of another power mode
        and gpu.product_class != "jetson"
    }
    assert ratios
    assert {product: ratio for product, ratio in ratios.items() if not least <= ratio <= most} == {}


@pytest.mark.parametrize(
    ("product_class", "low", "high"),
    [("datacenter", 80, 10000), ("workstation", 10, 2000), ("consumer", 10, 2000), ("jetson", 20, 400)],
)
def test_bandwidth_is_that_of_its_class(product_class: str, low: float, high: float) -> None:
    """10^9 bytes/s: a figure in TB/s or in Gbit/s would fall out of these."""
    values = {
        gpu.product: gpu.memory_bandwidth_gb_s
        for gpu in MATRIX.gpus
        if gpu.product_class == product_class and gpu.memory_bandwidth_gb_s is not None
    }
    assert values
    assert {product: value for product, value in values.items() if not low <= value <= high} == {}


def test_memory_is_read_in_a_sensible_time() -> None:
    """Size over bandwidth: from 3 ms (cut-down HBM cards) to 0.6 s (the slowest); TB/s or MB/s is off by 1000."""
    times_s = {
        gpu.product: gpu.memory_gb / gpu.memory_bandwidth_gb_s
        for gpu in MATRIX.gpus
        if gpu.memory_gb and gpu.memory_bandwidth_gb_s
    }
    assert {product: time for product, time in times_s.items() if not 0.0025 <= time <= 0.6} == {}


def test_geforce_has_the_rate_with_float32_accumulation() -> None:
    """On GeForce from Turing on it is half of the other: twice the plain rate on Ampere and Ada, not four times."""
    for gpu in MATRIX.gpus:
        plain = gpu.fp32_tflops
        if gpu.product.startswith("GeForce RTX") and gpu.fp16_tflops and plain:
            most = 5 if parse(gpu.compute_capability) < parse("8.0") else 2.2
            assert gpu.fp16_tflops / plain <= most, gpu.product
