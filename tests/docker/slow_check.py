"""A check in a container that sleeps, in a process of its own, for the daemon to be killed meanwhile.

The image's python3 says a word and sleeps. Exits as the envsmith command does.
"""

from __future__ import annotations

import sys

from envsmith.engine.docker import DockerEngine
from envsmith.errors import BuildFailedError
from envsmith.model.image import BuildOptions, RenderedContext
from tests.docker.slow_build import TAG

_SCRIPT = "'#!/bin/sh\\necho up; exec sleep 15\\n' >/usr/bin/python3; chmod +x /usr/bin/python3"
_DOCKERFILE = f"FROM debian:bookworm-slim\nRUN --network=none printf {_SCRIPT}\n"


def main() -> int:
    """Build the image, run it, and return the exit status."""
    try:
        with DockerEngine() as engine:
            engine.build(RenderedContext(_DOCKERFILE, (), ""), BuildOptions(tags=(TAG,)), lambda _: None)
            engine.run_bundle(TAG, b"", [], None, lambda line: print(line, flush=True), 60.0)
    except BuildFailedError as error:
        print(error.message, flush=True)
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())
