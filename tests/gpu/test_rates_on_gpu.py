"""Products, training and rates on a real GPU: a healthy one passes with room to spare, and each fault planted is seen.

The interpreter that runs these tests is the one that is checked; it needs torch for CUDA. Faults are planted in this
process, from which the checks are forked.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from envsmith.validator.check import Check
from envsmith.validator.checks import amp_matmul as products_module
from envsmith.validator.checks import rates as rates_module
from envsmith.validator.checks import rates_sustained as sustained_module
from envsmith.validator.checks import training_step as training_module
from envsmith.validator.checks.products import BY_NAME, precision
from envsmith.validator.checks.torch_import import torch_import
from envsmith.validator.conditions import THROTTLE_REASONS
from envsmith.validator.supervise import Supervisor
from envsmith.wire.results import QUICK, STANDARD, STRESS, CheckResult

AMP, TRAINING = products_module.amp_matmul, training_module.training_step
RATES, SUSTAINED = rates_module.rates, sustained_module.rates_sustained
STRESS_S = 3.0


def run(*checks: Check, level: str = STANDARD) -> tuple[CheckResult, ...]:
    with Supervisor((torch_import, *checks), level=level, stress_s=STRESS_S) as supervisor:
        return supervisor.run_all(checks)


def of_first_gpu(result: CheckResult) -> dict[str, Any]:
    return {m.name[len("cuda0.") :]: m.value for m in result.metrics if m.name.startswith("cuda0.")}


@pytest.fixture(scope="module")
def healthy() -> dict[str, CheckResult]:
    return {result.id: result for result in (*run(AMP, TRAINING, RATES), *run(SUSTAINED, level=STRESS))}


@pytest.mark.parametrize("check", [AMP, TRAINING, RATES, SUSTAINED], ids=lambda check: check.id)
def test_a_healthy_gpu_passes(healthy: dict[str, CheckResult], check: Check) -> None:
    result = healthy[check.id]
    assert result.status == "pass", result
    assert result.ran_on


def test_quick_runs_one_product() -> None:
    (result,) = run(AMP, level=QUICK)
    assert result.status == "pass", result
    assert len(of_first_gpu(result)) == 2


def test_errors_are_far_within_their_bounds_and_not_zero(healthy: dict[str, CheckResult]) -> None:
    """A bound that a healthy GPU comes near to is one that it will pass some day; an error of 0 was not measured."""
    judged = [
        m for result in healthy.values() for m in result.metrics if m.limit is not None and isinstance(m.value, float)
    ]
    assert len(judged) > 20
    near = {m.name: m.value / m.limit for m in judged if not 0 < m.value / m.limit < 0.6}  # type: ignore[operator]
    assert near == {}


def test_tf32_was_really_used_where_it_was_allowed(healthy: dict[str, CheckResult]) -> None:
    values = of_first_gpu(healthy["amp-matmul"])
    if "tfloat32_relative_error" not in values:
        pytest.skip("a GPU without TF32")
    assert values["tfloat32_relative_error"] > 30 * values["float32_relative_error"]
    rates = of_first_gpu(healthy["rates"])
    assert rates["tfloat32_rate_tflops"] > 1.5 * rates["float32_rate_tflops"]


def test_rates_are_in_their_units(healthy: dict[str, CheckResult]) -> None:
    """Wide ranges: a mistaken unit would be off by a thousand."""
    values = of_first_gpu(healthy["rates"])
    rates = {name: value for name, value in values.items() if name.endswith("_rate_tflops")}
    assert {"float32_rate_tflops", "float16_rate_tflops"} <= set(rates)
    assert all(0.5 < rate < 20_000 for rate in rates.values()), rates
    assert 50 < values["memory_bandwidth_gb_s"] < 30_000


def test_the_conditions_are_those_of_a_gpu_at_work(healthy: dict[str, CheckResult]) -> None:
    for name in ("rates", "rates-sustained"):
        values = of_first_gpu(healthy[name])
        if "power_cap_w" not in values:
            pytest.skip("NVML tells nothing here")
        assert 100 < values["sm_clock_mhz"] <= values["sm_clock_max_mhz"] < 5000
        assert 5 < values["power_cap_w"] < 3000
        assert 10 < values["temperature_c"] < 110
        assert set(values["throttle_reasons"].split(",")) <= {word for _, word in THROTTLE_REASONS} | {"none"}
        assert values["utilization_before_percent"] <= 10, "somebody else uses this GPU, or our own work is counted"
        assert values.get("other_processes", 0) == 0


def test_sustained_load_was_compared_again_and_again(healthy: dict[str, CheckResult]) -> None:
    values = of_first_gpu(healthy["rates-sustained"])
    assert values["products_compared"] >= 2
    (minimum,) = (value for name, value in values.items() if name.endswith("_min_rate_tflops"))
    (median,) = (value for name, value in values.items() if name.endswith("_median_rate_tflops"))
    assert 0 < minimum <= median


def test_tf32_where_float32_was_asked_for_is_seen(
    healthy: dict[str, CheckResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    if "tfloat32_relative_error" not in of_first_gpu(healthy["amp-matmul"]):
        pytest.skip("a GPU without TF32")

    def careless(torch: Any, kind: Any) -> Any:
        return precision(torch, BY_NAME["tfloat32"] if kind.name == "float32" else kind)

    monkeypatch.setattr(products_module, "precision", careless)
    (result,) = run(AMP)
    assert result.status == "fail"
    assert "float32_error_ratio" in result.message


def slightly_wrong(torch: Any, *more: Any, **named: Any) -> Callable[[Any, Any], Any]:
    def product(a: Any, b: Any) -> Any:
        result = torch.matmul(a, b)
        result[:, ::7] *= 1.5
        return result

    return product


@pytest.mark.parametrize(("check", "module"), [(AMP, products_module), (RATES, rates_module)])
def test_a_wrong_product_is_seen(check: Check, module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "multiply", slightly_wrong)
    (result,) = run(check)
    assert result.status == "fail"
    assert "than rounding explains" in result.message


def test_a_bit_that_flips_under_load_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    compare = sustained_module.require_same

    def after_a_flip(torch: Any, result: Any, first: Any, products: int) -> None:
        result.view(torch.int16)[5, 7] ^= 1
        compare(torch, result, first, products)

    monkeypatch.setattr(sustained_module, "require_same", after_a_flip)
    (result,) = run(SUSTAINED, level=STRESS)
    assert result.status == "fail"
    assert "differs from the first in 1 of" in result.message
    assert {m.name for m in result.metrics if m.name.endswith("products_different")}


def test_a_network_that_does_not_learn_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_module, "_LEARNING_RATE", 0.0)
    (result,) = run(TRAINING)
    assert result.status == "fail"
    assert "took the loss from" in result.message


def test_a_scaler_that_takes_an_infinite_step_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    make = training_module._scaler

    def without_a_look(torch: Any, place: Any, enabled: bool) -> Any:
        scaler = make(torch, place, enabled)

        def step(optimizer: Any) -> None:
            with contextlib.suppress(RuntimeError):  # it is unscaled already
                scaler.unscale_(optimizer)
            optimizer.step()

        scaler.step = step
        return scaler

    monkeypatch.setattr(training_module, "_scaler", without_a_look)
    (result,) = run(TRAINING)
    assert result.status == "fail"
    assert "has changed the parameters" in result.message


@contextlib.contextmanager
def another_user() -> Iterator[None]:
    """A process of somebody else's that keeps the first GPU busy."""
    program = (
        "import torch\n"
        "a = torch.randn(4096, 4096, device='cuda:0')\n"
        "while True:\n"
        "    for _ in range(50): b = a @ a\n"
        "    torch.cuda.synchronize(); print('busy', flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == b"busy\n"
            yield
        finally:
            other.kill()


def test_another_user_of_the_gpu_is_recorded(healthy: dict[str, CheckResult]) -> None:
    if "utilization_before_percent" not in of_first_gpu(healthy["rates"]):
        pytest.skip("NVML tells nothing here")
    with another_user():
        (result,) = run(RATES)
    assert result.status == "pass", result
    assert of_first_gpu(result)["utilization_before_percent"] > 10
