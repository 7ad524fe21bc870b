"""The PCIe link: read whole or not at all, and not named for data that it cannot have carried."""

from __future__ import annotations

from typing import Any

import pytest

from envsmith.validator.checks.copy_bandwidth import describe_link
from envsmith.validator.devices import Device
from envsmith.validator.nvml import NvmlGpu
from envsmith.validator.pcie import PcieLink, read_pcie_link
from tests.unit.validator import fake_nvml

GPU = Device(0, "NVIDIA H200", "9.0", uuid="GPU-1")
FULL = PcieLink(5, 16, 5, 16)
ANSWERS = {
    "nvmlDeviceGetHandleByUUID": 1,
    "nvmlDeviceGetCurrPcieLinkGeneration": 4,
    "nvmlDeviceGetCurrPcieLinkWidth": 8,
    "nvmlDeviceGetMaxPcieLinkGeneration": 5,
    "nvmlDeviceGetMaxPcieLinkWidth": 16,
}


def read(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> PcieLink | None:
    fake_nvml.install(monkeypatch, {**ANSWERS, **changes})
    return read_pcie_link(NvmlGpu(GPU))


def test_a_link_is_what_it_runs_at_and_its_best(monkeypatch: pytest.MonkeyPatch) -> None:
    link = read(monkeypatch)
    assert link == PcieLink(4, 8, 5, 16)
    assert {metric.name: metric.value for metric in link.metrics()} == {
        "pcie_generation": 4, "pcie_width_lanes": 8, "pcie_generation_max": 5, "pcie_width_max_lanes": 16,
    }  # fmt: skip


@pytest.mark.parametrize("question", sorted(ANSWERS))
def test_a_link_that_nvml_does_not_tell_whole_is_not_known(monkeypatch: pytest.MonkeyPatch, question: str) -> None:
    assert read(monkeypatch, **{question: fake_nvml.NVMLError("not supported")}) is None


def test_a_link_of_no_lanes_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(monkeypatch, nvmlDeviceGetCurrPcieLinkWidth=0) is None


@pytest.mark.parametrize(
    ("link", "words"),
    [
        (FULL, "PCIe 5 x16"),
        (PcieLink(4, 16, 5, 16), "PCIe 4 x16 (of 5 x16)"),
        (PcieLink(5, 8, 4, 16), "PCIe 5 x8 (of 4 x16)"),
    ],
)
def test_a_lowered_link_says_what_it_could_be(link: PcieLink, words: str) -> None:
    assert str(link) == words


@pytest.mark.parametrize(("rate_gb_s", "carried"), [(55.3, True), (63.1, False), (400.0, False)])
def test_a_rate_above_the_raw_one_did_not_come_through_it(rate_gb_s: float, carried: bool) -> None:
    assert FULL.carries(rate_gb_s) is carried


def test_an_unheard_of_generation_carries_anything() -> None:
    assert PcieLink(9, 16, 9, 16).carries(5000.0)


def test_only_the_way_that_data_took_is_told() -> None:
    assert describe_link(FULL, 55.0) == (FULL.metrics(), " over PCIe 5 x16")
    assert describe_link(PcieLink(5, 1, 5, 16), 400.0) == ((), ", not over PCIe (which is PCIe 5 x1 (of 5 x16))")
    assert describe_link(None, 55.0) == ((), "")


@pytest.mark.parametrize("error", [fake_nvml.NVMLError(), AttributeError(), TypeError(), OSError(), UnicodeError()])
def test_no_error_of_a_pynvml_is_more_than_no_answer(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    assert read(monkeypatch, nvmlDeviceGetCurrPcieLinkWidth=error) is None
