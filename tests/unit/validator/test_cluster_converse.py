"""What the processes of a launch say to each other, with threads for processes and a dictionary for the store."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from envsmith.validator.cluster import converse as module
from envsmith.validator.cluster import meeting as meeting_module
from envsmith.validator.cluster.converse import Duties, converse
from envsmith.validator.cluster.launch import TORCHRUN, Place
from envsmith.validator.cluster.meeting import ClusterProblem, Meeting, RankGone, first_line
from envsmith.wire.results import FAIL, PASS, ClusterReport
from tests.unit.validator.test_cluster_judgement import PASSED, arrival, worked

PREFIX = "test/0"


class FakeStore:
    """Set, get and add of torch's store; `gone` has it answer as when its server has died."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._lock = threading.Lock()
        self.gone = False

    def set(self, key: str, value: str) -> None:
        with self._lock:
            self._values[key] = value.encode()

    def get(self, key: str) -> bytes:
        with self._lock:
            return bytes(self._values[key])

    def add(self, key: str, amount: int) -> int:
        if self.gone:
            raise RuntimeError("Connection reset by peer\nException raised from recvBytes at socket.cpp:1")
        with self._lock:
            self._values[key] = self._values.get(key, 0) + amount
            return int(self._values[key])


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting_module, "_POLL_S", 0.002)
    monkeypatch.setattr(meeting_module, "_LOOK_S", 0.01)
    monkeypatch.setattr(module, "_GOODBYE_S", 0.2)


def duties(rank: int, **changes: Callable[..., Any]) -> Duties:
    return replace(Duties(checks=lambda role: PASSED, work=lambda role, go: [worked(role.first)]), **changes)


class Launch:
    """A launch of `world` processes over one store; each rank's heart beats until it is stopped."""

    def __init__(self, world: int) -> None:
        self.world = world
        self.store = FakeStore()
        self.stopped: set[int] = set()
        self._ended = threading.Event()

    def _heart(self, rank: int) -> None:
        meeting = Meeting(self.store, rank, self.world, PREFIX)
        while not self._ended.wait(0.01):
            if rank not in self.stopped and not self.store.gone:
                meeting.beat()

    def run(self, mine: dict[int, Duties], limit_s: float = 30.0) -> dict[int, ClusterReport | ClusterProblem]:
        """Let the ranks that are named live through it; return what each came to."""

        def live(rank: int) -> ClusterReport | ClusterProblem:
            place = Place(rank, self.world, 0, 1, rank, "h0", 29500, TORCHRUN)
            meeting = Meeting(self.store, rank, self.world, PREFIX, dead_after_s=0.5)
            try:
                return converse(meeting, place, arrival(f"h{rank}", rank), mine[rank], limit_s)
            except ClusterProblem as problem:
                return problem

        with ThreadPoolExecutor(2 * self.world) as pool:
            hearts = [pool.submit(self._heart, rank) for rank in mine]
            futures = {rank: pool.submit(live, rank) for rank in mine}
            try:
                return {rank: future.result(60) for rank, future in futures.items()}
            finally:
                self._ended.set()
                assert all(heart.result(10) is None for heart in hearts)


def test_all_come_to_one_verdict() -> None:
    reports = Launch(3).run({rank: duties(rank) for rank in range(3)})
    assert {report.status for report in reports.values()} == {PASS}
    assert len({report.message for report in reports.values()}) == 1
    assert [one.host for one in reports[0].ranks] == ["h0", "h1", "h2"]
    assert reports[1].ranks == ()


def test_one_failing_host_fails_all() -> None:
    failed = {"status": FAIL, "gpus": [], "failing": ["rates (fail): slow"]}
    reports = Launch(3).run({**{r: duties(r) for r in (0, 2)}, 1: duties(1, checks=lambda role: failed)})
    assert {report.status for report in reports.values()} == {FAIL}
    assert reports[2].message.startswith("rank 1 (h1): rates (fail): slow")


def test_who_does_not_arrive_is_named_and_nobody_runs_anything() -> None:
    def never(*_: object) -> object:
        raise AssertionError("nothing is to be run")

    reports = Launch(3).run({rank: duties(rank, checks=never) for rank in (0, 1)}, limit_s=0.2)
    assert {report.status for report in reports.values()} == {FAIL}
    assert reports[1].message.startswith("rank 2 never arrived; 2 did: 0 (h0), 1 (h1)")


@pytest.mark.parametrize(("step", "said"), [("checks", "the checks of one machine"), ("work", "the collective")])
def test_who_dies_is_named(step: str, said: str) -> None:
    launch = Launch(3)

    def die(*_: object) -> object:
        launch.stopped.add(1)
        raise ClusterProblem("dead")

    reports = launch.run({0: duties(0), 1: duties(1, **{step: die}), 2: duties(2)})
    assert reports[0].status == FAIL
    assert reports[0].message.startswith(f"rank 1 (h1) died during: {said}")
    assert reports[2].message == reports[0].message
    assert [one.status for one in reports[0].ranks] == [PASS, "died", PASS]


def test_who_takes_long_and_lives_is_waited_for() -> None:
    def slow(_: object) -> object:
        time.sleep(1.0)  # longer than a heart may stand still
        return PASSED

    reports = Launch(2).run({0: duties(0), 1: duties(1, checks=slow)})
    assert {report.status for report in reports.values()} == {PASS}


def test_rank_0_that_dies_is_not_waited_for() -> None:
    launch = Launch(2)

    def die(_: object) -> object:
        launch.stopped.add(0)
        raise ClusterProblem("dead")

    problem = launch.run({0: duties(0, checks=die), 1: duties(1)})[1]
    assert isinstance(problem, RankGone)
    assert str(problem) == "rank 0 died before it gave a go"


def test_a_store_that_is_gone_is_one_line() -> None:
    launch = Launch(2)

    def take_the_store(_: object) -> object:
        launch.store.gone = True
        return PASSED

    problems = launch.run({0: duties(0), 1: duties(1, checks=take_the_store)})
    assert str(problems[1]) == "the store of rank 0 is gone: Connection reset by peer"


def test_two_processes_of_one_rank() -> None:
    store = FakeStore()
    Meeting(store, 1, 2, PREFIX).post("arrival", {})
    with pytest.raises(ClusterProblem, match="two processes say that they are rank 1"):
        Meeting(store, 1, 2, PREFIX).post("arrival", {})


def test_the_first_line_of_torch_s_errors() -> None:
    assert first_line(RuntimeError("  no route\x1b[0m\n  frame #0: c10")) == "no route"
    assert first_line(RuntimeError("")) == "RuntimeError"
