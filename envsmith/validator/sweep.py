"""Find and end every process that descends from this one, wherever it has hidden.

A process that calls setsid, or whose parents have died, leaves its group but not its ancestry: as a child
subreaper (Linux 3.4) this process becomes the parent of all orphans below it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

# from <linux/prctl.h>
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

# A process in uninterruptible sleep (a hung driver call) does not die of SIGKILL: give up on it, and say so.
SWEEP_LIMIT_S = 10.0
_ROUND_S = 0.005


def _prctl(option: int, argument: int) -> bool:
    try:
        import ctypes
    except ImportError:  # an interpreter built without libffi
        return False
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    return prctl is not None and prctl(option, ctypes.c_ulong(argument), 0, 0, 0) == 0


def become_subreaper() -> bool:
    """Make this process the new parent of orphaned descendants; False where the system cannot."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int, number: signal.Signals) -> None:
    """Have this process sent a signal when its parent dies, even if that was by SIGKILL; at once if it is dead already.

    parent: its process id, asked for before the fork.
    """
    _prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def parent_in(stat: bytes) -> int:
    """The parent's process id in what /proc/PID/stat holds."""
    # "pid (name) state ppid ...": the name may itself hold spaces and brackets
    return int(stat.rpartition(b")")[2].split()[1])


def _parents() -> dict[int, int]:
    """Process id -> parent's id, of all processes to be seen."""
    found: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            stat = (folder / "stat").read_bytes()
        except OSError:  # it has just ended
            continue
        found[int(folder.name)] = parent_in(stat)
    return found


def children() -> frozenset[int]:
    """Direct children of this process, ended ones that nobody waited for included."""
    me = os.getpid()
    return frozenset(pid for pid, parent in _parents().items() if parent == me)


def _has_children() -> bool:
    """Whether this process has any; a subreaper without children has no descendants. Cheaper than all of /proc."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def descendants(spared: frozenset[int]) -> tuple[int, ...]:
    """All descendants of this process, apart from the children in `spared` and what is below those."""
    below: dict[int, list[int]] = {}
    for pid, parent in _parents().items():
        below.setdefault(parent, []).append(pid)
    found: list[int] = []
    ahead = [pid for pid in below.get(os.getpid(), []) if pid not in spared]
    while ahead:
        pid = ahead.pop()
        found.append(pid)
        ahead.extend(below.get(pid, []))
    return tuple(found)


def sweep(spared: frozenset[int], limit_s: float = SWEEP_LIMIT_S) -> tuple[int, ...]:
    """Kill and reap all descendants but the spared children; return those still there after limit_s seconds."""
    deadline = time.monotonic() + limit_s
    while True:
        alive = descendants(spared) if _has_children() else ()
        if not alive or time.monotonic() > deadline:
            return alive
        for pid in alive:
            with contextlib.suppress(OSError):  # gone, or a set-uid program's
                os.kill(pid, signal.SIGKILL)
        for pid in alive:
            with contextlib.suppress(ChildProcessError):  # not a direct child, or not yet ours
                os.waitpid(pid, os.WNOHANG)
        time.sleep(_ROUND_S)
