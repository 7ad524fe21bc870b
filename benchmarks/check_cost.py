"""`check` at levels quick and standard beside `python -c "import torch; torch.zeros(1).cuda()"`, in the same run.

    python -m benchmarks.check_cost [TIMES]

Needs a GPU and torch, and of envsmith's own requirements nvidia-ml-py only. The bundle is run by the interpreter that
runs this. Aims: quick at most 2 times, standard at most 5 times the bare start, on one GPU.
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.measure import Row, interleaved_medians, machine, table, wall_seconds
from envsmith.portable import write_bundle

AIMS = {"quick": 2.0, "standard": 5.0}
BARE = "import torch; torch.zeros(1).cuda()"


def main() -> None:
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    with tempfile.TemporaryDirectory() as folder:
        bundle = Path(folder) / "envsmith.pyz"
        write_bundle(bundle)
        check = (sys.executable, bundle, "check", "--gpus", "0", "--level")
        runs = {"bare": partial(wall_seconds, [sys.executable, "-c", BARE])}
        runs.update({level: partial(wall_seconds, [*check, level]) for level in AIMS})
        medians = interleaved_medians(runs, times)
    rows = [Row(f"level {level}", medians[level], medians["bare"], "s", aim) for level, aim in AIMS.items()]
    print(f"{machine()} (median of {times})\n\n{table(rows, 'check', 'bare start')}")


if __name__ == "__main__":
    main()
