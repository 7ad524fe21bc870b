"""Run the envsmith command: in this process, since starting one each time would take most of a test's time."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from envsmith.cli.main import run

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Said:
    """What a command came to."""

    returncode: int
    stdout: str
    stderr: str


@contextlib.contextmanager
def working_folder(folder: Path | None) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder or before)
    try:
        yield
    finally:
        os.chdir(before)


def envsmith(*arguments: str | Path, cwd: Path | None = None, **environment: str) -> Said:
    """Return what `envsmith ARGUMENTS` said; a traceback or a bug report fails the test."""
    out, err = io.StringIO(), io.StringIO()
    env = {"NO_COLOR": "1", "COLUMNS": "100", **environment}
    with (
        mock.patch.dict(os.environ, env),
        working_folder(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        status = run([str(argument) for argument in arguments])
    said = Said(status, out.getvalue(), err.getvalue())
    assert "Traceback" not in said.stdout + said.stderr, said.stderr
    assert status != 70, said.stderr
    return said
