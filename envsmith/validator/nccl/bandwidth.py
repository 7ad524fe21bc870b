"""How fast the collectives are, by the definitions of nccl-tests (its doc/PERFORMANCE.md).

The algorithm's bandwidth is the size of the whole message over the time. The bus bandwidth is that times what each
link must carry of it, so that it can be compared with the link's own rate whatever the number of ranks.
"""

from __future__ import annotations

from typing import Any, Callable

from envsmith.validator.nccl.collectives import Group
from envsmith.validator.ranks import Stage
from envsmith.wire.results import Metric

SIZE_BYTES = 128 << 20
_ELEMENT_BYTES = 4  # float32

# A window is long enough for the time to start its calls not to count; the best of several is what the links can do.
_WINDOW_S = 0.02
_WINDOWS = 5
# Each sum over n ranks makes values up to n times as large: so many in a row stay finite in float32 below 200 ranks.
_REPEATS_MAX = 16

Timed = Callable[[Callable[[], object], int], float]


def bus_factor(collective: str, world: int) -> float:
    """Bus bandwidth over algorithm bandwidth."""
    part = (world - 1) / world
    return {"all-reduce": 2 * part, "all-gather": part, "reduce-scatter": part, "broadcast": 1.0}[collective]


def bandwidths(collective: str, world: int, size_bytes: int, seconds: float) -> list[Metric]:
    """Both bandwidths of the all-reduce; the bus bandwidth of the others, under their name."""
    algorithm = size_bytes / seconds / 1e9
    bus = Metric("bus_bandwidth_gb_s", round(algorithm * bus_factor(collective, world), 3))
    if collective != "all-reduce":
        return [Metric(f"{collective.replace('-', '_')}_{bus.name}", bus.value)]
    return [Metric("size_bytes", size_bytes), Metric("algorithm_bandwidth_gb_s", round(algorithm, 3)), bus]


def measure(group: Group, timed: Timed, stage: Stage, size_bytes: int = SIZE_BYTES) -> list[Metric]:
    """Time each collective on a message of about size_bytes, which is cut to a multiple of the number of ranks."""
    torch, world = group.torch, group.world
    count = size_bytes // _ELEMENT_BYTES // world * world
    whole = torch.randn(count, device=group.place)
    part = torch.randn(count // world, device=group.place)
    dist = torch.distributed
    calls: dict[str, Callable[[], object]] = {
        "all-reduce": lambda: dist.all_reduce(whole),
        "all-gather": lambda: dist.all_gather_into_tensor(whole, part),
        "reduce-scatter": lambda: dist.reduce_scatter_tensor(part, whole),
        "broadcast": lambda: dist.broadcast(whole, src=0),
    }
    metrics = []
    for name, call in calls.items():
        stage(f"measuring the {name}")
        seconds = _best_window(group, call, timed, whole.normal_)
        metrics += bandwidths(name, world, count * _ELEMENT_BYTES, seconds)
    return metrics


def _best_window(group: Group, call: Callable[[], object], timed: Timed, refill: Callable[[], object]) -> float:
    """Seconds a call, of the best window, as the slowest rank saw it."""
    timed(call, 1)  # the first call connects the ranks
    estimate = _slowest(group, [timed(call, 2)])[0]
    repeats = max(1, min(_REPEATS_MAX, int(_WINDOW_S / estimate)))
    windows = []
    for _ in range(_WINDOWS):
        refill()
        _slowest(group, [0.0])  # so that all ranks begin together
        windows.append(timed(call, repeats))
    return min(_slowest(group, windows))


def _slowest(group: Group, seconds: list[float]) -> list[float]:
    """The largest of all ranks, element by element: the same on every rank."""
    torch = group.torch
    tensor = torch.tensor(seconds, dtype=torch.float64, device=group.place)
    torch.distributed.all_reduce(tensor, op=torch.distributed.ReduceOp.MAX)
    return [float(value) for value in tensor.cpu()]


def timed_on_gpu(torch: Any, until: Callable[[Callable[[], bool]], None]) -> Timed:
    """A clock for work on the current stream, by its own events: seconds for each of several calls.

    until: waits for what is queued, given a function that says whether it is done.
    """

    def timed(call: Callable[[], object], repeats: int) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(repeats):
            call()
        end.record()
        until(end.query)
        end.synchronize()
        return float(start.elapsed_time(end)) / 1000 / repeats

    return timed
