"""The questions to NVML and libcuda, with libraries that are not there, that refuse, and that answer."""

# ruff: noqa: N802  (the fakes have the names of NVML and of the CUDA driver)
from __future__ import annotations

import ctypes
import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest

from envsmith.probe import ask_nvml, driver_answers
from envsmith.probe.ask_cuda import ask_cuda, cuda_version, loaded_path
from envsmith.probe.child import BoundedChild, ChildAnswers, Emit
from envsmith.probe.driver_answers import DriverAnswers
from envsmith.wire.encode import to_plain
from envsmith.wire.facts import GpuFacts

GIB = 1024**3
GPU = GpuFacts(0, "NVIDIA H200", "GPU-a", "9.0", 141 * GIB, GIB, False, False, True, 0, 1, "nvml")


class NvmlError(Exception):
    """As pynvml's: the words, and the number."""

    def __init__(self, value: int, words: str = "Not Supported") -> None:
        super().__init__(words)
        self.value = value


class FakeNvml:
    """pynvml with two GPUs, the second in MIG mode with one slice; a third cannot be opened."""

    NVMLError = NvmlError
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
    NVML_VOLATILE_ECC = 0

    def nvmlInit(self) -> None:
        pass

    def nvmlSystemGetDriverVersion(self) -> bytes:
        return b"580.159.04"  # old releases of pynvml answer bytes

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        return 13000

    def nvmlDeviceGetCount(self) -> int:
        return 3

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        if index == 2:
            raise NvmlError(15, "GPU is lost")
        return f"gpu{index}"

    def nvmlDeviceGetName(self, handle: str) -> str:
        return "NVIDIA A100-SXM4-40GB MIG 1g.5gb" if handle == "slice" else "NVIDIA A100-SXM4-40GB"

    def nvmlDeviceGetUUID(self, handle: str) -> str:
        return f"UUID-{handle}"

    def nvmlDeviceGetCudaComputeCapability(self, handle: str) -> tuple[int, int]:
        if handle == "slice":
            raise NvmlError(3)
        return (8, 0)

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> SimpleNamespace:
        return SimpleNamespace(total=5 * GIB if handle == "slice" else 40 * GIB, used=0)

    def nvmlDeviceGetEccMode(self, handle: str) -> list[int]:
        if handle == "slice":
            raise NvmlError(3)
        return [1, 1]

    def nvmlDeviceGetTotalEccErrors(self, handle: str, kind: int, counter: int) -> int:
        assert (kind, counter) == (1, 0)
        return 2 if handle == "gpu1" else 0

    def nvmlDeviceGetMigMode(self, handle: str) -> list[int]:
        if handle == "gpu0":
            raise NvmlError(3)
        return [1, 1]

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: str) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, parent: str, number: int) -> str:
        if number != 3:
            raise NvmlError(6, "Not Found")
        return "slice"

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[int]:
        return [11, 12] if handle == "gpu0" else []


def ask(monkeypatch: pytest.MonkeyPatch, nvml: Any) -> tuple[bool, list[dict[str, Any]]]:
    messages: list[dict[str, Any]] = []
    monkeypatch.setattr(ask_nvml.ctypes, "CDLL", lambda name: SimpleNamespace())
    monkeypatch.setattr(ask_nvml, "loaded_path", lambda library, symbol: "/usr/lib/libnvidia-ml.so.580.159.04")
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    return ask_nvml.ask_nvml(messages.append), messages


def test_nvml_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    listed, messages = ask(monkeypatch, FakeNvml())
    assert listed
    answers = driver_answers.read(ChildAnswers(tuple(messages), "", False))
    assert (answers.nvml_driver_version, answers.nvml_cuda_version) == ("580.159.04", "13.0")
    assert answers.nvml_error is None
    assert answers.lost_gpus == ((2, "GPU is lost (15)"),)
    first, second, part = answers.gpus or ()
    assert (first.index, first.mig_enabled, first.other_processes) == (0, None, 2)
    assert (second.index, second.mig_enabled, second.ecc_uncorrected_errors) == (1, True, 2)
    assert (part.index, part.is_mig_slice, part.uuid) == (1, True, "UUID-slice")
    assert (part.compute_capability, part.memory_total_bytes, part.ecc_enabled) == ("8.0", 5 * GIB, None)


def test_a_pynvml_that_lacks_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(FakeNvml, "nvmlSystemGetCudaDriverVersion_v2")
    listed, messages = ask(monkeypatch, FakeNvml())
    assert listed
    assert messages[0]["cuda_version"] is None


def test_nvml_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml()

    def fail() -> None:
        raise NvmlError(18, "Driver/library version mismatch")

    nvml.nvmlInit = fail  # type: ignore[method-assign]
    listed, messages = ask(monkeypatch, nvml)
    assert not listed
    answers = driver_answers.read(ChildAnswers(tuple(messages), "", False))
    assert answers.nvml_error == "Driver/library version mismatch (18)"
    assert answers.nvml_path == "/usr/lib/libnvidia-ml.so.580.159.04"
    assert not answers.nvml_absent
    assert answers.gpus is None


def test_a_pynvml_that_does_not_import(monkeypatch: pytest.MonkeyPatch) -> None:
    listed, messages = ask(monkeypatch, None)
    assert not listed
    (message,) = messages
    assert "pynvml" in message["error"]  # ModuleNotFoundError names it
    assert not message["absent"]


