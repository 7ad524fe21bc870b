"""From what probes gave to the next probe and to the finding: a machine is played that is broken in one way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsmith.validator.nccl.causes import (
    FAILED,
    HUNG,
    PASSED,
    UNSURE,
    Outcome,
    Probe,
    Situation,
    conclude,
    known_cause,
    next_probe,
    pair_rounds,
)

Settings = Mapping[str, "str | None"]
Works = Callable[[Settings, "tuple[int, ...]"], bool]


def investigate(situation: Situation, works: Works, bad: str = HUNG) -> tuple[str, list[Outcome]]:
    """Answer each probe as a machine would on which exactly what `works` says passes."""
    outcomes: list[Outcome] = []
    for _ in range(40):
        probe = next_probe(situation, outcomes)
        if probe is None:
            return conclude(situation, outcomes), outcomes
        outcomes += [
            Outcome(probe, team, PASSED if works(probe.settings, team) else bad, "", small_passed=True)
            for team in probe.teams
        ]
    raise AssertionError("it asks for ever")


def without_p2p(settings: Settings) -> bool:
    return settings.get("NCCL_P2P_DISABLE") == "1"


def without_shm(settings: Settings) -> bool:
    return settings.get("NCCL_SHM_DISABLE") == "1"


def test_two_gpus_without_p2p() -> None:
    finding, outcomes = investigate(Situation(2), lambda settings, team: without_p2p(settings))
    assert finding.startswith(
        "P2P between cuda:0 and cuda:1 does not work: the all-reduce passes with NCCL_P2P_DISABLE=1 "
        "(with nothing changed, small messages pass and large ones do not). Look at PCIe ACS"
    )
    assert [str(outcome.probe) for outcome in outcomes] == ["nothing changed", "NCCL_P2P_DISABLE=1"]


@pytest.mark.parametrize("pair", [(0, 3), (6, 7), (2, 4)])
def test_one_bad_pair_among_eight(pair: tuple[int, int]) -> None:
    finding, outcomes = investigate(
        Situation(8), lambda settings, team: without_p2p(settings) or not set(pair) <= set(team)
    )
    assert finding.startswith(f"P2P between cuda:{pair[0]} and cuda:{pair[1]} does not work: ")
    assert {outcome.team for outcome in outcomes if len(outcome.team) == 2} == set(combinations(range(8), 2))


def test_one_gpu_whose_links_are_all_bad() -> None:
    finding, _ = investigate(Situation(4), lambda settings, team: without_p2p(settings) or 2 not in team)
    assert finding.startswith("P2P of cuda:2 does not work (with ")
    assert all(f"cuda:{gpu}" in finding for gpu in (0, 1, 3))


def test_p2p_that_fails_only_with_all_together() -> None:
    finding, _ = investigate(Situation(4), lambda settings, team: without_p2p(settings) or len(team) == 2)
    assert finding.startswith("P2P among all GPUs does not work, though each pair that was tried passes: ")


def test_no_room_in_shared_memory() -> None:
    finding, _ = investigate(Situation(2, shm_bytes=64 << 20), lambda settings, team: without_shm(settings), FAILED)
    assert finding.startswith("shared memory does not work: the all-reduce passes with NCCL_SHM_DISABLE=1")
    assert "The size of /dev/shm is only 64 MiB. Give the container more (docker run --shm-size=1g" in finding


def test_neither_p2p_nor_shared_memory() -> None:
    finding, _ = investigate(
        Situation(2, shm_bytes=8 << 30), lambda settings, team: without_p2p(settings) and without_shm(settings)
    )
    assert finding.startswith(
        "neither P2P nor shared memory works: the all-reduce passes with NCCL_P2P_DISABLE=1 NCCL_SHM"
    )
    assert "The size of /dev/shm is 8192 MiB" in finding


def test_no_dev_shm_at_all() -> None:
    finding, _ = investigate(Situation(2), lambda settings, team: without_shm(settings))
    assert "There is no /dev/shm here" in finding


def test_an_interface_that_carries_nothing() -> None:
    finding, _ = investigate(Situation(2), lambda settings, team: settings.get("NCCL_SOCKET_IFNAME") == "lo")
    assert "passes with NCCL_SOCKET_IFNAME=lo" in finding


def test_a_setting_of_the_users_is_named() -> None:
    situation = Situation(2, settings={"NCCL_ALGO": "bogus"})
    finding, outcomes = investigate(situation, lambda settings, team: "NCCL_ALGO" in settings, FAILED)
    assert finding == "NCCL_ALGO=bogus breaks it: without it the all-reduce passes"
    assert [str(outcome.probe) for outcome in outcomes] == ["nothing changed", "NCCL_ALGO unset"]


def test_of_several_settings_the_one_that_breaks_it() -> None:
    situation = Situation(1, settings={"NCCL_ALGO": "Ring", "NCCL_BUFFSIZE": "1", "NCCL_PROTO": "LL"})
    finding, _ = investigate(situation, lambda settings, team: "NCCL_BUFFSIZE" in settings)
    assert finding == "NCCL_BUFFSIZE=1 breaks it: without it the all-reduce passes"


def test_settings_that_break_it_only_together() -> None:
    situation = Situation(1, settings={"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL"})
    finding, _ = investigate(situation, lambda settings, team: len(settings) == 2)
    assert finding == "NCCL_ALGO=Ring, NCCL_PROTO=LL breaks it: without them the all-reduce passes"


def test_an_interface_that_is_not_there_is_told_with_those_that_are() -> None:
    problem = "NCCL_SOCKET_IFNAME=eth7 leaves no network interface here: there are lo, eth0"
    situation = Situation(2, settings={"NCCL_SOCKET_IFNAME": "eth7"}, interface_problem=problem)
    finding, _ = investigate(situation, lambda settings, team: settings.get("NCCL_SOCKET_IFNAME", "") is None)
    assert finding == f"{problem}. Name one of these, or unset it: without it the all-reduce passes"


def test_what_passes_when_tried_again_is_not_nccls_fault() -> None:
    behind = "rank 0 never called collective 7, while others wait in collective 7 (all_reduce)"
    finding, outcomes = investigate(Situation(2, behind=behind), lambda settings, team: True)
    assert finding.startswith(f"{behind}; with nothing changed, the same GPUs pass")
    assert len(outcomes) == 1
    assert investigate(Situation(2), lambda settings, team: True)[0].startswith(
        "it does not fail every time; with nothing"
    )


def test_one_broken_gpu_whatever_is_changed() -> None:
    finding, _ = investigate(Situation(4), lambda settings, team: 1 not in team, FAILED)
    assert finding == "every group with cuda:1 fails, and pairs of the others pass: leave it out, and look at it"


def test_nothing_passes() -> None:
    finding, outcomes = investigate(Situation(2), lambda settings, team: False)
    assert finding.startswith("no all-reduce passes, whatever is changed (nothing changed; NCCL_P2P_DISABLE=1; ")
    assert len(outcomes) == 5
    assert investigate(Situation(1), lambda settings, team: False)[1][0].probe == Probe({}, ((0,),))


def test_probes_that_came_to_nothing_accuse_nobody() -> None:
    finding, _ = investigate(Situation(2), lambda settings, team: False, UNSURE)
    assert finding == "no probe came as far as NCCL in its time"


@given(st.integers(2, 17))
def test_rounds_hold_every_pair_once_and_no_gpu_twice_at_a_time(count: int) -> None:
    rounds = pair_rounds(count)
    assert sorted(pair for teams in rounds for pair in teams) == list(combinations(range(count), 2))
    assert all(len({gpu for pair in teams for gpu in pair}) == 2 * len(teams) for teams in rounds)
    assert len(rounds) <= count


@given(st.integers(1, 9), st.dictionaries(st.sampled_from(["NCCL_A", "NCCL_B", "NCCL_C"]), st.just("1")), st.data())
def test_any_machine_gets_a_finding_after_few_probes(count: int, settings: dict[str, str], data: st.DataObject) -> None:
    outcomes: list[Outcome] = []
    situation = Situation(count, settings=settings)
    statuses = st.sampled_from([PASSED, FAILED, HUNG, UNSURE])
    probes = 0
    while (probe := next_probe(situation, outcomes)) is not None:
        probes += 1
        assert "NCCL_NVLS_ENABLE" not in probe.settings
        outcomes += [Outcome(probe, team, data.draw(statuses)) for team in probe.teams]
        assert conclude(situation, outcomes)
    assert probes <= 2 + 3 + 4 + count
    assert conclude(situation, outcomes)


@pytest.mark.parametrize(
    ("line", "finding"),
    [
        (
            "Mismatched NCCL version detected : rank 0 version 22809 rank 1 version 22603",
            "the ranks use different versions",
        ),
        ("Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 60", "two ranks were given the same GPU"),
        ("Cuda failure 35 'CUDA driver version is insufficient for CUDA runtime version'", "the driver is too old"),
        ("Cuda failure 2 'out of memory'", "a GPU has no memory left"),
        (
            "Error: failed to extend /dev/shm/nccl-a to 9637892 bytes, error: No space left on device (28)",
            "too little room",
        ),
        ("Bootstrap : no socket interface found", None),
    ],
)
def test_causes_that_nccl_names_itself(line: str, finding: str | None) -> None:
    cause = known_cause(["something else", line])
    assert (cause or "").startswith(finding or "nothing") or cause is finding
