"""Checks that run at the same time: each has its own warden, and none touches what another started."""

from __future__ import annotations

import errno
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from envsmith.validator import forked, schedule, supervise, torch_host, warden
from envsmith.validator.check import Check, CheckContext, CheckOutcome
from envsmith.validator.devices import Device
from envsmith.validator.supervise import Supervisor
from envsmith.validator.sweep import children
from envsmith.wire.results import CheckResult
from tests.unit.validator import toys

TWO = (Device(0, "Toy", "9.0", "3", "GPU-aa"), Device(1, "Toy", "10.0", "GPU-ab", "GPU-ab"))
WHERE = pytest.mark.parametrize("in_host", [False, True], ids=["direct", "host"])


@pytest.fixture(autouse=True)
def _two_gpus_and_sixteen_cpus(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(supervise, "what_was_seen", lambda answer: (TWO, None))
    monkeypatch.setattr(schedule, "usable_cpus", lambda: 16)
    before = children()
    yield
    assert children() == before


def host() -> Check:
    def imports(context: CheckContext) -> CheckOutcome:
        os.environ["TOY_TORCH"] = str(os.getpid())
        return CheckOutcome()

    return replace(toys.toy("start", imports), starts_host=True, needs_torch=True)


def run(*checks: Check) -> dict[str, CheckResult]:
    """Run them all at once, with a host for those that need torch."""
    with Supervisor((host(), *checks)) as supervisor:
        return {result.id: result for result in supervisor.run_all(checks)}


def wait_for(condition: Callable[[], bool], limit_s: float = 15.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError("waited in vain")
        time.sleep(0.01)


def patient(folder: Path) -> Callable[[CheckContext], CheckOutcome]:
    """Starts a daemon and a child, waits until it is told that the others have ended, and looks for both."""

    def body(context: CheckContext) -> CheckOutcome:
        marker = f"patient:{folder}"
        toys.start_daemon(marker)
        if os.fork() == 0:
            toys.become_sleeper(marker)
        wait_for(lambda: len(toys.processes_with(marker)) == 2)
        (folder / "patient-is-ready").touch()
        wait_for((folder / "others-ended").exists)
        return CheckOutcome(str(len(toys.processes_with(marker))))

    return body


def beside(folder: Path, deed: Callable[[], object]) -> Callable[[CheckContext], CheckOutcome]:
    """Starts a daemon of its own once the other is ready, and then does its deed."""

    def body(context: CheckContext) -> CheckOutcome:
        wait_for((folder / "patient-is-ready").exists)
        toys.start_daemon(f"beside:{folder}")
        deed()
        return CheckOutcome()

    return body


def kill_warden() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(toys.FOREVER_S)


DEEDS = [
    (lambda: None, "pass", None),
    (os.abort, "crash", "SIGABRT"),
    (lambda: time.sleep(toys.FOREVER_S), "timeout", None),
    (kill_warden, "crash", "SIGKILL"),
]


@WHERE
@pytest.mark.parametrize(("deed", "status", "name"), DEEDS, ids=["passes", "aborts", "hangs", "kills-its-warden"])
def test_what_ends_takes_its_own_children_along_and_no_others(
    tmp_path: Path, deed: Callable[[], object], status: str, name: str | None, in_host: bool
) -> None:
    calm = toys.toy("calm", patient(tmp_path), needs_torch=in_host)
    wild = toys.toy("wild", beside(tmp_path, deed), limit_s=3.0, needs_torch=in_host)

    def on_result(result: CheckResult) -> None:
        assert result.id == "wild" or (tmp_path / "others-ended").exists()
        if result.id == "wild":
            assert toys.processes_with(f"beside:{tmp_path}") == []
            (tmp_path / "others-ended").touch()

    with Supervisor((host(), calm, wild)) as supervisor:
        calm_result, wild_result = supervisor.run_all((calm, wild), on_result=on_result)
    assert (wild_result.status, wild_result.signal) == (status, name)
    assert (calm_result.status, calm_result.message) == ("pass", "2"), calm_result
    assert toys.processes_with(str(tmp_path)) == []


@WHERE
def test_a_lost_warden_is_told(in_host: bool) -> None:
    bad = toys.toy("bad", lambda context: kill_warden(), needs_torch=in_host)
    message = run(bad)["bad"].message
    assert message.startswith("the process that watches over it died of SIGKILL")


@WHERE
def test_a_warden_that_was_stopped_does_not_hold_the_run_up(monkeypatch: pytest.MonkeyPatch, in_host: bool) -> None:
    monkeypatch.setattr(forked, "GRACE_S", 0.5)

    def body(context: CheckContext) -> CheckOutcome:
        os.kill(os.getppid(), signal.SIGSTOP)
        return toys.hangs(context)

    result = run(toys.toy("bad", body, limit_s=0.5, needs_torch=in_host))["bad"]
    assert (result.status, result.message) == ("timeout", "no result after 0.5 s: killed")


@WHERE
def test_a_kill_from_outside_names_the_signal_and_memory(in_host: bool) -> None:
    """As the kernel does it when memory is out: to the process that holds most of it."""
    body = lambda context: os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731
    result = run(toys.toy("big", body, needs_torch=in_host))["big"]
    assert (result.status, result.signal) == ("crash", "SIGKILL")
    assert result.message == "its process died of SIGKILL (often the kernel's out-of-memory killer)"


@WHERE
def test_checks_meet(tmp_path: Path, in_host: bool) -> None:
    """Two that wait for each other can only pass at the same time."""

    def meets(mine: str, other: str) -> Callable[[CheckContext], CheckOutcome]:
        def body(context: CheckContext) -> CheckOutcome:
            (tmp_path / mine).touch()
            wait_for((tmp_path / other).exists)
            return CheckOutcome()

        return body

    results = run(
        toys.toy("a", meets("a", "b"), needs_torch=in_host), toys.toy("b", meets("b", "a"), needs_torch=in_host)
    )
    assert [result.status for result in results.values()] == ["pass", "pass"]


def test_a_host_that_dies_takes_all_its_checks_along_and_the_next_get_another(tmp_path: Path) -> None:
    def waits(context: CheckContext) -> CheckOutcome:
        (tmp_path / "there").touch()
        return toys.hangs(context)

    def murders(context: CheckContext) -> CheckOutcome:
        wait_for((tmp_path / "there").exists)
        os.kill(int(os.environ["TOY_TORCH"]), signal.SIGKILL)
        return toys.hangs(context)

    def tells_host(context: CheckContext) -> CheckOutcome:
        return CheckOutcome(os.environ["TOY_TORCH"])

    calm, bad, after = (
        toys.toy(name, body, needs_torch=True, claims=claims)
        for name, body, claims in (("a", waits, "shared"), ("b", murders, "shared"), ("c", tells_host, "machine"))
    )
    plain = toys.toy("plain", toys.passes)
    results = run(calm, bad, plain, after)
    for name in ("a", "b"):
        assert (results[name].status, results[name].signal) == ("crash", "SIGKILL")
        assert results[name].message.startswith("the process that imports torch died of SIGKILL")
    assert (results["plain"].status, results["c"].status) == ("pass", "pass")


def test_a_host_whose_warden_is_killed_dies_with_it_and_leaves_nothing(tmp_path: Path) -> None:
    def murders(context: CheckContext) -> CheckOutcome:
        toys.start_daemon(f"orphan:{tmp_path}")
        os.kill(toys.parent_of(int(os.environ["TOY_TORCH"])), signal.SIGKILL)
        return toys.hangs(context)

    def after(context: CheckContext) -> CheckOutcome:
        return CheckOutcome(str(len(toys.processes_with(f"orphan:{tmp_path}"))))

    results = run(
        toys.toy("bad", murders, needs_torch=True), toys.toy("after", after, needs_torch=True, claims="machine")
    )
    assert (results["bad"].status, results["bad"].signal) == ("crash", "SIGKILL")
    assert (results["after"].status, results["after"].message) == ("pass", "0")


def test_a_host_that_was_stopped_does_not_hold_the_run_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_host, "GRACE_S", 0.5)

    def stops(context: CheckContext) -> CheckOutcome:
        os.kill(int(os.environ["TOY_TORCH"]), signal.SIGSTOP)
        return CheckOutcome()

    bad = toys.toy("bad", stops, limit_s=1.0, needs_torch=True)
    results = run(bad, toys.toy("after", toys.passes, needs_torch=True, claims="machine"))
    assert (results["bad"].status, results["after"].status) == ("timeout", "pass")


@WHERE
def test_each_process_has_its_own_folder_and_sees_its_own_gpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, in_host: bool
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-ab")
    names = ("TMPDIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")

    def body(context: CheckContext) -> CheckOutcome:
        folder = Path(context.scratch)
        assert (Path.cwd(), list(folder.iterdir())) != (None, [])
        assert Path.cwd() == folder
        assert all(Path(os.environ[name]).parent == folder and Path(os.environ[name]).is_dir() for name in names)
        assert Path(tempfile.gettempdir()) == folder / "tmpdir"
        (folder / "left behind").touch()
        which = context.device.label if context.device else "all"
        (tmp_path / which).write_text(f"{os.environ['CUDA_VISIBLE_DEVICES']} {folder}")
        return CheckOutcome()

    one = toys.toy("one", body, needs_gpu=True, per_gpu=True, needs_torch=in_host)
    every = toys.toy("every", body, needs_gpu=True, needs_torch=in_host)
    started: list[tuple[str, str | None]] = []
    with Supervisor((host(), one, every)) as supervisor:
        results = supervisor.run_all((one, every), lambda c, d: started.append((c.id, d.label if d else None)))
        left = sorted(path.name for path in Path(supervisor._scratch).iterdir())
    assert [result.status for result in results] == ["pass", "pass"], results
    assert sorted(started, key=str) == [
        ("every", None), ("one", "cuda:0 Toy (9.0)"), ("one", "cuda:1 Toy (10.0)")
    ]  # fmt: skip
    told = {path.name: path.read_text().split() for path in tmp_path.iterdir()}
    assert {name: words[0] for name, words in told.items()} == {
        "cuda:0 Toy (9.0)": "3", "cuda:1 Toy (10.0)": "GPU-ab", "all": "3,GPU-ab"
    }  # fmt: skip
    assert len({words[1] for words in told.values()}) == 3
    assert left == []
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "3,GPU-ab"
    assert results[0].ran_on == ("cuda:0 Toy (9.0)", "cuda:1 Toy (10.0)")


def test_chosen_gpus_are_the_only_ones(tmp_path: Path) -> None:
    def body(context: CheckContext) -> CheckOutcome:
        return CheckOutcome(os.environ["CUDA_VISIBLE_DEVICES"], ran_on=tuple(d.label for d in context.devices))

    every = toys.toy("every", body, needs_gpu=True)
    with Supervisor((every,)) as supervisor:
        supervisor.choose_devices(["1"])
        result = supervisor.run(every)
    assert (result.message, result.ran_on) == ("GPU-ab", ("cuda:0 Toy (10.0)",))


@WHERE
def test_a_gpu_with_a_process_that_cannot_be_killed_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, in_host: bool
) -> None:
    real = warden.sweep

    def sweep(spared: frozenset[int], limit_s: float = 1.0) -> tuple[int, ...]:
        real(spared)
        return (4711,) if os.environ.get("STUCK_FOR_TEST") else ()

    monkeypatch.setattr(warden, "sweep", sweep)

    def body(context: CheckContext) -> CheckOutcome:
        return toys.hangs(context) if context.only_device.index == 1 else CheckOutcome()

    first = toys.toy("first", body, limit_s=0.5, needs_gpu=True, per_gpu=True, needs_torch=in_host)
    after = toys.toy("after", toys.passes, needs_gpu=True, per_gpu=True, claims="gpu", needs_torch=in_host)
    monkeypatch.setenv("STUCK_FOR_TEST", "1")
    results = run(first, after)
    assert "could not be killed: process 4711" in results["first"].message
    # both GPUs' processes are said to be stuck by this sweep; both are left alone
    assert results["after"].status == "skip"
    assert results["after"].message == "process 4711 of first could not be killed and holds the GPU"


