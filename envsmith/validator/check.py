"""What a check is: a frozen value around a body that returns what it proved, or raises why it did not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

from envsmith.validator.devices import Device
from envsmith.wire.results import STANDARD, Expectation, Metric

# What else may run while a check does.
SHARED = "shared"  # anything that is shared as well
LIGHT = "light"  # the same, and what is measured on its GPUs too: it works on the CPU and starts a few short kernels
GPU_ALONE = "gpu"  # nothing on the same GPU: for what is measured there
MACHINE_ALONE = "machine"  # nothing at all: for what is measured of the host's memory or of the links between GPUs


class CheckFailed(Exception):  # noqa: N818 - an outcome
    """The check ran and the answer is wrong. metrics: what had been measured by then."""

    def __init__(self, message: str, metrics: tuple[Metric, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.metrics = metrics


class CheckTimedOut(CheckFailed):
    """A part of the check gave no answer in time, and the body itself can say which."""


class CheckSkipped(Exception):  # noqa: N818 - an outcome
    """The check does not apply here; the reason is for people."""


@dataclass(frozen=True)
class CheckContext:
    """What a body may know of the run.

    devices: CUDA devices of the run. no_gpu_reason: why there is none to check, else None.
    scratch: an existing folder of this process's own, its working folder, removed after it.
    device: in a check that runs once a GPU, the one that it is run for; its process sees only that, as cuda:0.
    level: "quick", "standard" or "stress". stress_s: how long a check of level stress is to work, in seconds.
    """

    devices: tuple[Device, ...]
    no_gpu_reason: str | None
    expectation: Expectation | None
    scratch: str
    device: Device | None = None
    level: str = STANDARD
    stress_s: float = 60.0

    @property
    def only_device(self) -> Device:
        """The GPU of a check that runs once a GPU."""
        assert self.device is not None, "asked for in a check that does not run once a GPU"
        return self.device


@dataclass(frozen=True)
class CheckOutcome:
    """What a passed check proved: its numbers, and the devices it really ran on.

    Of a check that runs once a GPU, ran_on is left empty and the metrics have no prefix: the supervisor knows both.
    """

    message: str = ""
    metrics: tuple[Metric, ...] = ()
    ran_on: tuple[str, ...] = ()


Body = Callable[[CheckContext], CheckOutcome]


@dataclass(frozen=True)
class Check:
    """One check. It runs in a process of its own, which is killed after limit_s seconds.

    At level stress, that many seconds more than the stress itself takes.

    level: the lowest level at which it is run. per_gpu: the body runs once for each GPU, in a process that sees
    only that one; else once for all. claims: SHARED, LIGHT, GPU_ALONE or MACHINE_ALONE. optional: that it is skipped
    does not stand in the way of a certificate, as what it tests may rightly not be there (a compiler, a second GPU).
    requires: ids of checks without which this one says nothing. slow: takes several seconds where others take one,
    and is started before those. needs_torch: forked from the process that has
    imported torch. starts_host: the body is run by that process itself, before it serves the others.
    """

    id: str
    title: str
    body: Body
    limit_s: float
    needs_gpu: bool = False
    needs_torch: bool = False
    requires: tuple[str, ...] = ()
    level: str = STANDARD
    per_gpu: bool = False
    claims: str = SHARED
    optional: bool = False
    slow: bool = False
    starts_host: bool = False


def check(
    *,
    id: str,  # noqa: A002 - the field's name
    title: str,
    limit_s: float,
    **traits: Any,
) -> Callable[[Body], Check]:
    """Make a Check of a body; traits are further fields of it. A value comes back: nothing is registered anywhere."""

    def make(body: Body) -> Check:
        return Check(id, title, body, limit_s, **traits)

    return make
