"""What people call a GPU."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsmith.compat.gpus import find_gpu
from envsmith.compat.load import load_matrix
from envsmith.errors import UsageError

MATRIX = load_matrix()


@pytest.mark.parametrize(
    ("typed", "capability", "forward_compat"),
    [
        ("RTX 5090", "12.0", False),
        ("rtx5090", "12.0", False),
        ("5090", "12.0", False),
        ("RTX 3080Ti", "8.6", False),
        ("NVIDIA GeForce RTX 4090", "8.9", False),
        ("h200", "9.0", True),
        ("H100", "9.0", True),
        ("NVIDIA A100-SXM4-80GB", "8.0", True),
        ("A100", "8.0", True),
        ("V100", "7.0", True),
        ("Tesla T4", "7.5", True),
        ("L4", "8.9", True),
        ("RTX A6000", "8.6", None),
        (" H200 ", "9.0", True),
    ],
)
def test_names(typed: str, capability: str, forward_compat: bool | None) -> None:
    gpu = find_gpu(MATRIX, typed)
    assert (gpu.compute_capability, gpu.forward_compat) == (capability, forward_compat)
    assert gpu.product is not None


@pytest.mark.parametrize(
    ("typed", "capability"),
    [("9.0", "9.0"), ("sm_90", "9.0"), ("SM90", "9.0"), ("sm_90a", "9.0"), ("12.0", "12.0"), ("sm_120", "12.0")],
)
def test_compute_capabilities(typed: str, capability: str) -> None:
    gpu = find_gpu(MATRIX, typed)
    assert (gpu.compute_capability, gpu.product) == (capability, None)


def test_a_bare_capability_is_eligible_only_if_all_its_products_are() -> None:
    assert find_gpu(MATRIX, "9.0").forward_compat is True
    assert find_gpu(MATRIX, "8.6").forward_compat is None


@pytest.mark.parametrize("typed", ["RTX 9999", "banana", "Radeon RX 7900 XTX", "."])
def test_unknown_names_come_with_the_nearest(typed: str) -> None:
    with pytest.raises(UsageError) as caught:
        find_gpu(MATRIX, typed)
    assert repr(typed) in caught.value.message
    assert "--gpu 9.0" in caught.value.hint


def test_a_near_miss_names_what_was_meant() -> None:
    with pytest.raises(UsageError) as caught:
        find_gpu(MATRIX, "RTX 5009")
    assert "RTX 5090" in caught.value.hint


def test_an_ambiguous_name_lists_what_it_could_be() -> None:
    with pytest.raises(UsageError) as caught:
        find_gpu(MATRIX, "6000")
    assert "could be several" in caught.value.message
    assert "Ada" in caught.value.message


def test_a_capability_that_no_gpu_has() -> None:
    with pytest.raises(UsageError, match=r"13\.7"):
        find_gpu(MATRIX, "13.7")


def test_every_product_finds_itself() -> None:
    for row in MATRIX.gpus:
        gpu = find_gpu(MATRIX, row.product)
        assert (gpu.compute_capability, gpu.forward_compat) == (row.compute_capability, row.forward_compat), row.product


@given(st.text(max_size=100))
def test_any_text_is_a_gpu_or_a_usage_error(text: str) -> None:
    try:
        gpu = find_gpu(MATRIX, text)
    except UsageError:
        return
    assert gpu.compute_capability
