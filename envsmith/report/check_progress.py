"""What is told while checks run: the running one on a terminal, one plain line a check elsewhere. On stderr."""

from __future__ import annotations

from types import TracebackType

from rich.status import Status

from envsmith.model.check_events import CheckEvent, CheckStarted
from envsmith.report.check_text import check_text
from envsmith.report.console import clean, console
from envsmith.wire.results import CheckResult


class CheckProgress:
    """A context manager whose `on_event` is given to `check_host` or `check_image`."""

    def __init__(self, subject: str) -> None:
        self._err = console(stderr=True)
        self._live: Status | None = None
        self._subject = clean(subject)

    def __enter__(self) -> CheckProgress:  # noqa: PYI034 - Self needs Python 3.11
        if self._err.is_terminal:
            self._live = self._err.status(f"looking at {self._subject}")
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def on_event(self, event: CheckEvent) -> None:
        """Show one event."""
        if isinstance(event, CheckStarted) and self._live is not None:
            self._live.update(f"{clean(event.title)} (at most {event.limit_s:.0f} s)")
        elif isinstance(event, CheckResult) and self._live is None:
            self._err.print(f"{event.status:<7}", check_text(event), soft_wrap=True)
