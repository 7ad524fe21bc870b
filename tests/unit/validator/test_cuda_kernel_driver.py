"""The check without torch, against a driver made of C: right ways, wrong results and every kind of refusal."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from envsmith.validator import devices
from envsmith.validator.checks.cuda_kernel_driver import PTX, cuda_kernel_driver
from envsmith.validator.devices import Device
from envsmith.validator.supervise import Supervisor
from envsmith.wire.results import CheckResult
from tests.unit.validator import fake_driver

PTXAS = shutil.which("ptxas")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_driver.build(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def run(library: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., CheckResult]:
    fake_driver.use(library, monkeypatch)

    def run_with(fault: str, device: Device | None = fake_driver.DEVICE) -> CheckResult:
        monkeypatch.setenv("FAKE_CUDA", fault)
        return fake_driver.run(cuda_kernel_driver, tmp_path, device)

    return run_with


def test_a_good_driver_passes(run: Callable[..., CheckResult]) -> None:
    result = run("")
    assert (result.status, result.message) == ("pass", "all 100003 elements right, driver for CUDA 12.4"), result
    assert {metric.name: metric.value for metric in result.metrics}["driver_cuda"] == "12.4"


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("one-bit", "1 of 100003 floating-point results are wrong, first element 100002"),
        ("overrun", "wrote past the end of its integer result"),
        ("ptx", "cuModuleLoadDataEx returned CUDA_ERROR_FAKE (218): ptxas fatal : line 3"),
        ("memory", "cuMemAlloc_v2 returned CUDA_ERROR_FAKE (2)"),
        ("mismatch", "user-mode driver and the kernel module are of different versions"),
        ("no-device", "there is a GPU, but the driver lists no CUDA device"),
        ("two-devices", "the driver lists 2 GPUs where CUDA_VISIBLE_DEVICES leaves one"),
    ],
)
def test_a_bad_one_fails_with_the_reason(run: Callable[..., CheckResult], fault: str, words: str) -> None:
    result = run(fault)
    assert result.status == "fail"
    assert words in result.message


def test_a_gpu_that_the_driver_did_not_list_is_looked_for_again(run: Callable[..., CheckResult]) -> None:
    assert run("no-device", None).message == "there is a GPU, but the driver lists no CUDA device"
    assert run("two-devices", None).status == "pass"


def test_a_driver_that_crashes_is_a_crash(run: Callable[..., CheckResult]) -> None:
    result = run("segfault")
    assert (result.status, result.signal) == ("crash", "SIGSEGV")


@pytest.mark.parametrize(
    ("hidden", "nodes", "reason"),
    [
        (None, (), "no NVIDIA GPU here (no /dev/nvidia0; no driver: libcuda.so.1: not there)"),
        ("", ("/dev/nvidia0",), "CUDA_VISIBLE_DEVICES='' hides every GPU"),
        ("-1", ("/dev/nvidia0",), "CUDA_VISIBLE_DEVICES='-1' hides every GPU"),
    ],
)
def test_no_gpu_and_hidden_ones_are_a_skip_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, hidden: str | None, nodes: tuple[str, ...], reason: str
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if hidden is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    monkeypatch.setattr(devices, "device_nodes", lambda: nodes)
    monkeypatch.setattr(devices, "_look", lambda: {"devices": (), "problem": "no driver: libcuda.so.1: not there"})
    with Supervisor((cuda_kernel_driver,)) as supervisor:
        result = supervisor.run(cuda_kernel_driver)
    assert (result.status, result.needs_gpu, result.message) == ("skip", True, reason)


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
