"""How fast NCCL's collectives are over all visible GPUs, and over which transport and with which algorithm.

What it proves: the bus bandwidth of all-reduce, all-gather, reduce-scatter and broadcast on a large message, by the
definitions of nccl-tests: the best of several windows, as the slowest rank saw it. Transport, algorithm and protocol
are those that ran, read from NCCL's own output: a rate is comparable only with one of the same three. NVLink multicast
(NVLS) is used or not as the environment has it. With one GPU there is nothing to measure.
"""

from __future__ import annotations

from envsmith.validator.check import MACHINE_ALONE, CheckContext, CheckOutcome, CheckSkipped, check
from envsmith.validator.checks.torch_gpu import labels
from envsmith.validator.conditions import Watch
from envsmith.validator.devices import Device
from envsmith.validator.nccl.bandwidth import measure, timed_on_gpu
from envsmith.validator.nccl.collectives import Group
from envsmith.validator.nccl.run import CHECK_LIMIT_S, nccl_torch, run_group, told_choice, told_transport
from envsmith.validator.nvml import NvmlGpu
from envsmith.validator.ranks import Stage
from envsmith.wire.results import STANDARD, Metric

# NVML_NVLINK_MAX_LINKS, and nvmlDeviceGetNvLinkVersion's numbers as generations (nvml.h).
_NVLINKS_MAX = 18
_NVLINK_GENERATIONS = {1: 1.0, 2: 2.0, 3: 2.2, 4: 3.0, 5: 3.1, 6: 4.0, 7: 5.0}


@check(
    id="nccl-bandwidth", title="NCCL bandwidth over all GPUs", limit_s=CHECK_LIMIT_S, needs_gpu=True, needs_torch=True,
    requires=("nccl-all-reduce",), level=STANDARD, claims=MACHINE_ALONE, optional=True,
)  # fmt: skip
def nccl_bandwidth(context: CheckContext) -> CheckOutcome:
    """Measure on all ranks; the figures are the same on each."""
    torch = nccl_torch()
    world = len(context.devices)
    if world < 2:
        what = "MIG slices, which NCCL does not join" if context.devices[0].is_slice else "one GPU"
        raise CheckSkipped(f"{what}: there is no link between GPUs to measure")

    def work(group: Group, stage: Stage) -> dict[str, list[Metric]]:
        watch = Watch(context.devices[group.rank])
        watch.before()
        measured = measure(group, timed_on_gpu(torch, watch.until), stage)
        return {"measured": measured, "beside": list(watch.metrics())}

    values, log = run_group(torch, context, work)
    measured = [Metric(**metric) for metric in values[0]["measured"]]
    beside = [
        Metric(f"cuda{device.index}.{metric['name']}", metric["value"], metric["limit"])
        for device, value in zip(context.devices, values)
        for metric in value["beside"]
    ]
    by_name = {metric.name: metric.value for metric in measured}
    transport = Metric("transport", told_transport(log))
    algorithm, protocol = told_choice(log, "AllReduce", int(by_name["size_bytes"]))
    message = (
        f"all-reduce at {by_name['bus_bandwidth_gb_s']:g} GB/s on the bus, {algorithm.value} over {transport.value}"
    )
    metrics = (
        Metric("ranks", world),
        *measured,
        transport,
        algorithm,
        protocol,
        *_nvlinks(context.devices[0]),
        *beside,
    )
    return CheckOutcome(message, metrics, labels(context.devices))


def _nvlinks(device: Device) -> list[Metric]:
    """Active NVLinks of a GPU and their generation, as far as NVML tells."""
    gpu = NvmlGpu(device)
    states = [gpu.of_gpu("nvmlDeviceGetNvLinkState", link) for link in range(_NVLINKS_MAX)]
    active = [link for link, state in enumerate(states) if state == 1]
    if not active:
        return [Metric("nvlink_links", 0)] if 0 in states else []
    generation = _NVLINK_GENERATIONS.get(gpu.of_gpu("nvmlDeviceGetNvLinkVersion", active[0]))
    return [
        Metric("nvlink_links", len(active)),
        *([Metric("nvlink_generation", generation)] if generation is not None else []),
    ]
