"""A process's place among those of its launch, from the variables of torchrun, srun and a Kubernetes indexed Job."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsmith.validator.cluster.launch import KUBERNETES, SLURM, TORCHRUN, LaunchError, Place, read_place
from envsmith.validator.cluster.nodelist import HOSTS_MAX, expand_hosts, tasks_per_node

TORCHRUN_ENV = {
    "RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "GROUP_RANK": "1",
    "MASTER_ADDR": "gpu1", "MASTER_PORT": "29500", "TORCHELASTIC_USE_AGENT_STORE": "True",
    "TORCHELASTIC_RESTART_COUNT": "2", "TORCHELASTIC_RUN_ID": "none",
}  # fmt: skip
SLURM_ENV = {
    "SLURM_JOB_ID": "4242", "SLURM_STEP_ID": "0", "SLURM_PROCID": "6", "SLURM_LOCALID": "0", "SLURM_NODEID": "3",
    "SLURM_NTASKS": "64", "SLURM_STEP_NUM_TASKS": "7", "SLURM_STEP_TASKS_PER_NODE": "2(x3),1",
    "SLURM_STEP_NODELIST": "gpu[003-005,12]", "SLURM_NNODES": "4",
}  # fmt: skip
KUBERNETES_ENV = {
    "JOB_COMPLETION_INDEX": "3", "WORLD_SIZE": "4", "MASTER_ADDR": "check-0.check", "MASTER_PORT": "29500",
}  # fmt: skip


def without(env: dict[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in env.items() if name not in names}


def test_torchrun() -> None:
    assert read_place(TORCHRUN_ENV) == Place(5, 8, 1, 4, 1, "gpu1", 29500, TORCHRUN, agent_store=True, attempt="2")


def test_the_same_variables_without_an_agent() -> None:
    env = {"RANK": "3", "WORLD_SIZE": "4", "MASTER_ADDR": "::1", "MASTER_PORT": "1234"}
    assert read_place(env) == Place(3, 4, 0, 1, 3, "::1", 1234, TORCHRUN)


def test_srun() -> None:
    assert read_place(SLURM_ENV) == Place(6, 7, 0, 1, 3, "gpu003", 24242, SLURM)
    assert read_place({**SLURM_ENV, "SLURM_STEP_ID": "1"}).port == 25251
    assert read_place({**SLURM_ENV, "MASTER_ADDR": "ib-gpu003", "MASTER_PORT": "4000"}).address == "ib-gpu003"


def test_kubernetes() -> None:
    assert read_place(KUBERNETES_ENV) == Place(3, 4, 0, 1, 3, "check-0.check", 29500, KUBERNETES)


def test_torchrun_inside_srun_or_a_job_is_torchrun() -> None:
    assert read_place({**SLURM_ENV, **KUBERNETES_ENV, **TORCHRUN_ENV}).launcher == TORCHRUN


@pytest.mark.parametrize(
    "env",
    [
        {},
        {"WORLD_SIZE": "4"},
        {"MASTER_ADDR": "gpu1", "MASTER_PORT": "29500"},
        {**TORCHRUN_ENV, "WORLD_SIZE": "1", "RANK": "0"},
        # a batch script, and a shell of salloc: many tasks were asked for, and this is none of them
        without(SLURM_ENV, "SLURM_STEP_ID"),
        {**SLURM_ENV, "SLURM_STEP_ID": "4294967291"},
        {**SLURM_ENV, "SLURM_STEP_ID": "4294967290", "SLURM_STEP_NUM_TASKS": "1"},
        # srun --pty bash
        {**SLURM_ENV, "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"},
        # an indexed Job whose pods have nothing to do with each other
        {"JOB_COMPLETION_INDEX": "3"},
        {**KUBERNETES_ENV, "WORLD_SIZE": "1"},
    ],
)
def test_no_cluster(env: dict[str, str]) -> None:
    assert read_place(env) is None


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"RANK": "0"}, "WORLD_SIZE is not set"),
        ({**TORCHRUN_ENV, "WORLD_SIZE": "0"}, "WORLD_SIZE is '0', and a whole number from 1 to"),
        ({**TORCHRUN_ENV, "RANK": "8"}, "RANK is '8', and a whole number from 0 to 7 is expected"),
        ({**TORCHRUN_ENV, "RANK": "-1"}, "RANK is '-1'"),
        ({**TORCHRUN_ENV, "RANK": "1" * 5000}, "RANK is '1111"),
        ({**TORCHRUN_ENV, "RANK": "\x1b[2J\n1"}, "RANK is '1', and"),
        (without(TORCHRUN_ENV, "LOCAL_RANK"), "LOCAL_RANK is not set"),
        (without(TORCHRUN_ENV, "MASTER_ADDR"), "MASTER_ADDR is not set"),
        ({**TORCHRUN_ENV, "MASTER_ADDR": ""}, "MASTER_ADDR is empty"),
        ({**TORCHRUN_ENV, "MASTER_ADDR": "gpu1;reboot"}, "MASTER_ADDR is 'gpu1;reboot', and the name or address"),
        ({**TORCHRUN_ENV, "MASTER_PORT": "70000"}, "MASTER_PORT is '70000', and a whole number from 1 to 65535"),
        ({**SLURM_ENV, "SLURM_STEP_NODELIST": "gpu[3-"}, "SLURM_STEP_NODELIST is 'gpu[3-', and a list of hosts"),
        (without(SLURM_ENV, "SLURM_STEP_NODELIST"), "SLURM_STEP_NODELIST is not set"),
        ({**SLURM_ENV, "SLURM_STEP_TASKS_PER_NODE": "2(x3)"}, "the tasks of more than 3 nodes"),
        ({**SLURM_ENV, "SLURM_STEP_TASKS_PER_NODE": "two"}, "the tasks of each node, such as"),
        (without(SLURM_ENV, "SLURM_JOB_ID"), "SLURM_JOB_ID is not set"),
        (without(KUBERNETES_ENV, "MASTER_PORT"), "MASTER_PORT is not set"),
        (without(KUBERNETES_ENV, "WORLD_SIZE"), "WORLD_SIZE is not set"),
        ({**KUBERNETES_ENV, "JOB_COMPLETION_INDEX": "4"}, "JOB_COMPLETION_INDEX is '4', and a whole number from 0"),
    ],
)
def test_what_makes_no_sense_names_the_variable(env: dict[str, str], said: str) -> None:
    with pytest.raises(LaunchError, match=re.escape(said)) as raised:
        read_place(env)
    text = str(raised.value)
    assert text.endswith("--no-cluster checks this machine alone")
    assert len(text) < 300
    assert text.isprintable()


names = st.sampled_from(["RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "SLURM_PROCID", "SLURM_STEP_NODELIST",
                         "SLURM_STEP_TASKS_PER_NODE", "SLURM_NODEID", "JOB_COMPLETION_INDEX"])  # fmt: skip


@given(st.sampled_from([TORCHRUN_ENV, SLURM_ENV, KUBERNETES_ENV]), names, st.text(max_size=30))
def test_any_value_gives_a_place_in_its_world_or_one_error(env: dict[str, str], name: str, value: str) -> None:
    try:
        place = read_place({**env, name: value})
    except LaunchError as error:
        said = str(error)
        place = None
    else:
        said = ""
    assert said.isprintable()
    assert place is None or (0 <= place.rank < place.world and 0 <= place.local_rank < place.local_world)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("gpu1", ["gpu1"]),
        ("gpu[003-005,12],login1", ["gpu003", "gpu004", "gpu005", "gpu12", "login1"]),
        ("r[1-2]n[08-09].site", ["r1n08.site", "r1n09.site", "r2n08.site", "r2n09.site"]),
        ("[9-11]", ["9", "10", "11"]),
        ("a,b-c", ["a", "b-c"]),
    ],
)
def test_a_node_list(text: str, hosts: list[str]) -> None:
    assert list(expand_hosts(text)) == hosts


@pytest.mark.parametrize(
    "text",
    ["", ",", "a,", ",a", "a,,b", "a[", "a]", "a[1-", "a[]", "a[2-1]", "a[x]", "a[1-2-3]", "a b", "a[[1]]",
     "a[0-9999999]", "a[0-999]b[0-999]", "a\n"],
)  # fmt: skip
def test_no_node_list(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        expand_hosts(text)


words = st.text("abcxyz-.", min_size=1, max_size=5)


@given(st.lists(st.tuples(words, st.integers(0, 50), st.integers(0, 5), st.integers(1, 4)), min_size=1, max_size=5))
def test_a_node_list_says_what_was_written(parts: list[tuple[str, int, int, int]]) -> None:
    written = ",".join(f"{word}[{low:0{width}}-{low + more:0{width}}]" for word, low, more, width in parts)
    meant = [f"{word}{low + i:0{width}}" for word, low, more, width in parts for i in range(more + 1)]
    assert list(expand_hosts(written)) == meant


@given(st.text("ab[]-,0123456789(x)\n\0é", max_size=40))
def test_any_text_is_a_list_or_a_value_error(text: str) -> None:
    for parse in (expand_hosts, tasks_per_node):
        try:
            found = parse(text)
        except ValueError:
            continue
        assert 0 < len(found) <= HOSTS_MAX


def test_tasks_per_node() -> None:
    assert tasks_per_node("2(x3),1") == (2, 2, 2, 1)
    assert tasks_per_node("8") == (8,)
    for wrong in ("", "2(3)", "2(x999999999)", "-1", "2,,3", "2(x3"):
        with pytest.raises(ValueError, match=r"\w"):
            tasks_per_node(wrong)
