"""Commands end: by themselves, at their limit, or with everything they started when envsmith is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envsmith.engine.command import Captured, capture, ending_signals_interrupt, interrupts_held, stream


def test_capture_gives_status_and_both_outputs() -> None:
    assert capture(["sh", "-c", "echo out; echo err >&2; exit 3"], 10.0) == Captured(3, "out\n", "err\n")


def test_capture_ends_at_its_limit() -> None:
    ended = capture(["sleep", "20"], 0.2)
    assert ended.status == 124
    assert "longer than 0.2 s" in ended.errors


def test_stream_gives_lines_as_they_come_and_feeds_stdin() -> None:
    lines: list[str] = []
    status = stream(["sh", "-c", "cat; printf 'last\\377'; exit 4"], lines.append, b"one\ntwo\n", dict(os.environ))
    assert (status, lines) == (4, ["one", "two", "last\N{REPLACEMENT CHARACTER}"])


def test_a_missing_program_is_told_apart() -> None:
    with pytest.raises(FileNotFoundError):
        stream(["envsmith-no-such-program"], print, b"", {})


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def wait_until_gone(pid: int) -> None:
    end = time.monotonic() + 5
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    assert not alive(pid)


def test_an_error_while_listening_ends_the_whole_group() -> None:
    seen: list[int] = []

    def stop(line: str) -> None:
        seen.append(int(line))
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        stream(["sh", "-c", "sleep 60 & echo $!; wait"], stop, b"", dict(os.environ))
    wait_until_gone(seen[0])


PROGRAM = """
import os, signal, sys
from envsmith.engine.command import stream
signal.signal(signal.SIGINT, signal.default_int_handler)
# a group that does not listen to SIGINT, whose grandchild must go too
script = "trap '' INT; sleep 60 & echo $!; wait" if sys.argv[1] == "deaf" else "sleep 60 & echo $!; wait"
try:
    stream(["sh", "-c", script], lambda line: print(line, flush=True), b"", dict(os.environ))
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_whole_group_before_envsmith(number: signal.Signals) -> None:
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, "willing"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        grandchild = int(process.stdout.readline())
        process.send_signal(number)
        assert process.wait(10) == 130
    wait_until_gone(grandchild)


def test_a_second_interrupt_kills_what_does_not_listen() -> None:
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, "deaf"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        grandchild = int(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert process.wait(3) == 130
    wait_until_gone(grandchild)


def test_a_signal_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        for held in (ending_signals_interrupt, interrupts_held):
            with held():
                signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
