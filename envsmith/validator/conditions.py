"""Under which conditions a GPU was measured: its clocks, its power cap, its errors, and who else uses it, by NVML.

A rate says nothing without them: a busy, hot or capped GPU is slow and healthy. What NVML does not tell (no NVML at
all, a MIG slice, another container's processes) is left out, never guessed.
"""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path
from typing import Callable

from envsmith.validator.devices import Device
from envsmith.validator.nvml import NvmlGpu
from envsmith.validator.sweep import parent_in
from envsmith.wire.results import Metric

# NVML averages utilization over its last sample period, of 1/6 s to 1 s: the work of a check that ran before on this
# GPU is in it for so long.
_SETTLE_S = 1.2
_SETTLED_PERCENT = 2
_SETTLE_EVERY_S = 0.05
_SAMPLE_EVERY_S = 0.005

# nvmlClockType_t, nvmlTemperatureSensors_t, nvmlMemoryErrorType_t and nvmlEccCounterType_t of nvml.h
_CLOCK_SM, _CLOCK_MEMORY = 1, 2
_SENSOR_GPU = 0
_UNCORRECTED, _SINCE_BOOT = 1, 0

# nvmlClocksThrottleReasons of nvml.h; 0x1, idle, is no reason to be slow when asked for.
THROTTLE_REASONS = (
    (0x002, "applications_clocks_setting"),
    (0x004, "sw_power_cap"),
    (0x008, "hw_slowdown"),
    (0x010, "sync_boost"),
    (0x020, "sw_thermal_slowdown"),
    (0x040, "hw_thermal_slowdown"),
    (0x080, "hw_power_brake_slowdown"),
    (0x100, "display_clock_setting"),
)

# The process that imports this first: the one that runs the checks, from which each is forked.
_RUN_PID = os.getpid()


class Watch:
    """What NVML says of one GPU before and while it is measured.

    Of a MIG slice, clocks, power and errors are those of the GPU that it is a part of, utilization and processes are
    its own.
    """

    def __init__(self, device: Device) -> None:
        self._nvml = NvmlGpu(device)
        self._utilization_percent: int | None = None
        self._others: int | None = None
        self._clocks_mhz: list[int] = []
        self._memory_clocks_mhz: list[int] = []
        self._reasons: int | None = None

    def before(self) -> None:
        """Look who uses the GPU. To be called with this process's CUDA context made, and nothing queued by it.

        Waits, for at most 1.2 s, until NVML has forgotten what the checks before this one did.
        """
        deadline = time.monotonic() + _SETTLE_S
        while True:
            rates = self._nvml.of_slice("nvmlDeviceGetUtilizationRates")
            self._utilization_percent = None if rates is None else int(rates.gpu)
            if rates is None or rates.gpu <= _SETTLED_PERCENT or time.monotonic() > deadline:
                break
            time.sleep(_SETTLE_EVERY_S)
        running = self._nvml.of_slice("nvmlDeviceGetComputeRunningProcesses")
        self._others = None if running is None else other_processes({int(process.pid) for process in running})

    def sample(self) -> None:
        """Look once at clocks and throttle reasons: while the GPU works, as they say nothing of an idle one."""
        for clock, kept in ((_CLOCK_SM, self._clocks_mhz), (_CLOCK_MEMORY, self._memory_clocks_mhz)):
            value = self._number("nvmlDeviceGetClockInfo", clock)
            if value is not None:
                kept.append(value)
        reasons = self._number("nvmlDeviceGetCurrentClocksThrottleReasons")
        if reasons is not None:
            self._reasons = (self._reasons or 0) | reasons

    def until(self, done: Callable[[], bool]) -> None:
        """Sample until queued work is done; done: says so without waiting, as torch.cuda.Event.query does."""
        while not done():
            self.sample()
            time.sleep(_SAMPLE_EVERY_S)

    def metrics(self) -> tuple[Metric, ...]:
        """All that is known, absent where it is not. Clocks are medians, throttle reasons all that were ever seen."""
        values: tuple[tuple[str, float | int | str | None], ...] = (
            ("sm_clock_mhz", _median(self._clocks_mhz)),
            ("sm_clock_max_mhz", self._number("nvmlDeviceGetMaxClockInfo", _CLOCK_SM)),
            ("memory_clock_mhz", _median(self._memory_clocks_mhz)),
            ("power_cap_w", self._watts("nvmlDeviceGetPowerManagementLimit")),
            ("power_cap_default_w", self._watts("nvmlDeviceGetPowerManagementDefaultLimit")),
            ("throttle_reasons", None if self._reasons is None else throttle_words(self._reasons)),
            ("other_processes", self._others),
            ("utilization_before_percent", self._utilization_percent),
            ("ecc_uncorrected_errors", self._number("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _SINCE_BOOT)),
            ("temperature_c", self._number("nvmlDeviceGetTemperature", _SENSOR_GPU)),
        )
        return tuple(Metric(name, value) for name, value in values if value is not None)

    def _number(self, question: str, *arguments: int) -> int | None:
        value = self._nvml.of_gpu(question, *arguments)
        return None if value is None else int(value)

    def _watts(self, question: str) -> float | None:
        milliwatts = self._number(question)
        return None if milliwatts is None else milliwatts / 1000


def _median(values: list[int]) -> int | None:
    return statistics.median_low(values) if values else None


def throttle_words(reasons: int) -> str:
    """NVML's bits as words: 0x44 -> "sw_power_cap,hw_thermal_slowdown", 0 -> "none"."""
    return ",".join(word for bit, word in THROTTLE_REASONS if reasons & bit) or "none"


def other_processes(pids: set[int]) -> int | None:
    """How many of the processes that NVML lists on a GPU are not of this run; None where that cannot be told.

    In a container NVML may list nothing, or numbers of the host. The list counts only when this process, which has a
    CUDA context, is in it, and every process in it can be seen here.
    """
    if os.getpid() not in pids:
        return None
    ours = [_is_of_this_run(pid) for pid in pids]
    return None if None in ours else ours.count(False)


def _is_of_this_run(pid: int) -> bool | None:
    """Whether a process descends from the one that runs the checks; None when it is not to be seen."""
    if pid == _RUN_PID:
        return True
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    parent = parent_in(stat)
    return parent == _RUN_PID or (parent > 1 and bool(_is_of_this_run(parent)))
