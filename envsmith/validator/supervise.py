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
from envsmith.validator.devices import Device, choose, start_look, what_was_seen
from envsmith.validator.forked import wait_for_any
from envsmith.validator.place import context_for
from envsmith.validator.schedule import Schedule, Task
from envsmith.validator.sweep import become_subreaper, children, sweep
from envsmith.validator.torch_host import FIRST, Request, TorchHost
from envsmith.validator.verdict import classify, run_body, run_in_place, skipped
from envsmith.wire.results import PASS, STANDARD, STRESS, CheckResult, Expectation

_POLL_S = 1.0
# CUDA may be initialised for one, on every GPU
_TORCH_CALL_LIMIT_S = 60.0

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
        self._checks = tuple(checks)
        self._torch_calls = dict(torch_calls or {})
        self._values: dict[str, Answer] = {}
        self._results: dict[str, CheckResult] = {}
        self._starter = next((check for check in self._checks if check.starts_host), None)
        self._host: TorchHost | None = None
        self._host_is_ready = False
        self._no_torch_reason = None if self._starter is not None else "this run does not import torch"
        self._import_answer: Answer | None = None
        self._look: Call | None = None
        self._looked = False
        self._calls: dict[int, Call] = {}
        self._tasks: dict[int, Task] = {}
        self._named: dict[int, str] = {}
        self._numbers = itertools.count(FIRST + 1)
        self._scratch = tempfile.mkdtemp(prefix="envsmith-")
        self._context = CheckContext((), None, expectation, self._scratch, level=level, stress_s=stress_s)

    def __enter__(self) -> Supervisor:  # noqa: PYI034 - Self came with Python 3.11
        become_subreaper()
        self._spared = children()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        sweep(self._spared)
        # after that they have ended: this closes their pipes
        for call in (*self._calls.values(), *([self._look] if self._look is not None else [])):
            _ = call.ended
        if self._host is not None:
            self._host.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def begin(self, checks: Sequence[Check]) -> None:
        """Start what takes long, and return at once: the look for devices, and the import of torch if it is needed."""
        if any(check.needs_torch for check in checks):
            self._require_host()
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
        self._context = replace(self._context, devices=choose(self.devices, words))

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
        schedule = Schedule(
            [self._with_time_for_stress(check) for check in checks],
            self.devices,
            self._context.no_gpu_reason,
            self._results,
        )
        while not schedule.is_finished:
            if schedule.waits_for_torch:
                self._require_host()
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
        while name not in self._values and self._no_torch_reason is None:
            self._require_host()
            self._wait()
            self._take_answers()
        if name not in self._values:
            return None, self._no_torch_reason or ""
        answer = self._values[name]
        if answer.ending.timed_out:
            return None, f"no answer after {_TORCH_CALL_LIMIT_S:g} s"
        if answer.problem is not None:
            return None, " ".join(answer.ending.log_tail[-1:]) or answer.ending.signal or answer.problem
        return answer.value, ""

    def _with_time_for_stress(self, check: Check) -> Check:
        return replace(check, limit_s=check.limit_s + self._context.stress_s) if check.level == STRESS else check

    def _start_what_may(self, schedule: Schedule, on_start: OnStart) -> list[CheckResult]:
        """Start all tasks that may run now; return the results of checks that are skipped instead."""
        results: list[CheckResult | None] = []
        while True:
            schedule.guests = len(self._named)
            task = schedule.next(torch_is_ready=self._host_is_ready or self._no_torch_reason is not None)
            if task is None:
                return [result for result in results if result is not None]
            reason = schedule.reason_to_skip(task)
            if reason is None and task.check.needs_torch and not task.check.starts_host:
                reason = self._no_torch_reason
            if reason is not None:
                results.append(schedule.finish(task, skipped(task.check, reason)))
                continue
            on_start(task.check, task.device)
            self._start(task)

    def _start(self, task: Task) -> None:
        if task.check.starts_host:
            self._tasks[FIRST] = task
            return
        number = next(self._numbers)
        folder = os.path.join(self._scratch, str(number))
        os.mkdir(folder)
        self._tasks[number] = task
        index = None if task.device is None else task.device.index
        if task.check.needs_torch:
            assert self._host is not None
            self._host.call(Request(number, task.check.id, task.check.limit_s, index, folder))
            return
        context = context_for(self._context, index, folder)
        self._calls[number] = Call(
            lambda: run_in_place(task.check, context), task.check.limit_s, self._scratch, self._descriptors()
        )

    def _wait(self) -> None:
        """Wait until something has ended; not where the answer is there already."""
        if FIRST in self._tasks and self._import_answer is not None:
            return
        waking = [call.descriptor for call in self._calls.values()]
        # a call that could not be started has ended, and has no descriptor
        if None not in waking:
            wait_for_any([*waking, *(self._host.wake_descriptors if self._host is not None else ())], _POLL_S)

    def _take_what_ended(self, schedule: Schedule) -> list[CheckResult]:
        """The results of checks of which the last process has ended."""
        results = []
        for number, answer in self._take_answers():
            task = self._tasks.pop(number)
            shutil.rmtree(os.path.join(self._scratch, str(number)), ignore_errors=True)
            results.append(schedule.finish(task, classify(task.check, answer), answer.ending.survivors))
        return [result for result in results if result is not None]

    def _take_answers(self) -> list[tuple[int, Answer]]:
        """The answers to tasks that have come; those to torch_calls and to the import are kept."""
        found = [(number, call) for number, call in self._calls.items() if call.ended]
        answers = []
        for number, call in found:
            del self._calls[number]
            answers.append((number, call.answer()))
        host_died = self._host is not None and self._host.ending is not None  # asked first: see new_answers
        for number, answer in self._host.new_answers() if self._host is not None else ():
            if number == FIRST:
                self._import_answer = answer
            elif number in self._named:
                self._values[self._named.pop(number)] = answer
            else:
                answers.append((number, answer))
        self._mind_the_host(host_died)
        if FIRST in self._tasks and self._import_answer is not None:
            answers.append((FIRST, self._import_answer))
        self._spared |= frozenset(pid for _, answer in answers for pid in answer.ending.survivors)
        if any(answer.ending.warden_lost for _, answer in answers):
            sweep(self._spared | self._wardens())
        return answers

    def _require_host(self) -> None:
        """Start the host if there is none (again, if a check took it with it) and torch is not known to fail."""
        if self._host is not None or self._no_torch_reason is not None:
            return
        assert self._starter is not None
        starter, context = self._starter, self._context
        calls: dict[str, Callable[[CheckContext], object]] = {}
        for name, function in self._torch_calls.items():
            calls[name] = _without_context(function)
        for check in self._checks:
            calls[check.id] = _in_place(check)
        self._import_answer = None
        self._host = TorchHost(lambda: run_body(starter, context), starter.limit_s, calls, context, self._descriptors())

    def _mind_the_host(self, died: bool) -> None:
        """Let it serve when it has imported torch; be rid of it when that failed, or when it has died."""
        if self._host is None or self._starter is None:
            return
        if self._import_answer is not None and not self._host_is_ready:
            result = classify(self._starter, self._import_answer)
            if result.status == PASS:
                self._host_is_ready = True
                self._host.send_devices(self.devices, self._context.no_gpu_reason)
                for name in self._torch_calls:
                    self._call_in_torch(name)
            else:
                self._no_torch_reason = f"no torch: {result.message}"
        if self._no_torch_reason is not None or died:
            self._host.close()
            self._host, self._host_is_ready = None, False

    def _call_in_torch(self, name: str) -> None:
        assert self._host is not None
        if name not in self._values:
            number = next(self._numbers)
            self._named[number] = name
            self._host.call(Request(number, name, _TORCH_CALL_LIMIT_S, None, self._scratch))

    def _wardens(self) -> frozenset[int]:
        calls = (*self._calls.values(), *([self._look] if self._look is not None else []))
        mine = frozenset(pid for call in calls for pid in call.warden)
        return mine | (self._host.wardens if self._host is not None else frozenset())

    def _descriptors(self) -> tuple[int, ...]:
        """Those of this process that are no business of a process that it forks."""
        calls = (*self._calls.values(), *([self._look] if self._look is not None else []))
        mine = tuple(call.descriptor for call in calls if call.descriptor is not None)
        return (*mine, *(self._host.descriptors if self._host is not None else ()))


def _without_context(function: Callable[[], object]) -> Callable[[CheckContext], object]:
    return lambda _context: function()


def _in_place(check: Check) -> Callable[[CheckContext], object]:
    return lambda context: run_in_place(check, context)
