"""Commands stay within their time and output."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from envsmith.probe.run import run
from tests.unit.probe.trees import executable


def test_a_command_that_answers() -> None:
    output = run(["/bin/sh", "-c", "echo out; echo err >&2; echo $LC_ALL"])
    assert (output.exit_status, output.failure, output.detail) == (0, None, "")
    assert output.text == "out\nerr\nC\n"


def test_no_shell_reads_the_arguments() -> None:
    assert run(["/bin/echo", "$(id); `id` | x"]).text == "$(id); `id` | x\n"


def test_a_command_that_fails() -> None:
    output = run(["/bin/sh", "-c", "echo why; exit 7"])
    assert (output.exit_status, output.failure, output.text) == (7, "failed", "why\n")
    assert output.detail == "/bin/sh: ended with status 7"


@pytest.mark.parametrize("script", ["sleep 60", "exec sleep 60 >&- 2>&-", "trap '' TERM; while :; do :; done"])
def test_a_command_that_hangs(script: str) -> None:
    start = time.monotonic()
    output = run(["/bin/sh", "-c", script], limit_s=0.3)
    assert time.monotonic() - start < 2
    assert (output.failure, output.exit_status) == ("timeout", None)


def test_a_command_that_floods() -> None:
    start = time.monotonic()
    output = run(["/bin/sh", "-c", "exec yes"], limit_s=5, limit_bytes=10_000)
    assert time.monotonic() - start < 3
    assert len(output.text) == 10_000
    assert output.failure == "failed"


def test_what_the_command_started_is_killed_too(tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    executable(tmp_path, "/tool", f"(while :; do echo x >> {alive}; sleep 0.05; done) &\nsleep 60")
    assert run([str(tmp_path / "tool")], limit_s=0.4).failure == "timeout"
    assert alive.exists()
    time.sleep(0.2)
    size = alive.stat().st_size
    time.sleep(0.3)
    assert alive.stat().st_size == size


def test_a_command_that_is_not_there_or_no_program(tmp_path: Path) -> None:
    assert run([str(tmp_path / "gone")]).failure == "absent"
    (tmp_path / "text").write_text("x", encoding="ascii")
    assert run([str(tmp_path / "text")]).failure == "denied"
    (tmp_path / "junk").write_bytes(b"\x00\x01")
    (tmp_path / "junk").chmod(0o755)
    assert run([str(tmp_path / "junk")]).failure == "failed"
    assert run(["a\x00b"]).failure == "failed"


def test_output_that_is_no_text() -> None:
    assert run(["/bin/sh", "-c", "printf '\\377\\000a'"]).text == "\ufffd\x00a"
