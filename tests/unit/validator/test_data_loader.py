"""What the loader's check says of workers that die, hang or find /dev/shm full. The loading itself needs torch."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from envsmith.validator.check import CheckContext, CheckFailed, CheckTimedOut
from envsmith.validator.checks import data_loader
from envsmith.validator.checks.data_loader import explain, require_gone
from envsmith.validator.devices import Device

GPU = Device(0, "NVIDIA H200", "9.0")


@pytest.fixture(autouse=True)
def shm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_loader, "_shm_bytes", lambda: (64 << 20, 3 << 20))


FIX = "which has 64 MiB (3 MiB free now); give the container more with --shm-size=8g, or the host's with --ipc=host"


@pytest.mark.parametrize(
    ("error", "exit_codes", "words"),
    [
        (RuntimeError("DataLoader worker (pid 7) is killed by signal: Bus error. It is possible"), [-7],
         f"1 worker(s) of the DataLoader died of SIGBUS: often a full /dev/shm, {FIX}"),
        (ConnectionResetError(104, "Connection reset by peer"), [-7, -7],
         f"2 worker(s) of the DataLoader died of SIGBUS: often a full /dev/shm, {FIX}"),
        (RuntimeError("Caught in worker 0.\nTraceback\nunable to allocate shared memory(shm) for <x>\n"), [],
         f"unable to allocate shared memory(shm) for <x>: often a full /dev/shm, {FIX}"),
        (ConnectionResetError(104, "Connection reset by peer"), [-9], "1 worker(s) of the DataLoader died of SIGKILL"),
        (EOFError(), [3, -11], "2 worker(s) of the DataLoader died of SIGSEGV and exited with status 3"),
        (EOFError(), [-40], "1 worker(s) of the DataLoader died of signal 40"),
    ],
)  # fmt: skip
def test_a_dead_worker_is_told_with_its_signal(error: Exception, exit_codes: list[int], words: str) -> None:
    with pytest.raises(CheckFailed) as caught:
        explain(error, exit_codes)
    assert caught.value.message == words
    assert not isinstance(caught.value, CheckTimedOut)


def test_a_worker_that_hangs_is_a_timeout() -> None:
    with pytest.raises(CheckTimedOut, match="no worker gave a batch within 40 s"):
        explain(RuntimeError("DataLoader timed out after 40 seconds"), [])


def test_an_error_that_is_not_the_workers_is_left_alone() -> None:
    explain(RuntimeError("CUDA error: an illegal memory access"), [])


def test_a_worker_that_outlives_its_loader_is_a_failure() -> None:
    worker = os.fork()
    if worker == 0:
        time.sleep(600)
    try:
        with pytest.raises(CheckFailed, match=f"workers did not end with the loader: process {worker}$"):
            require_gone(frozenset({worker, os.getpid()}))
    finally:
        os.kill(worker, 9)
        os.waitpid(worker, 0)
    require_gone(frozenset({worker}))


def test_files_that_a_worker_of_this_run_left_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_loader, "_SHM", str(tmp_path))
    for name in ("torch_7_1_0", "torch_7_old_0", "torch_77_1_0", "other"):
        (tmp_path / name).touch()
    os.utime(tmp_path / "torch_7_old_0", (1000, 1000))
    data_loader._remove_files({7, 8}, time.time())
    assert {path.name for path in tmp_path.iterdir()} == {"torch_7_old_0", "torch_77_1_0", "other"}


def test_only_a_long_temporary_folder_gets_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, name in (("/tmp/short", "/tmp/short"), ("/scratch/" + "x" * 70, "/proc/self/cwd")):
        monkeypatch.setattr(tempfile, "tempdir", folder)
        data_loader._shorten_socket_paths()
        assert tempfile.tempdir == name
        assert len(tempfile.gettempdir()) + len("/pymp-xxxxxxxx/listener-xxxxxxxx") <= 107


@pytest.mark.parametrize(
    ("devices", "cuda", "usable", "used"),
    [
        ((GPU,), "13.0", True, GPU),
        ((), "13.0", True, None),
        ((GPU,), None, True, None),
        ((GPU,), "13.0", False, None),
        ((Device(0, "GPU", "9.0", exclusive=True),), "13.0", True, None),
    ],
)
def test_the_first_gpu_is_used_where_it_can_be(
    devices: tuple[Device, ...], cuda: str | None, usable: bool, used: Device | None
) -> None:
    torch = SimpleNamespace(version=SimpleNamespace(cuda=cuda), cuda=SimpleNamespace(is_available=lambda: usable))
    assert data_loader._device_to_use(torch, CheckContext(devices, None, None, "")) == used
