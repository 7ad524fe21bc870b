"""The facts part of `envsmith check` beside `python -m torch.utils.collect_env`, in the same container.

    python -m benchmarks.facts IMAGE [TIMES]

IMAGE holds torch; it needs no network and no GPU. Aim: at most 0.15 of collect_env's time.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.measure import Row, interleaved_medians, machine, table, wall_seconds

AIM_RATIO = 0.15
BUNDLE = "/tmp/envsmith.pyz"


@contextmanager
def container(image: str) -> Iterator[str]:
    """A running container of the image with the bundle copied in; removed at the end."""
    create = ("docker", "create", "--network=none", "--entrypoint=sleep", image, "1200")
    identity = subprocess.run(create, check=True, capture_output=True, text=True).stdout.strip()
    try:
        with tempfile.TemporaryDirectory() as folder:
            bundle = Path(folder) / "envsmith.pyz"
            subprocess.run(
                [sys.executable, "-m", "envsmith", "portable", bundle], check=True, stdout=subprocess.DEVNULL
            )
            bundle.chmod(0o644)
            subprocess.run(["docker", "start", identity], check=True, stdout=subprocess.DEVNULL)
            subprocess.run(["docker", "cp", "--quiet", bundle, f"{identity}:{BUNDLE}"], check=True)
        yield identity
    finally:
        subprocess.run(["docker", "rm", "--force", "--volumes", identity], check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    image, times = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 7
    with container(image) as identity:
        enter = ("docker", "exec", identity)
        runs = {
            "nothing": partial(wall_seconds, [*enter, "python3", "-c", "pass"]),
            "ours": partial(wall_seconds, [*enter, "python3", BUNDLE, "facts", "--format", "json"]),
            "theirs": partial(wall_seconds, [*enter, "python3", "-m", "torch.utils.collect_env"]),
        }
        medians = interleaved_medians(runs, times)
    # what `docker exec` and starting Python cost is in all three, and is nobody's merit
    ours, theirs = (medians[name] - medians["nothing"] for name in ("ours", "theirs"))
    rows = [
        Row("with docker exec", medians["ours"], medians["theirs"], "s", AIM_RATIO),
        Row("without docker exec and python's start", ours, theirs, "s", None),
    ]
    print(f"{machine()}, {image} (median of {times})\n\n{table(rows, 'envsmith facts', 'collect_env')}")


if __name__ == "__main__":
    main()
