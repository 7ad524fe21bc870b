"""Collectives with every element of every result verified, on random inputs that each rank can make for all.

What a rank gets is compared with what the inputs of all ranks give: integers and what is only moved exactly, sums of
floats within their rounding. Results begin as poison and lie between two poisoned guards, one element from where the
allocator puts them, so that what was never written, written beside, or right for aligned memory only is seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Callable, Iterable

from envsmith.validator.check import CheckFailed
from envsmith.validator.checks.numerics import EPSILON, judge_elements
from envsmith.validator.ranks import Stage

# Elements of the whole message: less than a packet, odd, and megabytes in channels that it does not divide into.
COUNTS = (1, 3, 1027, 1_000_003)
INTEGERS = ("int64", "int32")
FLOATS = ("float32", "float16", "bfloat16")
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "broadcast")

# Small enough that a sum over 2**20 ranks stays within the type.
_RANGE = {"int64": 2**40, "int32": 2**10}
_INTEGER_POISON = -0x5A5A5A5A


@dataclass(frozen=True)
class Case:
    """One collective to verify. count: elements of the whole message, over all ranks."""

    collective: str
    dtype: str
    count: int

    def __str__(self) -> str:
        return f"{self.collective} of {self.dtype} ({self.count} elements)"


@dataclass(frozen=True)
class Group:
    """The group as one rank sees it. seed: the same for all ranks of a run, and fresh for each run."""

    torch: Any
    rank: int
    world: int
    place: Any
    seed: int


def cases(dtypes: Iterable[str], counts: Iterable[int] = COUNTS) -> list[Case]:
    """Every collective, for every type and size."""
    return [Case(name, dtype, count) for dtype in dtypes for count in counts for name in COLLECTIVES]


def verify(group: Group, plan: list[Case], stage: Stage) -> tuple[list[str], float]:
    """Run the cases; return what was wrong and the largest error of a sum of floats, as a part of its bound.

    A wrong result does not end it: the other ranks would wait for this one for ever.
    """
    inputs = [_Inputs(group.torch, group.seed + other) for other in range(group.world)]
    problems, worst = [], 0.0
    for number, case in enumerate(plan, start=1):
        stage(f"in collective {number}, {case}")
        try:
            worst = max(worst, _RUNNERS[case.collective](group, case, inputs, number))
        except CheckFailed as failed:
            problems.append(f"{case}: {failed.message}")
    return problems, worst


class _Inputs:
    """The random numbers of one rank: made once, and cut to each case from another place."""

    def __init__(self, torch: Any, seed: int) -> None:
        self._torch = torch
        self._generator = torch.Generator().manual_seed(seed)
        self._base: dict[str, Any] = {}

    def cut(self, case: Case, count: int, number: int) -> Any:
        """`count` elements for the case of that number, on the CPU."""
        torch = self._torch
        kind = case.dtype if case.dtype in INTEGERS else "float32"
        base = self._base.get(kind)
        if base is None or len(base) < count + number:
            length = count + 4096
            if kind in INTEGERS:
                bounds = (-_RANGE[kind], _RANGE[kind])
                base = torch.randint(*bounds, (length,), generator=self._generator, dtype=getattr(torch, kind))
            else:
                base = torch.randn(length, generator=self._generator)
            self._base[kind] = base
        return base[number : number + count].to(getattr(torch, case.dtype))


def _part(case: Case, world: int) -> int:
    """Elements of one rank's part of the message: odd, so that the parts are not aligned."""
    return max(1, case.count // world) | 1


class _Result:
    """Memory for a result: poisoned, unaligned, and guarded on both sides."""

    def __init__(self, group: Group, case: Case, count: int) -> None:
        dtype = getattr(group.torch, case.dtype)
        self._poison = _INTEGER_POISON if case.dtype in INTEGERS else math.nan
        self._whole = group.torch.full((count + 2,), self._poison, dtype=dtype, device=group.place)
        self.part = self._whole[1:-1]

    def read(self) -> Any:
        """The result on the CPU. Raises CheckFailed if anything was written beside it."""
        whole = self._whole.cpu()
        guards = (whole[0].item(), whole[-1].item())
        if not all(math.isnan(g) if math.isnan(self._poison) else g == self._poison for g in guards):
            raise CheckFailed("memory beside the result was written")
        return whole[1:-1]


def _all_reduce(group: Group, case: Case, inputs: list[_Inputs], number: int) -> float:
    given = [source.cut(case, case.count, number) for source in inputs]
    result = _Result(group, case, case.count)
    result.part.copy_(given[group.rank])
    group.torch.distributed.all_reduce(result.part)
    return _judge_sum(result.read(), given, case)


def _reduce_scatter(group: Group, case: Case, inputs: list[_Inputs], number: int) -> float:
    count = _part(case, group.world)
    given = [source.cut(case, count * group.world, number) for source in inputs]
    result = _Result(group, case, count)
    sent = _Result(group, case, count * group.world)
    sent.part.copy_(given[group.rank])
    group.torch.distributed.reduce_scatter_tensor(result.part, sent.part)
    mine = slice(count * group.rank, count * (group.rank + 1))
    return _judge_sum(result.read(), [tensor[mine] for tensor in given], case)


def _all_gather(group: Group, case: Case, inputs: list[_Inputs], number: int) -> float:
    count = _part(case, group.world)
    given = [source.cut(case, count, number) for source in inputs]
    result = _Result(group, case, count * group.world)
    group.torch.distributed.all_gather_into_tensor(result.part, given[group.rank].to(group.place))
    got = result.read()
    wrong = [rank for rank in range(group.world) if not got[count * rank : count * (rank + 1)].equal(given[rank])]
    if wrong:
        raise CheckFailed(f"what came from rank {', '.join(map(str, wrong))} is wrong")
    return 0.0


def _broadcast(group: Group, case: Case, inputs: list[_Inputs], number: int) -> float:
    root = number % group.world
    given = inputs[root].cut(case, case.count, number)
    result = _Result(group, case, case.count)
    if group.rank == root:
        result.part.copy_(given)
    group.torch.distributed.broadcast(result.part, src=root)
    if not result.read().equal(given):
        raise CheckFailed(f"what came from rank {root} is wrong")
    return 0.0


def _judge_sum(got: Any, given: list[Any], case: Case) -> float:
    """Compare a sum over ranks with that of their inputs; return its error as a part of the bound."""
    if case.dtype in INTEGERS:
        wrong = int((got != sum(given[1:], given[0])).sum())
        if wrong:
            raise CheckFailed(f"{wrong} of {len(got)} elements are wrong")
        return 0.0
    exact = sum(tensor.double() for tensor in given)
    # Each of the world - 1 additions rounds by at most half an epsilon of a partial sum, itself at most sum of |x|,
    # whatever the order (ring, tree, in the switch): twice that.
    bound = len(given) * EPSILON[case.dtype] * sum(tensor.double().abs() for tensor in given)
    return float(judge_elements("sum_error_ratio", got.double(), exact, bound).value)


_Runner = Callable[[Group, Case, "list[_Inputs]", int], float]
_RUNNERS: dict[str, _Runner] = {
    "all-reduce": _all_reduce,
    "all-gather": _all_gather,
    "reduce-scatter": _reduce_scatter,
    "broadcast": _broadcast,
}
