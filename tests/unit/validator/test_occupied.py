"""A GPU that others use is not blamed: which errors are theirs, which are not, and what is said."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from envsmith.validator.check import Check, CheckContext, CheckFailed, CheckOutcome, CheckSkipped
from envsmith.validator.devices import Device
from envsmith.validator.driver import DEVICE_UNAVAILABLE, OUT_OF_MEMORY, DriverError
from envsmith.validator.occupied import occupied_is_no_fault
from envsmith.validator.verdict import run_body
from tests.unit.validator import fake_nvml

GIB = 1 << 30
GPU = Device(3, "NVIDIA H200", "9.0", uuid="GPU-3")
SLICE = Device(0, "NVIDIA H200 MIG 1g.18gb", "9.0", uuid="MIG-1")
TORCH_WORDS = "CUDA out of memory. Tried to allocate 2.00 GiB."


def memory(free_gib: float, total_gib: float) -> SimpleNamespace:
    return SimpleNamespace(free=free_gib * GIB, total=total_gib * GIB, used=(total_gib - free_gib) * GIB)


def raise_within(error: Exception, device: Device | None = GPU) -> None:
    with occupied_is_no_fault(device):
        raise error


@pytest.mark.parametrize(
    "error", [RuntimeError(TORCH_WORDS), DriverError("cuMemAlloc_v2", OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY")]
)
def test_memory_that_others_hold_is_a_skip_with_figures(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    asked = fake_nvml.install(
        monkeypatch, {"nvmlDeviceGetHandleByUUID": "handle", "nvmlDeviceGetMemoryInfo": memory(0.5, 140)}
    )
    with pytest.raises(CheckSkipped) as caught:
        raise_within(error)
    assert str(caught.value) == (
        "cuda:3 NVIDIA H200 (9.0) is occupied, so it was not judged: "
        "0.5 of 140.0 GiB of memory are free, 138.5 GiB are held by other processes"
    )
    assert asked == [("nvmlDeviceGetHandleByUUID", b"GPU-3"), ("nvmlDeviceGetMemoryInfo", "handle")]


def test_memory_that_ran_out_with_few_others_is_a_failure_with_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_nvml.install(monkeypatch, {"nvmlDeviceGetHandleByUUID": 1, "nvmlDeviceGetMemoryInfo": memory(100, 140)})
    with pytest.raises(CheckFailed, match=r"Tried to allocate 2.00 GiB. \(100.0 of 140.0 GiB of memory are free, 39.0"):
        raise_within(RuntimeError(TORCH_WORDS))


@pytest.mark.parametrize(("mode", "words"), [(3, "in exclusive mode and in use by another"), (2, "in prohibited mode")])
def test_a_gpu_that_may_not_be_shared_is_a_skip(monkeypatch: pytest.MonkeyPatch, mode: int, words: str) -> None:
    fake_nvml.install(monkeypatch, {"nvmlDeviceGetHandleByUUID": 1, "nvmlDeviceGetComputeMode": mode})
    busy = "torch cannot use the GPU: CUDA error: CUDA-capable device(s) is/are busy or unavailable"
    for error in (CheckFailed(busy), DriverError("cuDevicePrimaryCtxRetain", DEVICE_UNAVAILABLE, "X")):
        with pytest.raises(CheckSkipped, match=words):
            raise_within(error)


def test_a_busy_gpu_in_default_mode_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_nvml.install(monkeypatch, {"nvmlDeviceGetHandleByUUID": 1, "nvmlDeviceGetComputeMode": 0})
    with pytest.raises(DriverError):
        raise_within(DriverError("cuCtxCreate", DEVICE_UNAVAILABLE, "X"))


def test_a_slice_is_asked_for_its_own_memory_and_its_gpu_for_the_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {
        "nvmlDeviceGetHandleByUUID": "slice",
        "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": "whole",
        "nvmlDeviceGetMemoryInfo": memory(1, 16),
        "nvmlDeviceGetComputeMode": 3,
    }
    asked = fake_nvml.install(monkeypatch, answers)
    for error in (RuntimeError(TORCH_WORDS), DriverError("x", DEVICE_UNAVAILABLE, "X")):
        with pytest.raises(CheckSkipped):
            raise_within(error, SLICE)
    assert ("nvmlDeviceGetMemoryInfo", "slice") in asked
    assert ("nvmlDeviceGetComputeMode", "whole") in asked


@pytest.mark.parametrize("answers", [{"nvmlInit": RuntimeError("no NVML")}, {"nvmlDeviceGetHandleByUUID": 1}])
def test_without_nvml_the_error_stays_what_it_is(monkeypatch: pytest.MonkeyPatch, answers: dict[str, object]) -> None:
    fake_nvml.install(monkeypatch, answers)
    with pytest.raises(RuntimeError, match="CUDA out of memory"):
        raise_within(RuntimeError(TORCH_WORDS))


def test_other_errors_and_skips_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (ValueError("x"), CheckSkipped("out of memory"), CheckFailed("2 is not 3")):
        with pytest.raises(type(error)) as caught:
            raise_within(error)
        assert caught.value is error
    with pytest.raises(RuntimeError):
        raise_within(RuntimeError(TORCH_WORDS), None)


def test_a_driver_that_tells_no_uuid_is_asked_only_where_there_is_one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"nvmlDeviceGetCount": 1, "nvmlDeviceGetHandleByIndex": 1, "nvmlDeviceGetMemoryInfo": memory(0, 10)}
    unknown = Device(0, "GPU", "6.1")
    fake_nvml.install(monkeypatch, answers)
    with pytest.raises(CheckSkipped):
        raise_within(RuntimeError(TORCH_WORDS), unknown)
    fake_nvml.install(monkeypatch, {**answers, "nvmlDeviceGetCount": 2})
    with pytest.raises(RuntimeError):
        raise_within(RuntimeError(TORCH_WORDS), unknown)


def test_every_check_that_runs_once_a_gpu_is_spared(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_nvml.install(monkeypatch, {"nvmlDeviceGetHandleByUUID": 1, "nvmlDeviceGetMemoryInfo": memory(1, 140)})

    def body(context: CheckContext) -> CheckOutcome:
        raise RuntimeError(TORCH_WORDS)

    verdict = run_body(Check("toy", "toy", body, 1.0), CheckContext((GPU,), None, None, "", GPU))
    assert verdict.status == "skip"
    assert verdict.message.startswith("cuda:3 NVIDIA H200 (9.0) is occupied, so it was not judged: 1.0 of 140.0 GiB")
