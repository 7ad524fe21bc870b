"""cuDNN on a real GPU: what is right passes with room to spare, and each kind of wrong result is seen and named.

The interpreter that runs these tests is the one that is checked. It needs torch for CUDA, with cuDNN.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from envsmith.validator.check import Check, CheckContext, CheckOutcome
from envsmith.validator.checks import (
    cudnn_attention,
    cudnn_cases,
    cudnn_convolution,
    cudnn_layers,
    cudnn_norm,
    cudnn_rnn,
    cudnn_shared,
)
from envsmith.validator.checks.cuda_kernel_torch import cuda_kernel_torch
from envsmith.validator.checks.numerics import EPSILON
from envsmith.validator.checks.torch_import import torch_import
from envsmith.validator.supervise import Supervisor
from envsmith.wire.results import QUICK, STANDARD, CheckResult

CONVOLUTION, LAYERS = cudnn_convolution.cudnn_convolution, cudnn_layers.cudnn_layers


def run(*checks: Check, level: str = STANDARD) -> dict[str, CheckResult]:
    checks = (torch_import, cuda_kernel_torch, *checks)
    with Supervisor(checks, level=level) as supervisor:
        return {result.id: result for result in supervisor.run_all(checks)}


@pytest.fixture(scope="module")
def healthy() -> dict[str, CheckResult]:
    return run(CONVOLUTION, LAYERS)


def values(result: CheckResult) -> dict[str, Any]:
    """Metrics by their name without the GPU, of the first GPU."""
    return {m.name.partition(".")[2]: m.value for m in result.metrics if m.name.startswith("cuda0.")}


@pytest.mark.parametrize("check", [CONVOLUTION, LAYERS], ids=lambda check: check.id)
def test_a_healthy_gpu_passes_far_within_the_bounds(healthy: dict[str, CheckResult], check: Check) -> None:
    """A bound that a healthy GPU comes near to is one that it will pass some day; an error of 0 was not measured."""
    result = healthy[check.id]
    assert result.status == "pass", result
    judged = [m for m in result.metrics if m.limit is not None]
    assert len(judged) >= 10
    near = [m for m in judged if not 0 < float(m.value) <= 0.5 * float(m.limit)]  # type: ignore[arg-type]
    assert near == []


def test_all_that_this_gpu_offers_was_run(healthy: dict[str, CheckResult]) -> None:
    convolution, layers = healthy[CONVOLUTION.id], healthy[LAYERS.id]
    assert "float32" in convolution.message
    assert {"lstm_float32_error_ratio", "gru_float32_error_ratio", "batch_norm_float16_error_ratio"} <= set(
        values(layers)
    )
    if float(layers.ran_on[0].rpartition("(")[2].rstrip(")")) in (9.0, 10.0):
        # there torch itself prefers cuDNN's attention
        assert "left out: " not in convolution.message + layers.message
        assert {f"{dtype}_weight_gradient_error_ratio" for dtype in cudnn_cases.TYPES} <= set(values(convolution))
        assert {"attention_float16_error_ratio", "attention_bfloat16_error_ratio"} <= set(values(layers))


def test_the_library_is_named(healthy: dict[str, CheckResult]) -> None:
    for check in (CONVOLUTION, LAYERS):
        seen = values(healthy[check.id])
        assert "libcudnn" in seen["cudnn_path"]
        assert f"right with cuDNN {seen['cudnn']}" in healthy[check.id].message


def test_quick_runs_one_convolution() -> None:
    result = run(CONVOLUTION, level=QUICK)[CONVOLUTION.id]
    assert result.status == "pass", result
    errors = {f"float32_{part}_{kind}" for part in cudnn_cases.PARTS for kind in ("error_ratio", "relative_error")}
    assert set(values(result)) == {*errors, "cudnn", "cudnn_path"}


def test_tf32_where_float32_was_asked_for_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    real = cudnn_shared.cudnn_on
    monkeypatch.setattr(cudnn_convolution, "cudnn_on", lambda torch, what, tf32=False: real(torch, what, True))
    result = run(CONVOLUTION, level=QUICK)[CONVOLUTION.id]
    assert result.status == "fail", result
    assert "float32_2d_" in result.message  # in which of the three parts cuDNN takes TF32 is its own choice


def test_operands_rounded_to_tf32_are_past_every_limit_of_float32() -> None:
    """What TF32 does at least, computed exactly otherwise, for every part and shape."""

    def body(context: CheckContext) -> CheckOutcome:
        import torch

        for shape in (cudnn_cases.PLANE, cudnn_cases.VOLUME):
            given = cudnn_cases.operands(torch, shape, narrow=False)
            rounded = [(t.float().view(torch.int32) + 0x1000 & ~0x1FFF).view(torch.float32).double() for t in given]
            exact, got = (cudnn_cases.convolve(torch, operands) for operands in (given, rounded))
            for part in cudnn_cases.PARTS:
                error = float((got[part] - exact[part]).norm() / exact[part].norm())
                assert error > 4 * cudnn_cases.Case("float32", shape).limit(part)
                assert error < 0.5 * EPSILON["tfloat32"]
        return CheckOutcome()

    toy = Check("toy", "toy", body, 60.0, needs_torch=True)
    assert run(toy)["toy"].status == "pass"


def test_operands_of_narrow_types_are_the_same_in_each() -> None:
    def body(context: CheckContext) -> CheckOutcome:
        import torch

        for tensor in cudnn_cases.operands(torch, cudnn_cases.VOLUME, narrow=True):
            assert all(torch.equal(tensor.to(kind).double(), tensor) for kind in (torch.float16, torch.bfloat16))
        return CheckOutcome()

    toy = Check("toy", "toy", body, 60.0, needs_torch=True)
    assert run(toy)["toy"].status == "pass"


def spoilt(real: Callable[..., Any], spoil: Callable[[Any], None]) -> Callable[..., Any]:
    """`real`, after which spoil gets its results (tensors by part, or a list of them) if they are on a GPU."""

    def function(*arguments: Any, **keywords: Any) -> Any:
        answer = real(*arguments, **keywords)
        results = answer[0] if isinstance(answer, tuple) else answer
        if (results["forward"] if isinstance(results, dict) else results[0]).is_cuda:
            spoil(results)
        return answer

    return function


def one_element_off(result: Any) -> None:
    """Move one element by the root mean square of all."""
    index = tuple(size // 2 for size in result.shape)
    result[index] += result.double().square().mean().sqrt().to(result.dtype)


@pytest.mark.parametrize("part", cudnn_cases.PARTS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_one_wrong_element_of_a_convolution_is_seen(monkeypatch: pytest.MonkeyPatch, dtype: str, part: str) -> None:
    def spoil(results: Any) -> None:
        if dtype in str(results[part].dtype) and results[part].dim() == 5:
            one_element_off(results[part])

    monkeypatch.setattr(cudnn_convolution, "convolve", spoilt(cudnn_convolution.convolve, spoil))
    result = run(CONVOLUTION)[CONVOLUTION.id]
    assert result.status == "fail", result
    assert re.search(f"{dtype}_3d(_channels_last)?_{part}: 1 of ", result.message)


@pytest.mark.parametrize(
    ("module", "function", "part", "name"),
    [
        (cudnn_norm, "batch_norm", 0, "batch_norm_float32_forward"),
        (cudnn_norm, "batch_norm", 3, "batch_norm_float32_input_gradient"),
        (cudnn_norm, "batch_norm", 6, "batch_norm_float32_inference"),
        (cudnn_rnn, "step", "forward", "lstm_float32_forward"),
        (cudnn_rnn, "step", "weight_hh_l1_reverse_gradient", "lstm_float32_weight_hh_l1_reverse_gradient"),
        (cudnn_attention, "attention", 2, "attention_float16_key_gradient"),
    ],
)
def test_one_wrong_element_of_a_layer_is_seen(
    monkeypatch: pytest.MonkeyPatch, module: Any, function: str, part: Any, name: str
) -> None:
    def spoil(results: Any) -> None:
        one_element_off(results[part])

    monkeypatch.setattr(module, function, spoilt(getattr(module, function), spoil))
    result = run(LAYERS)[LAYERS.id]
    assert result.status == "fail", result
    assert f"{name}: 1 of " in result.message


def test_the_memory_of_results_is_nan_before_they_are_written() -> None:
    def body(context: CheckContext) -> CheckOutcome:
        import torch

        place = torch.device("cuda", 0)
        for shape in (cudnn_cases.PLANE, cudnn_cases.VOLUME):
            for kind in (torch.float32, torch.float16):
                given = [torch.randn(size, device=place).to(kind) for size in shape.operand_shapes()]
                stale = [tensor.clone() for _ in range(3) for tensor in given]
                del stale[::2]
                stale.clear()
                cudnn_shared.poison_results(torch, place, kind, given)
                results = [torch.empty_like(tensor) for tensor in (given[2], given[0], given[1])]
                # all but what is left over at the end of a free block
                assert min(float(result.isnan().double().mean()) for result in results) > 0.5
        return CheckOutcome()

    toy = Check("toy", "toy", body, 60.0, needs_gpu=True, needs_torch=True, per_gpu=True)
    result = run(toy)["toy"]
    assert result.status == "pass", result


def test_a_convolution_that_cudnn_does_not_compute_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def cudnn_off(torch: Any, what: str, tf32: bool = False) -> Iterator[None]:
        with torch.backends.cudnn.flags(enabled=False):
            yield

    monkeypatch.setattr(cudnn_convolution, "cudnn_on", cudnn_off)
    result = run(CONVOLUTION, level=QUICK)[CONVOLUTION.id]
    assert result.status == "fail", result
    assert "torch does not take cuDNN for a float32 convolution" in result.message


def test_layers_that_cudnn_does_not_compute_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def cudnn_off(torch: Any, what: str, tf32: bool = False) -> Iterator[None]:
        with torch.backends.cudnn.flags(enabled=False, allow_tf32=False):
            yield

    for module in (cudnn_norm, cudnn_rnn):
        monkeypatch.setattr(module, "cudnn_on", cudnn_off)
    monkeypatch.setattr(cudnn_layers, "run_attention", lambda *_: None)
    result = run(LAYERS)[LAYERS.id]
    assert result.status == "fail", result
    assert "torch takes cuDNN for nothing: batch_norm_float32 (torch takes kernels of its own for it)" in result.message
