"""The pure parts of the benchmarks on a GPU; the measuring itself is never a test."""

from __future__ import annotations

import json

import pytest

from benchmarks.gpu_rates import comparison, first_gpu_values


def event(identity: str, metrics: dict[str, object], status: str = "pass") -> str:
    values = [{"name": name, "value": value, "limit": None} for name, value in metrics.items()]
    return json.dumps({"event": "result", "result": {"id": identity, "status": status, "message": "why",
                                                     "metrics": values}})  # fmt: skip


def test_values_are_those_of_the_first_gpu_and_of_the_whole_run() -> None:
    lines = [
        json.dumps({"event": "start", "id": "rates"}),
        event("rates", {"cuda0.bfloat16_rate_tflops": 700.0, "cuda1.bfloat16_rate_tflops": 650.0}),
        event("nccl-bandwidth", {"bus_bandwidth_gb_s": 340.0, "ranks": 2}),
        event("nccl-all-reduce", {}, "skip"),
    ]
    assert first_gpu_values(lines) == {
        "rates.bfloat16_rate_tflops": 700.0,
        "nccl-bandwidth.bus_bandwidth_gb_s": 340.0,
        "nccl-bandwidth.ranks": 2,
    }


def test_a_check_that_failed_ends_the_comparison() -> None:
    with pytest.raises(RuntimeError, match="rates: fail: why"):
        first_gpu_values([event("rates", {}, "fail")])


def test_the_table_says_how_near_both_are_and_leaves_out_what_one_lacks() -> None:
    ours = [{"rates.bfloat16_rate_tflops": 700.0, "copy-bandwidth.host_to_device_gb_s": 50.0}] * 2
    theirs = [{"bfloat16_rate_tflops": 720.0, "host_to_device_gb_s": 55.0, "bus_bandwidth_gb_s": 300.0}]
    assert comparison(ours, theirs).splitlines()[2:] == [
        "| bfloat16 product | 700 TFLOP/s | 720 TFLOP/s | do_bench | 0.972 | within 5%: met |",
        "| copy to the GPU | 50 GB/s | 55 GB/s | cuMemcpy | 0.909 | within 5%: MISSED |",
    ]
