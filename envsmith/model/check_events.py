"""The events that the portable bundle prints while it checks, as types, and how one is read from a line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from envsmith.wire.facts import Snapshot
from envsmith.wire.results import CheckResult, ValidationReport


@dataclass(frozen=True)
class CheckStarted:
    """A check began. limit_s: it is killed after so many seconds. device: the GPU, where it runs once for each."""

    id: str
    title: str
    limit_s: float
    device: str | None = None


@dataclass(frozen=True)
class Refusal:
    """The command line was not usable where the checks should have run: a GPU that is not there, for example."""

    message: str


CheckEvent = CheckStarted | Refusal | Snapshot | CheckResult | ValidationReport

_PARTS: dict[str, type[CheckEvent]] = {"snapshot": Snapshot, "result": CheckResult, "report": ValidationReport}


def read_event(line: str) -> CheckEvent | None:
    """Read one line of the stream; None if it is no event. Never raises, whatever the line holds."""
    if not line.startswith("{"):
        return None
    try:
        data: dict[str, Any] = msgspec.json.decode(line.encode("utf-8", "surrogatepass"), type=dict[str, Any])
        kind = data.get("event")
        if kind == "start":
            return msgspec.convert(data, CheckStarted)
        if kind == "usage-error":
            return msgspec.convert(data, Refusal)
        if not isinstance(kind, str) or kind not in _PARTS:
            return None
        event: CheckEvent = msgspec.convert(data.get(kind), _PARTS[kind])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return event
