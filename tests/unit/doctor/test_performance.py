"""Judgement of rates: what is low is called so, what could not be better is not, and no peak is taken for another."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsmith.compat.load import load_matrix
from envsmith.doctor.performance import MeasuredRate, judge_rate, judge_rates
from envsmith.model.rates import GOOD, INCONCLUSIVE, LOW, NOT_JUDGED, QUANTITIES, RateJudgement, Reference
from envsmith.wire.results import CheckResult, Metric, ValidationReport
from tests.machines import machine

MATRIX = load_matrix()
H200 = "NVIDIA H200"
HEALTHY = {
    "sm_clock_mhz": 1755,
    "sm_clock_max_mhz": 1980,
    "power_cap_w": 700.0,
    "power_cap_default_w": 700.0,
    "throttle_reasons": "sw_power_cap",
    "other_processes": 0,
    "utilization_before_percent": 0,
    "ecc_uncorrected_errors": 0,
    "temperature_c": 62,
}
LINK = {"ranks": 2, "size_bytes": 128 * 1024**2, "transport": "NVLink P2P", "algorithm": "ring", "protocol": "Simple"}


def metrics(values: dict[str, float | int | str], prefix: str = "") -> tuple[Metric, ...]:
    return tuple(Metric(f"{prefix}{name}", value) for name, value in values.items())


def judged(check: str, *parts: tuple[Metric, ...], names: tuple[str, ...] = (H200,), level: str = "standard"):
    labels = tuple(f"cuda:{index} {name} (9.0)" for index, name in enumerate(names))
    result = CheckResult(check, check, "pass", 1.0, "", True, sum(parts, ()), labels)
    report = ValidationReport(
        "envsmith", None, "2026-12-01T00:00:00Z", 1.0, machine(), (result,), level=level, gpus=labels
    )
    return judge_rates(report, MATRIX)


def one(check: str, *parts: tuple[Metric, ...], **changes) -> RateJudgement:
    (judgement,) = judged(check, *parts, **changes)
    return judgement


def bf16(rate: float, **conditions: float | str) -> RateJudgement:
    return one("rates", metrics({"bfloat16_rate_tflops": rate, **HEALTHY, **conditions}, "cuda0."))


def test_a_healthy_rate_is_good() -> None:
    found = bf16(705.2)
    assert (found.status, found.unit, found.peak, found.device) == (GOOD, "TFLOP/s", 989, f"cuda:0 {H200} (9.0)")
    assert found.fraction == pytest.approx(0.713, abs=0.001)
    assert found.floor == pytest.approx(454.94)
    assert found.reason == "71% of the peak of 989 TFLOP/s, the floor is 455 TFLOP/s (46%)"
    assert found.basis.startswith("H200 SXM: 0.7 of the lowest rate measured on an idle H200 SXM")


def test_a_low_rate_at_the_default_power_cap_is_low() -> None:
    found = bf16(400.0)
    assert found.status == LOW
    assert found.reason.startswith("40% of the peak of 989 TFLOP/s, below the floor of 455 TFLOP/s (46%), and nothing")


@pytest.mark.parametrize(
    ("conditions", "because"),
    [
        ({"other_processes": 2}, "other users of the GPU (other_processes 2)"),
        ({"utilization_before_percent": 55}, "a GPU that was busy before (utilization_before_percent 55)"),
        ({"throttle_reasons": "sw_power_cap,hw_thermal_slowdown"}, "heat (throttle_reasons hw_thermal_slowdown)"),
        ({"throttle_reasons": "sw_thermal_slowdown"}, "heat (throttle_reasons sw_thermal_slowdown)"),
        ({"throttle_reasons": "hw_power_brake_slowdown"}, "the power brake of the machine (throttle_reasons hw_power"),
        ({"throttle_reasons": "applications_clocks_setting"}, "clocks that somebody set (throttle_reasons applic"),
        ({"power_cap_w": 400.0}, "a power cap below the default (power_cap_w 400, power_cap_default_w 700)"),
        ({"ecc_uncorrected_errors": 3}, "errors of the GPU's memory (ecc_uncorrected_errors 3)"),
    ],
)
def test_a_low_rate_of_a_gpu_that_could_not_do_better_is_inconclusive(conditions, because) -> None:
    found = bf16(300.0, **conditions)
    assert found.status == INCONCLUSIVE
    assert f"below the floor of 455 TFLOP/s (46%), because of {because}" in found.reason
    assert bf16(700.0, **conditions).status == GOOD


@pytest.mark.parametrize(
    "conditions",
    [
        {"utilization_before_percent": 9},
        {"throttle_reasons": "none"},
        {"throttle_reasons": "gpu_idle"},
        {"power_cap_w": 699.5},
        {"power_cap_w": 800.0},
        {"temperature_c": 99},
        {"other_processes": "unknown"},
    ],
)
def test_what_holds_no_gpu_back_is_no_excuse(conditions) -> None:
    assert bf16(300.0, **conditions).status == LOW


def test_more_than_the_peak_is_never_good() -> None:
    assert bf16(1030.0).status == GOOD
    found = bf16(1400.0)
    assert found.status == INCONCLUSIVE
    assert found.reason.startswith("more than the peak: 142% of the peak of 989 TFLOP/s")
    # what a rate in GFLOP/s or a sparse one would look like
    assert bf16(705000.0).status == bf16(1979.0).status == INCONCLUSIVE


def test_where_nobody_looked_a_low_rate_is_inconclusive() -> None:
    found = one("rates", metrics({"cuda0.bfloat16_rate_tflops": 300.0, "cuda0.temperature_c": 40}))
    assert found.status == INCONCLUSIVE
    assert found.reason.endswith("and it is not known what else the GPU did, or what held it back")
    assert one("rates", metrics({"cuda0.bfloat16_rate_tflops": 700.0})).status == GOOD


def test_each_gpu_is_judged_by_itself_with_its_own_conditions() -> None:
    slow = metrics({"bfloat16_rate_tflops": 300.0, **HEALTHY}, "cuda0.")
    busy = metrics({"bfloat16_rate_tflops": 300.0, **HEALTHY, "other_processes": 1}, "cuda1.")
    found = judged("rates", slow, busy, names=(H200, H200))
    assert [(rate.device, rate.status) for rate in found] == [
        (f"cuda:0 {H200} (9.0)", LOW),
        (f"cuda:1 {H200} (9.0)", INCONCLUSIVE),
    ]


@pytest.mark.parametrize(
    ("values", "status", "floor"),
    [
        ({"host_to_device_gb_s": 54.8, "pcie_generation": 5, "pcie_width_lanes": 16}, GOOD, 37.8),
        ({"host_to_device_gb_s": 54.8, "pcie_generation": 5.0, "pcie_width_lanes": 16.0}, GOOD, 37.8),
        ({"device_to_host_gb_s": 26.0, "pcie_generation": 5, "pcie_width_lanes": 16}, LOW, 38.4),
        ({"device_to_host_gb_s": 26.0, "pcie_generation": 4, "pcie_width_lanes": 16}, GOOD, 12.6),
        ({"host_to_device_gb_s": 54.8, "pcie_generation": 4, "pcie_width_lanes": 16}, INCONCLUSIVE, 12.6),
        ({"host_to_device_gb_s": 2.0, "pcie_generation": 1, "pcie_width_lanes": 16}, NOT_JUDGED, None),
        ({"host_to_device_gb_s": 2.0, "pcie_generation": 5}, NOT_JUDGED, None),
    ],
)
def test_copies_are_held_against_the_link_that_nvml_names(values, status, floor) -> None:
    found = one("copy-bandwidth", metrics({**values, **HEALTHY}, "cuda0."), names=("a GPU that nobody knows",))
    assert (found.status, found.floor) == (status, floor if floor is None else pytest.approx(floor, abs=0.1))


@pytest.mark.parametrize(
    ("changes", "status", "reason"),
    [
        ({}, GOOD, "64% of the peak of 450 GB/s, the floor is 202 GB/s (45%)"),
        ({"bus_bandwidth_gb_s": 120.0}, LOW, "27% of the peak of 450 GB/s, below the floor"),
        ({"algorithm": "NVLS"}, NOT_JUDGED, "no reference for NVLS over NVLink P2P between H200 SXM"),
        ({"algorithm": "tree"}, NOT_JUDGED, "no reference for tree over NVLink P2P"),
        ({"transport": "shared memory", "bus_bandwidth_gb_s": 12.0}, NOT_JUDGED, "no reference for ring over shared"),
        ({"transport": "network", "bus_bandwidth_gb_s": 1.0}, NOT_JUDGED, "no reference for ring over network"),
        ({"transport": "PCIe P2P", "bus_bandwidth_gb_s": 40.0}, NOT_JUDGED, "no reference for ring over PCIe P2P"),
        ({"transport": ""}, NOT_JUDGED, "no reference: of transport and algorithm, not recorded"),
        (
            {"algorithm": "unknown: NCCL 2.18.1 does not tell it"},
            NOT_JUDGED,
            "no reference: of transport and algorithm, unknown: NCCL 2.18.1 does not tell it",
        ),
        ({"size_bytes": 1024**2}, NOT_JUDGED, "no reference for 1 MiB, which does not fill the links"),
    ],
)
def test_nccl_is_judged_by_its_own_transport_and_algorithm_only(changes, status, reason) -> None:
    values = {"bus_bandwidth_gb_s": 288.0, **LINK, **changes}
    found = one("nccl-bandwidth", metrics(values), metrics(HEALTHY, "cuda1."), names=(H200, H200))
    assert found.status == status
    assert found.reason.startswith(reason)
    assert found.device == f"cuda:0 {H200} (9.0), cuda:1 {H200} (9.0)"


def test_one_busy_gpu_excuses_a_ring_through_all() -> None:
    link = metrics({"bus_bandwidth_gb_s": 100.0, **LINK})
    beside = metrics(HEALTHY, "cuda0."), metrics({**HEALTHY, "other_processes": 1}, "cuda1.")
    assert one("nccl-bandwidth", link, *beside, names=(H200, H200)).status == INCONCLUSIVE


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (("Some GPU",), "no reference: the matrix has no GPU 'Some GPU'"),
        (("NVIDIA H200 MIG 1g.18gb",), "no reference for a MIG slice"),
        (("NVIDIA Thor",), "no reference for a Jetson"),
        (("NVIDIA GeForce GTX 1080 Ti",), "no reference: the matrix has no peak (bf16_tflops) of GeForce GTX 1080 Ti"),
        ((), "the check does not say which GPU it ran on"),
    ],
)
def test_without_a_reference_a_rate_is_told_and_not_judged(names, reason) -> None:
    found = one("rates", metrics({"bfloat16_rate_tflops": 1.0, **HEALTHY}, "cuda0."), names=names)
    assert (found.status, found.peak, found.fraction, found.floor) == (NOT_JUDGED, None, None, None)
    assert found.reason.startswith(reason)


def test_gpus_that_differ_have_no_common_peak() -> None:
    found = one("nccl-bandwidth", metrics({"bus_bandwidth_gb_s": 1.0, **LINK}), names=(H200, "NVIDIA H100 NVL"))
    assert found.reason == "no reference for GPUs that differ (NVIDIA H100 NVL, NVIDIA H200)"


@pytest.mark.parametrize(
    ("name", "rate", "status"),
    [
        ("NVIDIA GeForce RTX 4090", 150.0, GOOD),  # float32 accumulation: 165 at most, not 330
        ("NVIDIA GeForce RTX 4090", 180.0, GOOD),  # at a boost clock above the rated one
        ("NVIDIA GeForce RTX 4090", 330.0, INCONCLUSIVE),
        ("NVIDIA GeForce RTX 4090", 35.0, LOW),
        ("Tesla T4", 21.0, GOOD),  # 70 W and hot
        ("NVIDIA L4", 50.0, GOOD),
        ("NVIDIA A100-SXM4-80GB", 250.0, GOOD),
    ],
)
def test_gpus_that_nobody_measured_have_a_lenient_floor(name, rate, status) -> None:
    values = {"float16_rate_tflops": rate, **HEALTHY}
    assert one("rates", metrics(values, "cuda0."), names=(name,)).status == status


def test_quick_judges_nothing() -> None:
    assert judged("rates", metrics({"cuda0.bfloat16_rate_tflops": 1.0}), level="quick") == ()
    assert judged("rates", metrics({"cuda0.bfloat16_rate_tflops": 1.0}), level="") == ()
    assert len(judged("rates", metrics({"cuda0.bfloat16_rate_tflops": 1.0}), level="stress")) == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, "fast", True])
def test_what_is_no_rate_is_not_judged(value) -> None:
    assert judged("rates", metrics({"cuda0.bfloat16_rate_tflops": value})) == ()


def test_a_number_of_another_name_is_not_judged() -> None:
    assert judged("rates", metrics({"cuda0.int8_rate_tops": 1.0, "all_gather_bus_bandwidth_gb_s": 1.0, **LINK})) == ()


RATES = st.floats(0, 1e7, allow_nan=False)
CONDITIONS = st.fixed_dictionaries(
    {},
    optional={
        "other_processes": st.integers(0, 3),
        "throttle_reasons": st.sampled_from(["none", "sw_power_cap", "hw_thermal_slowdown", "?,,x"]),
        "power_cap_w": st.floats(0, 1000),
        "power_cap_default_w": st.floats(0, 1000),
    },
)
REFERENCES = st.builds(
    lambda peak, share: Reference(peak, None if share is None else share * peak, "test"),
    st.floats(0.1, 1e5),
    st.none() | st.floats(0.01, 0.99),
)
# From worst to best; what is above the peak is a matter of its own.
RANK = {LOW: 0, INCONCLUSIVE: 0, NOT_JUDGED: 1, GOOD: 2}


def measured_rate(value: float, conditions: dict[str, float | int | str]) -> MeasuredRate:
    return MeasuredRate("rates", QUANTITIES[0], value, (f"cuda:0 {H200} (9.0)",), (conditions,))


@given(RATES, RATES, CONDITIONS, REFERENCES)
def test_more_is_never_worse_up_to_the_peak(first, second, conditions, reference) -> None:
    less, more = sorted((first, second))
    if more <= reference.peak:
        lower, higher = (judge_rate(measured_rate(rate, conditions), reference).status for rate in (less, more))
        assert RANK[lower] <= RANK[higher]


@given(RATES, CONDITIONS, st.just("no reference") | REFERENCES.map(lambda found: replace(found, floor=None)))
def test_without_a_floor_nothing_is_low_or_good(value, conditions, reference) -> None:
    assert judge_rate(measured_rate(value, conditions), reference).status in {NOT_JUDGED, INCONCLUSIVE}


@given(RATES, CONDITIONS, REFERENCES)
def test_low_is_only_what_is_below_the_floor(value, conditions, reference) -> None:
    found = judge_rate(measured_rate(value, conditions), reference)
    if found.status == LOW:
        assert reference.floor is not None
        assert value < reference.floor
    if found.status == GOOD:
        assert reference.floor is not None
        assert reference.floor <= value <= 1.05 * reference.peak
