"""A build with one step that sleeps, in a process of its own, to be interrupted: `slow_build.py SECONDS`.

Says "sleeping" once the step runs. Exits as the envsmith command does.
"""

from __future__ import annotations

import signal
import sys

from envsmith.engine.docker import DockerEngine
from envsmith.errors import BuildFailedError
from envsmith.model.image import BuildEvent, BuildOptions, RenderedContext

TAG = "envsmith-test/slow:1"


def _tell(event: BuildEvent) -> None:
    if event.kind == "started" and event.step.startswith("RUN"):
        print("sleeping", flush=True)


def main(seconds: str) -> int:
    """Build, and return the exit status."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started this may ignore it
    context = RenderedContext(f"FROM debian:bookworm-slim\nRUN --network=none sleep {seconds}\n", (), "")
    try:
        with DockerEngine() as engine:
            engine.build(context, BuildOptions(tags=(TAG,)), _tell)
    except KeyboardInterrupt:
        return 130
    except BuildFailedError as error:
        print(error.message, flush=True)
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
