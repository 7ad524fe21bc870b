"""Every saved machine against every rule and the whole matrix: what must be found and said, and what must not.

`NAME.snapshot.json` is a machine, `NAME.expect.json` what is right about it. Most stand for a public report of a
broken environment; the controls have nothing wrong.
"""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path

import pytest

from envsmith.compat.load import load_matrix
from envsmith.doctor.run import diagnose
from envsmith.model.decode import decode
from envsmith.model.findings import Diagnosis
from envsmith.model.matrix import Matrix
from envsmith.wire.facts import Snapshot

CORPUS = Path(__file__).parents[2] / "corpus"
NAMES = sorted(path.name.removesuffix(".snapshot.json") for path in CORPUS.glob("*.snapshot.json"))


@cache
def matrix() -> Matrix:
    return load_matrix()


@cache
def load(name: str) -> tuple[Diagnosis, dict[str, list[str]]]:
    snapshot = decode((CORPUS / f"{name}.snapshot.json").read_bytes(), Snapshot, name)
    return diagnose(snapshot, matrix()), json.loads((CORPUS / f"{name}.expect.json").read_bytes())


def all_text(diagnosis: Diagnosis) -> str:
    lines: list[str] = []
    for finding in diagnosis.findings:
        lines += [finding.summary, *(f"{evidence.value} {evidence.expected}" for evidence in finding.evidence)]
        for fix in (finding.fix, *finding.other_fixes):
            lines += [fix.text, *fix.commands] if fix else []
    return "\n".join(lines)


def advice(diagnosis: Diagnosis) -> str:
    fixes = [fix for finding in diagnosis.findings for fix in (finding.fix, *finding.other_fixes) if fix]
    return "\n".join(line for fix in fixes for line in (fix.text, *fix.commands))


def test_there_is_a_corpus_with_controls():
    assert len(NAMES) >= 20
    assert sum(name.startswith("control-") for name in NAMES) >= 4


@pytest.mark.parametrize("name", NAMES)
def test_what_is_found(name):
    diagnosis, expected = load(name)
    assert [outcome.reason for outcome in diagnosis.outcomes if outcome.status == "broken"] == []
    assert [f"{finding.rule} {finding.severity.name}" for finding in diagnosis.findings] == expected["findings"]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_said_and_what_is_not_advised(name):
    diagnosis, expected = load(name)
    said, advised = all_text(diagnosis), advice(diagnosis)
    assert [words for words in expected["must_say"] if words not in said] == []
    assert [words for words in expected["must_not_say"] if words in advised] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_command_is_a_line_that_a_shell_reads(name):
    diagnosis, _ = load(name)
    for finding in diagnosis.findings:
        for fix in (finding.fix, *finding.other_fixes):
            for command in fix.commands if fix else ():
                assert "\n" not in command
                assert "<" not in command
                assert subprocess.run(["sh", "-n", "-c", command], check=False).returncode == 0
