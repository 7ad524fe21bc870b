"""What is told while checks run, on stderr: a line for each one that has ended, and on a terminal those under way."""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import TracebackType

from rich.console import Group
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from envsmith.model.check_events import CheckEvent, CheckStarted
from envsmith.report.console import STYLES, Page, clean
from envsmith.report.headline import headline
from envsmith.wire.results import PASS, SKIP, CheckResult

_FRAMES_PER_S = 5


@dataclass(frozen=True)
class _Running:
    """A check under way, in one process or in one a GPU. since_s: when the last began, by the monotonic clock."""

    title: str
    limit_s: float
    since_s: float
    processes: int


class CheckProgress:
    """A context manager whose `on_event` is given to `check_host` or `check_image`."""

    def __init__(self, subject: str) -> None:
        self._page = Page(stderr=True)
        self._live: Live | None = None
        self._spinner = Spinner("dots", Text(f"looking at {clean(subject)}"))
        # replaced and never changed: a thread of rich's draws while events come
        self._running: dict[str, _Running] = {}

    def __enter__(self) -> CheckProgress:  # noqa: PYI034 - Self needs Python 3.11
        if self._page.console.is_terminal:
            self._live = Live(self, console=self._page.console, refresh_per_second=_FRAMES_PER_S, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def on_event(self, event: CheckEvent) -> None:
        """Show one event. What a check says beside its number is left to the answer."""
        if isinstance(event, CheckStarted):
            before = self._running.get(event.id)
            processes = 1 + (before.processes if before else 0)
            running = _Running(clean(event.title), event.limit_s, time.monotonic(), processes)
            self._running = {**self._running, event.id: running}
        elif isinstance(event, CheckResult):
            self._running = {name: check for name, check in self._running.items() if name != event.id}
            self._page.line(_ended(event))

    def __rich__(self) -> Group | Spinner:
        """The checks under way, a line each that is never wrapped; before the first one, what is looked at."""
        now = time.monotonic()
        lines = [
            Text.assemble(
                (f"{now - check.since_s:>5.0f} s", "cyan"),
                f" {check.title}",
                f" on {check.processes} GPUs" if check.processes > 1 else "",
                (f"  at most {check.limit_s:.0f} s", "dim"),
                no_wrap=True,
                overflow="ellipsis",
            )
            for check in self._running.values()
        ]
        return Group(*lines) if lines else self._spinner


def _ended(result: CheckResult) -> Text:
    number = headline(result) if result.status == PASS else ""
    return Text.assemble(
        (f"{clean(result.status):<7}", STYLES.get(result.status, "")),
        f" {clean(result.title)}",
        "" if result.status == SKIP else f"  {result.seconds:.1f} s",
        f"  {number}" if number else "",
    )
