"""What every command says when it comes to no answer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from envsmith.cli.main import run
from tests.unit.cli.command import ROOT, envsmith

CASES = {
    "a value": ("plan", "--torch", "abc"),
    "an option": ("plan", "--bogus"),
    "a file": ("certificate", "show", "/nonexistent"),
    "a python": ("check", "--python", "/nonexistent"),
}


@pytest.mark.parametrize("arguments", CASES.values(), ids=CASES.keys())
def test_json_is_one_document_even_for_an_error(arguments: tuple[str, ...]) -> None:
    done = envsmith(*arguments, "--format", "json")
    assert done.returncode == 2
    document = json.loads(done.stdout)
    assert (document["schema"], document["kind"], document["exit_status"]) == (1, "error", 2)
    assert document["message"]
    assert document["message"] in done.stderr
    assert json.loads(envsmith(*arguments, "--format=json").stdout) == document
    assert envsmith(*arguments).stdout == ""


@pytest.mark.parametrize(
    "arguments", [("--version",), ("plan", "--torch", "2.6"), ("plan", "--torch", "2.6", "--format", "json")]
)
def test_a_full_disk_under_stdout_is_no_bug(arguments: tuple[str, ...]) -> None:
    code = "import sys; from envsmith.cli.main import entry; entry()"
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            cwd=ROOT,
        )
    assert done.returncode == 2
    assert done.stderr == (
        "envsmith: error: a disk is full: [Errno 28] No space left on device\n  hint: see df, also for TMPDIR\n"
    )


def test_a_bug_report_moves_no_cursor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("\x1b[2Jred\x9b\n\x07line")

    monkeypatch.setattr("envsmith.portable.write_bundle", broken)
    assert run(["portable", "x"]) == 70
    told = capsys.readouterr().err
    assert "envsmith: a bug of envsmith (RuntimeError: red\nline)" in told
    assert not set(told) & set("\x1b\x9b\x07")
