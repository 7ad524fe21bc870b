"""What a start of the command does not wait for. Told by what was imported: a time would tell of the machine."""

from __future__ import annotations

import subprocess
import sys

import pytest

# each takes as long to import as a start may take as a whole, or is another command's business
HEAVY = ("docker", "jinja2", "pydantic", "requests", "rich", "urllib3", "envsmith.engine")
PROGRAM = """
import sys
from envsmith.cli.main import run
status = run(sys.argv[1:])
print(*sorted(sys.modules), file=sys.stderr)
sys.exit(status)
"""


def imported(*arguments: str) -> set[str]:
    command = [sys.executable, "-c", PROGRAM, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout
    return set(done.stderr.split())


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["plan", "--torch", "2.6", "--cuda", "12.1"]])
def test_nothing_heavy_is_imported(arguments: list[str]) -> None:
    assert not imported(*arguments) & set(HEAVY)


def test_only_the_command_that_is_asked_for_is_imported() -> None:
    commands = {name for name in imported("plan", "--help") if name.startswith("envsmith.cli.")}
    assert commands == {"envsmith.cli.main", "envsmith.cli.plan", "envsmith.cli.request"}


def test_what_is_needed_is_seen() -> None:
    assert "jinja2" in imported("render", "--torch", "2.6")
