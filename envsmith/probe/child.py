"""A function run in a forked child with a time limit: for code that may hang, crash or leave a process unfit to fork.

A process that has called `cuInit` must not be forked for CUDA work any more, a broken driver can block a
call for ever, and a broken library can end the process. In a child none of it reaches the probe.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict

MESSAGES_LIMIT_BYTES = 4 * 1024 * 1024

Message = Dict[str, Any]
Emit = Callable[[Message], None]


@dataclass(frozen=True)
class ChildAnswers:
    """What a child said before it ended. trouble: "" if it ended well, else why it did not, for people."""

    messages: tuple[Message, ...]
    trouble: str
    timed_out: bool


class BoundedChild:
    """A forked child that runs `work(emit)`; each `emit` sends one JSON object, so that a late hang loses nothing.

    The child starts at once and runs beside its parent until `answers` is called, which must happen exactly once.
    """

    def __init__(self, work: Callable[[Emit], None], limit_s: float) -> None:
        self._deadline = time.monotonic() + limit_s
        self._reader, writer = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _run_child(work, writer, limit_s)
        os.close(writer)

    def answers(self) -> ChildAnswers:
        """Wait for the child to end or for its time to be over, then kill it; never blocks longer than that."""
        data, in_time = self._read_until_end()
        os.close(self._reader)
        if not in_time:
            os.kill(self._pid, signal.SIGKILL)
        status = self._reap(0.2 if not in_time else max(0.2, self._deadline - time.monotonic()))
        trouble = ""
        if not in_time:
            trouble = "no answer within the time limit"
        elif status is None:
            trouble = "did not end"
        elif os.WIFSIGNALED(status):
            trouble = "ended by " + _signal_name(os.WTERMSIG(status))
        elif status != 0:
            trouble = f"ended with status {os.WEXITSTATUS(status)}"
        return ChildAnswers(_decode(data), trouble, not in_time)

    def _read_until_end(self) -> tuple[bytes, bool]:
        chunks: list[bytes] = []
        size = 0
        while size < MESSAGES_LIMIT_BYTES:
            left = self._deadline - time.monotonic()
            if left <= 0 or not select.select([self._reader], [], [], left)[0]:
                return b"".join(chunks), False
            chunk = os.read(self._reader, 65536)
            if not chunk:
                return b"".join(chunks), True
            chunks.append(chunk)
            size += len(chunk)
        return b"".join(chunks), False

    def _reap(self, limit_s: float) -> int | None:
        # a child that is stuck inside the kernel does not die of SIGKILL: waiting for it must end as well
        end = time.monotonic() + limit_s
        while True:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                return status
            if time.monotonic() >= end:
                return None
            time.sleep(0.001)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have no name
        return f"signal {number}"


def _run_child(work: Callable[[Emit], None], writer: int, limit_s: float) -> None:
    status = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, limit_s + 1)  # ends an orphan, should the parent be killed
        writer = fcntl.fcntl(writer, fcntl.F_DUPFD_CLOEXEC, 3)  # if the parent was started with closed streams
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):  # libraries print on their own account
            os.dup2(nowhere, descriptor)

        def emit(message: Message) -> None:
            data = json.dumps(message).encode("ascii") + b"\n"
            while data:
                data = data[os.write(writer, data) :]

        work(emit)
        status = 0
    finally:
        os._exit(status)


def _decode(data: bytes) -> tuple[Message, ...]:
    found = []
    for line in data.split(b"\n"):
        try:
            message = json.loads(line.decode("ascii"))
        except ValueError:
            continue  # the last line of a child that was killed in the middle of it
        if isinstance(message, dict):
            found.append(message)
    return tuple(found)
