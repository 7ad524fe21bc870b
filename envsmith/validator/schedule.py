"""Which check may start now: a state machine over tasks, without processes and without a clock.

A task is a check for one GPU, or for all of them. Tasks that share go first, side by side; those that measure go
after them, alone on their GPU or on the machine, since each such change of the guard costs waiting.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping, Sequence

from envsmith.validator.check import GPU_ALONE, LIGHT, MACHINE_ALONE, SHARED, Check
from envsmith.validator.devices import Device, visible_together
from envsmith.validator.merge import merge
from envsmith.wire.results import PASS, CheckResult

_WIDTH_MAX = 8
# A process with torch takes some 0.5 GB of a GPU's memory for its context and libraries, and its data come on top.
_SMALL_GPU_BYTES = 8 << 30
_ON_A_SMALL_GPU_MAX = 2
_RANK = {SHARED: 0, LIGHT: 0, GPU_ALONE: 1, MACHINE_ALONE: 2}


@dataclass(frozen=True)
class Task:
    """A check to be run in a process of its own. device: the GPU that it is run for, None for all or none."""

    check: Check
    device: Device | None = None


def usable_cpus() -> int:
    """Processors that this process may keep busy, by its affinity and by the quota of its control group."""
    count = float(len(os.sched_getaffinity(0)))
    try:  # version 2: "200000 100000", microseconds of work in a period, or "max 100000"
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return int(count)
    return int(count if quota == "max" else min(count, int(quota) / int(period)))


def width() -> int:
    """How many processes may run at a time."""
    return max(1, min(_WIDTH_MAX, usable_cpus() // 2))


def threads_each() -> int:
    """How many threads each of them may compute with, so that they do not wait for one another's."""
    return max(1, usable_cpus() // width())


class Schedule:
    """The checks of one run, waiting, running and finished.

    devices: those of the run; no_gpu_reason: why there are none, where that is no fault. done: results of earlier
    checks, which `requires` may name. width: processes that may run at a time. guests: processes of the supervisor's
    own that run now; nothing that is to be alone starts beside them.
    """

    def __init__(
        self,
        checks: Sequence[Check],
        devices: Sequence[Device],
        no_gpu_reason: str | None,
        done: Mapping[str, CheckResult],
    ) -> None:
        self.results = dict(done)
        self.guests = 0
        self.width = width()
        self._devices = tuple(devices)
        self._no_gpu_reason = no_gpu_reason
        self._waiting = [task for check in checks for task in self._tasks(check)]
        # stable, so that the order of the checks decides among equals
        self._waiting.sort(key=lambda task: (_RANK[task.check.claims], not task.check.slow))
        self._running: list[Task] = []
        self._parts: dict[str, list[tuple[Device | None, CheckResult]]] = {}
        self._stuck: dict[Device, str] = {}

    @property
    def is_finished(self) -> bool:
        """Whether nothing runs and nothing waits."""
        return not self._waiting and not self._running

    @property
    def waits_for_torch(self) -> bool:
        """Whether a task that waits needs torch."""
        return any(task.check.needs_torch for task in self._waiting)

    def next(self, torch_is_ready: bool) -> Task | None:
        """Take the next task that may start now; it runs from here on. torch_is_ready: what needs torch may, too."""
        for task in self._waiting:
            if task.check.needs_torch and not (torch_is_ready or task.check.starts_host):
                continue
            if self._is_ready(task) and self._fits(task):
                self._waiting.remove(task)
                self._running.append(task)
                return task
        return None

    def reason_to_skip(self, task: Task) -> str | None:
        """Why a task that was taken should not be run."""
        if task.check.needs_gpu and not self._devices and self._no_gpu_reason is not None:
            return self._no_gpu_reason
        for required in task.check.requires:
            result = self.results.get(required)
            if result is not None and result.status != PASS:
                return f"needs {required}, which says {result.status}"
        return next((self._stuck[device] for device in self._used(task) if device in self._stuck), None)

    def finish(self, task: Task, result: CheckResult, survivors: tuple[int, ...] = ()) -> CheckResult | None:
        """Take what one process came to; return the check's result when this was the last of its processes."""
        self._running.remove(task)
        if survivors:
            processes = ", ".join(map(str, survivors))
            reason = f"process {processes} of {task.check.id} could not be killed and holds the GPU"
            self._stuck.update((device, reason) for device in self._used(task))
        parts = self._parts.setdefault(task.check.id, [])
        parts.append((task.device, result))
        if any(other.check.id == task.check.id for other in (*self._waiting, *self._running)):
            return None
        merged = merge(parts)
        self.results[task.check.id] = merged
        return merged

    def _tasks(self, check: Check) -> list[Task]:
        if check.per_gpu and self._devices:
            return [Task(check, device) for device in self._devices]
        return [Task(check)]

    def _used(self, task: Task) -> tuple[Device, ...]:
        """The GPUs that a task has to do with."""
        if task.device is not None:
            return (task.device,)
        return visible_together(self._devices) if task.check.needs_gpu else ()

    def _is_ready(self, task: Task) -> bool:
        unfinished = {other.check.id for other in (*self._waiting, *self._running)}
        return not unfinished.intersection(task.check.requires)

    def _fits(self, task: Task) -> bool:
        if self.guests and _RANK[task.check.claims]:
            return False
        if not self._running:
            return True
        if task.check.claims == MACHINE_ALONE or any(other.check.claims == MACHINE_ALONE for other in self._running):
            return False
        if sum(map(self._processes, (*self._running, task))) > self.width:
            return False
        return all(self._fits_on(device, task) for device in self._used(task))

    def _fits_on(self, device: Device, task: Task) -> bool:
        there = [other.check.claims for other in self._running if device in self._used(other)]
        if len(there) >= _places(device):
            return False
        if task.check.claims == GPU_ALONE:
            return set(there) <= {LIGHT}
        return task.check.claims == LIGHT or GPU_ALONE not in there

    def _processes(self, task: Task) -> int:
        """A check over all GPUs is taken to start a process for each, as those of NCCL do; the import starts none."""
        return 0 if task.check.starts_host else max(1, len(self._used(task)))


def _places(device: Device) -> int:
    if device.exclusive:
        return 1
    size = device.memory_total_bytes
    return _ON_A_SMALL_GPU_MAX if size is not None and size < _SMALL_GPU_BYTES else _WIDTH_MAX
