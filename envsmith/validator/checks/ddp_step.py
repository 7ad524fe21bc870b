"""Two DistributedDataParallel training steps over all GPUs, one process each, with different data in each.

What it proves: every rank starts from rank 0's parameters though it made its own; after each backward pass all ranks
hold the same gradients bit for bit, and those are the mean over all ranks' data, computed in float64 on the CPU; the
optimizer steps right and to the same parameters everywhere. The backend is NCCL, or gloo where torch has none. With
one GPU there is one rank: nothing between GPUs is tested.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import math
import os
import signal
from pathlib import Path
from typing import Any

from envsmith.validator.check import LIGHT, CheckContext, CheckFailed, CheckOutcome, CheckSkipped, CheckTimedOut, check
from envsmith.validator.checks.numerics import EPSILON, judge_elements, judge_norm
from envsmith.validator.checks.same_bits import digest
from envsmith.validator.checks.torch_gpu import labels, require_cuda_build
from envsmith.validator.devices import Device
from envsmith.validator.nccl.seat import Seat, join
from envsmith.validator.ranks import RankAnswer, Stage, run_ranks
from envsmith.wire.results import Metric

# Of a rank's work. Its import of what DistributedDataParallel rests on comes before: a thousand files, which take
# seconds, over a network file system many.
_WORK_LIMIT_S = 60
_IMPORT_LIMIT_S = 90.0
# For ending the ranks.
_REPORT_S = 15.0

_INPUTS, _HIDDEN, _OUTPUTS, _BATCH = 128, 256, 32, 32
_STEPS = 2
_LEARNING_RATE = 0.5
# Small enough that the gradients travel in several pieces, while others are still being computed.
_BUCKET_MB = 0.1


@check(
    id="ddp-step", title="DistributedDataParallel steps over all GPUs", needs_gpu=True, needs_torch=True,
    limit_s=_IMPORT_LIMIT_S + _WORK_LIMIT_S + _REPORT_S, requires=("nccl-all-reduce",), claims=LIGHT,
    slow=True,
)  # fmt: skip
def ddp_step(context: CheckContext) -> CheckOutcome:
    """Fork one rank a GPU from this process, which never touches CUDA itself."""
    import torch

    require_cuda_build(torch)
    if not torch.distributed.is_available():
        raise CheckSkipped("this torch was built without torch.distributed")
    backend = "nccl" if torch.distributed.is_nccl_available() else "gloo"
    world, seed = len(context.devices), int.from_bytes(os.urandom(6), "little")

    def body(rank: int, stage: Stage) -> object:
        start_the_clock(stage)
        place = torch.device("cuda", rank)
        stage("making its CUDA context")
        torch.cuda.set_device(place)
        torch.zeros(1, device=place)
        return train(torch, Seat(rank, world, rank, Path(context.scratch), "ddp"), (backend, place, seed), stage)

    answers = run_ranks(body, world, _IMPORT_LIMIT_S + _WORK_LIMIT_S, context.scratch)
    errors = judge(answers, context.devices)
    alone = " (one rank: nothing between GPUs was tested)" if world == 1 else ""
    ranks = f"{world} rank{'s' if world > 1 else ''}"
    return CheckOutcome(
        f"{_STEPS} steps on {ranks} with {backend}: gradients and parameters right and the same{alone}",
        (Metric("ranks", world), Metric("backend", backend), *errors),
        labels(context.devices),
    )


def start_the_clock(stage: Stage) -> None:
    """Import what takes long, then let SIGALRM end this process when its work takes too long, wherever it hangs.

    The ranks import it, and not the process that they are forked from: nothing may have asked for the number of GPUs
    there, as torch then refuses to use them after a fork.
    """
    stage("importing torch._dynamo")
    # broken, it need not matter (torch 2.0 has it ask for numpy); where it does, the step that needs it says so
    with contextlib.suppress(Exception):
        importlib.import_module("torch._dynamo")
    signal.alarm(_WORK_LIMIT_S)


def train(torch: Any, seat: Seat, run: tuple[str, Any, int], stage: Stage) -> dict[str, Any]:
    """One rank's life: what it held after each step, and on rank 0 what is wrong with that.

    run: backend, the rank's torch.device, seed of all ranks' data.
    """
    backend, place, seed = run
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("highest")  # the bound is that of float32, whatever the environment asks for
    stage("meeting the other ranks")
    join(torch, seat, backend)
    torch.manual_seed(seed + seat.rank)  # parameters of its own, which those of rank 0 must replace
    module = make_module(torch).to(place)
    held = [_digest_of(torch, module.parameters())]
    stage("sharing out the parameters of rank 0")
    model = torch.nn.parallel.DistributedDataParallel(
        module, device_ids=[place.index] if place.type == "cuda" else None, bucket_cap_mb=_BUCKET_MB
    )
    held.append(_digest_of(torch, module.parameters()))
    optimizer = torch.optim.SGD(module.parameters(), lr=_LEARNING_RATE)
    told: dict[str, Any] = {"held": held, "metrics": [], "problems": []}
    for step in range(_STEPS):
        before = copy.deepcopy(module).cpu().double()
        stage(f"step {step + 1}: summing gradients")
        optimizer.zero_grad(set_to_none=True)
        inputs, targets = (values.to(place) for values in make_batch(torch, seed, step, seat.rank))
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        held.append(_digest_of(torch, (parameter.grad for parameter in module.parameters())))
        stage(f"step {step + 1}: changing parameters")
        optimizer.step()
        held.append(_digest_of(torch, module.parameters()))
        if seat.rank == 0:
            _compare_step(torch, module, before, (seed, step, seat.world), told)
    stage("leaving the group")
    torch.distributed.destroy_process_group()
    return told


def make_module(torch: Any) -> Any:
    """Three linear layers with a smooth function between: a gradient with a kink would have no error bound."""
    nn = torch.nn
    return nn.Sequential(
        nn.Linear(_INPUTS, _HIDDEN), nn.Tanh(), nn.Linear(_HIDDEN, _HIDDEN), nn.Tanh(), nn.Linear(_HIDDEN, _OUTPUTS)
    )


def make_batch(torch: Any, seed: int, step: int, rank: int) -> tuple[Any, Any]:
    """Inputs and targets of one rank in one step, on the CPU; everybody can make those of every rank."""
    generator = torch.Generator().manual_seed(seed + 1_000_003 * (step + 1) + rank)
    return torch.randn(_BATCH, _INPUTS, generator=generator), torch.randn(_BATCH, _OUTPUTS, generator=generator)


def _compare_step(torch: Any, module: Any, before: Any, run: tuple[int, int, int], told: dict[str, Any]) -> None:
    """Compare gradients and parameters with float64 on the CPU. before: the module before the step, in float64.

    run: seed, step, number of ranks. A problem is kept, not raised: the other ranks wait for this one.
    """
    seed, step, world = run
    batches = [make_batch(torch, seed, step, rank) for rank in range(world)]
    inputs, targets = (torch.cat(parts).double() for parts in zip(*batches))
    # batches are of one size: the mean over all samples is the mean of the ranks' means
    torch.nn.functional.mse_loss(before(inputs), targets).backward()
    name = f"step{step + 1}"
    try:
        for (label, after), was in zip(module.named_parameters(), before.parameters()):
            got, new = after.grad.cpu().double(), after.detach().cpu().double()
            told["metrics"].append(judge_norm(f"{name}.{label}.gradient_error", got, was.grad, gradient_limit(world)))
            # two roundings, of the change and of the sum
            bound = EPSILON["float32"] * (was.detach().abs() + 2 * _LEARNING_RATE * got.abs())
            exact = was.detach() - _LEARNING_RATE * got
            told["metrics"].append(judge_elements(f"{name}.{label}.update_error_ratio", new, exact, bound))
    except CheckFailed as failed:
        told["problems"].append(failed.message)


def gradient_limit(world: int) -> float:
    """How far a gradient may be off, relative to its norm.

    A product with n terms an element rounds by about sqrt(n) * eps of its norm at the most, as roundings have either
    sign. A gradient has three products of the forward pass behind it and up to three of the backward pass, and its
    own, over the batch; tanh and the loss add an eps each, averaging over ranks one a rank. Twice that, since errors
    of one layer are larger against a small difference that the next one makes of it.
    """
    terms = (_INPUTS, _HIDDEN, _HIDDEN, _OUTPUTS, _HIDDEN, _BATCH)
    return 2 * EPSILON["float32"] * (sum(math.sqrt(n) for n in terms) + 5 + world)


def _digest_of(torch: Any, tensors: Any) -> str:
    return digest(torch.cat([tensor.detach().flatten() for tensor in tensors]))


def judge(answers: list[RankAnswer], devices: tuple[Device, ...]) -> tuple[Metric, ...]:
    """The worst errors of all. Raises CheckFailed or CheckTimedOut for what the ranks ran into, its root first."""
    hung = [a for a in answers if a.value is None and (a.timed_out or a.signal == "SIGALRM")]
    # a signal before an error: that of the others is often only that this one is gone
    died = sorted((a for a in answers if a.value is None and a not in hung), key=lambda a: a.signal is None)
    told = [f"rank {a.rank} died while {a.stage}: {a.signal or a.last_line}" for a in died]
    told += [f"rank {a.rank} hung while {a.stage}" for a in hung]
    if died:
        raise CheckFailed("; ".join(told))
    if hung:
        raise CheckTimedOut(f"after {_WORK_LIMIT_S} s: {'; '.join(told)}")
    values = [answer.value for answer in answers]
    metrics = _worst(values[0]["metrics"])
    problems = [*_differences([value["held"] for value in values], devices), *values[0]["problems"]]
    if problems:
        raise CheckFailed("; ".join(problems), metrics)
    return metrics


def _differences(held: list[list[str]], devices: tuple[Device, ...]) -> list[str]:
    """What was not the same on every rank; the first of it explains the rest."""
    if held[0][0] != held[0][1]:
        return ["rank 0 lost its own parameters when they were shared out"]
    if len(held) > 1 and len({own for own, *_ in held}) < len(held):
        return ["ranks had the same parameters before they were shared out: their random numbers are not their own"]
    steps = [f"{what} of step {step + 1}" for step in range(_STEPS) for what in ("the gradients", "the parameters")]
    for column, what in enumerate(["the first parameters", *steps], start=1):
        others = [rank for rank, row in enumerate(held) if row[column] != held[0][column]]
        if others:
            names = ", ".join(f"rank {rank} on {devices[rank].label}" for rank in others)
            return [f"{what} differ from those of rank 0 on {names}"]
    return []


def _worst(metrics: list[dict[str, Any]]) -> tuple[Metric, ...]:
    """One metric for gradients and one for updates: the largest of all steps and parameters."""
    worst: dict[str, Metric] = {}
    for metric in (Metric(**plain) for plain in metrics):
        kind = metric.name.rpartition(".")[2]
        if kind not in worst or float(metric.value) > float(worst[kind].value):
            worst[kind] = Metric(kind, metric.value, metric.limit)
    return tuple(worst.values())
