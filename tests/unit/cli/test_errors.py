"""What every command says when it comes to no answer."""

from __future__ import annotations

import json

import pytest

from tests.unit.cli.command import envsmith

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
