"""Toy checks that misbehave in every way a GPU check can, and a look at what is left of them."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
from pathlib import Path

from envsmith.validator.check import Check, CheckContext, CheckFailed, CheckOutcome, CheckSkipped, check
from envsmith.wire.results import Metric

FOREVER_S = 600


def processes_with(marker: str) -> list[int]:
    """Ids of the processes, zombies aside, that have the marker among their arguments."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                arguments = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if marker.encode() in arguments and int(folder.name) != os.getpid():
                found.append(int(folder.name))
    return found


def parent_of(pid: int) -> int:
    """Id of a process's parent: that of a body is its warden, and the warden's the process that started it."""
    return int((Path("/proc") / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[1])


def become_sleeper(marker: str) -> None:
    """Turn this process into one that can be found again by the marker in its arguments."""
    program = f"import time; time.sleep({FOREVER_S})"
    os.execv(sys.executable, [sys.executable, "-S", "-c", program, marker])


def start_daemon(marker: str, keep_output: bool = True) -> None:
    """The classic double fork: own session, no living parent."""
    before = len(processes_with(marker))
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            if not keep_output:
                for descriptor in (0, 1, 2):
                    os.close(descriptor)
            become_sleeper(marker)
        os._exit(0)
    os.wait()
    while len(processes_with(marker)) == before:
        time.sleep(0.01)


def toy(name: str, body: object, limit_s: float = 20.0, **more: object) -> Check:
    make = check(id=name, title=f"toy {name}", limit_s=limit_s, **more)  # type: ignore[arg-type]
    return make(body)  # type: ignore[arg-type]


def passes(context: CheckContext) -> CheckOutcome:
    return CheckOutcome("fine", (Metric("size_bytes", 3, 4), Metric("ratio", float("nan"))), ("cuda:0 Toy (9.0)",))


def fails(context: CheckContext) -> CheckOutcome:
    print("what it was about to do")
    raise CheckFailed("2 is not 3", (Metric("value", 2, 3),))


def raises(context: CheckContext) -> CheckOutcome:
    raise RuntimeError("CUDA error:\n\tan illegal memory access")


def skips(context: CheckContext) -> CheckOutcome:
    raise CheckSkipped("nothing to do")


def hangs(context: CheckContext) -> CheckOutcome:
    print("about to hang")
    time.sleep(FOREVER_S)
    return CheckOutcome()


def segfaults(context: CheckContext) -> CheckOutcome:
    print("about to crash")
    ctypes.string_at(0)
    return CheckOutcome()


def aborts(context: CheckContext) -> CheckOutcome:
    os.abort()


def floods(context: CheckContext) -> CheckOutcome:
    for _ in range(40):
        os.write(1, b"noise " * 100_000)
        os.write(2, b"\x1b[31mred\x07 " * 10_000)
    print("\nlast words")
    raise CheckFailed("after 30 MB")


def floods_forever(context: CheckContext) -> CheckOutcome:
    while True:
        os.write(1, b"y\n" * 10_000)


def closes_its_pipes(context: CheckContext) -> CheckOutcome:
    os.closerange(0, 1024)
    time.sleep(0.2)
    return CheckOutcome("quietly")


def exits_without_a_word(context: CheckContext) -> CheckOutcome:
    os._exit(0)


def exits_with_status(context: CheckContext) -> CheckOutcome:
    print("cannot go on")
    sys.exit(7)


def dies_after_its_verdict(context: CheckContext) -> CheckOutcome:
    class Bomb:
        def flush(self) -> None:
            os.kill(os.getpid(), signal.SIGBUS)

    sys.stdout = Bomb()  # type: ignore[assignment]  # flushed when the verdict has been written
    return CheckOutcome("looked good")


def writes_garbage(context: CheckContext) -> CheckOutcome:
    json.dumps = lambda *_, **__: '{"status": "pass"'  # type: ignore[assignment]
    return CheckOutcome()


def writes_something_else(context: CheckContext) -> CheckOutcome:
    json.dumps = lambda *_, **__: '["pass"]'  # type: ignore[assignment]
    return CheckOutcome()


def forks_and_returns_twice(context: CheckContext) -> CheckOutcome:
    """A forked child that falls out of the body must not speak for the check."""
    if os.fork() == 0:
        return CheckOutcome("the child's word")
    os.wait()
    return CheckOutcome("the parent's word")
