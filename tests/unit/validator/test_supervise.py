"""Whatever a check does is a result, and nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from envsmith.validator import supervise
from envsmith.validator.check import Check, CheckContext, CheckOutcome
from envsmith.validator.devices import Device
from envsmith.validator.supervise import Supervisor
from envsmith.validator.sweep import children, die_with_parent
from envsmith.wire.results import CheckResult
from tests.unit.validator import toys

NO_GPU = "no GPU here: this is a test"


@pytest.fixture(autouse=True)
def _without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "what_was_seen", lambda answer: ((), NO_GPU))


@pytest.fixture
def marker(tmp_path: Path) -> str:
    return f"envsmith-toy:{tmp_path}"


def run(*checks: Check) -> list[CheckResult]:
    before = children()
    with Supervisor(checks) as supervisor:
        results = [supervisor.run(check) for check in checks]
        scratch = Path(supervisor._scratch)
        assert scratch.is_dir()
    assert not scratch.exists()
    assert children() == before
    return results


def run_one(body: object, limit_s: float = 20.0) -> CheckResult:
    (result,) = run(toys.toy("toy", body, limit_s))
    return result


def test_a_pass_brings_its_numbers() -> None:
    result = run_one(toys.passes)
    assert (result.status, result.message, result.ran_on) == ("pass", "fine", ("cuda:0 Toy (9.0)",))
    assert [(m.name, m.value, m.limit) for m in result.metrics] == [("size_bytes", 3, 4), ("ratio", "nan", None)]
    assert result.log_tail == ()


def test_a_failure_brings_its_numbers_and_last_lines() -> None:
    result = run_one(toys.fails)
    assert (result.status, result.message) == ("fail", "2 is not 3")
    assert result.metrics[0].limit == 3
    assert result.log_tail == ("what it was about to do",)


def test_an_exception_is_a_failure_with_one_line() -> None:
    result = run_one(toys.raises)
    assert (result.status, result.message) == ("fail", "RuntimeError: CUDA error: an illegal memory access")
    assert result.log_tail[0].startswith("Traceback")


def test_a_skip_says_why() -> None:
    result = run_one(toys.skips)
    assert (result.status, result.message) == ("skip", "nothing to do")


def test_a_hang_ends_at_its_limit() -> None:
    result = run_one(toys.hangs, limit_s=0.3)
    assert (result.status, result.message, result.exit_status) == ("timeout", "no result after 0.3 s: killed", None)
    assert result.log_tail == ("about to hang",)
    assert result.seconds < 5


@pytest.mark.parametrize("keep_output", [True, False])
def test_a_hang_with_a_daemon_leaves_nothing(marker: str, keep_output: bool) -> None:
    def body(context: CheckContext) -> CheckOutcome:
        toys.start_daemon(marker, keep_output)
        print(len(toys.processes_with(marker)))
        return toys.hangs(context)

    result = run_one(body, limit_s=3.0)
    assert result.status == "timeout"
    assert result.log_tail == ("1", "about to hang")
    assert toys.processes_with(marker) == []


@pytest.mark.parametrize("keep_output", [True, False])
def test_children_that_outlive_a_pass_are_ended(marker: str, keep_output: bool) -> None:
    def body(context: CheckContext) -> CheckOutcome:
        toys.start_daemon(marker, keep_output)
        if os.fork() == 0:
            toys.become_sleeper(marker)
        while len(toys.processes_with(marker)) < 2:
            time.sleep(0.01)
        return CheckOutcome()

    result = run_one(body)
    assert result.status == "pass"
    assert toys.processes_with(marker) == []


def test_a_segmentation_fault_is_a_crash_with_its_stack() -> None:
    result = run_one(toys.segfaults)
    assert (result.status, result.signal, result.exit_status) == ("crash", "SIGSEGV", None)
    assert result.message == "its process died of SIGSEGV"
    assert result.log_tail[0] == "about to crash"
    assert any("in segfaults" in line for line in result.log_tail)


def test_an_abort_is_a_crash() -> None:
    result = run_one(toys.aborts)
    assert (result.status, result.signal) == ("crash", "SIGABRT")


def test_megabytes_of_output_become_a_clean_tail() -> None:
    result = run_one(toys.floods)
    assert (result.status, result.message) == ("fail", "after 30 MB")
    assert result.log_tail[-1] == "last words"
    assert max(map(len, result.log_tail)) <= 500
    assert all(line.isprintable() for line in result.log_tail)


def test_endless_output_does_not_outlast_the_limit() -> None:
    result = run_one(toys.floods_forever, limit_s=0.3)
    assert (result.status, set(result.log_tail)) == ("timeout", {"y"})
    assert result.seconds < 5


def test_closed_pipes_disturb_nobody() -> None:
    result = run_one(toys.closes_its_pipes)
    assert (result.status, result.message) == ("pass", "quietly")


def test_leaving_without_a_verdict_never_passes() -> None:
    result = run_one(toys.exits_without_a_word)
    assert (result.status, result.exit_status, result.message) == ("crash", 0, "its process left no verdict")


def test_an_exit_status_is_told() -> None:
    result = run_one(toys.exits_with_status)
    assert (result.status, result.exit_status) == ("crash", 70)
    assert result.log_tail[0] == "cannot go on"
    assert result.log_tail[-1] == "SystemExit: 7"


def test_a_crash_after_the_verdict_is_a_crash() -> None:
    result = run_one(toys.dies_after_its_verdict)
    assert (result.status, result.signal) == ("crash", "SIGBUS")
    assert result.message.endswith("after the verdict 'pass'")


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (toys.writes_garbage, "left an unreadable verdict"),
        (toys.writes_something_else, "left a verdict that is not one"),
    ],
)
def test_garbage_is_no_verdict(body: object, problem: str) -> None:
    result = run_one(body)
    assert (result.status, result.message) == ("crash", f"its process {problem}")


def test_a_child_that_falls_out_of_the_body_is_not_heard() -> None:
    assert run_one(toys.forks_and_returns_twice).message == "the parent's word"


def test_one_crash_is_not_the_end_of_the_run() -> None:
    results = run(toys.toy("a", toys.segfaults), toys.toy("b", toys.passes))
    assert [result.status for result in results] == ["crash", "pass"]


def test_what_needs_a_failed_check_is_skipped() -> None:
    results = run(
        toys.toy("a", toys.fails),
        toys.toy("b", toys.passes, requires=("a",)),
        toys.toy("c", toys.passes, requires=("b",)),
        toys.toy("d", toys.passes, requires=("not in this run",)),
    )
    assert [result.status for result in results] == ["fail", "skip", "skip", "pass"]
    assert results[1].message == "needs a, which says fail"


def test_without_a_gpu_its_checks_are_skipped_with_the_reason() -> None:
    (result,) = run(toys.toy("a", toys.passes, needs_gpu=True))
    assert (result.status, result.message, result.needs_gpu) == ("skip", NO_GPU, True)


def test_checks_see_the_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(0, "Toy", "9.0")
    monkeypatch.setattr(supervise, "what_was_seen", lambda answer: ((device,), None))

    def body(context: CheckContext) -> CheckOutcome:
        return CheckOutcome(ran_on=tuple(d.label for d in context.devices))

    (result,) = run(toys.toy("a", body, needs_gpu=True))
    assert result.ran_on == ("cuda:0 Toy (9.0)",)


INTERRUPTED = """
import sys
from tests.unit.validator import toys
from envsmith.validator.check import CheckOutcome
from envsmith.validator.supervise import Supervisor

