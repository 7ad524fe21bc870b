"""The number that stands beside a check."""

from __future__ import annotations

import pytest

from envsmith.report.headline import headline
from envsmith.wire.results import CheckResult, Metric


def number_of(check: str, *metrics: Metric) -> str:
    return headline(CheckResult(check, check, "pass", 1.0, metrics=metrics))


@pytest.mark.parametrize(
    ("check", "metrics", "expected"),
    [
        ("any", (), ""),
        ("any", (Metric("elements", 1000), Metric("wrong_elements", 0, 0)), ""),
        ("any", (Metric("a_error_ratio", 0.1, 1.0), Metric("b_error", 2e-6, 8e-6)), "worst error 25% of its limit"),
        ("any", (Metric("error_ratio", 1.0, 1.0),), "worst error 100% of its limit"),
        ("any", (Metric("error_ratio", 0.0004, 1.0),), "worst error 0.04% of its limit"),
        ("any", (Metric("error_ratio", 0.1, 1.0), Metric("fp16_tflops", 612.1)), "fp16 612 TFLOP/s"),
        (
            "rates",
            (
                Metric("cuda0.float32_rate_tflops", 51.27),
                Metric("cuda0.bfloat16_rate_tflops", 705.24),
                Metric("cuda1.bfloat16_rate_tflops", 697.6),
            ),
            "bfloat16 698 to 705 TFLOP/s",
        ),
        ("copy-bandwidth", (Metric("cuda0.host_to_device_gb_s", 54.81),), "host to device 54.8 GB/s"),
        (
            "nccl-bandwidth",
            (
                Metric("algorithm_bandwidth_gb_s", 288.0),
                Metric("bus_bandwidth_gb_s", 288.4),
                Metric("transport", "NVLink P2P"),
                Metric("algorithm", "ring"),
            ),
            "bus bandwidth 288 GB/s (NVLink P2P, ring)",
        ),
        (
            "nccl-bandwidth",
            (Metric("bus_bandwidth_gb_s", 9.5), Metric("transport", "network"), Metric("algorithm", "unknown: old")),
            "bus bandwidth 9.5 GB/s (network)",
        ),
        ("any", (Metric("x_gb_s", "\x1b[2Jfast"),), "x fast GB/s"),
    ],
)  # fmt: skip
def test_the_number_that_tells_most(check: str, metrics: tuple[Metric, ...], expected: str) -> None:
    assert number_of(check, *metrics) == expected
