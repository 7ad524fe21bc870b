"""The progress of a build: plain lines with the time elsewhere, a few live lines on a terminal."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

import pytest

from envsmith.model.image import BuildEvent
from envsmith.report.build_progress import BuildProgress, bytes_text, duration_text, title


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    """Moves on by a second at each look."""

    def __init__(self) -> None:
        self._times: Iterator[int] = iter(range(1_000_000))

    def __call__(self) -> float:
        return float(next(self._times))


def step(kind: str, number: int, block: str, text: str = "", seconds: float | None = None) -> BuildEvent:
    return BuildEvent(kind, f"sha256:{number}", "RUN x", number, 6, text, seconds=seconds, block=block)


BUILD = [
    BuildEvent("started", "i", "[internal] load metadata"),
    BuildEvent("finished", "i", "[internal] load metadata", seconds=3.0),
    step("cached", 1, "base"),
    step("cached", 1, "base"),
    step("started", 2, "apt"),
    step("log", 2, "apt", "Get:1 http://deb.debian.org [bold]not markup[/bold]"),
    step("finished", 2, "apt", seconds=12.34),
    step("started", 4, "torch"),
    step("log", 4, "torch", "Downloading torch (730.1MiB)"),
    step("finished", 4, "torch", seconds=125.0),
    BuildEvent("started", "e", "exporting to image"),
    BuildEvent("progress", "e", "exporting to image", text="exporting layers"),
    BuildEvent("finished", "e", "exporting to image", seconds=8.0),
]


def test_plain_lines() -> None:
    stream = io.StringIO()
    with BuildProgress(stream, live=False, clock=lambda: 0.0) as progress:
        for event in BUILD:
            progress.on_event(event)
    assert stream.getvalue().splitlines() == [
        "[    0.0 s] 1/6 base image: cached",
        "[    0.0 s] 2/6 packages of the operating system",
        "[    0.0 s]   | Get:1 http://deb.debian.org [bold]not markup[/bold]",
        "[    0.0 s] 2/6 packages of the operating system: done in 12.3 s",
        "[    0.0 s] 4/6 torch and its libraries",
        "[    0.0 s]   | Downloading torch (730.1MiB)",
        "[    0.0 s] 4/6 torch and its libraries: done in 2 min 05 s",
        "[    0.0 s] putting the image into the engine's store",
        "[    0.0 s] putting the image into the engine's store: done in 8.0 s",
    ]


def test_plain_lines_carry_the_time_since_the_start() -> None:
    stream = io.StringIO()
    progress = BuildProgress(stream, live=False, clock=Clock())
    progress.on_event(step("started", 2, "apt"))
    progress.on_event(step("failed", 2, "apt", "exit code: 1"))
    assert stream.getvalue().splitlines() == [
        "[    1.0 s] 2/6 packages of the operating system",
        "[    2.0 s] 2/6 packages of the operating system: failed",
    ]


def test_a_long_line_elsewhere_is_not_wrapped() -> None:
    stream = io.StringIO()
    BuildProgress(stream, live=False).on_event(step("log", 2, "apt", "x" * 500))
    assert len(stream.getvalue().splitlines()) == 1


def test_live_lines_fit_the_terminal_and_end_with_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    with BuildProgress(stream, live=True) as progress:
        for event in BUILD:
            progress.on_event(event)
        progress.on_event(step("failed", 5, "verify", "exit code: 1"))
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.getvalue())
    assert "load metadata" not in shown
    assert shown.count("1/6 base image cached") == 1
    assert "2/6 packages of the operating system 12.3 s" in shown
    assert "4/6 torch and its libraries 2 min 05 s" in shown
    assert "5/6 asking the image what it holds failed" in shown
    assert all(len(line) <= 60 for line in re.split(r"[\r\n]+", shown))


def test_a_step_without_a_block_is_told_by_its_instruction() -> None:
    assert title(BuildEvent("started", "x", "RUN make", 2, 3)) == "RUN make"
    assert title(BuildEvent("started", "x", "RUN make", 2, 3, block="mine")) == "mine"


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (3_060_000_000, "3.06 GB"), (5e12, "5000.00 GB")]
)
def test_bytes(count: float, text: str) -> None:
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (59.94, "59.9 s"), (60, "1 min 00 s"), (3725, "62 min 05 s")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
