"""What a rank that hangs still tells: real processes, blocked in C, without torch."""

from __future__ import annotations

import json
import mmap
import os
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsmith.validator.nccl import witness
from envsmith.validator.nccl.witness import (
    Record,
    arm,
    look,
    read_record,
    record_settings,
    remove,
    segments,
    stack,
    threads,
)
from envsmith.validator.ranks import Stage, run_ranks
from tests.unit.validator import toys


def entry(number: int, state: str, name: str = "nccl:all_reduce", **more: Any) -> dict[str, Any]:
    return {"collective_seq_id": number, "profiling_name": name, "state": state, "is_p2p": False, **more}


def fake_torch(entries: list[dict[str, Any]]) -> Any:
    def dump() -> bytes:
        return json.dumps({"entries": entries, "version": "2.10"}).encode()

    return SimpleNamespace(
        __version__="2.11.0+cu130", _C=SimpleNamespace(_distributed_c10d=SimpleNamespace(_dump_nccl_trace_json=dump))
    )


def hang_in_c() -> None:
    """Block the main thread where no Python code runs, with a signal mask as the libraries leave it."""
    threading.Lock().acquire()
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def test_a_rank_that_hangs_in_c_tells_its_stack_and_its_record(tmp_path: Path) -> None:
    seen: dict[int, tuple[str, Record | None]] = {}

    def body(rank: int, stage: Stage) -> object:
        torch = fake_torch([entry(number, "completed") for number in range(1, 7 + rank)])
        arm(torch, rank, tmp_path, {})
        stage("hanging")
        hang_in_c()
        return None

    answers = run_ranks(body, 2, 1.5, str(tmp_path), last_look=lambda pids: seen.update(look(pids, tmp_path)))
    assert [answer.timed_out for answer in answers] == [True, True]
    assert [seen[rank][1] for rank in (0, 1)] == [Record(6, 6, "all_reduce"), Record(7, 7, "all_reduce")]
    for rank in (0, 1):
        assert " in hang_in_c (test_nccl_witness.py:" in seen[rank][0]
        assert " < body (test_nccl_witness.py:" in seen[rank][0]


def test_a_rank_that_was_never_armed_is_told_as_such(tmp_path: Path) -> None:
    seen: dict[int, tuple[str, Record | None]] = {}

    def body(rank: int, stage: Stage) -> object:
        time.sleep(toys.FOREVER_S)
        return None

    run_ranks(body, 1, 0.3, str(tmp_path), last_look=lambda pids: seen.update(look(pids, tmp_path)))
    place, record = seen[0]
    assert "did not tell its Python stack" in place
    assert record is None


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ("2.0.1+cu118", "TORCH_NCCL_TRACE_BUFFER_SIZE"),
        ("2.8.0", "TORCH_NCCL_TRACE_BUFFER_SIZE"),
        ("2.9.0+cu128", "TORCH_FR_BUFFER_SIZE"),
        ("2.11.0+cu130", "TORCH_FR_BUFFER_SIZE"),
        ("3.0.0", "TORCH_FR_BUFFER_SIZE"),
        ("nonsense", "TORCH_NCCL_TRACE_BUFFER_SIZE"),
    ],
)
def test_the_recorder_is_turned_on_by_the_name_of_this_torch(version: str, name: str) -> None:
    assert record_settings(version) == {name: "2000"}


def test_a_record_names_the_last_collective_and_counts() -> None:
    entries = [
        entry(6, "completed", "nccl:broadcast"),
        entry(7, "scheduled"),
        entry(9, "scheduled", "nccl:send", is_p2p=True) | {"is_p2p": True},
        entry(5, "completed", "nccl:_reduce_scatter_base"),
    ]
    assert read_record(json.dumps({"entries": entries})) == Record(7, 6, "all_reduce")


@pytest.mark.parametrize("text", ["", "nonsense", "[]", "{}", '{"entries": []}', '{"entries": [{}]}', '{"entries": 3}'])
def test_a_record_that_is_none(text: str) -> None:
    assert read_record(text) is None


@given(st.text())
def test_any_text_is_a_record_or_none(text: str) -> None:
    assert read_record(text) is None


DUMP = """Thread 0x00007f2b (most recent call first):
  File "/x/witness.py", line 70 in _serve
  File "/usr/lib/python3.11/threading.py", line 982 in run

Current thread 0x00007f2c [python3] (most recent call first):
  File "/site/torch/distributed/distributed_c10d.py", line 2800 in all_reduce
  File "/x/envsmith/validator/nccl/collectives.py", line 140 in _all_reduce
  File "/x/envsmith/validator/nccl/collectives.py", line 80 in verify
  File "/x/envsmith/validator/call.py", line 64 in _answer

Current thread's C stack trace (most recent call first):
  Binary file "/lib/libc.so.6", at __futex_wait+0x1
"""


def test_the_main_threads_innermost_frames_are_told() -> None:
    assert stack(DUMP) == [
        "all_reduce (distributed_c10d.py:2800)",
        "_all_reduce (collectives.py:140)",
        "verify (collectives.py:80)",
    ]
    assert stack("") == []


@given(st.text())
def test_any_text_has_a_stack_or_none(text: str) -> None:
    assert len(stack(text)) <= 3


def test_threads_of_a_process_are_few_words() -> None:
    lock = threading.Lock()
    lock.acquire()
    waiting = [threading.Thread(target=lock.acquire, daemon=True) for _ in range(8)]
    for thread in waiting:
        thread.start()
    told = threads(os.getpid())
    lock.release()
    for thread in waiting:
        thread.join(0.1)
        if thread.is_alive():
            lock.release()
    assert 1 <= len(told) <= witness._THREADS_MAX + 1


def test_threads_of_no_process_are_none() -> None:
    assert threads(2**22 + 1) == []


def test_shared_memory_of_a_process_is_found_while_it_is_mapped(tmp_path: Path) -> None:
    path = Path(f"/dev/shm/nccl-test-{os.getpid()}")
    try:
        with path.open("w+b") as stream:
            stream.truncate(4096)
            with mmap.mmap(stream.fileno(), 4096):
                assert segments({0: os.getpid()}) == {str(path)}
                remove([str(path), str(path)])
                assert not path.exists()
                assert segments({0: os.getpid()}) == set()
    finally:
        path.unlink(missing_ok=True)
