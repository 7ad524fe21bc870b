"""The numbered steps of a Dockerfile, as BuildKit counts them, and the blocks that they came from."""

from __future__ import annotations

from envsmith.engine.steps import blocks_of_steps

DOCKERFILE = """# Rendered by envsmith

# block: base
FROM debian

# block: apt
RUN set -eu; \\
    # a remark
    RUN_ME=1 apt-get update; \\
    true

# block: torch
ENV A=b
RUN true
COPY a b

# block: user
USER 1000
WORKDIR /workspace
LABEL a="RUN b"
"""


def test_only_what_changes_files_is_counted() -> None:
    assert blocks_of_steps(DOCKERFILE) == ("base", "apt", "torch", "torch", "user")


def test_a_dockerfile_of_somebody_else_has_no_blocks() -> None:
    assert blocks_of_steps("FROM scratch\nrun x\n") == ("", "")
    assert blocks_of_steps("") == ()
