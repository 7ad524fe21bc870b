"""A CUDA driver made of C for the checks that use no torch: compiled once, loaded in place of libcuda.so.1."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from envsmith.validator.call import call_forked
from envsmith.validator.check import Check, CheckContext
from envsmith.validator.devices import Device
from envsmith.validator.verdict import classify, run_body
from envsmith.wire.results import CheckResult

COMPILER = shutil.which("cc") or shutil.which("gcc")
SOURCE = Path(__file__).with_name("fake_libcuda.c")
DEVICE = Device(0, "Fake GPU 7", "9.0", visible_as="0", uuid="GPU-7")


def build(folder: Path) -> Path:
    """Compile the driver; the test is skipped where there is no C compiler."""
    if COMPILER is None:
        pytest.skip("no C compiler")
    path = folder / "libcuda.so.1"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", str(path), str(SOURCE)], check=True)
    return path


def use(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have libcuda.so.1 mean this library."""
    load = ctypes.CDLL
    monkeypatch.setattr(ctypes, "CDLL", lambda name: load(str(library)) if name == "libcuda.so.1" else load(name))


def run(check: Check, scratch: Path, device: Device | None = DEVICE) -> CheckResult:
    """Run a check as the supervisor does, for one device."""
    devices = (device,) if device is not None else ()
    context = CheckContext(devices, None, None, str(scratch), device)
    return classify(check, call_forked(lambda: run_body(check, context), check.limit_s, str(scratch)))
