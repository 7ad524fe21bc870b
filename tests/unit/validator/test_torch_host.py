"""The process that imports torch, with toys in torch's place."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from envsmith.validator import supervise
from envsmith.validator.check import Check, CheckContext, CheckFailed, CheckOutcome, CheckSkipped
from envsmith.validator.supervise import Supervisor
from envsmith.validator.sweep import children
from tests.unit.validator import toys


@pytest.fixture(autouse=True)
def _without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "what_was_seen", lambda answer: ((), "no GPU here"))


def starter(body: object, limit_s: float = 20.0) -> Check:
    return replace(toys.toy("start", body, limit_s), starts_host=True, needs_torch=True)


def imports(context: CheckContext) -> CheckOutcome:
    os.environ["TOY_TORCH"] = str(os.getpid())
    return CheckOutcome("imported")


def tells_host(context: CheckContext) -> CheckOutcome:
    return CheckOutcome(f"{os.environ['TOY_TORCH']} {toys.parent_of(os.getppid())} {os.getpid()}")


@pytest.fixture
def before() -> frozenset[int]:
    return children()


def test_checks_are_forked_from_where_torch_was_imported(before: frozenset[int]) -> None:
    a, b = (toys.toy(name, tells_host, needs_torch=True) for name in "ab")
    start = starter(imports)
    with Supervisor((start, a, b)) as supervisor:
        results = [supervisor.run(check) for check in (start, a, b)]
    assert [result.status for result in results] == ["pass"] * 3
    (imported, parent, me), (imported_b, parent_b, me_b) = (result.message.split() for result in results[1:])
    assert imported == parent == imported_b == parent_b != str(os.getpid())
    assert len({me, me_b, parent}) == 3
    assert children() == before


def _without_torch(context: CheckContext) -> CheckOutcome:
    raise CheckSkipped("PyTorch is not installed")


def _broken_torch(context: CheckContext) -> CheckOutcome:
    raise CheckFailed("ImportError: libcudart.so.12: cannot open shared object file")


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (_without_torch, "skip", "PyTorch is not installed"),
        (_broken_torch, "fail", "ImportError: libcudart.so.12: cannot open shared object file"),
        (toys.raises, "fail", "RuntimeError: CUDA error: an illegal memory access"),
        (toys.segfaults, "crash", "the process that imports torch died of SIGSEGV"),
        (toys.hangs, "timeout", "no result after 1 s: killed"),
        (toys.exits_without_a_word, "crash", "the process that imports torch left no verdict"),
    ],
)
def test_torch_that_cannot_be_imported(before: frozenset[int], body: object, status: str, message: str) -> None:
    start, after = starter(body, limit_s=1.0), toys.toy("after", toys.passes, needs_torch=True)
    with Supervisor((start, after)) as supervisor:
        imported, result = supervisor.run(start), supervisor.run(after)
        assert supervisor.torch_value("facts") == (None, f"no torch: {message}")
    assert (imported.status, imported.message) == (status, message)
    assert (result.status, result.message) == ("skip", f"no torch: {message}")
    assert children() == before


def test_torch_that_prints_and_starts_a_daemon_while_it_is_imported(tmp_path: Path) -> None:
    marker = f"envsmith-toy:{tmp_path}"

    def body(context: CheckContext) -> CheckOutcome:
        toys.start_daemon(marker)
        for _ in range(100):
            os.write(1, b"warning " * 10_000)
        return imports(context)

    start, after = starter(body), toys.toy("after", toys.passes, needs_torch=True)
    with Supervisor((start, after)) as supervisor:
        assert [supervisor.run(check).status for check in (start, after)] == ["pass", "pass"]
    assert toys.processes_with(marker) == []


def test_the_host_is_started_for_a_check_alone() -> None:
    start, alone = starter(imports), toys.toy("alone", tells_host, needs_torch=True)
    with Supervisor((start, alone)) as supervisor:
        assert supervisor.run(alone).status == "pass"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (toys.segfaults, "crash"),
        (toys.hangs, "timeout"),
        (toys.writes_garbage, "crash"),
        (toys.closes_its_pipes, "pass"),
    ],
)
def test_a_bad_check_leaves_the_host_in_use(body: object, status: str) -> None:
    start, bad = starter(imports), toys.toy("bad", body, limit_s=1.0, needs_torch=True)
    a, b = (toys.toy(name, tells_host, needs_torch=True) for name in "ab")
    with Supervisor((start, a, bad, b)) as supervisor:
        results = [supervisor.run(check) for check in (start, a, bad, b)]
    assert [result.status for result in results] == ["pass", "pass", status, "pass"]
    assert results[1].message.split()[0] == results[3].message.split()[0]


def test_a_check_that_kills_the_host_is_a_crash_and_the_next_one_gets_another(before: frozenset[int]) -> None:
    def murders(context: CheckContext) -> CheckOutcome:
        os.kill(int(os.environ["TOY_TORCH"]), signal.SIGKILL)
        time.sleep(toys.FOREVER_S)
        return CheckOutcome()

    start, bad = starter(imports), toys.toy("bad", murders, needs_torch=True)
    a, b = (toys.toy(name, tells_host, needs_torch=True) for name in "ab")
    with Supervisor((start, a, bad, b)) as supervisor:
        results = [supervisor.run(check) for check in (start, a, bad, b)]
    assert [result.status for result in results] == ["pass", "pass", "crash", "pass"]
    assert results[2].signal == "SIGKILL"
    assert results[2].message.startswith("the process that imports torch died of SIGKILL")
    assert results[1].message.split()[0] != results[3].message.split()[0]
    assert children() == before


def test_facts_are_asked_of_a_process_with_torch() -> None:
    start = starter(imports)
    calls = {"pid": lambda: {"host": os.environ["TOY_TORCH"], "numbers": (1, 2)}, "dies": os.abort}
    with Supervisor((start,), torch_calls=calls) as supervisor:
        value, reason = supervisor.torch_value("pid")
        assert reason == ""
        assert value["numbers"] == [1, 2]
        assert int(value["host"]) != os.getpid()
        nothing, reason = supervisor.torch_value("dies")
        assert nothing is None
        assert reason
    assert "TOY_TORCH" not in os.environ


def test_this_process_never_imports_torch() -> None:
    assert "torch" not in sys.modules