marker, in_host = sys.argv[1], sys.argv[2] == "host"

def hang(context):
    toys.start_daemon(marker)
    toys.become_sleeper(marker)

from dataclasses import replace
start = replace(toys.toy("start", toys.passes), starts_host=True, needs_torch=True)
check = toys.toy("hang", hang, 60.0, needs_torch=in_host)
try:
    with Supervisor((start, check)) as supervisor:
        print(supervisor._scratch, flush=True)
        supervisor.run(start)
        supervisor.run(check)
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize("where", ["direct", "host"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupt_leaves_nothing(marker: str, where: str, number: signal.Signals) -> None:
    """Ctrl-C ends everything and the scratch folder; after SIGKILL the wardens end what they watch over."""
    command = [sys.executable, "-c", INTERRUPTED, marker, where]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            scratch = Path(process.stdout.readline().strip())
            # the program itself, the host, the check that has become a sleeper, their two wardens, and the daemon
            assert _wait_for(lambda: len(toys.processes_with(marker)) == 6)
            process.send_signal(number)
            status = process.wait(20)
            if number == signal.SIGINT:
                assert status == 130
                assert not scratch.exists()
                assert toys.processes_with(marker) == []
            else:
                assert _wait_for(lambda: toys.processes_with(marker) == [])
        finally:
            process.kill()
            for pid in toys.processes_with(marker):
                os.kill(pid, signal.SIGKILL)


def _wait_for(condition: object, limit_s: float = 20.0) -> bool:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        if condition():  # type: ignore[operator]
            return True
        time.sleep(0.02)
    return False


def test_a_process_whose_parent_was_gone_before_it_could_ask_ends_itself() -> None:
    pid = os.fork()
    if pid == 0:
        die_with_parent(os.getpid(), signal.SIGKILL)  # which its parent is not
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL


def test_a_warning_of_a_library_is_no_error_even_where_warnings_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONWARNINGS", "error")

    def body(context: CheckContext) -> CheckOutcome:
        warnings.warn("deprecated", DeprecationWarning, stacklevel=1)
        program = "import warnings; warnings.warn('deprecated', UserWarning)"
        subprocess.run([sys.executable, "-c", program], check=True)
        return CheckOutcome()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run_one(body).status == "pass"
