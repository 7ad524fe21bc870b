"""The collective over all nodes: sums verified on every rank, and each rank's own times taken.

Each rank of it is a process of its own: with NCCL one a GPU, with gloo one a process of the launch. The user's
NCCL_* and GLOO_* variables are in force as they are; none is set here.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from envsmith.validator.check import CheckFailed
from envsmith.validator.checks.numerics import EPSILON, judge_elements
from envsmith.validator.cluster.meeting import first_line
from envsmith.validator.cluster.roles import NCCL, rounds
from envsmith.validator.ranks import RankAnswer, Stage

# An odd number of elements, so that they do not divide evenly into channels and ranks. Each rank makes the inputs of
# all: for a thousand ranks that is a second.
_COUNT = 100_003
_ROUNDS = 7
_WARM_UP = 2
# On a GPU of 1 TFLOP/s the work of a round takes half a second, on one of 50 some 10 ms.
_GPU_SIZE, _GPU_PRODUCTS = 4096, 4
# Some 0.1 s of one core: longer than the slices that a control group's quota is cut in.
_CPU_SIZE, _CPU_PRODUCTS = 1024, 2
_GPU_BYTES, _CPU_BYTES = 64 << 20, 4 << 20
_GPU_MESSAGE_BYTES, _CPU_MESSAGE_BYTES = 4 << 20, 1 << 20
_FLOAT_BYTES = 4


@dataclass(frozen=True)
class Seat:
    """One rank of the collective. local: its position among the ranks of this process, and of its GPUs.

    seed: of the run's inputs. visible: CUDA_VISIBLE_DEVICES of the GPUs of this process, None with gloo.
    """

    rank: int
    world: int
    local: int
    backend: str
    seed: int
    limit_s: float
    visible: str | None = None


def take_part(torch: Any, seat: Seat, store: Any, stage: Stage) -> dict[str, Any]:
    """Live one rank's life and return what it found, as plain data; see `answer_of`."""
    try:
        place = _place(torch, seat, stage)
        stage("meeting the other ranks")
        torch.distributed.init_process_group(
            seat.backend, store=store, rank=seat.rank, world_size=seat.world, timeout=timedelta(seconds=seat.limit_s)
        )
        found: dict[str, Any] = {"kind": torch.cuda.get_device_name(place) if place.type == "cuda" else "CPU"}
        found["error_ratio"] = _verify(torch, seat, place, stage)
        found.update(_time(torch, seat, place, stage))
        stage("leaving the group")
        # The process ends right after that, and runs no destructor: gloo of torch 2.6 was seen to hang for ever in
        # destroy_process_group when another rank had left already.
        _barrier(torch, place)
    except CheckFailed as error:
        return {"error": error.message}
    except (RuntimeError, OSError, ValueError) as error:
        return {"error": first_line(error)}
    return {**found, "error": ""}


def answer_of(answer: RankAnswer, seat: Seat) -> dict[str, Any]:
    """What one rank tells of itself, for rank 0 of the launch."""
    value = answer.value or {"error": f"died: {answer.signal or answer.last_line or 'no word'}"}
    stage, hung = answer.stage, answer.timed_out
    return {"rank": seat.rank, "local": seat.local, "stage": stage, "timed_out": hung, **value}


def _place(torch: Any, seat: Seat, stage: Stage) -> Any:
    """The torch.device of this rank."""
    torch.set_num_threads(1)
    if seat.backend != NCCL:
        return torch.device("cpu")
    stage("making its CUDA context")
    if seat.visible is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = seat.visible
    torch.cuda.set_device(seat.local)
    place = torch.device("cuda", seat.local)
    torch.zeros(1, device=place)
    return place


