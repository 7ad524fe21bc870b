"""Copies without torch, against a driver made of C that can get each of them wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from envsmith.validator.checks.driver_memory_copy import driver_memory_copy
from tests.unit.validator import fake_driver


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_driver.build(tmp_path_factory.mktemp("driver"))


@pytest.fixture(autouse=True)
def driver(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_driver.use(library, monkeypatch)


def test_good_copies_pass(tmp_path: Path) -> None:
    result = fake_driver.run(driver_memory_copy, tmp_path)
    assert (result.status, result.message) == (
        "pass",
        "16777219 bytes right, through pageable and through pinned memory",
    )
    assert {metric.name: metric.value for metric in result.metrics} == {
        "copied_bytes": 16777219, "wrong_bytes": 0, "memory_free_bytes": 3 << 20, "memory_total_bytes": 4 << 20,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (
            "copy-in",
            "copied to the GPU and back (pageable memory): 1 of 16777219 bytes are wrong, the first at 16777217:",
        ),
        ("copy-across", "copied within the GPU (pageable memory): "),
        ("copy-too-much", "copied within the GPU (pageable memory): bytes beside the copied ones were changed"),
        ("no-pinned", "cuMemHostAlloc returned CUDA_ERROR_FAKE (2): there is not enough memory left"),
        ("memory", "cuMemAlloc_v2 returned CUDA_ERROR_FAKE (2): there is not enough memory left"),
        ("mismatch", "user-mode driver and the kernel module are of different versions"),
    ],
)
def test_a_bad_one_fails_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, words: str
) -> None:
    monkeypatch.setenv("FAKE_CUDA", fault)
    result = fake_driver.run(driver_memory_copy, tmp_path)
    assert result.status == "fail"
    assert words in result.message
