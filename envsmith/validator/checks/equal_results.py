"""The same operations on the same inputs on every GPU: the results must be the same, bit for bit.

What it proves: GPUs of one model agree with each other, and each with itself when it computes the same again, in
matrix products, a convolution, sums, a softmax and a sort. Only operations are used that give the same bits in every
run, so that a difference means a GPU that computes wrong. Rounding is no excuse: a single wrong bit is seen, which
tolerances elsewhere allow. GPUs of different models are not compared with each other.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

from envsmith.validator.check import CheckContext, CheckFailed, CheckOutcome, CheckTimedOut, check
from envsmith.validator.checks.numerics import poison
from envsmith.validator.checks.same_bits import digest
from envsmith.validator.checks.torch_gpu import labels, require_cuda_build
from envsmith.validator.devices import Device
from envsmith.validator.ranks import RankAnswer, Stage, run_ranks
from envsmith.wire.results import Metric

_RANKS_LIMIT_S = 60.0
_REPORT_S = 15.0
_REPEATS = 4
# Tensor cores for bfloat16 came with capability 8.0.
_BFLOAT16_MAJOR = 8
# Larger than any result below.
_POISON_FLOATS = 4 << 20

Operation = Callable[[], Any]


@dataclass(frozen=True)
class Difference:
    """A GPU whose result is not that of most of its model. alike: how many hold that one; 1 is no majority."""

    operation: str
    rank: int
    other: int
    alike: int


@check(
    id="equal-results", title="Same results on all GPUs", limit_s=_RANKS_LIMIT_S + _REPORT_S, needs_gpu=True,
    needs_torch=True, requires=("cuda-kernel-torch",), optional=True,
)  # fmt: skip
def equal_results(context: CheckContext) -> CheckOutcome:
    """Fork one process a GPU from this one, which never touches CUDA itself, and compare what they hold."""
    import torch

    require_cuda_build(torch)
    devices, seed = context.devices, int.from_bytes(os.urandom(6), "little")

    def body(rank: int, stage: Stage) -> object:
        stage("making its CUDA context")
        # for cuBLAS, which is initialised later: a workspace of one size gives one way to compute
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        place = torch.device("cuda", rank)
        torch.cuda.set_device(place)
        torch.zeros(1, device=place)
        return compute(torch, place, (seed, narrow_type(devices[rank])), _kept(context.scratch, rank), stage)

    answers = run_ranks(body, len(devices), _RANKS_LIMIT_S, context.scratch)
    require_answers(answers, devices)
    values = [answer.value for answer in answers]
    metrics = (Metric("operations", len(values[0]["digests"])), Metric("repeats", _REPEATS))
    differences = find_differences([value["digests"] for value in values], devices)
    problems = describe_unsteady([value["unsteady"] for value in values], devices)
    problems += [describe(torch, difference, devices, context.scratch) for difference in differences]
    if problems:
        raise CheckFailed("; ".join(problems), metrics)
    return CheckOutcome(describe_coverage(devices, len(values[0]["digests"])), metrics, labels(devices))


def narrow_type(device: Device) -> str:
    """The narrow floating-point type of this GPU's products."""
    return "bfloat16" if int(device.compute_capability.split(".")[0]) >= _BFLOAT16_MAJOR else "float16"


def compute(torch: Any, place: Any, what: tuple[int, str], kept: Path, stage: Stage) -> dict[str, Any]:
    """Do all operations several times; return digests, and how many elements were not the same again.

    what: seed of the inputs and the narrow type. kept: file for the results, for a look at the elements.
    """
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    results: dict[str, Any] = {}
    unsteady: dict[str, int] = {}
    for name, operation in operations(torch, place, *what).items():
        stage(f"computing: {name}")
        first = operation()
        for _ in range(_REPEATS - 1):
            # the first result is still held, so that what a kernel does not write is not by luck its value
            poison(torch, (_POISON_FLOATS,), place, torch.float32)
            wrong = int((operation() != first).sum())
            if wrong:
                unsteady[name] = max(wrong, unsteady.get(name, 0))
        results[name] = first.cpu()
    torch.save(results, kept)
    return {"digests": {name: digest(result) for name, result in results.items()}, "unsteady": unsteady}


