"""What is told while checks run: the running one on a terminal, one plain line a check elsewhere. On stderr."""

from __future__ import annotations

from types import TracebackType

from rich.status import Status
from rich.text import Text

from envsmith.model.check_events import CheckEvent, CheckStarted
from envsmith.report.console import STYLES, Page, clean
from envsmith.wire.results import CheckResult


class CheckProgress:
    """A context manager whose `on_event` is given to `check_host` or `check_image`."""

    def __init__(self, subject: str) -> None:
        self._page = Page(stderr=True)
        self._live: Status | None = None
        self._subject = clean(subject)

    def __enter__(self) -> CheckProgress:  # noqa: PYI034 - Self needs Python 3.11
        if self._page.console.is_terminal:
            self._live = self._page.console.status(Text(f"looking at {self._subject}"))
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def on_event(self, event: CheckEvent) -> None:
        """Show one event. Reasons and numbers are left to the answer."""
        if isinstance(event, CheckStarted) and self._live is not None:
            self._live.update(Text(f"{clean(event.title)} (at most {event.limit_s:.0f} s)"))
        elif isinstance(event, CheckResult) and self._live is None:
            style = STYLES.get(event.status, "")
            self._page.line(
                Text.assemble((f"{clean(event.status):<7}", style), f" {clean(event.title)}  {event.seconds:.1f} s")
            )
