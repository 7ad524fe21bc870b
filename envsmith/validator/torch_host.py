"""The process that imports torch once, never touches CUDA, and forks whatever needs torch.

Requests go in as lines (a name from its table and a time limit), answers come out as lines of JSON.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any, Callable, Mapping

from envsmith.validator.call import Answer, call_forked
from envsmith.validator.forked import Ending, Forked
from envsmith.validator.sweep import SWEEP_LIMIT_S, become_subreaper
from envsmith.wire.encode import to_plain

# Beyond a call's own limit: the host's sweep, and a machine with many other things to do.
_GRACE_S = SWEEP_LIMIT_S + 10.0
_POLL_S = 0.01
_READ_BYTES = 1 << 16

Calls = Mapping[str, Callable[[], object]]


class TorchHost:
    """One such process. first: called in the host itself (it imports torch); its value is the first answer."""

    def __init__(self, first: Callable[[], object], calls: Calls, scratch: str) -> None:
        request_reader, self._requests = os.pipe()
        self._answers, answer_writer = os.pipe()
        parents_ends = (self._requests, self._answers)
        self._forked = Forked(lambda: _serve(first, calls, scratch, (request_reader, answer_writer)), parents_ends)
        os.close(request_reader)
        os.close(answer_writer)
        self._received = b""
        self._answers_ended = False
        self._closed = False

    def first_answer(self, limit_s: float) -> Answer:
        """Wait for the value of `first`. If none comes, the host is gone afterwards."""
        return self._receive(time.monotonic() + limit_s)

    def call(self, name: str, limit_s: float) -> Answer:
        """Call one of the table's functions in a process forked from the host."""
        try:
            os.write(self._requests, f"{name} {limit_s!r}\n".encode())
        except OSError:  # the host has died: what follows finds out how
            pass
        return self._receive(time.monotonic() + limit_s + _GRACE_S)

    def close(self) -> Ending | None:
        """End the host and all below it. Harmless when it is gone already."""
        if self._closed:
            return None
        self._closed = True
        ending = self._forked.finish()
        os.close(self._requests)
        os.close(self._answers)
        return ending

    @property
    def alive(self) -> bool:
        """Whether it has been neither closed nor found dead."""
        return not self._closed

    def _receive(self, deadline: float) -> Answer:
        while b"\n" not in self._received:
            ended = self._forked.ended
            if self._forked.poll(_POLL_S, also=None if self._answers_ended else self._answers):
                data = os.read(self._answers, _READ_BYTES)
                self._answers_ended = not data
                self._received += data
            elif ended or time.monotonic() > deadline:
                return self._lost(timed_out=not ended)
        line, _, self._received = self._received.partition(b"\n")
        return _decode(line)

    def _lost(self, timed_out: bool) -> Answer:
        ending = self.close()
        assert ending is not None
        if timed_out:
            ending = Ending(True, None, None, ending.seconds, ending.log_tail, ending.survivors)
        return Answer(ending, None, "left no verdict", host_lost=True)


def _decode(line: bytes) -> Answer:
    value = json.loads(line.decode("utf-8"))
    ending: dict[str, Any] = value["ending"]
    ending["log_tail"] = tuple(ending["log_tail"])
    ending["survivors"] = tuple(ending["survivors"])
    return Answer(Ending(**ending), value["value"], value["problem"], value["host_lost"])


def _serve(first: Callable[[], object], calls: Calls, scratch: str, pipes: tuple[int, int]) -> None:
    """The host's life: import, answer, then serve until the requests end."""
    requests, answers = pipes
    become_subreaper()
    started = time.monotonic()
    value = to_plain(first())
    _send(answers, Answer(Ending(False, 0, None, time.monotonic() - started, ()), value))
    with os.fdopen(requests, "r", encoding="utf-8", closefd=False) as lines:
        for line in lines:
            name, _, limit_s = line.rpartition(" ")
            _send(answers, call_forked(calls[name], float(limit_s), scratch, close_in_child=pipes))


def _send(answers: int, answer: Answer) -> None:
    data = json.dumps(to_plain(answer), allow_nan=False).encode() + b"\n"
    while data:
        data = data[os.write(answers, data) :]
