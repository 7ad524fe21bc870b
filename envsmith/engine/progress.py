"""What `docker buildx build` reports, as events. Total: whatever it prints becomes events or is kept as text.

Two forms are read: `--progress=rawjson` (buildx 0.13 and newer; pretty-printed by some, one object a line by
others) and `--progress=plain` of older ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from envsmith.engine.text import printable
from envsmith.errors import UsageError
from envsmith.model.decode import decode
from envsmith.model.image import BuildEvent

_NUMBERED = re.compile(r"\[\s*(?:[^\]]*\s)?(\d{1,6})/(\d{1,6})\]\s+(.*)", re.DOTALL)
_JSON_LINES_MAX = 100_000
_LINE_BYTES_MAX = 65_536
_TAIL_LINES = 60


# The parts of BuildKit's SolveStatus that are used; field names are BuildKit's.
@dataclass(frozen=True)
class _Vertex:
    digest: str
    name: str = ""
    started: datetime | None = None
    completed: datetime | None = None
    cached: bool = False
    error: str = ""


@dataclass(frozen=True)
class _Status:
    vertex: str
    id: str = ""
    current: int = 0
    total: int = 0


@dataclass(frozen=True)
class _Log:
    vertex: str
    data: bytes = b""  # base64 in the JSON


@dataclass(frozen=True)
class _SolveStatus:
    vertexes: tuple[_Vertex, ...] = ()
    statuses: tuple[_Status, ...] = ()
    logs: tuple[_Log, ...] = ()


class _Steps:
    """Names the steps and makes their events, printable and without secrets."""

    def __init__(self, secrets: tuple[str, ...]) -> None:
        self._secrets = secrets
        self._steps: dict[str, tuple[str, int | None, int | None]] = {}

    def name(self, step_id: str, name: str) -> None:
        text = printable(name.replace("\n", " "), self._secrets)
        match = _NUMBERED.match(text)
        self._steps[step_id] = (match[3], int(match[1]), int(match[2])) if match else (text, None, None)

    def event(self, kind: str, step_id: str, text: str = "", seconds: float | None = None) -> BuildEvent:
        step, number, total = self._steps.get(step_id, ("", None, None))
        shown = printable(text.replace("\n", " "), self._secrets)
        return BuildEvent(kind, step_id, step, number, total, shown, seconds=seconds)

    def moved(self, status: _Status) -> BuildEvent:
        step, number, total = self._steps.get(status.vertex, ("", None, None))
        text = printable(status.id, self._secrets).rstrip(":")
        size = status.total if status.total > 0 else None
        return BuildEvent("progress", status.vertex, step, number, total, text, max(0, status.current), size)


class RawJsonProgress:
    """Reader of `--progress=rawjson`, fed line by line. `tail`: the last lines that were no progress."""

    def __init__(self, secrets: tuple[str, ...] = ()) -> None:
        self.tail: list[str] = []
        self._secrets = secrets
        self._steps = _Steps(secrets)
        self._running: set[str] = set()
        self._pretty: list[str] = []
        self._partial: dict[str, bytes] = {}

    def feed(self, line: str) -> list[BuildEvent]:
        """Events that this line completes, often none."""
        if self._pretty or line == "{":
            self._pretty.append(line)
            if line != "}" and len(self._pretty) < _JSON_LINES_MAX:
                return []
            whole, self._pretty = "\n".join(self._pretty), []
            return self._document(whole)
        if line.startswith("{"):
            return self._document(line)
        self._keep(line)
        return []

    def _document(self, text: str) -> list[BuildEvent]:
        try:
            status = decode(text.encode("utf-8", "replace"), _SolveStatus, "build progress")
        except UsageError:
            for line in text.split("\n"):
                self._keep(line)
            return []
        events = [event for vertex in status.vertexes for event in self._vertex(vertex)]
        events += [self._steps.moved(moved) for moved in status.statuses]
        events += [event for log in status.logs for event in self._log(log)]
        return events

    def _vertex(self, vertex: _Vertex) -> list[BuildEvent]:
        key = vertex.digest
        self._steps.name(key, vertex.name)
        events = []
        if vertex.started and not vertex.cached and key not in self._running:
            self._running.add(key)
            events.append(self._steps.event("started", key))
        if vertex.completed is None:
            return events
        events += self._rest_of_log(key)
        seconds = _seconds(vertex.started, vertex.completed)
        self._running.discard(key)
        if vertex.error:
            events.append(self._steps.event("failed", key, vertex.error, seconds))
        elif vertex.cached:
            events.append(self._steps.event("cached", key))
        else:
            events.append(self._steps.event("finished", key, seconds=seconds))
        return events

    def _log(self, log: _Log) -> list[BuildEvent]:
        *lines, rest = (self._partial.pop(log.vertex, b"") + log.data).split(b"\n")
        if len(rest) > _LINE_BYTES_MAX:
            lines.append(rest)
        elif rest:
            self._partial[log.vertex] = rest
        return [self._steps.event("log", log.vertex, line.decode("utf-8", "replace")) for line in lines]

    def _rest_of_log(self, step_id: str) -> list[BuildEvent]:
        rest = self._partial.pop(step_id, b"")
        return [self._steps.event("log", step_id, rest.decode("utf-8", "replace"))] if rest else []

    def _keep(self, line: str) -> None:
        self.tail = [*self.tail[1 - _TAIL_LINES :], printable(line, self._secrets)]


def _seconds(started: datetime | None, completed: datetime) -> float | None:
    """Time between two stamps; None when there is no telling (one of them without a time zone, or no start)."""
    if started is None or (started.tzinfo is None) != (completed.tzinfo is None):
        return None
    return max(0.0, (completed - started).total_seconds())


class PlainProgress:
    """Reader of `--progress=plain`, "#7 [2/3] RUN ..." and its kin. `tail`: the last lines that were no progress."""

    _LINE = re.compile(r"#(\d{1,6}) (.*)")
    _DONE = re.compile(r"DONE (\d+(?:\.\d+)?)s")
    _OUTPUT = re.compile(r"\d+\.\d+ (.*)")

    def __init__(self, secrets: tuple[str, ...] = ()) -> None:
        self.tail: list[str] = []
        self._secrets = secrets
        self._steps = _Steps(secrets)
        self._known: set[str] = set()

    def feed(self, line: str) -> list[BuildEvent]:
        """Events that this line completes: none or one."""
        match = self._LINE.fullmatch(line)
        if match is None:
            self.tail = [*self.tail[1 - _TAIL_LINES :], printable(line, self._secrets)]
            return []
        key, text = match[1], match[2]
        if key not in self._known:
            self._known.add(key)
            self._steps.name(key, text)
            return [self._steps.event("started", key)]
        done = self._DONE.fullmatch(text)
        if done:
            return [self._steps.event("finished", key, seconds=float(done[1]))]
        if text == "CACHED":
            return [self._steps.event("cached", key)]
        if text.startswith("ERROR: "):
            return [self._steps.event("failed", key, text.removeprefix("ERROR: "))]
        output = self._OUTPUT.fullmatch(text)
        return [self._steps.event("log", key, output[1] if output else text)]
