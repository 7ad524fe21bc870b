"""The one place that starts the docker command line (and uv beside it), and makes sure that it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import BinaryIO

TIMED_OUT = 124
_GRACE_S = 5.0
_ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Captured:
    """How a short command ended. errors: its stderr."""

    status: int
    output: str
    errors: str


def capture(argv: Sequence[str], limit_s: float) -> Captured:
    """Run a short command to its end.

    After `limit_s` seconds it is killed and the status is 124, as with timeout(1).
    Raises FileNotFoundError when there is no such program.
    """
    try:
        done = subprocess.run(list(argv), stdin=subprocess.DEVNULL, capture_output=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        return Captured(TIMED_OUT, "", f"{argv[0]} took longer than {limit_s:g} s")
    return Captured(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))


def stream(
    argv: Sequence[str],
    on_line: Callable[[str], None],
    stdin: bytes,
    env: Mapping[str, str],
    stderr: BinaryIO | None = None,
) -> int:
    """Run a long command, give each line of its output to `on_line`, and return its exit status.

    stderr: where its errors go; None = they come as lines, too.

    The command has a session of its own, so Ctrl-C reaches envsmith alone, which ends the whole group and
    reaps it before KeyboardInterrupt goes on; so does SIGTERM and SIGHUP, and any error out of `on_line`.
    Raises FileNotFoundError when there is no such program.
    """
    with ending_signals_interrupt(), tempfile.TemporaryFile() as source:
        source.write(stdin)
        source.seek(0)
        process = subprocess.Popen(
            list(argv),
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if stderr is None else stderr,
            env=env,
            start_new_session=True,
        )
        assert process.stdout is not None
        try:
            with process.stdout as lines:
                for line in lines:
                    on_line(line.decode("utf-8", "replace").rstrip("\n"))
            return process.wait()
        except BaseException:
            _end(process)
            raise


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask the group to stop, which lets buildx cancel the build; after the grace, or a second Ctrl-C, kill it."""
    try:
        _signal_group(process, signal.SIGINT)
        process.wait(_GRACE_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        pass
    finally:
        _signal_group(process, signal.SIGKILL)
        process.wait()


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


@contextlib.contextmanager
def ending_signals_interrupt() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt, so that what was started is ended in every case.

    One that is ignored stays so: that is how nohup keeps a program alive.
    """
    with _handled_by(_interrupt, _ENDING_SIGNALS):
        yield


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """Let Ctrl-C, SIGTERM and SIGHUP wait for the end of the block: for steps that must not be left half done."""
    held: list[int] = []
    try:
        with _handled_by(lambda number, _frame: held.append(number), (signal.SIGINT, *_ENDING_SIGNALS)):
            yield
    finally:
        if held:
            signal.raise_signal(held[0])


@contextlib.contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], None], numbers: Sequence[signal.Signals]) -> Iterator[None]:
    """Handlers can only be set in the main thread; elsewhere this does nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    taken = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in taken}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
