"""Start-up time of the commands that people type most, beside a program that only imports click.

    python -m benchmarks.startup [TIMES]

Aim: `envsmith --help` and `envsmith plan` under 0.3 s on an idle machine of today.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

from benchmarks.measure import interleaved_medians, machine, wall_seconds

AIM_S = 0.3
PROGRAMS = Path(sys.executable).parent
# the first start writes bytecode, as an installation does; where that is forbidden every start would compile anew
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
COMMANDS: dict[str, list[str | Path]] = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "python -c 'import click'": [sys.executable, "-c", "import click; click.Group()"],
    "envsmith --help": [PROGRAMS / "envsmith", "--help"],
    "envsmith plan": [PROGRAMS / "envsmith", "plan", "--torch", "2.6", "--cuda", "12.1", "--format", "json"],
}


def main() -> None:
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    runs = {name: partial(wall_seconds, argv, ENVIRONMENT) for name, argv in COMMANDS.items()}
    medians = interleaved_medians(runs, times)
    bare = medians["python -c 'import click'"]
    print(machine(), f"(median of {times})\n")
    print("| command | seconds | ratio to bare click | aim |\n|---|---:|---:|---|")
    for name, seconds in medians.items():
        verdict = f"at most {AIM_S} s: {'met' if seconds <= AIM_S else 'MISSED'}" if "envsmith" in name else ""
        print(f"| `{name}` | {seconds:.3f} | {seconds / bare:.2f} | {verdict} |")


if __name__ == "__main__":
    main()