def operations(torch: Any, place: Any, seed: int, narrow: str) -> dict[str, Operation]:
    """Operations without atomic additions, whose results do not depend on the order in which threads come.

    The inputs are made on the CPU from the seed, so they are the same everywhere.
    """
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> Any:
        return torch.randn(*shape, generator=generator).to(place)

    a, b, images, weights = random(1024, 1024), random(1024, 1024), random(8, 32, 48, 48), random(64, 32, 3, 3)
    kind = getattr(torch, narrow)
    # large enough for a tile on every multiprocessor
    c, d = random(2048, 1024).to(kind), random(1024, 2048).to(kind)
    integers = torch.randint(-(2**31), 2**31, (1 << 19,), generator=generator).to(place)
    return {
        f"{narrow} product": lambda: c @ d,
        "float32 product": lambda: a @ b,
        "float32 convolution": lambda: torch.nn.functional.conv2d(images, weights, padding=1),
        "float32 sums": lambda: torch.cat([a.sum(0), a.sum(1), a.sum().reshape(1)]),
        "softmax": lambda: torch.softmax(a, 1),
        "sort": lambda: torch.cat(list(integers.sort(stable=True))),
    }


def require_answers(answers: list[RankAnswer], devices: tuple[Device, ...]) -> None:
    """Raise CheckFailed or CheckTimedOut for a process that gave no results."""
    died = [a for a in answers if a.value is None and not a.timed_out]
    told = [f"{devices[a.rank].label} failed while {a.stage}: {a.signal or a.last_line}" for a in died]
    if died:
        raise CheckFailed("; ".join(told))
    hung = [f"{devices[a.rank].label} hung while {a.stage}" for a in answers if a.timed_out]
    if hung:
        raise CheckTimedOut(f"after {_RANKS_LIMIT_S:g} s: {'; '.join(hung)}")


def find_differences(digests: list[dict[str, str]], devices: tuple[Device, ...]) -> list[Difference]:
    """Hold each GPU's digests against those that most GPUs of its model have, or, without a majority, the first."""
    found = []
    for ranks in _groups(devices):
        for operation in digests[ranks[0]]:
            held = {rank: digests[rank][operation] for rank in ranks}
            # of equally many the one that came first
            most, alike = Counter(held.values()).most_common(1)[0]
            other = next(rank for rank in ranks if held[rank] == most)
            found += [Difference(operation, rank, other, alike) for rank in ranks if held[rank] != most]
    return found


def _groups(devices: tuple[Device, ...]) -> list[list[int]]:
    """Ranks of GPUs of one model."""
    names = dict.fromkeys(device.name for device in devices)
    return [[rank for rank, device in enumerate(devices) if device.name == name] for name in names]


def describe(torch: Any, difference: Difference, devices: tuple[Device, ...], scratch: str) -> str:
    """Which GPU, from how many others, in how many elements, and by how much at most."""
    ranks = (difference.rank, difference.other)
    mine, theirs = (
        torch.load(_kept(scratch, rank), weights_only=True)[difference.operation].double() for rank in ranks
    )
    # a NaN is in no difference, so elements are counted by !=
    largest = float((mine - theirs).abs().nan_to_num(0.0).max())
    size = f"{int((mine != theirs).sum())} of {mine.numel()} elements, at most by {largest:.3g}"
    if difference.alike > 1:
        whom = f"from the {difference.alike} GPUs of its model that agree"
        return f"{devices[ranks[0]].label} differs {whom} in the {difference.operation}: {size}"
    both = " and ".join(devices[rank].label for rank in sorted(ranks))
    return f"{both} differ in the {difference.operation}: {size} (two cannot tell which of them is right)"


def describe_unsteady(unsteady: list[dict[str, int]], devices: tuple[Device, ...]) -> list[str]:
    """GPUs that did not agree with themselves."""
    return [
        f"{devices[rank].label} gave different results of the same {operation}: {wrong} elements"
        for rank, operations_of in enumerate(unsteady)
        for operation, wrong in operations_of.items()
    ]


def describe_coverage(devices: tuple[Device, ...], count: int) -> str:
    """What was compared with what."""
    groups = _groups(devices)
    together = " and ".join(f"on {len(ranks)} {devices[ranks[0]].name}" for ranks in groups if len(ranks) > 1)
    alone = [devices[ranks[0]].label for ranks in groups if len(ranks) == 1]
    parts = [f"{count} operations equal bit for bit {together}"] if together else []
    if alone:
        parts.append(f"{', '.join(alone)}: compared with itself only, {_REPEATS} times")
    return "; ".join(parts)


def _kept(scratch: str, rank: int) -> Path:
    return Path(scratch) / f"results{rank}.pt"