@pytest.mark.parametrize(
    ("words", "absent"),
    [("cannot open shared object file: No such file or directory", True), ("file too short", False)],
)
def test_a_missing_nvml_is_told_from_a_broken_one(monkeypatch: pytest.MonkeyPatch, words: str, absent: bool) -> None:
    def fail(name: str) -> None:
        raise OSError(f"{name}: {words}")

    messages: list[dict[str, Any]] = []
    monkeypatch.setattr(ask_nvml.ctypes, "CDLL", fail)
    assert not ask_nvml.ask_nvml(messages.append)
    assert messages[0]["absent"] is absent
    assert messages[0]["error"] == f"libnvidia-ml.so.1: {words}"


def test_no_nvml_library() -> None:
    messages: list[dict[str, Any]] = []
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        assert not ask_nvml.ask_nvml(messages.append)
        assert messages[0]["absent"]
    else:
        pytest.skip("this machine has NVML")


class FakeCuda:
    """libcuda with one GPU: what ctypes would fill by reference is filled here."""

    def __init__(self, init: int = 0) -> None:
        self.init = init

    def cuInit(self, flags: int) -> int:
        return self.init

    def cuGetErrorName(self, code: int, text: Any) -> int:
        if code != 803:
            return 1
        text._obj.value = b"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"
        return 0

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = 2
        return 0

    def cuDeviceGet(self, device: Any, index: int) -> int:
        device._obj.value = index
        return 0 if index == 0 else 101

    def cuDeviceGetName(self, name: Any, size: int, device: Any) -> int:
        name.value = b"Orin\xff"
        return 0

    def cuDeviceTotalMem_v2(self, memory: Any, device: Any) -> int:
        memory._obj.value = 8 * GIB
        return 0

    def cuDeviceGetAttribute(self, value: Any, which: int, device: Any) -> int:
        value._obj.value = {75: 8, 76: 7}.get(which, 0)
        return 1 if which == 32 else 0

    def cuDeviceGetUuid(self, raw: Any, device: Any) -> int:
        raw._obj[:] = range(16)
        return 0


def test_cuda_lists_the_devices() -> None:
    messages: list[dict[str, Any]] = []
    ask_cuda(FakeCuda(), messages.append, list_devices=True)  # type: ignore[arg-type]
    answers = driver_answers.read(ChildAnswers(tuple(messages), "", False))
    assert answers.cuda_error is None
    assert answers.lost_gpus == ((1, "cuDeviceGet failed"),)
    assert answers.gpus == (
        GpuFacts(
            index=0,
            name="Orin\ufffd",
            uuid="GPU-00010203-0405-0607-0809-0a0b0c0d0e0f",
            compute_capability="8.7",
            memory_total_bytes=8 * GIB,
            memory_used_bytes=None,
            mig_enabled=None,
            is_mig_slice=False,
            ecc_enabled=None,
            ecc_uncorrected_errors=None,
            other_processes=None,
            source="cuda",
        ),
    )


def test_nvmls_list_is_not_replaced() -> None:
    messages: list[dict[str, Any]] = []
    ask_cuda(FakeCuda(), messages.append, list_devices=False)  # type: ignore[arg-type]
    assert [message["part"] for message in messages] == ["cuda"]


@pytest.mark.parametrize(
    ("code", "error"),
    [(803, "803 CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"), (999, "999"), (34, "34 CUDA_ERROR_STUB_LIBRARY")],
)
def test_cuda_refuses(code: int, error: str) -> None:
    messages: list[dict[str, Any]] = []
    ask_cuda(FakeCuda(code), messages.append, list_devices=True)  # type: ignore[arg-type]
    answers = driver_answers.read(ChildAnswers(tuple(messages), "", False))
    assert answers.cuda_error == error
    assert answers.gpus is None


@pytest.mark.parametrize(("number", "text"), [(13000, "13.0"), (12040, "12.4"), (11080, "11.8"), (9020, "9.2")])
def test_cuda_versions(number: int, text: str) -> None:
    assert cuda_version(number) == text


def test_the_path_of_a_loaded_library() -> None:
    library = ctypes.CDLL(None)
    path = loaded_path(library, "strlen")
    assert path is not None
    assert "libc" in path
    assert loaded_path(library, "no_such_function_anywhere") is None


def test_answers_before_a_hang_are_used() -> None:
    def work(emit: Emit) -> None:
        emit({"part": "nodes", "refused": ["/dev/nvidia0"]})
        emit({"part": "libcuda", "path": "/usr/lib/libcuda.so.580.159.04", "error": None, "code": 0})
        emit({"part": "gpu", "gpu": to_plain(GPU)})
        time.sleep(60)

    answers = driver_answers.read(BoundedChild(work, 0.3).answers())
    assert answers.refused_nodes == ("/dev/nvidia0",)
    assert answers.libcuda_path == "/usr/lib/libcuda.so.580.159.04"
    assert answers.gpus == (GPU,)
    assert answers.timed_out


def test_silence_is_no_answer() -> None:
    answers = driver_answers.read(ChildAnswers((), "ended by SIGSEGV", False))
    assert answers == DriverAnswers(trouble="ended by SIGSEGV")
