"""One result out of those of a check's processes, one a GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Sequence

from envsmith.validator.devices import Device
from envsmith.wire.results import CRASH, FAIL, PASS, SKIP, TIMEOUT, CheckResult, Metric

_WORST_FIRST = (CRASH, TIMEOUT, FAIL, SKIP, PASS)


def merge(parts: Sequence[tuple[Device | None, CheckResult]]) -> CheckResult:
    """The result of a check over its GPUs, in their order; that of a check that ran in one process, as it is.

    The worst status counts, with the log of the process that had it; metrics get the GPU as a prefix,
    "cuda0.rate_tflops"; messages are told apart where they differ.
    """
    ran = sorted(((device, result) for device, result in parts if device is not None), key=lambda part: part[0].index)
    if not ran:
        return parts[0][1]
    worst = min((result for _, result in ran), key=lambda result: _WORST_FIRST.index(result.status))
    return replace(
        worst,
        seconds=max(result.seconds for _, result in ran),
        message=_message(ran),
        metrics=tuple(
            Metric(f"cuda{device.index}.{metric.name}", metric.value, metric.limit)
            for device, result in ran
            for metric in result.metrics
        ),
        ran_on=tuple(device.label for device, result in ran if result.status == PASS),
    )


def _message(ran: Sequence[tuple[Device, CheckResult]]) -> str:
    messages = {result.message for _, result in ran}
    if len(messages) == 1:
        return messages.pop()
    return "; ".join(f"cuda:{device.index}: {result.message or result.status}" for device, result in ran)
