"""What a check is: a frozen value around a body that returns what it proved, or raises why it did not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

from envsmith.validator.devices import Device
from envsmith.wire.results import Expectation, Metric


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

    devices: CUDA devices visible to this process. no_gpu_reason: why there is none to check, else None.
    scratch: an existing folder of this run, removed after it.
    """

    devices: tuple[Device, ...]
    no_gpu_reason: str | None
    expectation: Expectation | None
    scratch: str


@dataclass(frozen=True)
class CheckOutcome:
    """What a passed check proved: its numbers, and the devices it really ran on."""

    message: str = ""
    metrics: tuple[Metric, ...] = ()
    ran_on: tuple[str, ...] = ()


Body = Callable[[CheckContext], CheckOutcome]


@dataclass(frozen=True)
class Check:
    """One check. It runs in a process of its own, which is killed after limit_s seconds.

    requires: ids of checks without which this one says nothing. needs_torch: forked from the process that has
    imported torch. starts_host: the body is run by that process itself, before it serves the others.
    """

    id: str
    title: str
    body: Body
    limit_s: float
    needs_gpu: bool = False
    needs_torch: bool = False
    requires: tuple[str, ...] = ()
    starts_host: bool = False


def check(
    *,
    id: str,  # noqa: A002 - the field's name
    title: str,
    limit_s: float,
    needs_gpu: bool = False,
    needs_torch: bool = False,
    requires: tuple[str, ...] = (),
) -> Callable[[Body], Check]:
    """Make a Check of a body. A value comes back: nothing is registered anywhere."""

    def make(body: Body) -> Check:
        return Check(id, title, body, limit_s, needs_gpu=needs_gpu, needs_torch=needs_torch, requires=requires)

    return make