@WHERE
@pytest.mark.parametrize("module", [forked, warden], ids=["no-warden", "no-body"])
def test_a_full_process_table_is_a_result(monkeypatch: pytest.MonkeyPatch, module: object, in_host: bool) -> None:
    real = warden.fork
    check = toys.toy("check", toys.passes, needs_torch=in_host)

    def fork() -> int:
        if os.environ.get("FULL_FOR_TEST") and (not in_host or "TOY_TORCH" in os.environ):
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        return real()

    monkeypatch.setattr(module, "fork", fork)
    with Supervisor((host(), check)) as supervisor:
        assert supervisor.devices
        monkeypatch.setenv("FULL_FOR_TEST", "1")
        result = supervisor.run(check)
    assert (result.status, result.message) == (
        "crash", "no process can be started: Resource temporarily unavailable"
    )  # fmt: skip


def test_signals_of_children_that_are_ignored_lose_no_ending() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        results = run(toys.toy("a", toys.aborts), toys.toy("b", toys.passes, needs_torch=True))
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert [(result.status, result.signal) for result in results.values()] == [("crash", "SIGABRT"), ("pass", None)]


def test_nobody_leaves_a_core_file() -> None:
    import resource

    def body(context: CheckContext) -> CheckOutcome:
        return CheckOutcome(str(resource.getrlimit(resource.RLIMIT_CORE)))

    assert run(toys.toy("a", body))["a"].message == "(0, 0)"


def test_results_come_as_they_end_and_are_returned_in_the_order_asked_for(tmp_path: Path) -> None:
    def late(context: CheckContext) -> CheckOutcome:
        wait_for((tmp_path / "told").exists)
        return CheckOutcome()

    told: list[str] = []

    def on_result(result: CheckResult) -> None:
        told.append(result.id)
        (tmp_path / "told").touch()

    checks = (toys.toy("late", late), toys.toy("early", toys.passes))
    with Supervisor(checks) as supervisor:
        results = supervisor.run_all(checks, on_result=on_result)
    assert told == ["early", "late"]
    assert [result.id for result in results] == ["late", "early"]


def test_stress_has_its_seconds_on_top_of_the_limit() -> None:
    def body(context: CheckContext) -> CheckOutcome:
        time.sleep(context.stress_s)
        return CheckOutcome(context.level)

    check = toys.toy("memory", body, limit_s=5.0, level="stress")
    seen: list[float] = []
    with Supervisor((check,), level="stress", stress_s=0.1) as supervisor:
        (result,) = supervisor.run_all((check,), lambda check, device: seen.append(check.limit_s))
    assert (result.status, result.message, seen) == ("pass", "stress", [5.1])
