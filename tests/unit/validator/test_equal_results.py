"""Who differs from whom when results are compared across GPUs. The computing itself needs torch."""

from __future__ import annotations

import pytest

from envsmith.validator.check import CheckFailed, CheckTimedOut
from envsmith.validator.checks.equal_results import (
    Difference,
    describe_coverage,
    describe_unsteady,
    find_differences,
    narrow_type,
    require_answers,
)
from envsmith.validator.devices import Device
from envsmith.validator.ranks import RankAnswer

H200 = tuple(Device(index, "NVIDIA H200", "9.0") for index in range(4))
MIXED = (H200[0], Device(1, "Tesla T4", "7.5"), H200[2], Device(3, "Tesla T4", "7.5"))


def held(*products: str) -> list[dict[str, str]]:
    return [{"product": product, "sort": "same"} for product in products]


@pytest.mark.parametrize(
    ("devices", "products", "differences"),
    [
        (H200, "aaaa", []),
        (H200, "aaba", [Difference("product", 2, 0, 3)]),
        (H200, "baaa", [Difference("product", 0, 1, 3)]),
        (H200, "aabc", [Difference("product", 2, 0, 2), Difference("product", 3, 0, 2)]),
        (H200[:2], "ab", [Difference("product", 1, 0, 1)]),
        (H200[:1], "a", []),
        (MIXED, "abab", []),
        (MIXED, "abac", [Difference("product", 3, 1, 1)]),
    ],
)
def test_the_odd_one_is_found_among_gpus_of_its_model(
    devices: tuple[Device, ...], products: str, differences: list[Difference]
) -> None:
    assert find_differences(held(*products), devices) == differences


def test_every_operation_is_compared() -> None:
    digests = [{"product": "a", "sort": "a"}, {"product": "a", "sort": "b"}]
    assert [difference.operation for difference in find_differences(digests, H200[:2])] == ["sort"]


@pytest.mark.parametrize(
    ("devices", "words"),
    [
        (H200, "6 operations equal bit for bit on 4 NVIDIA H200"),
        (H200[:1], "cuda:0 NVIDIA H200 (9.0): compared with itself only"),
        (MIXED, "6 operations equal bit for bit on 2 NVIDIA H200 and on 2 Tesla T4"),
        (
            MIXED[:3],
            "6 operations equal bit for bit on 2 NVIDIA H200; cuda:1 Tesla T4 (7.5): compared with itself only",
        ),
    ],
)
def test_what_was_compared_is_said(devices: tuple[Device, ...], words: str) -> None:
    assert describe_coverage(devices, 6).replace(", 4 times", "") == words


def test_a_gpu_that_disagrees_with_itself_is_named() -> None:
    assert describe_unsteady([{}, {"sort": 3}], H200) == [
        "cuda:1 NVIDIA H200 (9.0) gave different results of the same sort: 3 elements"
    ]


def test_a_gpu_without_results_is_named() -> None:
    good = RankAnswer(0, {"digests": {}}, "computing: sort", False, None, "")
    died = RankAnswer(1, None, "computing: sort", False, "SIGSEGV", "")
    hung = RankAnswer(2, None, "making its CUDA context", True, None, "")
    require_answers([good], H200)
    with pytest.raises(CheckFailed, match=r"^cuda:1 NVIDIA H200 \(9.0\) failed while computing: sort: SIGSEGV$"):
        require_answers([good, died, hung], H200)
    with pytest.raises(CheckTimedOut, match=r"after 60 s: cuda:2 NVIDIA H200 \(9.0\) hung while making its CUDA"):
        require_answers([good, hung], H200)


def test_a_gpu_computes_in_a_type_that_it_has() -> None:
    assert [narrow_type(device) for device in MIXED[:2]] == ["bfloat16", "float16"]
    assert narrow_type(Device(0, "NVIDIA GB300", "10.3")) == "bfloat16"
