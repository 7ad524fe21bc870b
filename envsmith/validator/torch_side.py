"""Torch for a run: a host is started when torch is first needed, and again when a check took it with it.

Beside what the schedule asks for it calls a few functions of its own (the facts that only torch knows) once each,
as soon as torch is imported.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

from envsmith.validator.call import Answer
from envsmith.validator.check import Check, CheckContext
from envsmith.validator.devices import Device
from envsmith.validator.forked import wait_for_any
from envsmith.validator.torch_host import FIRST, Request, TorchHost
from envsmith.validator.verdict import classify, run_body, run_in_place
from envsmith.wire.results import PASS

_POLL_S = 1.0
# CUDA may be initialised for one, on every GPU
_OWN_CALL_LIMIT_S = 60.0


class TorchSide:
    """checks: those that may be run; the one that starts a host is among them, or there is no torch here.

    own_calls: functions to be called once. context: without devices, which are not known yet.
    no_torch_reason: why nothing can be run with torch, once that is known. import_answer: what the last import came to.
    """

    def __init__(
        self, checks: Sequence[Check], own_calls: Mapping[str, Callable[[], object]], context: CheckContext
    ) -> None:
        self._starter = next((check for check in checks if check.starts_host), None)
        self._calls = {check.id: _in_place(check) for check in checks}
        self._calls.update((name, _without_context(function)) for name, function in own_calls.items())
        self._context = context
        self._host: TorchHost | None = None
        # requests of the supervisor have numbers above FIRST
        self._own = {FIRST - place: name for place, name in enumerate(own_calls, 1)}
        self._values: dict[str, Answer] = {}
        self.is_ready = False
        self.own_calls_running = 0
        self.import_answer: Answer | None = None
        self.no_torch_reason = None if self._starter is not None else "this run does not import torch"

    def require(self, close: tuple[int, ...]) -> None:
        """Start a host if there is none and torch is not known to fail. close: see TorchHost."""
        if self._host is None and self._starter is not None and self.no_torch_reason is None:
            starter, context = self._starter, self._context
            self.import_answer = None
            self._host = TorchHost(lambda: run_body(starter, context), starter.limit_s, self._calls, context, close)

    def call(self, request: Request) -> None:
        """Have a check run; only when it `is_ready`."""
        assert self._host is not None
        self._host.call(request)

    def wait(self) -> None:
        """Wait for something new, for at most a second."""
        wait_for_any(self.wake_descriptors, _POLL_S)

    def new_answers(self, devices: Sequence[Device], no_gpu_reason: str | None) -> list[tuple[int, Answer]]:
        """The answers to requests that have come. A host that has imported torch by now is told of the devices."""
        if self._host is None:
            return []
        died = self._host.ending is not None  # asked first: what it answered before its end comes below
        found = []
        for number, answer in self._host.new_answers():
            if number == FIRST:
                self.import_answer = answer
            elif number in self._own:
                self._values[self._own[number]] = answer
                self.own_calls_running -= 1
            else:
                found.append((number, answer))
        if self.import_answer is not None and not self.is_ready:
            self._begin_to_serve(self.import_answer, devices, no_gpu_reason)
        if died or self.no_torch_reason is not None:
            self.close()
        return found

    def has_value(self, name: str) -> bool:
        """Whether a function of own_calls has been answered, or never will be."""
        return name in self._values or self.no_torch_reason is not None

    def value(self, name: str) -> tuple[Any, str]:
        """What one of own_calls came to: (its value as plain data, "") or (None, why there is none)."""
        if name not in self._values:
            return None, self.no_torch_reason or "torch was not imported"
        answer = self._values[name]
        if answer.ending.timed_out:
            return None, f"no answer after {_OWN_CALL_LIMIT_S:g} s"
        if answer.problem is not None:
            return None, " ".join(answer.ending.log_tail[-1:]) or answer.ending.signal or answer.problem
        return answer.value, ""

    def close(self) -> None:
        """End the host, if there is one, and all below it."""
        if self._host is not None:
            self._host.close()
            self._host, self.is_ready = None, False

    @property
    def wardens(self) -> frozenset[int]:
        """Process id of the host's warden."""
        return self._host.wardens if self._host is not None else frozenset()

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Those of this process that are no business of a process that it forks."""
        return self._host.descriptors if self._host is not None else ()

    @property
    def wake_descriptors(self) -> tuple[int | None, ...]:
        """One of them can be read when there is something new."""
        return self._host.wake_descriptors if self._host is not None else ()

    def _begin_to_serve(self, imported: Answer, devices: Sequence[Device], no_gpu_reason: str | None) -> None:
        assert self._host is not None
        assert self._starter is not None
        result = classify(self._starter, imported)
        if result.status != PASS:
            self.no_torch_reason = f"no torch: {result.message}"
            return
        self.is_ready = True
        self._host.send_devices(devices, no_gpu_reason)
        for number, name in self._own.items():
            if name not in self._values:
                self.own_calls_running += 1
                self._host.call(Request(number, name, _OWN_CALL_LIMIT_S, None, self._context.scratch))


def _without_context(function: Callable[[], object]) -> Callable[[CheckContext], object]:
    return lambda _context: function()


def _in_place(check: Check) -> Callable[[CheckContext], object]:
    return lambda context: run_in_place(check, context)
