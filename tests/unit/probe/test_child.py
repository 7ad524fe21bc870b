"""A child may hang, crash or flood: its parent gets what was said before, in time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envsmith.probe.child import MESSAGES_LIMIT_BYTES, BoundedChild, Emit

ROOT = Path(__file__).parents[3]


def test_messages_arrive_in_order() -> None:
    def work(emit: Emit) -> None:
        emit({"n": 1})
        emit({"n": 2, "text": "\ud800 ü"})

    answers = BoundedChild(work, 5).answers()
    assert [message["n"] for message in answers.messages] == [1, 2]
    assert answers.messages[1]["text"] == "\ud800 ü"
    assert (answers.trouble, answers.timed_out) == ("", False)


def test_what_was_said_before_a_hang_is_kept() -> None:
    def work(emit: Emit) -> None:
        emit({"n": 1})
        time.sleep(60)

    start = time.monotonic()
    answers = BoundedChild(work, 0.3).answers()
    assert time.monotonic() - start < 2
    assert answers.messages == ({"n": 1},)
    assert answers.timed_out
    assert "time limit" in answers.trouble


def test_a_crash_is_told_by_its_signal() -> None:
    def work(emit: Emit) -> None:
        emit({"n": 1})
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)  # pytest's own handler would print
        os.kill(os.getpid(), signal.SIGSEGV)

    answers = BoundedChild(work, 5).answers()
    assert answers.messages == ({"n": 1},)
    assert answers.trouble == "ended by SIGSEGV"
    assert not answers.timed_out


def test_an_exception_ends_the_child_and_not_the_parent(capfd: pytest.CaptureFixture[str]) -> None:
    def work(emit: Emit) -> None:
        raise ValueError("in the child")

    answers = BoundedChild(work, 5).answers()
    assert answers.trouble == "ended with status 1"
    assert capfd.readouterr() == ("", "")


def test_what_libraries_print_goes_nowhere(capfd: pytest.CaptureFixture[str]) -> None:
    def work(emit: Emit) -> None:
        os.write(1, b"noise")
        os.write(2, b"noise")
        emit({"ok": True})

    assert BoundedChild(work, 5).answers().messages == ({"ok": True},)
    assert capfd.readouterr() == ("", "")


def test_a_real_time_signal_has_no_name() -> None:
    def work(emit: Emit) -> None:
        os.kill(os.getpid(), 40)

    assert BoundedChild(work, 5).answers().trouble == "ended by signal 40"


def test_a_parent_without_any_open_stream_gets_its_answers(tmp_path: Path) -> None:
    program = (
        "from envsmith.probe.child import BoundedChild\n"
        "answers = BoundedChild(lambda emit: emit({'n': 1}), 5).answers()\n"
        f"open({str(tmp_path / 'said')!r}, 'w').write(repr(answers.messages))\n"
    )
    shell = f'exec {sys.executable} -c "$1" 0<&- 1>&- 2>&-'
    subprocess.run(["/bin/sh", "-c", shell, "sh", program], cwd=ROOT, check=True, timeout=30)
    assert (tmp_path / "said").read_text(encoding="ascii") == "({'n': 1},)"


def test_a_flood_is_cut() -> None:
    def work(emit: Emit) -> None:
        while True:
            emit({"x": "y" * 100_000})

    answers = BoundedChild(work, 10).answers()
    assert answers.trouble != ""
    assert sum(len(message["x"]) for message in answers.messages) <= MESSAGES_LIMIT_BYTES + 65536


def test_an_orphan_ends_by_itself(tmp_path: Path) -> None:
    """Should the parent be killed, the child's own timer ends it."""
    note = tmp_path / "pid"

    def outer(_emit: Emit) -> None:
        def inner(_emit: Emit) -> None:
            note.write_text(str(os.getpid()), encoding="ascii")
            time.sleep(60)

        BoundedChild(inner, 0.2)
        time.sleep(60)

    BoundedChild(outer, 0.5).answers()
    pid = int(note.read_text(encoding="ascii"))
    end = time.monotonic() + 5
    while time.monotonic() < end and _is_running(pid):
        time.sleep(0.05)
    assert not _is_running(pid)


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").split()[2] != "Z"
    except FileNotFoundError:
        return False
