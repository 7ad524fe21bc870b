"""The examples for Slurm and Kubernetes: what they set is what a check over several nodes reads."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from envsmith.cli.main import app
from envsmith.validator.cluster.launch import KUBERNETES, Place, read_place
from tests.source_tree import ROOT

SBATCH = ROOT / "examples" / "slurm" / "envsmith-check.sbatch"
JOB = ROOT / "examples" / "kubernetes" / "envsmith-check-job.yaml"
SERVICE = ROOT / "examples" / "kubernetes" / "envsmith-check-service.yaml"

# Options that sbatch knows: it refuses a script with another one.
SBATCH_OPTIONS = set((ROOT / "tests" / "data" / "sbatch-options.txt").read_text(encoding="utf-8").splitlines()[1:])


def without_comments(path: Path) -> str:
    return "\n".join(
        line for line in path.read_text(encoding="utf-8").splitlines() if not line.lstrip().startswith("#")
    )


def unknown_directives(script: str) -> list[str]:
    """Lines that begin with #SBATCH and hold no option that sbatch knows, or stand where it no longer looks."""
    head = re.split(r"^(?!#|\s*$)", script, maxsplit=1, flags=re.MULTILINE)[0]
    bad = [line for line in script.splitlines() if line.startswith("#SBATCH") and line not in head.splitlines()]
    for line in head.splitlines():
        match = re.fullmatch(r"#SBATCH --([a-z-]+)(?:=\S+)?", line)
        if line.startswith("#SBATCH") and (match is None or match.group(1) not in SBATCH_OPTIONS):
            bad.append(line)
    return bad


def test_the_script_is_bash_and_all_its_directives_are_known() -> None:
    assert subprocess.run(["bash", "-n", str(SBATCH)], check=False).returncode == 0
    script = SBATCH.read_text(encoding="utf-8")
    assert script.startswith("#!")
    assert script.count("#SBATCH --") >= 5
    assert unknown_directives(script) == []


@pytest.mark.parametrize("line", ["#SBATCH --gpu-per-node=8", "#SBATCH --nodes 4 5", "#SBATCH nodes=4"])
def test_a_directive_that_sbatch_does_not_know_is_caught(line: str) -> None:
    assert unknown_directives(f"#!/bin/bash\n{line}\ntrue\n") == [line]


def test_a_directive_after_the_first_command_is_caught() -> None:
    assert unknown_directives("#!/bin/bash\ntrue\n#SBATCH --nodes=4\n") == ["#SBATCH --nodes=4"]


@pytest.mark.parametrize("path", [SBATCH, JOB], ids=lambda path: path.name)
def test_the_options_of_envsmith_are_its_own(path: Path) -> None:
    text = re.sub(r"[,\[\]]", " ", without_comments(path))
    (words,) = re.findall(r"envsmith\s+check\s([^\n]*)", text)
    known = CliRunner().invoke(app, ["check", "--help"]).output
    options = re.findall(r"--[a-z-]+", words)
    assert "--require-gpu" in options
    assert [option for option in options if option not in known] == []


def value(text: str, name: str) -> str:
    (found,) = re.findall(rf"^\s*{name}:\s*\"?([^\s\"]+)\"?$", text, re.MULTILINE)
    return found


def test_the_pods_of_the_job_find_each_other() -> None:
    job, service = without_comments(JOB), without_comments(SERVICE)
    env = dict(re.findall(r"- name: ([A-Z_]+)\n\s*value: \"?([^\s\"]+)\"?", job))
    completions = int(value(job, "completions"))
    assert completions == int(value(job, "parallelism")) == int(env["WORLD_SIZE"])
    assert value(job, "completionMode") == "Indexed"
    # a pod of an indexed Job is called by the Job and its index, and found under its subdomain, a headless Service
    (name,) = re.findall(r"^metadata:\n  name: (\S+)$", job, re.MULTILINE)
    assert f"name: {value(job, 'subdomain')}\n" in service
    assert value(service, "clusterIP") == "None"
    assert value(service, "job-name") == name
    expected = Place(3, completions, 0, 1, 3, f"{name}-0.{value(job, 'subdomain')}", 29500, KUBERNETES)
    assert read_place({**env, "JOB_COMPLETION_INDEX": "3"}) == expected
