"""The progress of a build on stderr: a few live lines on a terminal, plain lines with the time elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from envsmith.model.image import BuildEvent
from envsmith.model.plan import Plan

_REFRESH_PER_S = 8
_WIDTH_ELSEWHERE = 10_000
# What a block of the templates does, for people.
_TITLES = {
    "base": "base image",
    "forward-compat": "forward compatibility",
    "apt": "packages of the operating system",
    "python": "Python",
    "account": "user account",
    "torch": "torch and its libraries",
    "gpu": "GPU settings",
    "user": "working folder",
    "verify": "asking the image what it holds",
}
_EXPORT = "exporting to image"
_PARTS = ("exporting layers", "exporting manifest", "exporting config", "naming to", "unpacking to", "writing image")


class BuildProgress:
    """Shows the events of one build. Use as a context manager; `live` needs a terminal.

    stream: where to, stderr. clock: seconds from any point.
    """

    def __init__(self, stream: TextIO, live: bool, clock: Callable[[], float] = time.monotonic) -> None:
        width = None if stream.isatty() else _WIDTH_ELSEWHERE
        self._console = Console(file=stream, highlight=False, markup=False, emoji=False, width=width)
        self._clock = clock
        self._begun = clock()
        self._show: _LiveSteps | _PlainSteps
        self._show = _LiveSteps(self._console, clock) if live else _PlainSteps(self._line)

    def __enter__(self) -> BuildProgress:  # noqa: PYI034 - Self needs Python 3.11
        self._show.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._show.stop()

    def announce(self, plan: Plan, tag: str) -> None:
        """What is built, with every substitution: nothing is replaced silently."""
        size = f", about {bytes_text(plan.download_size_bytes)} to download" if plan.download_size_bytes else ""
        self._line(f"building {tag}: torch {plan.wheel}, Python {plan.python}, {plan.os}{size}")
        for substitution in plan.substitutions:
            self._line(f"! {substitution.what}: {substitution.requested} was asked for, {substitution.used} is used")
            self._line(f"  {substitution.reason}")

    def on_event(self, event: BuildEvent) -> None:
        """Take one event of the build."""
        if event.number is None and event.step != _EXPORT:
            return  # the engine's own steps: loading the context and the like, too small to tell
        self._show.take(event)

    def _line(self, text: str) -> None:
        if isinstance(self._show, _LiveSteps):
            self._console.print(Text(text))
        else:
            self._console.print(Text(f"[{self._clock() - self._begun:7.1f} s] {text}"))


def title(event: BuildEvent) -> str:
    """What the step does, for people: by its block, or else its first words."""
    if event.step == _EXPORT:
        return "putting the image into the engine's store"
    return _TITLES.get(event.block) or event.block or event.step


def bytes_text(count: float) -> str:
    """1 kB = 1000 bytes, as Docker and package indexes count."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.2f} GB"


def duration_text(seconds: float) -> str:
    """7.3 s, or 2 min 05 s."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60:02d} s"


def _place(event: BuildEvent) -> str:
    return f"{event.number}/{event.total}" if event.number else "  "


class _PlainSteps:
    """One line for each start, end and line of output."""

    def __init__(self, line: Callable[[str], None]) -> None:
        self._line = line
        self._started: set[str] = set()

    def start(self) -> None:
        """Nothing has to be prepared."""

    def stop(self) -> None:
        """Nothing has to be put back."""

    def take(self, event: BuildEvent) -> None:
        """Print what is worth a line; a step that the engine takes up again is told once."""
        name = f"{_place(event)} {title(event)}".strip()
        if event.kind == "started" and event.step_id not in self._started:
            self._started.add(event.step_id)
            self._line(name)
        elif event.kind == "log" and event.text.strip():
            self._line(f"  | {event.text}")
        elif event.kind == "cached" and event.step_id not in self._started:
            self._started.add(event.step_id)
            self._line(f"{name}: cached")
        elif event.kind == "finished" and (event.seconds or 0.0) >= 0.1:
            self._line(f"{name}: done in {duration_text(event.seconds or 0.0)}")
        elif event.kind == "failed":
            self._line(f"{name}: failed")


class _LiveSteps:
    """Finished steps scroll up; those at work stay below with a clock and their last line of output."""

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        self._console = console
        self._clock = clock
        self._running: dict[str, tuple[BuildEvent, float]] = {}
        self._detail: dict[str, str] = {}
        self._told: set[str] = set()
        self._spinner = Spinner("dots", style="cyan")
        # transient: what is at work leaves no trace once it is done
        self._live = Live(console=console, refresh_per_second=_REFRESH_PER_S, transient=True, get_renderable=self._view)

    def start(self) -> None:
        self._live.start()

    def stop(self) -> None:
        self._running.clear()
        self._live.stop()

    def take(self, event: BuildEvent) -> None:
        """Note the event; the next refresh shows it."""
        key = event.step_id
        if event.kind == "started":
            self._running.setdefault(key, (event, self._clock()))
        elif event.kind == "log" and event.text.strip():
            self._detail[key] = event.text.strip()
        elif event.kind == "progress":
            self._detail[key] = _moved(event)
        elif event.kind in ("finished", "cached", "failed"):
            self._running.pop(key, None)
            self._detail.pop(key, None)
            self._tell(event)

    def _tell(self, event: BuildEvent) -> None:
        short = event.kind == "finished" and (event.seconds or 0.0) < 0.1 and event.number is None
        if event.step_id in self._told or short:
            return
        self._told.add(event.step_id)
        mark, style = ("✗", "bold red") if event.kind == "failed" else ("✓", "green")
        how = "cached" if event.kind == "cached" else duration_text(event.seconds or 0.0)
        if event.kind == "failed":
            how = "failed"
        self._console.print(self._row(Text(mark, style=style), event, how))

    def _row(self, mark: Text | Spinner, event: BuildEvent, how: str) -> Table:
        row = Table.grid(padding=(0, 1), expand=False)
        row.add_column(width=1)
        row.add_column(width=5, justify="right")
        row.add_column(no_wrap=True, overflow="ellipsis")
        row.add_column(no_wrap=True)
        row.add_row(mark, Text(_place(event), style="dim"), Text(title(event)), Text(how, style="dim"))
        return row

    def _view(self) -> Group:
        rows: list[Table | Text] = []
        for key, (event, since) in list(self._running.items()):
            rows.append(self._row(self._spinner, event, duration_text(self._clock() - since)))
            detail = self._detail.get(key)
            if detail:
                rows.append(Text(f"        {detail}", style="dim", no_wrap=True, overflow="ellipsis"))
        return Group(*rows)


def _moved(event: BuildEvent) -> str:
    """A layer that comes down, or a part of the export; ids are cut, they tell people nothing."""
    part = next((part for part in _PARTS if event.text.startswith(part)), event.text[:19])
    if not event.current_bytes:
        return part
    total = f" of {bytes_text(event.total_bytes)}" if event.total_bytes else ""
    return f"{part} {bytes_text(event.current_bytes)}{total}"
