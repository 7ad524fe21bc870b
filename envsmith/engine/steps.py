"""Which block of the templates a step of a rendered Dockerfile came from."""

from __future__ import annotations

import re

_BLOCK = re.compile(r"# block: (\S+)")
# The instructions that BuildKit numbers, "[3/9] RUN ..."; the others (ENV, LABEL, USER, ...) change no file.
_NUMBERED = re.compile(r"(?:FROM|RUN|COPY|ADD|WORKDIR)\s", re.IGNORECASE)


def blocks_of_steps(dockerfile: str) -> tuple[str, ...]:
    """For each numbered step of a Dockerfile with one stage, in order, its block; "" above the first block."""
    blocks: list[str] = []
    block, continued = "", False
    for line in dockerfile.splitlines():
        comment = line.startswith("#")
        if comment:
            match = _BLOCK.match(line)
            block = match[1] if match else block
        elif not continued and _NUMBERED.match(line):
            blocks.append(block)
        # a comment between the lines of an instruction does not end it
        continued = continued if comment else line.endswith("\\")
    return tuple(blocks)