def _verify(torch: Any, seat: Seat, place: Any, stage: Stage) -> float:
    """Compare all sums with those of the inputs of all ranks, which every rank can make from the seed."""
    mine: tuple[Any, Any] = (None, None)
    integer_sum = torch.zeros(_COUNT, dtype=torch.int64)
    float_sum, size_sum = (torch.zeros(_COUNT, dtype=torch.float64) for _ in range(2))
    for rank in range(seat.world):
        generator = torch.Generator().manual_seed(seat.seed + rank)
        integers = torch.randint(-(2**40), 2**40, (_COUNT,), generator=generator)
        floats = torch.randn(_COUNT, generator=generator)
        integer_sum += integers
        float_sum += floats.double()
        size_sum += floats.double().abs()
        if rank == seat.rank:
            mine = integers, floats
    stage("summing integers")
    if not torch.equal(_all_reduce(torch, mine[0], place), integer_sum):
        raise CheckFailed("a sum of 64-bit integers is wrong")
    stage("summing floats")
    got = _all_reduce(torch, mine[1], place)
    # each of the world - 1 additions rounds by at most half an epsilon of a partial sum, itself at most sum of |x|
    metric = judge_elements("sum_error_ratio", got.double(), float_sum, seat.world * EPSILON["float32"] * size_sum)
    return float(metric.value)


def _all_reduce(torch: Any, mine: Any, place: Any) -> Any:
    there = mine.to(place, copy=True)
    torch.distributed.all_reduce(there)
    return there.cpu()


def _barrier(torch: Any, place: Any) -> None:
    """Return when all ranks have come here; unlike torch's own it asks for no guess at the GPU."""
    torch.distributed.all_reduce(torch.ones(1, device=place))
    _finish(torch, place)


def _finish(torch: Any, place: Any) -> None:
    if place.type == "cuda":
        torch.cuda.synchronize(place)


def _time(torch: Any, seat: Seat, place: Any, stage: Stage) -> dict[str, Any]:
    on_gpu = place.type == "cuda"
    stage("working alone, timed")
    work_s = _time_work(torch, place, *((_GPU_SIZE, _GPU_PRODUCTS) if on_gpu else (_CPU_SIZE, _CPU_PRODUCTS)))
    stage("summing, timed")
    size_bytes = _GPU_BYTES if on_gpu else _CPU_BYTES
    all_reduce_s = _time_all_reduce(torch, place, size_bytes)
    link_s: list[float] = []
    message = torch.randn((_GPU_MESSAGE_BYTES if on_gpu else _CPU_MESSAGE_BYTES) // _FLOAT_BYTES, device=place)
    for links in rounds(seat.world):
        _barrier(torch, place)
        for link in links:
            if seat.rank in link:
                other = link[1] if seat.rank == link[0] else link[0]
                stage(f"sending to and fro with rank {other} of the collective")
                seconds = _time_messages(torch, place, message, other, starts=seat.rank == link[0])
                link_s = seconds if seat.rank == link[0] else link_s
    return {"work_s": work_s, "all_reduce_s": all_reduce_s, "link_s": link_s, "size_bytes": size_bytes}


def _time_work(torch: Any, place: Any, size: int, products: int) -> list[float]:
    """Seconds of each round by this rank's own clock, which stands while it waits for the others."""
    a, b = (torch.randn(size, size, device=place) for _ in range(2))
    seconds = []
    for _ in range(_WARM_UP + _ROUNDS):
        _barrier(torch, place)
        started = time.perf_counter()
        for _ in range(products):
            torch.mm(a, b)
        _finish(torch, place)
        seconds.append(time.perf_counter() - started)
    return seconds[_WARM_UP:]


def _time_all_reduce(torch: Any, place: Any, size_bytes: int) -> list[float]:
    data = torch.randn(size_bytes // _FLOAT_BYTES, device=place)
    seconds = []
    for _ in range(_WARM_UP + _ROUNDS):
        _barrier(torch, place)
        started = time.perf_counter()
        # the maximum, so that the values do not grow from one round to the next
        torch.distributed.all_reduce(data, op=torch.distributed.ReduceOp.MAX)
        _finish(torch, place)
        seconds.append(time.perf_counter() - started)
    return seconds[_WARM_UP:]


def _time_messages(torch: Any, place: Any, message: Any, other: int, *, starts: bool) -> list[float]:
    """Seconds of a message there and back, by the clock of the rank that starts; the other one answers."""
    back = torch.empty_like(message)
    seconds = []
    for _ in range(_WARM_UP + _ROUNDS):
        started = time.perf_counter()
        if starts:
            torch.distributed.send(message, other)
            torch.distributed.recv(back, other)
        else:
            torch.distributed.recv(back, other)
            torch.distributed.send(back, other)
        _finish(torch, place)
        seconds.append(time.perf_counter() - started)
    return seconds[_WARM_UP:]
