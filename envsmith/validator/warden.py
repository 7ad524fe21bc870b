"""The warden of one body: forks it, waits for it or for its limit, ends all that descends from it, tells how it went.

supervisor or host ── warden (own session, subreaper) ── body (own session) ── whatever the body starts

As a subreaper (Linux 3.4) the warden becomes the parent of every orphan below it, so what it sweeps is its own body's
and nobody else's: bodies can run side by side. It ends, sweeping, when its parent dies; the body dies with it.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import select
import signal
import sys
import time
import traceback
import warnings
from dataclasses import asdict, dataclass
from types import FrameType
from typing import Callable

from envsmith.validator.sweep import become_subreaper, die_with_parent, sweep
from envsmith.validator.text import last_lines

_ROUND_S = 0.01
_READ_BYTES = 1 << 16
# What is kept of a body's output: enough for a Python traceback under a page of NCCL warnings.
_TAIL_BYTES = 1 << 15
# After the body has ended, at most this much is still read: what it left behind may go on writing.
_LAST_READ_BYTES = 1 << 20
_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

EXIT_EXCEPTION = 70


@dataclass(frozen=True)
class Ending:
    """How a forked body ended.

    exit_status is None if a signal ended it (or nothing could); signal is its name then.
    survivors: process ids that could not be killed. refused: why no process could be started for it.
    warden_lost: it was the warden that ended so, and the body with it.
    """

    timed_out: bool
    exit_status: int | None
    signal: str | None
    seconds: float
    log_tail: tuple[str, ...] = ()
    survivors: tuple[int, ...] = ()
    refused: str = ""
    warden_lost: bool = False


def signal_name(number: int) -> str:
    """Return "SIGSEGV" for 11, "signal 34" for a real-time signal without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def fork() -> int:
    """Fork with the ending signals held, in the child until it lets them through; raises OSError."""
    held = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING_SIGNALS)
    pid = -1
    try:
        with warnings.catch_warnings():
            # Python 3.12 warns of threads in the parent: the only ones here are idle pools of imported libraries
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
    finally:
        if pid != 0:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
    return pid


def be_the_warden(
    parent: int, body: Callable[[], None], limit_s: float | None, report: int, close: tuple[int, ...]
) -> None:
    """Live the warden's life in a process that was just forked; never returns.

    report: where the Ending goes, as JSON. close: descriptors of the parent's that are nobody's business here.
    """
    status = EXIT_EXCEPTION
    try:
        os.setsid()
        stop = _StopFlag()
        become_subreaper()
        die_with_parent(parent, signal.SIGTERM)
        for descriptor in close:
            os.close(descriptor)
        ending = _watch(body, limit_s, report, stop)
        _write(report, json.dumps(asdict(ending)).encode())
        status = 0
    except BrokenPipeError:  # the parent has gone: nobody is left to be told
        pass
    except BaseException:  # noqa: BLE001 - nothing may climb into the parent's code
        traceback.print_exc()
    finally:
        os._exit(status)


class _StopFlag:
    """Set by SIGTERM: the parent wants the body ended, or has died."""

    def __init__(self) -> None:
        self.is_set = False
        signal.signal(signal.SIGTERM, self._set)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        # were it ignored, as a parent may bequeath, the kernel would tell nobody how the body ended
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING_SIGNALS)

    def _set(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.is_set = True


def _watch(body: Callable[[], None], limit_s: float | None, report: int, stop: _StopFlag) -> Ending:
    started = time.monotonic()
    me = os.getpid()
    try:
        reader, writer = os.pipe()
        pid = fork()
    except OSError as error:
        return Ending(False, None, None, 0.0, refused=f"no process can be started: {error.strerror}")
    if pid == 0:
        _be_the_body(me, body, writer, (reader, report))
    os.close(writer)
    log = _Tail(reader)
    timed_out = False
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        timed_out = not ended and limit_s is not None and time.monotonic() - started >= limit_s
        if ended or timed_out or stop.is_set:
            break
        log.wait(_ROUND_S)
    seconds = time.monotonic() - started
    survivors = sweep(frozenset())
    return Ending(
        timed_out=timed_out,
        exit_status=os.WEXITSTATUS(status) if ended and os.WIFEXITED(status) else None,
        signal=signal_name(os.WTERMSIG(status)) if ended and os.WIFSIGNALED(status) else None,
        seconds=seconds,
        log_tail=_without_our_frames(last_lines(log.rest())),
        survivors=survivors,
    )


class _Tail:
    """The last part of what comes out of a pipe."""

    def __init__(self, reader: int) -> None:
        os.set_blocking(reader, False)
        self._reader: int | None = reader
        self._kept = bytearray()

    def wait(self, timeout_s: float) -> None:
        """Wait for output for at most timeout_s, or for that long where none can come any more; keep its end."""
        if self._reader is None:
            time.sleep(timeout_s)
            return
        poller = select.poll()  # select itself knows no descriptors above 1023
        poller.register(self._reader, select.POLLIN)
        if poller.poll(timeout_s * 1000):
            self._read()

    def rest(self) -> bytes:
        """The last part, with what is there to be read still."""
        total = 0
        while total < _LAST_READ_BYTES:
            count = self._read()
            if not count:
                break
            total += count
        return bytes(self._kept)

    def _read(self) -> int:
        if self._reader is None:
            return 0
        try:
            data = os.read(self._reader, _READ_BYTES)
        except BlockingIOError:
            return 0
        if not data:
            os.close(self._reader)
            self._reader = None
        self._kept += data
        del self._kept[:-_TAIL_BYTES]
        return len(data)


def _be_the_body(warden: int, body: Callable[[], None], log: int, close: tuple[int, ...]) -> None:
    """Run the body as the forked process; never returns, and runs no exit handler of the parent's."""
    status = EXIT_EXCEPTION
    try:
        me = os.getpid()
        os.setsid()
        for number in _ENDING_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING_SIGNALS)
        die_with_parent(warden, signal.SIGKILL)
        for descriptor in close:
            os.close(descriptor)
        _redirect(log)
        # no core files: they are gigabytes with CUDA mapped; the Python stack goes to the log instead
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        faulthandler.enable(file=2)
        # where warnings are errors (PYTHONWARNINGS, -W, pytest) a library's deprecation would fail a good machine
        os.environ.pop("PYTHONWARNINGS", None)
        warnings.simplefilter("default")
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


def _redirect(log: int) -> None:
    """Standard output and error into the log, standard input from nowhere."""
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    # the parent's objects may be somebody's replacements (pytest's): write to the descriptors
    sys.stdout = open(1, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115


def _without_our_frames(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Cut the stack that faulthandler prints where the forked process's own part of it ends."""
    kept = []
    below = False
    for line in lines:
        below = line.startswith("  File ") and (below or line.endswith(f" in {_be_the_body.__name__}"))
        if not below:
            kept.append(line)
    return tuple(kept)


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
