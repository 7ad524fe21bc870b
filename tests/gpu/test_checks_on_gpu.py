"""The checks on a healthy GPU pass and prove what they say; a wrong result, a hang and a crash on it are caught.

The interpreter that runs these tests is the one that is checked. It needs torch for CUDA, and nothing of
envsmith's own requirements: only the portable set is imported, so that a GPU machine's Python serves as it is.
"""

from __future__ import annotations

import ctypes
import math
import os
import subprocess
import sys
import time

import pytest

from envsmith.validator.catalogue import ALL
from envsmith.validator.check import Check, CheckContext, CheckFailed, CheckOutcome
from envsmith.validator.checks import numerics
from envsmith.validator.checks.torch_import import torch_import
from envsmith.validator.driver import Driver, DriverError
from envsmith.validator.proof import proved
from envsmith.validator.selection import of_level
from envsmith.validator.supervise import Supervisor
from envsmith.wire.results import CheckResult, Expectation, Metric

STANDARD_CHECKS = of_level("standard")


@pytest.fixture(scope="module")
def whole() -> tuple[dict[str, CheckResult], Supervisor]:
    with Supervisor(ALL) as supervisor:
        results = {result.id: result for result in supervisor.run_all(STANDARD_CHECKS)}
    return results, supervisor


def metrics(result: CheckResult) -> dict[str, Metric]:
    return {metric.name: metric for metric in result.metrics}


def test_nothing_fails_on_a_healthy_machine(whole: tuple[dict[str, CheckResult], Supervisor]) -> None:
    results, supervisor = whole
    bad = [result for result in results.values() if result.status not in ("pass", "skip")]
    assert bad == []
    assert [r for r in results.values() if r.needs_gpu and r.status != "pass" and not r.optional] == []
    capabilities = {device.compute_capability for device in supervisor.devices}
    assert set(proved(STANDARD_CHECKS, tuple(results.values()), supervisor.devices)) == capabilities


def test_every_gpu_check_ran_on_every_gpu(whole: tuple[dict[str, CheckResult], Supervisor]) -> None:
    results, supervisor = whole
    labels = tuple(device.label for device in supervisor.devices)
    assert labels
    assert {result.ran_on for result in results.values() if result.needs_gpu and result.status == "pass"} == {labels}


def test_every_measured_error_is_within_its_limit_and_none_is_zero_by_accident(
    whole: tuple[dict[str, CheckResult], Supervisor],
) -> None:
    results, _ = whole
    for name in ("cudnn-convolution", "amp-matmul"):
        judged = [m for m in results[name].metrics if m.limit is not None]
        assert judged
        for metric in judged:
            assert isinstance(metric.value, float)
            assert isinstance(metric.limit, float)
            assert 0 < metric.value <= metric.limit


def test_rates_are_those_of_matrix_units(whole: tuple[dict[str, CheckResult], Supervisor]) -> None:
    """Between 1 TFLOP/s and 10 PFLOP/s: a mistaken unit would be off by a thousand."""
    results, _ = whole
    rates = [m.value for m in results["rates"].metrics if m.name.endswith("_rate_tflops")]
    assert rates
    assert all(isinstance(rate, float) and 1 < rate < 10_000 for rate in rates)


def run_toy(body: object, limit_s: float = 60.0, expectation: Expectation | None = None) -> CheckResult:
    check = Check("toy", "toy", body, limit_s, needs_gpu=True, needs_torch=True)  # type: ignore[arg-type]
    with Supervisor((torch_import, check), expectation) as supervisor:
        return supervisor.run(check)


def test_one_wrong_element_of_a_product_is_seen() -> None:
    def body(context: CheckContext) -> CheckOutcome:
        import torch

        a, b = (torch.randn(512, 512).half() for _ in range(2))
        product = (a.cuda() @ b.cuda()).cpu().double()
        product[17, 400] += 4.0
        exact = a.double() @ b.double()
        bound = numerics.EPSILON["float16"] * (exact.abs() + 2 * math.sqrt(512))
        return CheckOutcome(metrics=(numerics.judge_elements("product", product, exact, bound),))

    result = run_toy(body)
    assert (result.status, result.message.split(" elements")[0]) == ("fail", "product: 1 of 262144")


