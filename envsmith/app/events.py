"""Follow the stream of events that the bundle prints while it checks: JSON, one event a line.

Whatever else comes on the same stream (a library that prints, a site hook of the interpreter) is kept as
stray output and never taken for an event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from envsmith.engine.text import printable
from envsmith.model.check_events import CheckEvent, Refusal, read_event
from envsmith.wire.facts import Snapshot
from envsmith.wire.results import ValidationReport

_STRAY_LINES_MAX = 200


class EventReader:
    """Takes lines, passes events on, and keeps what the run came to."""

    def __init__(self, on_event: Callable[[CheckEvent], None]) -> None:
        self.snapshot: Snapshot | None = None
        self.report: ValidationReport | None = None
        self.refusal: str | None = None
        self.stray: deque[str] = deque(maxlen=_STRAY_LINES_MAX)
        self._on_event = on_event

    def feed(self, line: str) -> None:
        """Take one line of output; never raises for what it holds."""
        event = read_event(line)
        if event is None:
            self.add_stray(line)
            return
        if isinstance(event, Refusal):
            self.refusal = printable(event.message)
            return
        if isinstance(event, ValidationReport):
            self.report = event
        elif isinstance(event, Snapshot):
            self.snapshot = event
        self._on_event(event)

    def add_stray(self, line: str) -> None:
        """Keep a line that is no event, made printable."""
        text = printable(line)
        if text.strip():
            self.stray.append(text)
