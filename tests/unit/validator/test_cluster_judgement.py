"""Who owns which GPU, what is not alike, who is slow, and what rank 0 makes of all of it: pure functions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsmith.validator.cluster import join
from envsmith.validator.cluster.facts import WARNING, describe, differences, machine_facts
from envsmith.validator.cluster.launch import TORCHRUN, Place
from envsmith.validator.cluster.ranges import name_ranks, ranges
from envsmith.validator.cluster.report import follower_line, read_report, report_lines
from envsmith.validator.cluster.roles import GLOO, NCCL, Role, Seen, assign, backend, rounds
from envsmith.validator.cluster.slowness import Times, blame, slow_links, slow_ranks
from envsmith.validator.cluster.verdict import DIED, MISSING, Said, as_result, judge, summary, without_meeting
from envsmith.wire.encode import to_plain
from envsmith.wire.facts import EnvVar, HostFacts, LimitFacts, Snapshot
from envsmith.wire.results import FAIL, PASS, SKIP, TIMEOUT, CheckResult

PLACE = Place(0, 4, 0, 2, 0, "gpu1", 29500, TORCHRUN)


def seen(node: int, *gpus: str, nccl: bool = True) -> Seen:
    return Seen(node, gpus, nccl)


def test_where_all_see_all_the_first_of_each_host_has_its_gpus() -> None:
    roles = assign({0: seen(0, "a", "b"), 1: seen(0, "a", "b"), 2: seen(1, "c", "d"), 3: seen(1, "c", "d")})
    assert roles[0] == Role((0, 1), checks=True, first=0, ranks=2)
    assert roles[1] == Role((), checks=False, first=2, ranks=0)
    assert roles[2] == Role((0, 1), checks=True, first=2, ranks=2)
    assert not roles[3].checks


def test_who_was_given_a_gpu_of_its_own_checks_that() -> None:
    roles = assign({0: seen(0, "a"), 1: seen(0, "b")})
    assert [(role.owned, role.checks, role.first) for role in roles.values()] == [((0,), True, 0), ((0,), True, 1)]


def test_two_launches_of_one_machine_share_no_gpu() -> None:
    roles = assign({0: seen(0, "a", "b"), 1: seen(1, "b", "a", "c")})
    assert roles[1] == Role((2,), checks=True, first=2, ranks=1)


def test_a_host_without_gpus_is_checked_by_its_first_process() -> None:
    roles = assign({0: seen(0, nccl=False), 1: seen(0, nccl=False), 2: seen(1, nccl=False)})
    assert [role.checks for role in roles.values()] == [True, False, True]
    assert [(role.first, role.ranks) for role in roles.values()] == [(0, 1), (1, 1), (2, 1)]


def test_nccl_where_all_who_see_gpus_can() -> None:
    assert backend({0: seen(0, "a"), 1: seen(1, nccl=False)}) == NCCL
    assert backend({0: seen(0, "a"), 1: seen(1, "b", nccl=False)}) == GLOO
    assert backend({0: seen(0), 1: seen(1)}) == GLOO


@given(st.lists(st.tuples(st.integers(0, 3), st.lists(st.sampled_from("abcdefgh"), unique=True)), min_size=1))
def test_each_gpu_has_one_owner_and_ranks_are_counted_up(processes: list[tuple[int, list[str]]]) -> None:
    arrived = {rank: Seen(node, tuple(gpus), True) for rank, (node, gpus) in enumerate(processes)}
    roles = assign(arrived)
    owned = [arrived[rank].gpus[i] for rank, role in roles.items() for i in role.owned]
    assert sorted(owned) == sorted({gpu for _, gpus in processes for gpu in gpus})
    places = [role.first + i for role in roles.values() for i in range(role.ranks)]
    assert places == list(range(len(places)))
    # somebody looks at every host whose GPUs are nobody else's
    assert any(role.checks for role in roles.values())


@given(st.integers(0, 40))
def test_a_ring_in_rounds(ranks: int) -> None:
    links = [link for part in rounds(ranks) for link in part]
    expected = {(rank, (rank + 1) % ranks) for rank in range(ranks)} if ranks > 2 else {(0, 1)} if ranks == 2 else set()
    assert set(links) == expected
    assert len(links) == len(expected)
    for part in rounds(ranks):
        ends = [rank for link in part for rank in link]
        assert len(ends) == len(set(ends))


def test_ranges() -> None:
    assert ranges([5, 0, 1, 2, 2]) == "0-2,5"
    assert ranges([]) == ""
    assert ranges(range(0, 100, 2)).endswith("38,...")
    assert name_ranks([3], {3: "gpu2"}) == "rank 3 (gpu2)"
    assert name_ranks([3, 4], {3: "gpu2"}) == "ranks 3-4"


def test_differences_say_who_says_what_and_what_must_be_alike_first() -> None:
    same = {"torch": "2.6.0", "nccl": "2.21.5", "driver": "570.1", "NCCL_DEBUG": "INFO"}
    facts = {rank: dict(same) for rank in range(4)}
    facts[2] = {"torch": "2.6.0", "nccl": "2.20.5", "driver": "550.2"}
    del facts[3]["driver"]  # it could not look
    found = differences(facts)
    assert [(one.fact, one.severity) for one in found] == [("nccl", FAIL), ("driver", WARNING), ("NCCL_DEBUG", WARNING)]
    assert describe(found[0]) == "nccl is 2.21.5 in rank 0-1,3, 2.20.5 in rank 2"
    assert [(value.value, value.ranks) for value in found[2].values] == [("INFO", "0-1,3"), ("not set", "2")]


def test_what_is_alike_is_no_difference() -> None:
    assert differences({rank: {"torch": "2.6.0"} for rank in range(3)}) == ()


def test_the_facts_of_a_machine_are_one_line_each_without_what_is_the_process_s_own() -> None:
    host = HostFacts("debian", "12", "Debian", "6.1\x1b[2J\nroot#", "x86_64", "2.36", None, False, 8, 1 << 30)
    limits = LimitFacts(2, None, None, 64 << 20, 1, None, 1024)
    env = (EnvVar("NCCL_DEBUG", "x" * 5000), EnvVar("CUDA_VISIBLE_DEVICES", "3"), EnvVar("PYTHONPATH", "/x"))
    facts = machine_facts("envsmith 1", Snapshot("envsmith 1", "now", host=host, limits=limits, env=env, gpus=()))
    assert facts["kernel"] == "6.1 root#"
    assert facts["memlock_limit_bytes"] == "unlimited"
    assert facts["gpus"] == "none"
    assert len(facts["NCCL_DEBUG"]) == 200
    assert not {"CUDA_VISIBLE_DEVICES", "PYTHONPATH", "driver"} & set(facts)


STEADY = [0.100, 0.101, 0.099, 0.100, 0.102]


def times(work: list[float], kind: str = "NVIDIA H200", node: int = 0, link: list[float] | None = None) -> Times:
    return Times(kind, node, work, link or [])


def test_a_rank_that_works_slowly_is_named() -> None:
    slow = [value * 2 for value in STEADY]
    assert slow_ranks({0: times(STEADY), 1: times(slow), 2: times(STEADY)}) == {1: pytest.approx(2.0)}
    assert slow_ranks({0: times(STEADY), 1: times(slow)}) == {1: pytest.approx(2.0)}


def test_a_rank_that_is_slow_in_every_round_is_named_however_unsteady_it_is() -> None:
    assert slow_ranks({0: times(STEADY), 1: times([0.2, 0.9, 0.3, 0.6, 0.7])}) == {1: pytest.approx(6.0, rel=0.1)}


def test_no_rank_is_named_without_reason() -> None:
    assert slow_ranks({0: times(STEADY)}) == {}
    assert slow_ranks({0: times(STEADY), 1: times([value * 1.25 for value in STEADY])}) == {}
    # as far apart as its own rounds are
    assert slow_ranks({0: times(STEADY), 1: times([0.1, 0.2, 0.14, 0.1, 0.2])}) == {}
    # one round in which something else ran
    assert slow_ranks({0: times(STEADY), 1: times([*STEADY[:4], 9.0])}) == {}
    # another model is slower and healthy
    assert slow_ranks({0: times(STEADY), 1: times([1.0] * 5, kind="NVIDIA T4")}) == {}
    # within the grain of clocks
    assert slow_ranks({0: times([1e-6] * 5), 1: times([9e-6] * 5)}) == {}


def ring(links: list[float], nodes: list[int] | None = None) -> dict[int, Times]:
    return {i: times(STEADY, node=(nodes or range(99))[i], link=[link] * 5) for i, link in enumerate(links)}


def test_a_rank_whose_both_links_are_slow_is_named() -> None:
    assert blame(slow_links(ring([0.050, 0.050, 0.001]))) == ({1: pytest.approx(50)}, {})
    assert blame(slow_links(ring([0.001, 0.001, 0.001, 0.050, 0.050]))) == ({4: pytest.approx(50)}, {})


def test_one_slow_link_is_a_link() -> None:
    assert blame(slow_links(ring([0.001, 0.050, 0.001, 0.001]))) == ({}, {(1, 2): pytest.approx(50)})


def test_a_link_between_hosts_is_not_compared_with_one_within() -> None:
    assert slow_links(ring([0.001, 0.010] * 3, nodes=[0, 0, 1, 1, 2, 2])) == {}


def test_a_busy_processor_makes_no_slow_link() -> None:
    links = ring([0.001] * 4)
    links[2] = times(STEADY, link=[0.030, 0.020, 0.0012, 0.050, 0.030])
    assert slow_links(links) == {}


def test_two_links_name_nobody() -> None:
    assert slow_links(ring([0.001, 0.050])) == {}


def arrival(host: str, node: int = 0, **facts: str) -> dict[str, object]:
    return {"host": host, "node": node, "gpus": [], "nccl": False, "facts": {"torch": "2.6.0", **facts}}


def worked(rank: int, **changes: object) -> dict[str, object]:
    return {
        "rank": rank, "local": 0, "stage": "leaving the group", "timed_out": False, "error": "", "kind": "CPU",
        "error_ratio": 0.25, "size_bytes": 4_000_000, "work_s": STEADY, "link_s": [0.001] * 5,
        "all_reduce_s": [0.004] * 5, **changes,
    }  # fmt: skip


PASSED = {"status": PASS, "gpus": ["cuda:0 NVIDIA H200 (9.0)"], "failing": []}


def whole(ranks: int = 4) -> Said:
    return Said(
        arrivals={rank: arrival(f"h{rank}", rank) for rank in range(ranks)},
        roles={rank: Role((), True, rank, 1) for rank in range(ranks)},
        backend=GLOO,
        results=dict.fromkeys(range(ranks), PASSED),
        work={rank: [worked(rank)] for rank in range(ranks)},
    )


def test_all_is_well() -> None:
    report = judge(PLACE, whole())
    assert report.status == PASS
    assert report.message == "every sum right over 4 processes (gloo; no GPU was used) on 4 nodes, started by torchrun"
    assert [(one.rank, one.host, one.status) for one in report.ranks] == [(i, f"h{i}", PASS) for i in range(4)]
    numbers = {metric.name: metric.value for metric in report.metrics}
    # 4 MB in 4 ms is 1 GB/s, and for four ranks the bus carries 2 * 3 / 4 of it
    assert (numbers["algorithm_bandwidth_gb_s"], numbers["bus_bandwidth_gb_s"]) == (1.0, 1.5)


def test_warnings_and_slow_ranks_are_told_and_fail_nothing() -> None:
    said = whole()
    arrivals = {**said.arrivals, 2: arrival("h2", 2, NCCL_DEBUG="INFO")}
    work = {**said.work, 3: [worked(3, work_s=[value * 3 for value in STEADY])]}
    report = judge(PLACE, replace(said, arrivals=arrivals, work=work))
    assert report.status == PASS
    assert report.slow == ("rank 3 (h3) takes 3.0 times as long as the others for the same work",)
    assert "slow: rank 3 (h3)" in report.message
    assert report.message.endswith("not alike everywhere: NCCL_DEBUG")


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ({"arrivals": {0: arrival("a"), 2: arrival("c")}, "absent": {1: MISSING, 3: MISSING}, "roles": {}}, FAIL,
         "ranks 1,3 never arrived; 2 did: 0 (a), 2 (c)"),
        ({"absent": {2: DIED}, "step": "the checks of one machine", "work": {}}, FAIL,
         "rank 2 (h2) died during: the checks of one machine"),
        ({"absent": {2: MISSING}, "step": "the checks of one machine", "work": {}}, FAIL,
         "rank 2 (h2) gave no answer to: the checks of one machine"),
        ({"arrivals": {**whole().arrivals, 1: arrival("h1", 1, nccl="2.20.5"), 0: arrival("h0", nccl="2.21.5")}}, FAIL,
         "nccl is 2.21.5 in rank 0, 2.20.5 in rank 1"),
        ({"results": {**whole().results, 1: {"status": FAIL, "gpus": [], "failing": ["rates (fail): slow"]}}}, FAIL,
         "rank 1 (h1): rates (fail): slow"),
        ({"work": {**whole().work, 1: [worked(1, error="a sum is wrong", stage="summing integers")]}}, FAIL,
         "rank 1 (h1) while summing integers: a sum is wrong"),
        ({"work": {**whole().work, 1: [worked(1, timed_out=True, stage="meeting the other ranks")]}}, TIMEOUT,
         "rank 1 (h1) hung while meeting the other ranks"),
    ],
)  # fmt: skip
def test_what_went_wrong_names_the_rank(changes: dict[str, object], status: str, said: str) -> None:
    report = judge(PLACE, replace(whole(), **changes))
    assert report.status == status
    assert report.message.startswith(said)
    assert len(report.ranks) == 4


def test_of_very_many_problems_some_are_named() -> None:
    failed = {"status": FAIL, "gpus": [], "failing": ["x (fail): " + "y" * 190]}
    message = judge(replace(PLACE, world=300), replace(whole(300), results=dict.fromkeys(range(300), failed))).message
    assert message.startswith("rank 0 (h0): x")
    assert len(message) <= 1000


def test_a_report_survives_its_way_between_processes() -> None:
    said = whole()
    report = judge(PLACE, replace(said, arrivals={**said.arrivals, 1: arrival("h1", 1, NCCL_DEBUG="INFO")}))
    assert read_report(to_plain(report)) == report


def test_lines_for_people() -> None:
    said = replace(whole(), results={**whole().results, 1: {"status": FAIL, "gpus": [], "failing": ["rates: slow"]}})
    lines = report_lines(judge(PLACE, said))
    assert lines[0] == "4 processes started by torchrun, meeting at gpu1:29500"
    assert lines[1] == "pass    rank 0 on h0: cuda:0 NVIDIA H200 (9.0)"
    assert lines[2:4] == ("fail    rank 1 on h1", "        | rates: slow")
    assert follower_line(without_meeting(replace(PLACE, rank=3), "no word")).startswith("rank 3 of 4: fail; rank 0 at")


def test_a_process_tells_of_the_checks_that_did_not_pass() -> None:
    results = (
        CheckResult("a", "A", PASS, 1.0),
        CheckResult("b", "B", SKIP, 0.0, "no"),
        CheckResult("c", "C", FAIL, 1.0, "bad"),
    )
    assert summary(results, ["cuda:0 X"], "") == {"status": FAIL, "gpus": ["cuda:0 X"], "failing": ["c (fail): bad"]}
    assert summary(results[:2], [], "")["status"] == PASS
    assert summary(results[:2], [], "not certified on a GPU")["failing"] == ["not certified on a GPU"]
    assert summary((), [], "")["status"] == "waited"


def test_the_report_is_one_more_result() -> None:
    result = as_result(judge(PLACE, whole()), 1.23456)
    assert (result.id, result.status, result.seconds) == ("cluster", PASS, 1.235)
    assert result.metrics


def test_who_does_not_report_fails_after_who_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the first failure torchrun ends all others: rank 0 must have reported by then."""
    waited: list[float] = []
    monkeypatch.setattr(join.time, "sleep", waited.append)
    passed = judge(PLACE, whole())
    assert [join.end(passed), join.end(replace(passed, rank=1)), join.end(replace(passed, status=FAIL))] == [1, 1, 0]
    assert waited == []
    assert not join.end(replace(passed, rank=1, status=FAIL))
    assert len(waited) == 1
