"""Commands within bounds: an argument list, a time limit and a cap on the output. Nothing else in probe starts one."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import Sequence

OUTPUT_LIMIT_BYTES = 64 * 1024


@dataclass(frozen=True)
class CommandOutput:
    """stdout and stderr together, cut at the cap. exit_status: negative for a signal; None if time or output ran out.

    failure: None, or a gap reason ("absent", "denied", "timeout", "failed") if there is no usable answer.
    """

    text: str
    exit_status: int | None
    failure: str | None
    detail: str


def run(argv: Sequence[str], limit_s: float = 2.0, limit_bytes: int = OUTPUT_LIMIT_BYTES) -> CommandOutput:
    """Run a command in a session of its own and return within about `limit_s`, whatever the command does."""
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, ValueError) as error:
        return CommandOutput("", None, _start_failure(error), f"{argv[0]}: {error}")
    deadline = time.monotonic() + limit_s
    data, failure, detail = _read(process, deadline, limit_bytes)
    text = data.decode("utf-8", "replace")
    status = _end(process, deadline, kill=failure is not None)
    if failure is None and status is None:
        failure, detail = "timeout", "closed its output and did not end"
    if failure is None and status != 0:
        failure, detail = "failed", f"ended with status {status}"
    return CommandOutput(text, status, failure, f"{argv[0]}: {detail}" if detail else "")


def _start_failure(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "absent"
    return "denied" if isinstance(error, PermissionError) else "failed"


def _read(process: subprocess.Popen[bytes], deadline: float, limit_bytes: int) -> tuple[bytes, str | None, str]:
    """Return the output up to the cap, and a gap reason with its detail if the end was not reached."""
    assert process.stdout is not None
    chunks: list[bytes] = []
    size = 0
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not selector.select(left):
                return b"".join(chunks), "timeout", "no end within the time limit"
            chunk = os.read(process.stdout.fileno(), 65536)
            if not chunk:
                return b"".join(chunks), None, ""
            chunks.append(chunk[: limit_bytes - size])
            size += len(chunk)
            if size > limit_bytes:
                return b"".join(chunks), "failed", f"more than {limit_bytes} bytes of output"


def _end(process: subprocess.Popen[bytes], deadline: float, kill: bool) -> int | None:
    """Wait until `deadline`; then, or at once if `kill`, kill the whole group. None if it had to be killed."""
    assert process.stdout is not None
    process.stdout.close()
    if not kill:
        try:
            return process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(0.5)
    except ProcessLookupError:
        process.poll()
    except subprocess.TimeoutExpired:
        process.returncode = -signal.SIGKILL  # stuck inside the kernel: left behind, so that the probe goes on
    return None