def test_a_result_that_was_never_written_is_seen() -> None:
    def body(context: CheckContext) -> CheckOutcome:
        import torch

        out = torch.full((1000,), math.nan, device="cuda")
        torch.add(torch.ones(999, device="cuda"), 1, out=out[:999])
        exact = torch.full((1000,), 2.0).double()
        numerics.judge_elements("sum", out.cpu().double(), exact, exact)
        return CheckOutcome()

    result = run_toy(body)
    assert (result.status, result.message) == ("fail", "sum: 1 of 1000 elements are NaN or infinite")


ENDLESS = b"""
.version 5.0
.target sm_30
.address_size 64
.visible .entry endless(.param .u64 p)
{
    .reg .b64 %a;
    .reg .b32 %v;
    ld.param.u64 %a, [p];
    cvta.to.global.u64 %a, %a;
AGAIN:
    ld.volatile.global.u32 %v, [%a];
    bra AGAIN;
}
\0"""


def test_an_endless_kernel_ends_at_the_limit_and_the_gpu_serves_on() -> None:
    def body(context: CheckContext) -> CheckOutcome:
        driver = Driver.start()
        handle, function, address = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
        driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(handle), driver.device(0))
        driver.call("cuCtxSetCurrent", handle)
        driver.call(
            "cuModuleGetFunction", ctypes.byref(function), driver.load_ptx(ENDLESS), ctypes.c_char_p(b"endless")
        )
        driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(4))
        parameters = (ctypes.c_void_p * 1)(ctypes.addressof(address))
        ones = [ctypes.c_uint(1) for _ in range(6)]
        driver.call("cuLaunchKernel", function, *ones, ctypes.c_uint(0), None, parameters, None)
        print("launched")
        driver.call("cuCtxSynchronize")
        return CheckOutcome()

    check = Check("endless", "endless", body, 6.0, needs_gpu=True)
    started = time.monotonic()
    with Supervisor((check,)) as supervisor:
        result = supervisor.run(check)
    assert (result.status, result.log_tail) == ("timeout", ("launched",)), result
    assert time.monotonic() - started < 30
    driver_check = ALL[0]
    with Supervisor((driver_check,)) as supervisor:
        assert supervisor.run(driver_check).status == "pass"


def test_ptx_that_does_not_compile_brings_the_compilers_words() -> None:
    def body(context: CheckContext) -> CheckOutcome:
        driver = Driver.start()
        handle = ctypes.c_void_p()
        driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(handle), driver.device(0))
        driver.call("cuCtxSetCurrent", handle)
        try:
            driver.load_ptx(b".version 5.0\n.target sm_30\n.address_size 64\nnonsense\n\0")
        except DriverError as error:
            raise CheckFailed(str(error)) from error
        return CheckOutcome()

    check = Check("bad-ptx", "bad ptx", body, 30.0, needs_gpu=True)
    with Supervisor((check,)) as supervisor:
        result = supervisor.run(check)
    assert result.status == "fail"
    assert "CUDA_ERROR_INVALID_PTX (218)" in result.message
    assert "nonsense" in result.message


def test_an_out_of_bounds_access_is_this_checks_failure_only() -> None:
    def body(context: CheckContext) -> CheckOutcome:
        import torch

        data = torch.zeros(10, device="cuda")
        data[torch.tensor([10**9], device="cuda")] = 1.0
        torch.cuda.synchronize()
        return CheckOutcome()

    check = Check("wild", "wild", body, 60.0, needs_gpu=True, needs_torch=True)
    kernel = next(c for c in ALL if c.id == "cuda-kernel-torch")
    with Supervisor((torch_import, check, kernel)) as supervisor:
        results = [supervisor.run(c) for c in (check, kernel)]
    assert results[0].status in ("fail", "crash"), results[0]
    assert results[1].status == "pass", results[1]


def test_a_false_promise_is_seen() -> None:
    matches = next(c for c in ALL if c.id == "torch-matches")
    with Supervisor(ALL, Expectation(wheel="1.0.0+cu999", nccl="1.2.3")) as supervisor:
        result = supervisor.run(matches)
    assert result.status == "fail"
    assert "by the labels 1.0.0+cu999" in result.message
    assert "by the labels 1.2.3" in result.message


def test_hidden_gpus_are_a_skip() -> None:
    code = (
        "from envsmith.validator.catalogue import ALL\n"
        "from envsmith.validator.supervise import Supervisor\n"
        "with Supervisor(ALL) as s: r = s.run(ALL[0])\n"
        "print(r.status, r.message)"
    )
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "skip CUDA_VISIBLE_DEVICES='' hides every GPU\n"
