"""A forked process in its own session: bounded in time, its output caught, nothing of it left afterwards."""

from __future__ import annotations

import faulthandler
import os
import resource
import select
import signal
import sys
import time
import traceback
import warnings
from dataclasses import dataclass
from typing import Callable

from envsmith.validator.sweep import children, die_with_parent, sweep
from envsmith.validator.text import last_lines

_POLL_S = 0.01
_READ_BYTES = 1 << 16
# What is kept of a process's output: enough for a Python traceback under a page of NCCL warnings.
_TAIL_BYTES = 1 << 15
# After a process has ended, at most this much is still read: what it left behind may go on writing.
_LAST_READ_BYTES = 1 << 20

EXIT_EXCEPTION = 70


@dataclass(frozen=True)
class Ending:
    """How a forked process ended.

    exit_status is None if a signal ended it (or nothing could); signal is its name then.
    survivors: process ids that could not be killed.
    """

    timed_out: bool
    exit_status: int | None
    signal: str | None
    seconds: float
    log_tail: tuple[str, ...]
    survivors: tuple[int, ...] = ()


def signal_name(number: int) -> str:
    """Return "SIGSEGV" for 11, "signal 34" for a real-time signal without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class NoProcessError(Exception):
    """The system gives no more processes (a limit on them is reached), or no more descriptors."""


class Forked:
    """A body that runs in a forked process, from the constructor until `finish`.

    The process leads its own session, has no standard input, and writes to a pipe whose last part is kept.
    close_in_child: file descriptors of this process that are none of the body's business. Raises NoProcessError.
    """

    def __init__(self, body: Callable[[], None], close_in_child: tuple[int, ...] = ()) -> None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # or the child would write it once more
        self._spared = children()
        self._started = time.monotonic()
        self._tail = bytearray()
        self._status: int | None = None
        parent = os.getpid()
        try:
            reader, writer = os.pipe()
            self.pid = _fork()
        except OSError as error:
            raise NoProcessError(f"no process can be started: {error.strerror}") from error
        if self.pid == 0:
            _be_the_child(parent, body, writer, (*close_in_child, reader))
        os.close(writer)
        os.set_blocking(reader, False)
        self._log: int | None = reader

    @property
    def ended(self) -> bool:
        """Whether the process itself has ended; processes that it started may still run."""
        if self._status is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # somebody else waited for it: how it ended is lost
                pid, status = self.pid, 0
            if pid:
                self._status = status
        return self._status is not None

    @property
    def failed(self) -> bool:
        """Whether it has ended, and badly."""
        return self.ended and self._status != 0

    def poll(self, timeout_s: float, also: int | None = None) -> bool:
        """Wait for output for at most timeout_s, keep its end; say whether the descriptor `also` can be read."""
        poller = select.poll()
        for descriptor in (self._log, also):
            if descriptor is not None:
                poller.register(descriptor, select.POLLIN)
        ready = {descriptor for descriptor, _ in poller.poll(max(0.0, timeout_s) * 1000)}
        if self._log in ready:
            self._read()
        return also in ready

    def wait(self, limit_s: float) -> bool:
        """Wait until the process has ended, or for limit_s seconds since it began; say whether it ended."""
        while not self.ended:
            left_s = self._started + limit_s - time.monotonic()
            if left_s <= 0:
                return False
            self.poll(min(_POLL_S, left_s))
        return True

    def finish(self, timed_out: bool = False) -> Ending:
        """End the process and everything that descends from it; to be called once."""
        seconds = time.monotonic() - self._started
        by_itself = self.ended
        if not by_itself:
            self._kill_group()
        survivors = sweep(self._spared)
        self._read_last()
        status = self._status if by_itself else None
        return Ending(
            timed_out=timed_out,
            exit_status=os.WEXITSTATUS(status) if status is not None and os.WIFEXITED(status) else None,
            signal=signal_name(os.WTERMSIG(status)) if status is not None and os.WIFSIGNALED(status) else None,
            seconds=seconds,
            log_tail=_without_our_frames(last_lines(bytes(self._tail))),
            survivors=survivors,
        )

    def _kill_group(self) -> None:
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except OSError:  # it has not called setsid yet, or has just ended: the sweep takes it
            pass

    def _read(self) -> int:
        if self._log is None:
            return 0
        try:
            data = os.read(self._log, _READ_BYTES)
        except BlockingIOError:
            return 0
        if not data:
            os.close(self._log)
            self._log = None
        self._tail += data
        del self._tail[:-_TAIL_BYTES]
        return len(data)

    def _read_last(self) -> None:
        total = 0
        while total < _LAST_READ_BYTES:
            count = self._read()
            if not count:
                break
            total += count
        if self._log is not None:
            os.close(self._log)
            self._log = None


def _fork() -> int:
    with warnings.catch_warnings():
        # Python 3.12 warns of threads in the parent: the only ones here are idle pools of imported libraries
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _be_the_child(parent: int, body: Callable[[], None], log: int, close: tuple[int, ...]) -> None:
    """Run the body as the forked process; never returns, and runs no exit handler of the parent's."""
    status = EXIT_EXCEPTION
    try:
        me = os.getpid()
        os.setsid()
        die_with_parent(parent)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        for descriptor in close:
            os.close(descriptor)
        _redirect(log)
        # no core files: they are gigabytes with CUDA mapped; the Python stack goes to the log instead
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        faulthandler.enable(file=2)
        body()
        status = 0 if os.getpid() == me else EXIT_EXCEPTION
    except BaseException:  # noqa: BLE001 - nothing may climb into the parent's code
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(status)


def _without_our_frames(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Cut the stack that faulthandler prints where the forked process's own part of it ends."""
    kept = []
    below = False
    for line in lines:
        below = line.startswith("  File ") and (below or line.endswith(f" in {_be_the_child.__name__}"))
        if not below:
            kept.append(line)
    return tuple(kept)


def _redirect(log: int) -> None:
    """Standard input from nowhere, standard output and error into the log."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    # the parent's objects may be somebody's replacements (pytest's): write to the descriptors
    sys.stdout = open(1, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
