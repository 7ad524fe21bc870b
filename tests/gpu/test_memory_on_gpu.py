"""Memory, copies, the loader and the checks over all GPUs, on healthy GPUs, and with a fault put into each."""

from __future__ import annotations

import inspect
import os
import signal
import time

import pytest

from envsmith.validator.check import Check, CheckContext, CheckOutcome
from envsmith.validator.checks import copy_bandwidth as copies
from envsmith.validator.checks import data_loader, ddp_step, device_memory, equal_results
from envsmith.validator.checks.cuda_kernel_driver import cuda_kernel_driver
from envsmith.validator.checks.driver_memory_copy import driver_memory_copy
from envsmith.validator.checks.memory_patterns import PATTERNS, Memory
from envsmith.validator.checks.torch_gpu import only_gpu
from envsmith.validator.checks.torch_import import torch_import
from envsmith.validator.supervise import Supervisor
from envsmith.wire.results import STRESS, CheckResult

STRESS_S = 5.0
EACH_GPU = (driver_memory_copy, copies.copy_bandwidth, device_memory.device_memory)
ALL_GPUS = (data_loader.data_loader, ddp_step.ddp_step, equal_results.equal_results)


def run(check: Check) -> tuple[CheckResult, int]:
    """Run a check alone; return its result and the number of GPUs."""
    with Supervisor((torch_import, check), level=STRESS, stress_s=STRESS_S) as supervisor:
        return supervisor.run(check), len(supervisor.devices)


def values(result: CheckResult, gpu: int = 0) -> dict[str, float]:
    prefix = f"cuda{gpu}."
    return {m.name[len(prefix) :]: m.value for m in result.metrics if m.name.startswith(prefix)}  # type: ignore[misc]


@pytest.mark.parametrize("check", [cuda_kernel_driver, *EACH_GPU, *ALL_GPUS], ids=lambda check: check.id)
def test_a_healthy_machine_passes(check: Check) -> None:
    result, _ = run(check)
    assert result.status == "pass", result
    print(result.seconds, result.message, result.metrics)


def test_link_and_rates_are_plausible() -> None:
    """A mistaken unit would be off by a thousand; a link that carries less than its rate is none."""
    result, count = run(copies.copy_bandwidth)
    for gpu in range(count):
        seen = values(result, gpu)
        rates = [seen["host_to_device_gb_s"], seen["device_to_host_gb_s"]]
        assert all(0.1 < rate < 1000 for rate in rates)
        if "pcie_generation" in seen:
            assert 1 <= seen["pcie_generation"] <= seen["pcie_generation_max"] <= 7
            assert max(rates) < 8 * seen["pcie_width_lanes"]


def test_most_of_the_free_memory_is_tested() -> None:
    result, count = run(device_memory.device_memory)
    for gpu in range(count):
        seen = values(result, gpu)
        assert seen["passes"] >= len(PATTERNS)
        assert seen["memory_tested_bytes"] > 0.8 * _total_bytes(gpu)


def _total_bytes(gpu: int) -> int:
    with Supervisor((torch_import,)) as supervisor:
        size = supervisor.devices[gpu].memory_total_bytes
    assert size is not None
    return size


def test_a_flipped_bit_anywhere_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    verify = Memory.verify

    def flipped(self: Memory, pattern: object) -> object:
        block = self._blocks[len(self._blocks) // 2]
        block[12345] ^= 1 << 40
        return verify(self, pattern)  # type: ignore[arg-type]

    monkeypatch.setattr(Memory, "verify", flipped)
    result, _ = run(device_memory.device_memory)
    assert result.status == "fail"
    assert "1 64-bit words are wrong with pattern 'random', at addresses 0x" in result.message


def test_a_wrong_byte_of_a_copy_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = copies.judge_copy

    def wrong(torch: object, got: object, expected: object) -> None:
        got[777] ^= 1  # type: ignore[index]
        judge(torch, got, expected)

    monkeypatch.setattr(copies, "judge_copy", wrong)
    result, _ = run(copies.copy_bandwidth)
    assert result.status == "fail"
    assert "1 of 8388608 words came back wrong from the GPU, the first at byte 6216" in result.message


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGBUS, signal.SIGKILL])
def test_a_worker_that_dies_is_told_and_none_is_left(monkeypatch: pytest.MonkeyPatch, number: signal.Signals) -> None:
    get = data_loader.Samples.__getitem__

    def die(self: data_loader.Samples, index: int) -> object:
        if index == 100:
            os.kill(os.getpid(), number)
        return get(self, index)

    monkeypatch.setattr(data_loader.Samples, "__getitem__", die)
    result, _ = run(data_loader.data_loader)
    assert result.status == "fail", result
    assert f"died of {number.name}" in result.message


