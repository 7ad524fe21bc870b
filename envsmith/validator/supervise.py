"""Run checks side by side, each in a process of its own. This process never imports torch and never touches CUDA.

Whatever a check does (crash, hang, print megabytes, start daemons, close its pipes) becomes its result, and
nothing of it is left.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from dataclasses import replace
from types import TracebackType
from typing import Any, Callable, Mapping, Sequence

from envsmith.validator.call import Answer, Call
from envsmith.validator.check import Check, CheckContext
from envsmith.validator.devices import Device, DeviceChoiceError, choose, start_look, what_was_seen
from envsmith.validator.forked import wait_for_any
from envsmith.validator.place import context_for
from envsmith.validator.schedule import Schedule, Task
from envsmith.validator.sweep import become_subreaper, children, sweep
from envsmith.validator.torch_host import FIRST, Request
from envsmith.validator.torch_side import TorchSide
from envsmith.validator.verdict import classify, run_in_place, skipped
from envsmith.wire.results import STANDARD, STRESS, CheckResult, Expectation

_POLL_S = 1.0

OnStart = Callable[[Check, "Device | None"], None]
OnResult = Callable[[CheckResult], None]


class Supervisor:
    """One run over checks, as a context manager: leaving it kills all that it started.

    checks: those that may be run. torch_calls: further functions, each called once in a process with torch.
    Raises OSError when no folder for temporary files can be written.
    """

    def __init__(
        self,
        checks: Sequence[Check],
        expectation: Expectation | None = None,
        torch_calls: Mapping[str, Callable[[], object]] | None = None,
        level: str = STANDARD,
        stress_s: float = 60.0,
    ) -> None:
        self._scratch = tempfile.mkdtemp(prefix="envsmith-")
        self._context = CheckContext((), None, expectation, self._scratch, level=level, stress_s=stress_s)
        self._torch = TorchSide(checks, torch_calls or {}, self._context)
        self._results: dict[str, CheckResult] = {}
        self._look: Call | None = None
        self._looked = False
        self._numbers = itertools.count(FIRST + 1)
        self._tasks: dict[int, Task] = {}
        self._calls: dict[int, Call] = {}  # of tasks that need no torch

    def __enter__(self) -> Supervisor:  # noqa: PYI034 - Self came with Python 3.11
        become_subreaper()
        self._spared = children()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        sweep(self._spared)
        for call in self._own_calls():
            _ = call.ended  # which it has, and this closes its pipe
        self._torch.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def begin(self, checks: Sequence[Check]) -> None:
        """Start what takes long, and return at once: the import of torch, if it is needed, and the look for devices."""
        if any(check.needs_torch for check in checks):
            self._torch.require(self._descriptors())
        if not self._looked and self._look is None:
            self._look = start_look(self._scratch, self._descriptors())

    @property
    def devices(self) -> tuple[Device, ...]:
        """CUDA devices of the run; looked for once, in a forked process. Raises NoProcessError."""
        self.begin(())
        if self._look is not None:
            while not self._look.ended:
                wait_for_any([self._look.descriptor], _POLL_S)
            devices, reason = what_was_seen(self._look.answer())
            self._look, self._looked = None, True
            self._context = replace(self._context, devices=devices, no_gpu_reason=reason)
        return self._context.devices

    def choose_devices(self, words: Sequence[str]) -> None:
        """Leave only the devices that the words name; before anything is run. Raises DeviceChoiceError."""
        devices, reason = self.devices, self._context.no_gpu_reason
        if devices:
            self._context = replace(self._context, devices=choose(devices, words))
        elif reason is not None:  # else there is a GPU that CUDA cannot use, which is for a check to say
            raise DeviceChoiceError(f"there is no GPU {words[0]!r}: {reason}")

    def run(self, check: Check) -> CheckResult:
        """Run one check, or say why it is skipped. Never raises for what the check does."""
        return self.run_all([check])[0]

    def run_all(
        self,
        checks: Sequence[Check],
        on_start: OnStart = lambda _check, _device: None,
        on_result: OnResult = lambda _result: None,
    ) -> tuple[CheckResult, ...]:
        """Run checks side by side and return their results in the order given; the callbacks tell of each meanwhile.

        on_start gets the GPU where a check is run once for each, on_result comes once a check.
        """
        self.begin(checks)
        timed = [self._with_time_for_stress(check) for check in checks]
        schedule = Schedule(timed, self.devices, self._context.no_gpu_reason, self._results)
        while not schedule.is_finished:
            if schedule.waits_for_torch:
                self._torch.require(self._descriptors())
            results = self._start_what_may(schedule, on_start)
            if not results and not schedule.is_finished:
                self._wait()
                results = self._take_what_ended(schedule)
            for result in results:
                self._results[result.id] = result
                on_result(result)
        return tuple(self._results[check.id] for check in checks)

    def torch_value(self, name: str) -> tuple[Any, str]:
        """What one of torch_calls came to: (its value as plain data, "") or (None, why there is none)."""
        devices = self.devices
        while not self._torch.has_value(name):
            self._torch.require(self._descriptors())
            self._torch.wait()
            self._torch.new_answers(devices, self._context.no_gpu_reason)
        return self._torch.value(name)

    def _with_time_for_stress(self, check: Check) -> Check:
        return replace(check, limit_s=check.limit_s + self._context.stress_s) if check.level == STRESS else check

    def _start_what_may(self, schedule: Schedule, on_start: OnStart) -> list[CheckResult]:
        """Start all tasks that may run now; return the results of checks that are skipped instead."""
        results: list[CheckResult | None] = []
        no_torch = self._torch.no_torch_reason
        while True:
            schedule.guests = self._torch.own_calls_running
            task = schedule.next(torch_is_ready=self._torch.is_ready or no_torch is not None)
            if task is None:
                return [result for result in results if result is not None]
            reason = schedule.reason_to_skip(task)
            if reason is None and task.check.needs_torch and not task.check.starts_host:
                reason = no_torch
            if reason is not None:
                results.append(schedule.finish(task, skipped(task.check, reason)))
                continue
            on_start(task.check, task.device)
            self._start(task)

    def _start(self, task: Task) -> None:
        check, index = task.check, None if task.device is None else task.device.index
        if check.starts_host:  # its answer is that of the import, which is under way or over
            self._tasks[FIRST] = task
            return
        number = next(self._numbers)
        self._tasks[number] = task
        folder = os.path.join(self._scratch, str(number))
        os.mkdir(folder)
        if check.needs_torch:
            self._torch.call(Request(number, check.id, check.limit_s, index, folder))
            return
        context = context_for(self._context, index, folder)
        self._calls[number] = Call(
            lambda: run_in_place(check, context), check.limit_s, self._scratch, self._descriptors()
        )

    def _wait(self) -> None:
        """Wait until something has ended, for at most a second."""
        waking = [call.descriptor for call in self._calls.values()]
        is_there = FIRST in self._tasks and self._torch.import_answer is not None
        if not is_there and None not in waking:  # a call that could not be started has ended, without a descriptor
            wait_for_any([*waking, *self._torch.wake_descriptors], _POLL_S)

    def _take_what_ended(self, schedule: Schedule) -> list[CheckResult]:
        """The results of checks of which the last process has ended."""
        results = []
        for number, answer in self._new_answers():
            task = self._tasks.pop(number)
            shutil.rmtree(os.path.join(self._scratch, str(number)), ignore_errors=True)
            results.append(schedule.finish(task, classify(task.check, answer), answer.ending.survivors))
        return [result for result in results if result is not None]

    def _new_answers(self) -> list[tuple[int, Answer]]:
        """The answers to tasks that have come. What a lost warden left is ended, and nothing else."""
        ended = [number for number, call in self._calls.items() if call.ended]
        answers = [(number, self._calls.pop(number).answer()) for number in ended]
        answers += self._torch.new_answers(self.devices, self._context.no_gpu_reason)
        if FIRST in self._tasks and self._torch.import_answer is not None:
            answers.append((FIRST, self._torch.import_answer))
        self._spared |= frozenset(pid for _, answer in answers for pid in answer.ending.survivors)
        if any(answer.ending.warden_lost for _, answer in answers):
            mine = frozenset(pid for call in self._own_calls() for pid in call.warden)
            sweep(self._spared | mine | self._torch.wardens)
        return answers

    def _own_calls(self) -> tuple[Call, ...]:
        return (*self._calls.values(), *([self._look] if self._look is not None else []))

    def _descriptors(self) -> tuple[int, ...]:
        """Those of this process that are no business of a process that it forks."""
        mine = tuple(call.descriptor for call in self._own_calls() if call.descriptor is not None)
        return (*mine, *self._torch.descriptors)
