"""What the benchmarks share: repeated wall times, and a table that ends in a ratio and the aim."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """One comparison. ours, theirs: same unit. aim: the ratio ours / theirs that we want to stay at or below."""

    what: str
    ours: float
    theirs: float
    unit: str
    aim: float | None

    @property
    def ratio(self) -> float:
        """How much of theirs ours takes; below 1 is better than them."""
        return self.ours / self.theirs


def table(rows: Sequence[Row], ours: str, theirs: str) -> str:
    """The rows as a Markdown table, so that a run can be pasted into docs/benchmarks.md."""
    lines = [f"| what | {ours} | {theirs} | ratio | aim |", "|---|---:|---:|---:|---|"]
    for row in rows:
        aim = "" if row.aim is None else f"at most {row.aim:g}: {'met' if row.ratio <= row.aim else 'MISSED'}"
        lines.append(f"| {row.what} | {_figure(row.ours, row.unit)} | {_figure(row.theirs, row.unit)} "
                     f"| {row.ratio:.2f} | {aim} |")  # fmt: skip
    return "\n".join(lines)


def _figure(value: float, unit: str) -> str:
    return f"{value:.3g} {unit}" if value < 1000 else f"{value:.0f} {unit}"


def wall_seconds(command: Sequence[str | Path], env: Mapping[str, str] | None = None) -> float:
    """Wall time of one run of a command that must succeed."""
    started = time.perf_counter()
    subprocess.run([*map(str, command)], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def interleaved_medians(runs: Mapping[str, Callable[[], float]], times: int) -> dict[str, float]:
    """Median seconds of each; taken in turns, so that a busy moment of the machine hits all alike."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()  # fills file caches; not counted
    for _ in range(times):
        for name, run in runs.items():
            seconds[name].append(run())
    return {name: statistics.median(values) for name, values in seconds.items()}


def machine() -> str:
    """One line that says when and on what a figure was taken."""
    now = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    host = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    return f"{now}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {host}"