def test_wrong_gradients_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """All ranks train on other data than the reference is made of."""
    make = ddp_step.make_batch

    def wrong(torch: object, seed: int, step: int, rank: int) -> object:
        inputs, targets = make(torch, seed, step, rank)
        return (inputs + 1, targets) if inspect.stack()[1].function == "train" else (inputs, targets)

    monkeypatch.setattr(ddp_step, "make_batch", wrong)
    result, _ = run(ddp_step.ddp_step)
    assert result.status == "fail", result
    assert "gradient_error" in result.message


def test_a_rank_that_hangs_is_named_with_its_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    digest = ddp_step._digest_of
    monkeypatch.setattr(ddp_step, "_WORK_LIMIT_S", 20)

    def hang(torch: object, tensors: object) -> str:
        rank = torch.distributed.get_rank()  # type: ignore[attr-defined]
        if rank == torch.distributed.get_world_size() - 1:  # type: ignore[attr-defined]
            time.sleep(600)
        return digest(torch, tensors)

    monkeypatch.setattr(ddp_step, "_digest_of", hang)
    result, count = run(ddp_step.ddp_step)
    assert result.status == "timeout", result
    assert f"rank {count - 1} hung while meeting the other ranks" in result.message


def test_a_gpu_that_disagrees_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several GPUs the last one; one alone disagrees with itself."""
    operations = equal_results.operations

    def wrong(torch: object, place: object, seed: int, narrow: str) -> object:
        made = operations(torch, place, seed, narrow)
        count = torch.cuda.device_count()  # type: ignore[attr-defined]
        if place.index == count - 1:  # type: ignore[attr-defined]
            right, calls = made["softmax"], []

            def odd() -> object:
                result = right()
                calls.append(1)
                if count > 1 or len(calls) > 1:
                    result[3, 4] += 0.5
                return result

            made["softmax"] = odd
        return made

    monkeypatch.setattr(equal_results, "operations", wrong)
    result, count = run(equal_results.equal_results)
    assert result.status == "fail", result
    assert f"cuda:{count - 1} " in result.message
    assert "softmax: 1 of 1048576 elements, at most by 0.5" in result.message or count == 1


def test_a_gpu_whose_memory_others_hold_is_not_blamed() -> None:
    """A process takes nearly all memory of every GPU; a check that needs some is skipped, with figures."""

    def body(context: CheckContext) -> CheckOutcome:
        import torch

        place = only_gpu(torch)
        return CheckOutcome(str(torch.zeros(3 << 30, dtype=torch.uint8, device=place).sum()))

    def hog(context: CheckContext) -> CheckOutcome:
        import torch

        place = only_gpu(torch)
        held = []
        size = 1 << 30
        while size >= 1 << 28:
            try:
                held.append(torch.empty(size, dtype=torch.uint8, device=place))
            except RuntimeError:  # noqa: PERF203
                size //= 2
        time.sleep(25)
        return CheckOutcome()

    def late(context: CheckContext) -> CheckOutcome:
        time.sleep(12)
        return body(context)

    checks = [
        Check(name, name, made, 120, needs_gpu=True, needs_torch=True, per_gpu=True)
        for name, made in (("hog", hog), ("late", late))
    ]
    with Supervisor((torch_import, *checks)) as supervisor:
        results = {result.id: result for result in supervisor.run_all(checks)}
    assert results["late"].status == "skip", results
    assert "is occupied, so it was not judged" in results["late"].message
    assert "are held by other processes" in results["late"].message
