"""What a rank that hangs can still tell: its Python stacks, its threads, and torch's record of its collectives.

A rank arms itself before it touches CUDA. Two signals then work whatever its main thread is blocked in: SIGUSR1 has
faulthandler, which is C and needs no interpreter lock, write all Python stacks to a file; SIGUSR2 is taken by a thread
that does nothing else, and that writes torch's flight recorder to another.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import re
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterable, MutableMapping

from envsmith.validator.versions import release

# Collectives that torch remembers: many more than a check calls.
_RECORDS = "2000"
# A rank that is not stuck in the kernel writes its stacks in milliseconds.
_WRITING_LIMIT_S = 2.0
_POLL_S = 0.05
_FRAMES_MAX = 3
_THREADS_MAX = 4

_FRAME = re.compile(r'^  File "(.+)", line (\d+) in (\S+)')
# A file that is mapped and still there: of one that is not, "(deleted)" follows the name.
_SEGMENT = re.compile(r"/dev/shm/nccl-\S+$", re.MULTILINE)  # noqa: S108 - NCCL's choice
# Where idle threads of every library wait: dozens of them in each process, which say nothing.
_IDLE = ("futex", "poll_schedule", "ep_poll", "epoll_wait", "pipe_read", "sigtimedwait", "do_sigtimedwait")


@dataclass(frozen=True)
class Record:
    """The flight recorder of one rank: how many collectives it has called, how many ended, and the last one's name."""

    called: int
    completed: int
    last: str


def record_settings(torch_version: str) -> dict[str, str]:
    """The variable that turns torch's flight recorder on; it was renamed in torch 2.9, which warns of the old name."""
    new = release(torch_version) >= (2, 9)
    return {"TORCH_FR_BUFFER_SIZE" if new else "TORCH_NCCL_TRACE_BUFFER_SIZE": _RECORDS}


def arm(torch: Any, rank: int, folder: Path, environment: MutableMapping[str, str]) -> None:
    """Make this process answer to `look`. To be called while it has one thread, so that the others inherit the mask."""
    for name, value in record_settings(torch.__version__).items():
        environment.setdefault(name, value)
    stacks = open(_stacks_file(folder, rank), "w", encoding="utf-8")  # noqa: SIM115 - for the life of the process
    faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=True)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    threading.Thread(target=_serve, args=(torch, _record_file(folder, rank)), daemon=True).start()


def _serve(torch: Any, file: Path) -> None:
    while True:
        signal.sigwait({signal.SIGUSR2})
        text = _dump(torch)
        unfinished = file.with_suffix(".part")
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(file)


def _dump(torch: Any) -> str:
    """The flight recorder as JSON, "" where this torch has none that can be asked (before 2.4)."""
    ask = getattr(getattr(torch._C, "_distributed_c10d", None), "_dump_nccl_trace_json", None)
    if ask is None:
        return ""
    try:
        return bytes(ask()).decode("utf-8", "replace")
    except Exception:  # noqa: BLE001 - it is asked while everything is broken
        return ""


def read_record(text: str) -> Record | None:
    """Read a flight recorder's JSON; None if it holds no collective.

    Its entries carry collective_seq_id, profiling_name ("nccl:all_reduce") and state (scheduled, started, completed).
    """
    try:
        entries = [
            (int(entry["collective_seq_id"]), str(entry["profiling_name"]), str(entry["state"]))
            for entry in json.loads(text)["entries"]
            if not entry.get("is_p2p", False)
        ]
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    if not entries:
        return None
    called, last, _ = max(entries)
    completed = max((number for number, _, state in entries if state == "completed"), default=0)
    return Record(called, completed, last.rpartition(":")[2].lstrip("_"))


def look(pids: dict[int, int], folder: Path) -> dict[int, tuple[str, Record | None]]:
    """Ask ranks, given as {rank: process id}, that hang; return for each where it stands, in a line, and its record."""
    for pid in pids.values():
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            with contextlib.suppress(OSError):  # it has just ended
                os.kill(pid, number)
    deadline = time.monotonic() + _WRITING_LIMIT_S
    records = {rank: _record_file(folder, rank) for rank in pids}
    while time.monotonic() < deadline and not all(_is_written(folder, rank) for rank in pids):
        time.sleep(_POLL_S)
    return {rank: (_where(pid, _read(_stacks_file(folder, rank))), read_record(_read(records[rank])))
            for rank, pid in pids.items()}  # fmt: skip


def _is_written(folder: Path, rank: int) -> bool:
    return _record_file(folder, rank).exists() and bool(stack(_read(_stacks_file(folder, rank))))


def _where(pid: int, dump: str) -> str:
    frames = " < ".join(stack(dump)) or "it did not tell its Python stack (stuck in the kernel, or not yet started)"
    return f"process {pid} in {frames}; threads: {', '.join(threads(pid)) or 'not readable'}"


def stack(dump: str) -> list[str]:
    """The innermost frames of the main thread in what faulthandler wrote, innermost first: "sum (ranks.py:12)".

    faulthandler names the newest thread first, so the main thread is the last one.
    """
    block = re.split(r"(?m)^(?:Current thread|Thread) .*$", dump)[-1]
    matches = [match for match in map(_FRAME.match, block.splitlines()) if match]
    return [f"{m.group(3)} ({os.path.basename(m.group(1))}:{m.group(2)})" for m in matches[:_FRAMES_MAX]]


def threads(pid: int) -> list[str]:
    """What the threads of a process wait for in the kernel, "python3 waits in nvidia_ioctl (D)"; idle ones counted."""
    found: Counter[str] = Counter()
    idle = 0
    with contextlib.suppress(OSError):
        for task in sorted(Path(f"/proc/{pid}/task").iterdir(), key=lambda path: int(path.name)):
            name, place = _read(task / "comm").strip(), _read(task / "wchan").strip()
            state = _read(task / "stat").rpartition(")")[2].split()[:1]
            if any(word in place for word in _IDLE):
                idle += 1
            else:
                where = "runs" if place in ("", "0") else f"waits in {place}"
                found[f"{name} {where} ({''.join(state)})"] += 1
    told = [text if count == 1 else f"{count} x {text}" for text, count in found.most_common(_THREADS_MAX)]
    return [*told, f"{idle} idle"] if idle else told


def segments(pids: dict[int, int]) -> frozenset[str]:
    """Files in /dev/shm that NCCL has made for these processes: killed in the middle, they leave them to nobody."""
    found: set[str] = set()
    for pid in pids.values():
        found.update(match.group(0) for match in _SEGMENT.finditer(_read(Path(f"/proc/{pid}/maps"))))
    return frozenset(found)


def remove(paths: Iterable[str]) -> None:
    """Remove files that may be gone already."""
    for path in paths:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _stacks_file(folder: Path, rank: int) -> Path:
    return folder / f"rank{rank}.stacks"


def _record_file(folder: Path, rank: int) -> Path:
    return folder / f"rank{rank}.record"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
