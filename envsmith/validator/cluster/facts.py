"""What must, and what should, be alike in all processes of a launch; and what is not."""

from __future__ import annotations

from collections import Counter
from typing import Any, Mapping

from envsmith.validator.cluster.ranges import ranges
from envsmith.validator.text import one_message
from envsmith.validator.versions import cudnn_version, nccl_version
from envsmith.wire.facts import Snapshot
from envsmith.wire.results import FAIL, FactDifference, FactValue

WARNING = "warning"
# Ranks of different versions of these do not understand each other: NCCL refuses, and pickled objects of another
# torch need not load.
MUST_BE_ALIKE = ("envsmith", "torch", "wheel_cuda", "nccl")
# Variables by which ranks of one job behave differently. What is the process's own is not compared.
_FAMILIES = ("NCCL_", "TORCH_", "CUDA_", "GLOO_", "UCX_", "NVSHMEM_", "PYTORCH_")
_OWN = frozenset(("CUDA_VISIBLE_DEVICES", "NCCL_HOSTID", "NCCL_DEBUG_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"))
_ABSENT = "not set"
_VALUE_CHARS = 200
_VALUES_MAX = 8

Facts = Mapping[str, str]


def machine_facts(tool: str, snapshot: Snapshot) -> dict[str, str]:
    """What is compared of this process's machine and environment; a fact that could not be read is left out."""
    driver, limits, python, host = snapshot.driver, snapshot.limits, snapshot.python, snapshot.host
    facts: dict[str, object] = {"envsmith": tool}
    if driver is not None:
        facts.update(driver=driver.kernel_module_version, driver_cuda=driver.driver_cuda)
    if python is not None:
        facts.update(python=python.version)
    if host is not None:
        facts.update(kernel=host.kernel, machine=host.machine)
    if limits is not None:
        facts.update(shm_size_bytes=limits.shm_size_bytes)
        facts.update(memlock_limit_bytes=limits.memlock_limit_bytes or "unlimited")
    if snapshot.gpus is not None:
        facts.update(gpus=_gpus(snapshot))
    for variable in snapshot.env or ():
        if variable.name.startswith(_FAMILIES) and variable.name not in _OWN:
            facts[variable.name] = variable.value
    return {name: bounded(str(value)) for name, value in facts.items() if value is not None}


def _gpus(snapshot: Snapshot) -> str:
    """Such as "8 x NVIDIA H200 (9.0)"."""
    names = Counter(f"{gpu.name} ({gpu.compute_capability or '?'})" for gpu in snapshot.gpus or ())
    return ", ".join(f"{count} x {name}" for name, count in sorted(names.items())) or "none"


def torch_facts(torch: Any) -> dict[str, str]:
    """What is compared of torch. For a process of its own: what torch is asked here may keep others from using CUDA."""
    facts: dict[str, object] = {"torch": torch.__version__, "wheel_cuda": torch.version.cuda or "none"}
    try:
        found = torch.cuda.nccl.version()
        numbers = found if isinstance(found, tuple) else (found,)
        facts["nccl"] = nccl_version(found) if isinstance(found, int) else ".".join(map(str, numbers))
    except (AttributeError, ImportError, RuntimeError):
        facts["nccl"] = "none"
    try:
        number = torch.backends.cudnn.version()
        facts["cudnn"] = cudnn_version(number) if isinstance(number, int) else "none"
    except RuntimeError:  # a check of one machine tells more of it
        pass
    return {name: bounded(str(value)) for name, value in facts.items()}


def bounded(text: str) -> str:
    """One line without control characters, of a bearable length."""
    return one_message(text)[:_VALUE_CHARS]


def differences(facts: Mapping[int, Facts]) -> tuple[FactDifference, ...]:
    """Facts that are not the same in all ranks, what must be alike first. facts: of each rank."""
    names = sorted({name for said in facts.values() for name in said}, key=_by_weight)
    found = []
    for name in names:
        values: dict[str, list[int]] = {}
        for rank, said in sorted(facts.items()):
            value = said.get(name, _ABSENT if name.isupper() else "")
            if value:  # a rank that could not look says nothing
                values.setdefault(value, []).append(rank)
        if len(values) > 1:
            said_by = tuple(FactValue(value, ranges(ranks)) for value, ranks in _most_first(values)[:_VALUES_MAX])
            found.append(FactDifference(name, FAIL if name in MUST_BE_ALIKE else WARNING, said_by))
    return tuple(found)


def _by_weight(name: str) -> tuple[bool, bool, str]:
    return name not in MUST_BE_ALIKE, name.isupper(), name


def _most_first(values: Mapping[str, list[int]]) -> list[tuple[str, list[int]]]:
    return sorted(values.items(), key=lambda item: (-len(item[1]), item[1]))


def describe(difference: FactDifference) -> str:
    """One line: "nccl is 2.28.9 in ranks 0-6, 2.27.3 in ranks 7"."""
    said = ", ".join(f"{value.value} in rank {value.ranks}" for value in difference.values)
    return f"{difference.fact} is {said}"
