"""How long is timed at which size, and what is made of the times; with events of our own making.

The rates themselves need torch and a GPU: `tests/gpu/test_rates_on_gpu.py`.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from envsmith.model.rates import QUANTITIES
from envsmith.validator.catalogue import ALL
from envsmith.validator.checks import rates
from envsmith.validator.checks.products import KINDS
from envsmith.validator.checks.timing import queue_windows, repeats_in, seconds_each, seconds_of_one, size_for
from envsmith.wire.results import Metric

GIB = 1 << 30


class Clock:
    """A GPU on which time passes only by running."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        clock = self

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                assert enable_timing
                self.at_ms = -1.0

            def record(self) -> None:
                self.at_ms = clock.now_ms

            def synchronize(self) -> None:
                pass

            def elapsed_time(self, end: Event) -> float:
                return end.at_ms - self.at_ms

        self.torch = SimpleNamespace(cuda=SimpleNamespace(Event=Event, synchronize=lambda: None))

    def run(self, milliseconds: float) -> None:
        self.now_ms += milliseconds


def test_each_window_is_timed_by_itself_after_the_lead_in() -> None:
    clock = Clock()
    each_ms = iter([1.0] * 7 + [9.0] * 4 + [2.0] * 4 + [5.0] * 4)
    events = queue_windows(clock.torch, lambda: clock.run(next(each_ms)), 4, windows=3, lead_in=7)
    assert seconds_each(events, 4) == pytest.approx([0.009, 0.002, 0.005])
    assert list(each_ms) == []


def test_the_first_run_loads_code_and_is_not_counted() -> None:
    clock = Clock()
    each_ms = iter([4000.0, *[3.0] * 5])
    assert seconds_of_one(clock.torch, lambda: clock.run(next(each_ms))) == pytest.approx(0.003)


def test_a_window_holds_one_run_at_least_and_no_endless_number() -> None:
    assert repeats_in(0.05, 0.0015) == 33
    assert repeats_in(0.05, 3.0) == 1
    assert repeats_in(0.05, 0.0) == 50_000


@pytest.mark.parametrize(
    ("pilot_tflops", "free_gib", "size"),
    [(400, 130, 8192), (50, 130, 4096), (30, 3.5, 4096), (0.03, 3.5, 2048), (200, 2, 4096), (200, 0.1, 2048)],
)
def test_the_size_suits_the_gpu_and_the_memory_that_is_free(pilot_tflops: float, free_gib: float, size: int) -> None:
    assert size_for(pilot_tflops, int(free_gib * GIB)) == size


def test_the_message_tells_the_rates_and_what_was_left_out() -> None:
    metrics = [
        Metric("float32_rate_tflops", 51.34),
        Metric("float32_timed_error_ratio", 0.2, 1.0),
        Metric("bfloat16_rate_tflops", 712.25),
        Metric("float8_rate_tflops", 1310.5),
        Metric("memory_bandwidth_gb_s", 4110.4),
    ]
    text = "float32 51.3, bfloat16 712, float8 1310 TFLOP/s; memory 4110 GB/s"
    assert rates._message(metrics, []) == text
    why = "tfloat32 (NVIDIA_TF32_OVERRIDE=0 forbids TF32 here)"
    assert rates._message(metrics, [why]) == f"{text}; left out: {why}"


def test_a_slow_launch_and_a_slow_gpu_are_seen_by_the_pilot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small products tell no rate where a launch takes longer than they do; a slow GPU is spared the larger ones."""
    tried: list[int] = []

    def rate(rates_by_size: dict[int, float]) -> object:
        def pilot(torch: object, place: object, kind: object, size: int) -> float:
            tried.append(size)
            return rates_by_size[size]

        return pilot

    torch = SimpleNamespace(cuda=SimpleNamespace(mem_get_info=lambda place: (100 * GIB, 100 * GIB)))
    monkeypatch.setattr(rates, "_pilot_tflops", rate({1024: 50.0, 2048: 400.0}))
    assert rates.pilot_size(torch, "cuda:0", KINDS[0]) == 8192
    monkeypatch.setattr(rates, "_pilot_tflops", rate({1024: 0.03}))
    assert rates.pilot_size(torch, "cuda:0", KINDS[0]) == 2048
    assert tried == [1024, 2048, 1024]


def test_the_names_are_those_that_rates_are_judged_by() -> None:
    names = {f"{kind.name}_rate_tflops" for kind in KINDS} | {"memory_bandwidth_gb_s"}
    assert names <= {quantity.name for quantity in QUANTITIES}


def test_what_is_measured_has_its_gpu_to_itself_and_the_rest_shares_it() -> None:
    claims = {check.id: (check.claims, check.level, check.per_gpu) for check in ALL}
    assert claims["rates"] == ("gpu", "standard", True)
    assert claims["rates-sustained"] == ("gpu", "stress", True)
    assert claims["amp-matmul"] == ("shared", "quick", True)
    assert claims["training-step"] == ("shared", "standard", True)
