"""A forked process under a warden, as its parent sees it: started, waited for, told to stop, asked how it ended."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
from typing import Callable, Iterable

from envsmith.validator.sweep import SWEEP_LIMIT_S
from envsmith.validator.warden import Ending, be_the_warden, fork, signal_name

# Beyond a body's own limit: the warden's sweep, and a machine with many other things to do.
GRACE_S = SWEEP_LIMIT_S + 10.0
_READ_BYTES = 1 << 16


class NoProcessError(Exception):
    """The system gives no more processes (a limit on them is reached), or no more descriptors."""


class Forked:
    """A body that runs in a forked process, from the constructor until `finish`.

    The process leads its own session, has no standard input, and writes to a pipe whose last part is kept.
    limit_s: it is ended after so many seconds; None leaves that to `stop`. close: descriptors of this process that
    are none of the body's business.
    """

    def __init__(self, body: Callable[[], None], limit_s: float | None, close: tuple[int, ...] = ()) -> None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # or the child would write it once more
        self.descriptor: int | None = None
        self._report = b""
        self._warden: int | None = None
        self._refused = ""
        self._overdue = False
        self._started = time.monotonic()
        self._overdue_at = None if limit_s is None else self._started + limit_s + GRACE_S
        parent = os.getpid()
        try:
            reader, writer = os.pipe()
        except OSError as error:
            self._refused = f"no process can be started: {error.strerror}"
            return
        try:
            self._warden = fork()
        except OSError as error:
            self._refused = f"no process can be started: {error.strerror}"
            os.close(reader)
        if self._warden == 0:
            be_the_warden(parent, body, limit_s, writer, (*close, reader))
        os.close(writer)
        if self._warden is not None:
            os.set_blocking(reader, False)
            self.descriptor = reader

    @property
    def warden(self) -> frozenset[int]:
        """The warden's process id, none if it could not be started."""
        return frozenset() if self._warden is None else frozenset({self._warden})

    @property
    def ended(self) -> bool:
        """Whether it has ended, with all below it; `descriptor` tells when to ask again."""
        while self.descriptor is not None:
            try:
                data = os.read(self.descriptor, _READ_BYTES)
            except BlockingIOError:
                self._end_if_overdue()
                break
            if not data:
                os.close(self.descriptor)
                self.descriptor = None
            self._report += data
        return self.descriptor is None

    def stop(self) -> None:
        """Have the warden end it, and all below it, now; wait until it has `ended`."""
        self._overdue_at = time.monotonic() + GRACE_S
        self._signal(signal.SIGTERM)

    def finish(self) -> Ending:
        """Say how it ended; to be called once, when it has."""
        if self._warden is None:
            return Ending(False, None, None, 0.0, refused=self._refused)
        status = 0
        with contextlib.suppress(ChildProcessError):  # somebody else waited for it
            status = os.waitpid(self._warden, 0)[1]
        try:
            ending = json.loads(self._report.decode("utf-8"))
            ending["log_tail"], ending["survivors"] = tuple(ending["log_tail"]), tuple(ending["survivors"])
            return Ending(**ending)
        except ValueError:  # it could not say all of it
            return self._lost(status)

    def _end_if_overdue(self) -> None:
        """A body may have stopped its warden (SIGSTOP), which then watches over nothing."""
        if self._overdue_at is not None and time.monotonic() > self._overdue_at:
            self._overdue = True
            self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self._warden is not None and self.descriptor is not None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended, and somebody else waited for it
                os.kill(self._warden, number)

    def _lost(self, status: int) -> Ending:
        return Ending(
            timed_out=self._overdue,
            exit_status=os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            signal=signal_name(os.WTERMSIG(status)) if os.WIFSIGNALED(status) else None,
            seconds=time.monotonic() - self._started,
            warden_lost=True,
        )


def wait_for_any(descriptors: Iterable[int | None], timeout_s: float) -> None:
    """Wait until one of the descriptors can be read or its other end is closed, for at most timeout_s."""
    open_ones = [descriptor for descriptor in descriptors if descriptor is not None]
    poller = select.poll()
    for descriptor in open_ones:
        poller.register(descriptor, select.POLLIN)
    if open_ones:
        poller.poll(max(0.0, timeout_s) * 1000)
