"""An NCCL all-reduce over all visible GPUs, one process each, with the sums verified.

What it proves: NCCL initialises with the links that there are, and every rank gets the right sum of every
element, for integers exactly. With one GPU there is one rank, and no link between GPUs is tested.
The user's NCCL_* variables are in force as they are; none is set here.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from envsmith.validator.check import CheckContext, CheckFailed, CheckOutcome, CheckSkipped, CheckTimedOut, check
from envsmith.validator.checks.numerics import EPSILON, judge_elements
from envsmith.validator.checks.torch_gpu import labels, require_cuda_build
from envsmith.validator.ranks import RankAnswer, Stage, run_ranks
from envsmith.wire.results import Metric

_LIMIT_S = 60.0
# Of the limit, kept for naming the rank that hangs and for ending the others.
_REPORT_S = 8.0

# an odd number of elements, so that they do not divide evenly into channels and ranks
_COUNT = 1_000_003
_TIMED_BYTES = 128 << 20
_WARM_UP, _REPEATS = 3, 10


@check(
    id="nccl-all-reduce", title="NCCL all-reduce over all GPUs", limit_s=_LIMIT_S, needs_gpu=True, needs_torch=True,
    requires=("cuda-kernel-torch",),
)  # fmt: skip
def nccl_all_reduce(context: CheckContext) -> CheckOutcome:
    """Fork one rank a GPU from this process, which never touches CUDA itself."""
    import torch

    require_cuda_build(torch)
    if not (torch.distributed.is_available() and torch.distributed.is_nccl_available()):
        raise CheckSkipped("this torch was built without NCCL")
    world = len(context.devices)
    seed = int.from_bytes(os.urandom(6), "little")
    meeting = Path(context.scratch) / "nccl-meeting"
    answers = run_ranks(
        lambda rank, stage: _rank(torch, (rank, world, seed), meeting, stage),
        world,
        _LIMIT_S - _REPORT_S,
        context.scratch,
    )
    _judge(answers)
    metrics = (Metric("ranks", world), *(Metric(**metric) for metric in answers[0].value["metrics"]))
    alone = "" if world > 1 else " (one rank: no link between GPUs was tested)"
    return CheckOutcome(f"every sum right on {world} rank(s){alone}", metrics, labels(context.devices))


def _judge(answers: list[RankAnswer]) -> None:
    """Raise CheckFailed or CheckTimedOut for what the ranks ran into, the root of it first."""
    told = [f"rank {a.rank}: {a.value['error']}" for a in answers if a.value is not None and a.value["error"]]
    died = [
        f"rank {a.rank} died while {a.stage}: {a.signal or a.last_line}"
        for a in answers
        if a.value is None and not a.timed_out
    ]
    hung = [f"rank {a.rank} hung while {a.stage}" for a in answers if a.timed_out]
    if told or died:
        raise CheckFailed("; ".join([*told, *died, *hung]))
    if hung:
        raise CheckTimedOut(f"after {_LIMIT_S - _REPORT_S:g} s: {'; '.join(hung)}")


def _rank(torch: Any, place: tuple[int, int, int], meeting: Path, stage: Stage) -> dict[str, Any]:
    """One rank's life. place: rank, number of ranks, seed of the run."""
    rank, world, _ = place
    try:
        stage("making its CUDA context")
        torch.set_num_threads(1)
        torch.cuda.set_device(rank)
        torch.zeros(1, device="cuda")
        stage("meeting the other ranks")
        torch.distributed.init_process_group(
            "nccl", init_method=f"file://{meeting}", rank=rank, world_size=world, timeout=timedelta(seconds=_LIMIT_S)
        )
        metrics = _verify(torch, place, stage)
        if world > 1:
            metrics += _time(torch, world, stage)
        stage("leaving the group")
        torch.distributed.destroy_process_group()
    except (CheckFailed, RuntimeError) as error:
        return {"error": " ".join(str(error).split()), "metrics": []}
    return {"error": "", "metrics": metrics}


def _verify(torch: Any, place: tuple[int, int, int], stage: Stage) -> list[Metric]:
    """Compare all sums with those of the inputs of all ranks, which every rank can make from the seed."""
    rank, world, seed = place
    integers, floats = [], []
    for other in range(world):
        generator = torch.Generator().manual_seed(seed + other)
        integers.append(torch.randint(-(2**40), 2**40, (_COUNT,), generator=generator))
        floats.append(torch.randn(_COUNT, generator=generator))
    stage("summing integers")
    got = _all_reduce(torch, integers[rank])
    if not torch.equal(got, sum(integers[1:], integers[0])):
        raise CheckFailed("a sum of 64-bit integers is wrong")
    stage("summing floats")
    got = _all_reduce(torch, floats[rank])
    exact = sum(tensor.double() for tensor in floats)
    # each of the world - 1 additions rounds by at most half an epsilon of a partial sum, itself at most sum of |x|
    bound = world * EPSILON["float32"] * sum(tensor.double().abs() for tensor in floats)
    return [judge_elements("sum_error_ratio", got.double(), exact, bound)]


def _all_reduce(torch: Any, mine: Any) -> Any:
    on_gpu = mine.cuda()
    torch.distributed.all_reduce(on_gpu)
    return on_gpu.cpu()


def _time(torch: Any, world: int, stage: Stage) -> list[Metric]:
    """Bandwidth by the definition of nccl-tests: bytes / time, and for the bus 2 * (n - 1) / n of that."""
    stage("measuring its bandwidth")
    data = torch.randn(_TIMED_BYTES // 4, device="cuda")
    for _ in range(_WARM_UP):
        torch.distributed.all_reduce(data, op=torch.distributed.ReduceOp.AVG)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(_REPEATS):
        # an average, so that the values do not grow from one to the next
        torch.distributed.all_reduce(data, op=torch.distributed.ReduceOp.AVG)
    end.record()
    torch.cuda.synchronize()
    seconds = start.elapsed_time(end) / 1000 / _REPEATS
    algorithm = _TIMED_BYTES / seconds / 1e9
    return [
        Metric("size_bytes", _TIMED_BYTES),
        Metric("algorithm_bandwidth_gb_s", round(algorithm, 2)),
        Metric("bus_bandwidth_gb_s", round(algorithm * 2 * (world - 1) / world, 2)),
    ]
