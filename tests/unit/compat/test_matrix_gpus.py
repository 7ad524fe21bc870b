"""gpus.json: figures in their unit, rates in the ratios of the hardware, names that lead to one product."""

from __future__ import annotations

from collections import Counter

import pytest

from envsmith.compat.load import load_matrix
from envsmith.model.versions import parse

MATRIX = load_matrix()
GPUS = {gpu.product: gpu for gpu in MATRIX.gpus}


@pytest.mark.parametrize(
    ("field", "low", "high"),
    [
        ("memory_gb", 1, 2000),
        ("memory_bandwidth_gb_s", 10, 20000),
        ("fp32_tflops", 0.2, 200),
        ("tf32_tflops", 50, 3000),
        ("bf16_tflops", 35, 6000),
        ("fp16_tflops", 20, 6000),
        ("fp8_tflops", 200, 12000),
        ("int8_tops", 45, 12000),
        ("fp4_tflops", 900, 30000),
        ("nvlink_gb_s", 50, 4000),
        ("tdp_w", 4, 2000),
    ],
)
def test_gpu_figures_are_in_their_unit(field: str, low: float, high: float) -> None:
    values = {gpu.product: getattr(gpu, field) for gpu in MATRIX.gpus if getattr(gpu, field) is not None}
    assert values
    assert {product: value for product, value in values.items() if not low <= value <= high} == {}


def test_dense_rates_stand_in_the_ratios_of_the_hardware() -> None:
    for gpu in MATRIX.gpus:
        if gpu.bf16_tflops and gpu.fp16_tflops:
            assert gpu.bf16_tflops == gpu.fp16_tflops, gpu.product
        if gpu.bf16_tflops and gpu.tf32_tflops:
            assert gpu.bf16_tflops == pytest.approx(2 * gpu.tf32_tflops, rel=0.02), gpu.product
        if gpu.bf16_tflops and gpu.fp8_tflops:
            assert gpu.fp8_tflops == pytest.approx(2 * gpu.bf16_tflops, rel=0.02), gpu.product
        if parse(gpu.compute_capability) < parse("8.0"):
            assert (gpu.bf16_tflops, gpu.tf32_tflops, gpu.fp8_tflops) == (None, None, None), gpu.product


def test_exact_figures_of_well_known_gpus() -> None:
    h200 = GPUS["H200 SXM"]
    assert (h200.compute_capability, h200.memory_gb, h200.bf16_tflops, h200.memory_bandwidth_gb_s) == (
        "9.0",
        141,
        989,
        4800,
    )
    assert "NVIDIA H200" in h200.aliases
    a100 = GPUS["A100 SXM4 80GB"]
    assert (a100.compute_capability, a100.memory_gb, a100.bf16_tflops, a100.nvlink_gb_s) == ("8.0", 80, 312, 600)
    assert GPUS["GeForce RTX 5090"].compute_capability == "12.0"
    assert GPUS["B200 SXM"].compute_capability == "10.0"
    assert GPUS["Tesla V100 SXM2 32GB"].last_driver_branch == 580
    assert "Tesla V100-SXM2-32GB" in GPUS["Tesla V100 SXM2 32GB"].aliases
    assert "NVIDIA GeForce RTX 5090" in GPUS["GeForce RTX 5090"].aliases
    assert GPUS["Tesla T4"].compute_capability == "7.5"


def test_no_two_gpus_share_a_name() -> None:
    names = Counter(name.casefold() for gpu in MATRIX.gpus for name in (gpu.product, *gpu.aliases))
    assert [name for name, count in names.items() if count > 1] == []
    assert len(MATRIX.gpus) >= 450


def test_forward_compatibility_is_for_data_centre_gpus_and_jetson() -> None:
    expected = {"datacenter": True, "jetson": True, "consumer": False}
    for gpu in MATRIX.gpus:
        assert gpu.forward_compat == expected.get(gpu.product_class), gpu.product
        assert not (gpu.product.startswith("GeForce") and gpu.forward_compat is not False), gpu.product
    assert {gpu.product_class for gpu in MATRIX.gpus} == {
        *("datacenter", "jetson", "consumer", "workstation", "virtual", "mining", "automotive"),
    }


def test_gpus_have_a_known_capability_and_its_last_driver() -> None:
    capabilities = {row.compute_capability: row for row in MATRIX.compute_capabilities}
    for gpu in MATRIX.gpus:
        row = capabilities[gpu.compute_capability]
        assert row.architecture is not None, gpu.product
        assert row.architecture == gpu.architecture, gpu.product
        if gpu.product_class != "jetson":
            assert gpu.last_driver_branch == row.last_driver_branch, gpu.product
