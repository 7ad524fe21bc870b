"""The check without torch, against a driver made of C: right ways, wrong results and every kind of refusal."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from envsmith.validator import devices
from envsmith.validator.checks.cuda_kernel_driver import PTX, cuda_kernel_driver
from envsmith.validator.supervise import Supervisor
from envsmith.wire.results import CheckResult

COMPILER = shutil.which("cc") or shutil.which("gcc")
PTXAS = shutil.which("ptxas")
SOURCE = Path(__file__).with_name("fake_libcuda.c")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if COMPILER is None:
        pytest.skip("no C compiler")
    path = tmp_path_factory.mktemp("driver") / "libcuda.so.1"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", str(path), str(SOURCE)], check=True)
    return path


@pytest.fixture
def run(library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    import ctypes

    load = ctypes.CDLL
    monkeypatch.setattr(ctypes, "CDLL", lambda name: load(str(library) if name == "libcuda.so.1" else name))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(devices, "device_nodes", lambda: ("/dev/nvidia0",))

    def run_with(fault: str) -> CheckResult:
        monkeypatch.setenv("FAKE_CUDA", fault)
        with Supervisor((cuda_kernel_driver,)) as supervisor:
            return supervisor.run(cuda_kernel_driver)

    return run_with


def test_a_good_driver_passes(run: object) -> None:
    result = run("")  # type: ignore[operator]
    assert (result.status, result.ran_on) == ("pass", ("cuda:0 Fake GPU 7 (9.0)",)), result
    assert {metric.name: metric.value for metric in result.metrics}["driver_cuda"] == "12.4"


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("one-bit", "1 of 100003 floating-point results are wrong, first element 100002"),
        ("overrun", "wrote past the end of its integer result"),
        ("ptx", "cuModuleLoadDataEx returned CUDA_ERROR_FAKE (218): ptxas fatal : line 3"),
        ("memory", "cuMemAlloc_v2 returned CUDA_ERROR_FAKE (2)"),
        ("mismatch", "user-mode driver and the kernel module are of different versions"),
        ("no-device", "the driver lists no CUDA device"),
    ],
)
def test_a_bad_one_fails_with_the_reason(run: object, fault: str, words: str) -> None:
    result = run(fault)  # type: ignore[operator]
    assert result.status == "fail"
    assert words in result.message
    assert result.ran_on == ()


def test_a_driver_that_crashes_is_a_crash(run: object) -> None:
    result = run("segfault")  # type: ignore[operator]
    assert (result.status, result.signal) == ("crash", "SIGSEGV")


def test_no_driver_and_no_device_is_a_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "device_nodes", lambda: ())
    monkeypatch.setattr(devices, "_look", lambda: {"devices": (), "problem": "no driver: libcuda.so.1: not there"})
    with Supervisor((cuda_kernel_driver,)) as supervisor:
        result = supervisor.run(cuda_kernel_driver)
    assert (result.status, result.needs_gpu) == ("skip", True)
    assert result.message == "no NVIDIA GPU here (no /dev/nvidia0; no driver: libcuda.so.1: not there)"


@pytest.mark.parametrize("value", ["", "-1"])
def test_hidden_gpus_are_a_skip_that_names_the_variable(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    monkeypatch.setattr(devices, "device_nodes", lambda: ("/dev/nvidia0",))
    monkeypatch.setattr(devices, "_look", lambda: {"devices": (), "problem": "cuInit returned ..."})
    with Supervisor((cuda_kernel_driver,)) as supervisor:
        result = supervisor.run(cuda_kernel_driver)
    assert (result.status, result.message) == ("skip", f"CUDA_VISIBLE_DEVICES={value!r} hides every GPU")


@pytest.mark.skipif(PTXAS is None, reason="no ptxas")
@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
def test_the_ptx_assembles(tmp_path: Path, architecture: str) -> None:
    source = tmp_path / "kernel.ptx"
    source.write_bytes(PTX.rstrip(b"\0"))
    command = [str(PTXAS), f"-arch={architecture}", "-o", os.devnull, str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "not defined for option 'gpu-name'" in done.stderr:
        pytest.skip(f"this ptxas does not know {architecture}")
    assert done.returncode == 0, done.stderr
