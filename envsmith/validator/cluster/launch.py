"""The place of this process among those that one launcher started, read from the variables that it set.

Sources: "Environment Variables" in PyTorch's documentation of torchrun; "OUTPUT ENVIRONMENT VARIABLES" in srun(1);
"Completion mode" in Kubernetes' documentation of Jobs (JOB_COMPLETION_INDEX).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Mapping

from envsmith.validator.cluster.nodelist import expand_hosts, tasks_per_node
from envsmith.validator.text import one_message

TORCHRUN = "torchrun"
SLURM = "slurm"
KUBERNETES = "kubernetes"

# Steps of a Slurm job that srun did not start: interactive, batch and extern (SLURM_INTERACTIVE_STEP and its
# neighbours in slurm/slurm.h). The shell in an allocation has no SLURM_STEP_ID, or the first of these.
_NO_SRUN_STEP = range(0xFFFFFFFA, 0xFFFFFFFF)
# Below the ports that Linux gives to connections (net.ipv4.ip_local_port_range begins at 32768).
_PORT_FIRST, _PORT_COUNT = 20_000, 12_000
_WORLD_MAX = 1 << 20
_SHOWN_CHARS = 80
# A large image is pulled, and a cold file system gives up PyTorch, in minutes.
TIMEOUT_S_DEFAULT = 300.0
_TIMEOUT_S_MIN, _TIMEOUT_S_MAX = 1.0, 86_400.0
# What a launcher says of its processes. A check of one machine must not take it for its own (torch.distributed does).
LAUNCHER_VARIABLES = (
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK",
    "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS",
)  # fmt: skip


class LaunchError(ValueError):
    """A variable is missing or makes no sense; the text names it, what it holds and what is expected."""


@dataclass(frozen=True)
class Place:
    """One process of a launch. node: number of its host in the launch.

    address, port: where rank 0, or for it torchrun's agent (agent_store), serves the key-value store that all meet at.
    attempt: tells one start of torchrun's from the one before.
    """

    rank: int
    world: int
    local_rank: int
    local_world: int
    node: int
    address: str
    port: int
    launcher: str
    agent_store: bool = False
    attempt: str = "0"


def read_place(env: Mapping[str, str]) -> Place | None:
    """Return the place of this process, or None where no launcher started several. Raises LaunchError."""
    if "RANK" in env:
        place = _torchrun(env)
    elif _is_srun_step(env):
        place = _slurm(env)
    elif "JOB_COMPLETION_INDEX" in env and ("WORLD_SIZE" in env or "MASTER_ADDR" in env):
        place = _kubernetes(env)
    else:
        return None
    return place if place is not None and place.world > 1 else None


def require_timeout(seconds: float | None) -> float:
    """How long processes wait for each other. Raises LaunchError for a limit that means nothing."""
    if seconds is None:
        return TIMEOUT_S_DEFAULT
    if not _TIMEOUT_S_MIN <= seconds <= _TIMEOUT_S_MAX:
        bounds = f"{_TIMEOUT_S_MIN:g} to {_TIMEOUT_S_MAX:g} seconds"
        raise LaunchError(f"--cluster-timeout {seconds:g} is out of bounds: {bounds}")
    return seconds


def _torchrun(env: Mapping[str, str]) -> Place | None:
    """RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT; LOCAL_RANK and LOCAL_WORLD_SIZE of who starts several a host."""
    world = _number(env, "WORLD_SIZE", 1, _WORLD_MAX)
    if world == 1:
        return None
    rank = _number(env, "RANK", 0, world - 1)
    together = "LOCAL_RANK" in env or "LOCAL_WORLD_SIZE" in env
    local_world = _number(env, "LOCAL_WORLD_SIZE", 1, world) if together else 1
    local_rank = _number(env, "LOCAL_RANK", 0, local_world - 1) if together else 0
    return Place(
        rank=rank,
        world=world,
        local_rank=local_rank,
        local_world=local_world,
        node=_number(env, "GROUP_RANK", 0, world - 1) if "GROUP_RANK" in env else rank - local_rank,
        address=_address(env, "MASTER_ADDR"),
        port=_number(env, "MASTER_PORT", 1, 65535),
        launcher=TORCHRUN,
        agent_store=env.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
        attempt=env.get("TORCHELASTIC_RESTART_COUNT", "0"),
    )


def _is_srun_step(env: Mapping[str, str]) -> bool:
    """Whether srun started this process: in an sbatch script or a shell of salloc there is no step of its own."""
    if "SLURM_PROCID" not in env or "SLURM_STEP_ID" not in env:
        return False
    step = env["SLURM_STEP_ID"]
    return not (re.fullmatch(r"[0-9]{1,10}", step) and int(step) in _NO_SRUN_STEP)


def _slurm(env: Mapping[str, str]) -> Place | None:
    world = _number(env, "SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in env else "SLURM_NTASKS", 1, _WORLD_MAX)
    if world == 1:
        return None
    node = _number(env, "SLURM_NODEID", 0, world - 1)
    local_world = _slurm_tasks_here(env, node)
    return Place(
        rank=_number(env, "SLURM_PROCID", 0, world - 1),
        world=world,
        local_rank=_number(env, "SLURM_LOCALID", 0, local_world - 1),
        local_world=local_world,
        node=node,
        address=_address(env, "MASTER_ADDR") if "MASTER_ADDR" in env else _first_host(env),
        port=_number(env, "MASTER_PORT", 1, 65535) if "MASTER_PORT" in env else _slurm_port(env),
        launcher=SLURM,
    )


def _slurm_tasks_here(env: Mapping[str, str], node: int) -> int:
    name = "SLURM_STEP_TASKS_PER_NODE" if "SLURM_STEP_TASKS_PER_NODE" in env else "SLURM_TASKS_PER_NODE"
    try:
        return tasks_per_node(_text(env, name))[node]
    except IndexError:
        raise _wrong(env, name, f"the tasks of more than {node} nodes, as SLURM_NODEID is {node}") from None
    except LaunchError:
        raise
    except ValueError as error:
        raise _wrong(env, name, f'the tasks of each node, such as "2(x3),1" ({error})') from None


def _first_host(env: Mapping[str, str]) -> str:
    name = "SLURM_STEP_NODELIST"
    try:
        return expand_hosts(_text(env, name))[0]
    except LaunchError:
        raise
    except ValueError as error:
        raise _wrong(env, name, f'a list of hosts, such as "gpu[003-007,12]" ({error})') from None


def _slurm_port(env: Mapping[str, str]) -> int:
    """A port that all tasks of a step find alike, and that another job or step on the same host hardly takes."""
    job = _number(env, "SLURM_JOB_ID", 0, 1 << 32)
    # a prime, so that the steps of one job do not take the ports of the jobs after it
    return _PORT_FIRST + (job + 1009 * _number(env, "SLURM_STEP_ID", 0, 1 << 32)) % _PORT_COUNT


def _kubernetes(env: Mapping[str, str]) -> Place | None:
    world = _number(env, "WORLD_SIZE", 1, _WORLD_MAX)
    if world == 1:
        return None
    rank = _number(env, "JOB_COMPLETION_INDEX", 0, world - 1)
    address, port = _address(env, "MASTER_ADDR"), _number(env, "MASTER_PORT", 1, 65535)
    return Place(rank, world, 0, 1, rank, address, port, KUBERNETES)


def _text(env: Mapping[str, str], name: str) -> str:
    value = env.get(name, "").strip()
    if not value:
        raise LaunchError(f"{name} is {'empty' if name in env else 'not set'}, and the launcher must set it; {_HINT}")
    return value


def _number(env: Mapping[str, str], name: str, low: int, high: int) -> int:
    value = _text(env, name)
    if not re.fullmatch(r"[0-9]{1,10}", value) or not low <= int(value) <= high:
        raise _wrong(env, name, f"a whole number from {low} to {high}")
    return int(value)


def _address(env: Mapping[str, str], name: str) -> str:
    value = _text(env, name)
    if not re.fullmatch(r"[A-Za-z0-9._:%-]{1,253}", value):
        raise _wrong(env, name, "the name or address of the host of rank 0")
    return value


_HINT = "--no-cluster checks this machine alone"


def _wrong(env: Mapping[str, str], name: str, expected: str) -> LaunchError:
    shown = one_message(env[name])[:_SHOWN_CHARS]
    return LaunchError(f"{name} is {shown!r}, and {expected} is expected; {_HINT}")
