"""The process that imports torch once, never touches CUDA, and forks whatever needs torch, several at a time.

Requests go in as lines of JSON, answers come out so too, as they end. It has one thread.
"""

from __future__ import annotations

import gc
import json
import os
import time
from dataclasses import dataclass, replace
from typing import Any, Callable, Mapping, Sequence

from envsmith.validator.call import Answer, Call
from envsmith.validator.check import CheckContext
from envsmith.validator.devices import Device
from envsmith.validator.forked import GRACE_S, Forked, wait_for_any
from envsmith.validator.place import context_for
from envsmith.validator.sweep import become_subreaper, children, sweep
from envsmith.validator.warden import Ending
from envsmith.wire.encode import to_plain

_POLL_S = 1.0
_READ_BYTES = 1 << 16
# The number of the answer that the import is.
FIRST = 0

TorchCalls = Mapping[str, Callable[[CheckContext], object]]


@dataclass(frozen=True)
class Request:
    """One call of a function of the host's table, in a process of its own. number: its answer has it, too."""

    number: int
    name: str
    limit_s: float
    device_index: int | None
    scratch: str


class TorchHost:
    """One such process.

    first: called in the host itself (it imports torch); its value is the first answer, due within first_limit_s.
    context: what the functions of the table get, with devices as `send_devices` tells and what a request says.
    close: descriptors of this process that are none of the host's business.
    """

    def __init__(
        self,
        first: Callable[[], object],
        first_limit_s: float,
        calls: TorchCalls,
        context: CheckContext,
        close: tuple[int, ...] = (),
    ) -> None:
        requests, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        self.descriptors = (self._requests, self._answers)
        server = _Server(calls, context, requests, answers)
        self._forked = Forked(lambda: server.serve(first), None, (*close, *self.descriptors))
        os.close(requests)
        os.close(answers)
        os.set_blocking(self._answers, False)
        self._received = b""
        self._ending: Ending | None = None
        self._due_at = {FIRST: time.monotonic() + first_limit_s}
        self._overdue: set[int] = set()

    def send_devices(self, devices: Sequence[Device], no_gpu_reason: str | None) -> None:
        """Tell of the run's devices; to come before the first request."""
        self._send({"devices": devices, "no_gpu_reason": no_gpu_reason})

    def call(self, request: Request) -> None:
        """Have a function called; its answer comes from `new_answers`."""
        self._due_at[request.number] = time.monotonic() + request.limit_s + 2 * GRACE_S
        self._send(request)

    @property
    def wake_descriptors(self) -> tuple[int | None, ...]:
        """One of them can be read when there is something new."""
        return self._answers, self._forked.descriptor

    @property
    def wardens(self) -> frozenset[int]:
        """Process id of its warden."""
        return self._forked.warden

    @property
    def ending(self) -> Ending | None:
        """How it ended; None while it lives."""
        if self._ending is None and self._forked.ended:
            self._ending = self._forked.finish()
        return self._ending

    def new_answers(self) -> list[tuple[int, Answer]]:
        """The answers that have come, by number. When it has ended, all that is still due is answered by that."""
        ending = self.ending  # asked first: what it wrote before its end is read below
        found = self._read()
        if ending is None:
            self._stop_if_overdue()
        else:
            found += [(number, self._lost(number, ending)) for number in self._due_at]
            self._due_at = {}
        return found

    def close(self) -> None:
        """End it, and all below it; to be called once."""
        self._forked.stop()
        while self.ending is None:
            wait_for_any([self._forked.descriptor], _POLL_S)
        for descriptor in self.descriptors:
            os.close(descriptor)

    def _send(self, message: object) -> None:
        try:
            os.write(self._requests, _line(message))
        except OSError:  # the host has died: its ending tells how
            pass

    def _read(self) -> list[tuple[int, Answer]]:
        while True:
            try:
                data = os.read(self._answers, _READ_BYTES)
            except BlockingIOError:
                break
            self._received += data
            if not data:
                break
        *lines, self._received = self._received.split(b"\n")
        found = []
        for line in lines:
            number, answer = _decode(line)
            if self._due_at.pop(number, None) is not None:
                found.append((number, answer))
        return found

    def _stop_if_overdue(self) -> None:
        now = time.monotonic()
        overdue = {number for number, due_at in self._due_at.items() if now > due_at}
        if overdue - self._overdue:
            self._overdue |= overdue
            self._forked.stop()

    def _lost(self, number: int, ending: Ending) -> Answer:
        return Answer(replace(ending, timed_out=number in self._overdue), None, "left no verdict", host_lost=True)


def _line(message: object) -> bytes:
    return json.dumps(to_plain(message), allow_nan=False).encode() + b"\n"


def _decode(line: bytes) -> tuple[int, Answer]:
    value = json.loads(line.decode("utf-8"))
    answer: dict[str, Any] = value["answer"]
    ending: dict[str, Any] = answer["ending"]
    ending["log_tail"], ending["survivors"] = tuple(ending["log_tail"]), tuple(ending["survivors"])
    return value["number"], Answer(Ending(**ending), answer["value"], answer["problem"])


class _Server:
    """The host's own side."""

    def __init__(self, calls: TorchCalls, context: CheckContext, requests: int, answers: int) -> None:
        self._calls = calls
        self._context = context
        self._scratch = context.scratch
        self._requests = requests
        self._answers = answers
        self._received = b""
        self._running: dict[int, Call] = {}
        self._not_calls: frozenset[int] = frozenset()

    def serve(self, first: Callable[[], object]) -> None:
        """The host's life: import, answer, then serve until the requests end."""
        become_subreaper()
        os.set_blocking(self._requests, False)
        started = time.monotonic()
        value = to_plain(first())
        self._send(FIRST, Answer(Ending(False, 0, None, time.monotonic() - started), value))
        self._not_calls |= children()  # what the import has started stays
        gc.freeze()  # or the garbage collection of each forked process would copy what is shared
        while True:
            wait_for_any([self._requests, *(call.descriptor for call in self._running.values())], _POLL_S)
            for line in self._new_requests():
                self._take(json.loads(line.decode("utf-8")))
            for number in [number for number, call in self._running.items() if call.ended]:
                self._answer(number)

    def _new_requests(self) -> list[bytes]:
        """Whole lines that have come; ends this process when no more can come."""
        try:
            data = os.read(self._requests, _READ_BYTES)
        except BlockingIOError:
            return []
        if not data:
            raise SystemExit(0)
        *lines, self._received = (self._received + data).split(b"\n")
        return lines

    def _take(self, message: dict[str, Any]) -> None:
        if "devices" in message:
            devices = tuple(Device(**device) for device in message["devices"])
            self._context = replace(self._context, devices=devices, no_gpu_reason=message["no_gpu_reason"])
            return
        request = Request(**message)
        function = self._calls[request.name]
        context = context_for(self._context, request.device_index, request.scratch)
        others = (call.descriptor for call in self._running.values())
        close = (self._requests, self._answers, *(other for other in others if other is not None))
        self._running[request.number] = Call(lambda: function(context), request.limit_s, self._scratch, close)

    def _answer(self, number: int) -> None:
        answer = self._running.pop(number).answer()
        self._not_calls |= frozenset(answer.ending.survivors)  # they are this process's children now
        if answer.ending.warden_lost:
            wardens = frozenset(pid for call in self._running.values() for pid in call.warden)
            sweep(self._not_calls | wardens)
        self._send(number, answer)

    def _send(self, number: int, answer: Answer) -> None:
        data = _line({"number": number, "answer": answer})
        while data:
            data = data[os.write(self._answers, data) :]
