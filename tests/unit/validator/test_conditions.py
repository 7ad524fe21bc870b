"""What is recorded beside a rate, with an NVML of our own making."""

from __future__ import annotations

import os
import subprocess
import sys
import types

import pytest

from envsmith.validator import conditions
from envsmith.validator.devices import Device

UUID = "GPU-11111111-2222-3333-4444-555555555555"
SLICE_UUID = "MIG-66666666-7777-8888-9999-aaaaaaaaaaaa"


class NVMLError(Exception):
    pass


def refuse(*arguments: object) -> object:
    raise NVMLError("Not Supported")


class FakeNvml(types.ModuleType):
    """One GPU "parent" of which SLICE_UUID is a slice; a busy period ends after some looks at it."""

    NVMLError = NVMLError

    def __init__(self) -> None:
        super().__init__("pynvml")
        self.handles = {UUID.encode(): "parent", SLICE_UUID.encode(): "slice"}
        self.busy_percent = [97, 50, 0]
        self.pids = [os.getpid()]
        self.clocks = {1: [1980, 1410, 1425], 2: [3201, 3201, 3201]}
        self.reasons = [0x1, 0x4, 0x20]
        self.nvmlDeviceGetHandleByUUID = self._by_uuid
        self.nvmlDeviceGetHandleByIndex = lambda index: "parent"
        self.nvmlDeviceGetCount = lambda: 1
        self.nvmlDeviceGetDeviceHandleFromMigDeviceHandle = {"slice": "parent"}.__getitem__
        self.nvmlInit = lambda: None
        self.nvmlDeviceGetUtilizationRates = self._utilization
        self.nvmlDeviceGetComputeRunningProcesses = lambda gpu: [types.SimpleNamespace(pid=pid) for pid in self.pids]
        self.nvmlDeviceGetClockInfo = lambda gpu, kind: self.clocks[kind].pop(0) if gpu == "parent" else refuse()
        self.nvmlDeviceGetMaxClockInfo = lambda gpu, kind: 1980 if (gpu, kind) == ("parent", 1) else refuse()
        self.nvmlDeviceGetPowerManagementLimit = lambda gpu: 650_000
        self.nvmlDeviceGetPowerManagementDefaultLimit = lambda gpu: 700_000
        self.nvmlDeviceGetCurrentClocksThrottleReasons = lambda gpu: self.reasons.pop(0)
        self.nvmlDeviceGetTotalEccErrors = lambda gpu, kind, counter: 2 if (kind, counter) == (1, 0) else refuse()
        self.nvmlDeviceGetTemperature = lambda gpu, sensor: 61

    def _by_uuid(self, uuid: bytes) -> str:
        return self.handles[uuid] if uuid in self.handles else str(refuse())

    def _utilization(self, gpu: str) -> object:
        if gpu == "slice":
            return refuse()
        percent = self.busy_percent.pop(0) if len(self.busy_percent) > 1 else self.busy_percent[0]
        return types.SimpleNamespace(gpu=percent, memory=0)


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    monkeypatch.setattr(conditions, "_SETTLE_EVERY_S", 0.0)
    monkeypatch.setattr(conditions, "_SAMPLE_EVERY_S", 0.0)
    return fake


def watched(uuid: str | None = UUID) -> dict[str, float | int | str]:
    watch = conditions.Watch(Device(0, "NVIDIA H200", "9.0", uuid=uuid))
    watch.before()
    done = iter([False, False, False, True])
    watch.until(lambda: next(done))
    return {metric.name: metric.value for metric in watch.metrics()}


def test_all_that_nvml_tells_is_recorded_in_the_units_of_the_names(nvml: FakeNvml) -> None:
    assert watched() == {
        "sm_clock_mhz": 1425,
        "sm_clock_max_mhz": 1980,
        "memory_clock_mhz": 3201,
        "power_cap_w": 650.0,
        "power_cap_default_w": 700.0,
        "throttle_reasons": "sw_power_cap,sw_thermal_slowdown",
        "other_processes": 0,
        "utilization_before_percent": 0,
        "ecc_uncorrected_errors": 2,
        "temperature_c": 61,
    }


def test_a_gpu_that_stays_busy_is_recorded_as_busy(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditions, "_SETTLE_S", 0.0)
    nvml.busy_percent = [88]
    assert watched()["utilization_before_percent"] == 88


def test_a_slice_has_the_clocks_of_its_gpu_and_no_utilization(nvml: FakeNvml) -> None:
    values = watched(SLICE_UUID)
    assert values["sm_clock_mhz"] == 1425
    assert values["other_processes"] == 0
    assert "utilization_before_percent" not in values


def test_what_is_refused_is_absent(nvml: FakeNvml) -> None:
    nvml.nvmlDeviceGetTotalEccErrors = refuse
    nvml.nvmlDeviceGetClockInfo = refuse
    nvml.nvmlDeviceGetCurrentClocksThrottleReasons = refuse
    del nvml.nvmlDeviceGetTemperature
    absent = {"ecc_uncorrected_errors", "sm_clock_mhz", "memory_clock_mhz", "throttle_reasons", "temperature_c"}
    assert absent & set(watched()) == set()


@pytest.mark.parametrize("uuid", ["GPU-00000000-0000-0000-0000-000000000000", None])
def test_another_gpu_is_never_taken_for_this_one(nvml: FakeNvml, uuid: str | None) -> None:
    nvml.nvmlDeviceGetCount = lambda: 2
    assert watched(uuid) == {}


def test_without_a_uuid_the_only_gpu_is_meant(nvml: FakeNvml) -> None:
    assert watched(None)["power_cap_w"] == 650.0


def test_without_nvml_nothing_is_said(nvml: FakeNvml) -> None:
    nvml.nvmlInit = refuse
    assert watched() == {}


def test_processes_of_this_run_are_no_others() -> None:
    sleep = [sys.executable, "-S", "-c", "import time; print(flush=True); time.sleep(600)"]
    with subprocess.Popen(sleep, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        mine = {os.getpid(), child.pid}
        assert conditions.other_processes(mine) == 0
        assert conditions.other_processes({*mine, os.getppid(), 1}) == 2
        child.kill()


def test_a_list_that_cannot_be_of_this_namespace_counts_nobody() -> None:
    assert conditions.other_processes(set()) is None
    assert conditions.other_processes({1}) is None
    assert conditions.other_processes({os.getpid(), 2**22 + 1}) is None


def test_reasons_are_words() -> None:
    assert conditions.throttle_words(0) == "none"
    assert conditions.throttle_words(0x1) == "none"
    assert conditions.throttle_words(0x44) == "sw_power_cap,hw_thermal_slowdown"
