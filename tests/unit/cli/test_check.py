"""`envsmith check` at the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from envsmith.model.decode import decode
from envsmith.wire.encode import canonical_json
from envsmith.wire.facts import Gap, Snapshot
from tests.machines import driver, gpu, host, laptop, library, machine, variables
from tests.unit.cli.command import ROOT, envsmith

OLD_DRIVER = machine(driver=driver("470.256.02", "11.4"), gpus=(gpu("NVIDIA GeForce RTX 3090", "8.6"),))


def saved(folder: Path, snapshot: Snapshot, name: str = "machine.json") -> Path:
    path = folder / name
    path.write_text(canonical_json(snapshot))
    return path


def test_a_saved_snapshot_is_judged_root_cause_first(tmp_path):
    done = envsmith("check", "--snapshot", saved(tmp_path, OLD_DRIVER))
    assert done.returncode == 1
    assert done.stdout.startswith("Root cause\nERROR ENV002 Driver 470.256.02, which offers CUDA 11.4, is too old")
    command = "       $ /opt/venv/bin/python -m pip install --force-reinstall torch==2.7.1+cu118 --index-url "
    assert command in done.stdout  # on one line, however wide
    assert done.stdout.rstrip().endswith("not certified on a GPU: nothing was run, only looked at")
    assert done.stderr == "envsmith: exit status 1: ENV002 found errors\n"


def test_json_is_one_document(tmp_path):
    done = envsmith("check", "--snapshot", saved(tmp_path, OLD_DRIVER), "--format", "json")
    document = json.loads(done.stdout)
    assert list(document)[:2] == ["schema", "kind"]
    assert document["kind"] == "check"
    assert document["diagnosis"]["findings"][0]["rule"] == "ENV002"
    assert document["report"]["snapshot"]["driver"]["driver_cuda"] == "11.4"
    assert document["verdict"]["status"] == "not certified on a GPU"


def test_junit_is_one_xml_document(tmp_path):
    done = envsmith("check", "--snapshot", saved(tmp_path, OLD_DRIVER), "--format", "junit")
    suite = ElementTree.fromstring(done.stdout)
    assert (done.returncode, suite.tag, suite.attrib["failures"]) == (1, "testsuite", "1")
    (failed,) = [case for case in suite.iter("testcase") if case.find("failure") is not None]
    assert failed.attrib["name"].startswith("ENV002 ")


def test_markdown_is_one_document_with_the_command(tmp_path):
    done = envsmith("check", "--snapshot", saved(tmp_path, OLD_DRIVER), "--format", "markdown")
    assert done.returncode == 1
    assert done.stdout.startswith("## \u26a0\ufe0f not certified on a GPU: ")
    assert "\n### ERROR ENV002\n" in done.stdout
    assert "\n```sh\n/opt/venv/bin/python -m pip install --force-reinstall torch==2.7.1+cu118 " in done.stdout


def test_a_laptop_without_a_gpu_is_no_failure(tmp_path):
    done = envsmith("check", "--snapshot", saved(tmp_path, laptop(nvidia_pci_devices=())))
    assert done.returncode == 0
    assert done.stdout.startswith("Note\nINFO ENV001 No NVIDIA driver and no NVIDIA GPU here")


def test_what_was_not_looked_at_is_said(tmp_path):
    unseen = replace(machine(limits=None), gaps=(Gap("limits", "denied", "/proc/self/limits"),))
    done = envsmith("check", "--snapshot", saved(tmp_path, unseen))
    assert "Not looked at\n  limits: denied (/proc/self/limits); so ENV401 could not judge\n" in done.stdout


def test_text_of_others_moves_no_cursor_and_is_no_markup(tmp_path):
    hostile = machine(
        host=host(os_name="\x1b[2Jevil [bold red]OS[/] \x9b31m"),
        libraries=(
            library("cudnn", "9.1.0", "wheel"),
            library("cudnn", "9.5.1", "ld_library_path", "/tmp/\x1b]0;title\x07[link]\u202e/libcudnn.so"),
        ),
        env=variables(LD_LIBRARY_PATH="/tmp/$(touch pwned)`id`\x1b[31m"),
    )
    done = envsmith("check", "--snapshot", saved(tmp_path, hostile))
    assert not {"\x1b", "\x9b", "\x07", "\u202e"} & set(done.stdout + done.stderr)
    assert "evil [bold red]OS[/]" in done.stdout


def test_colour_is_for_terminals_only(tmp_path):
    path = saved(tmp_path, OLD_DRIVER)
    assert "\x1b" not in envsmith("check", "--snapshot", path, NO_COLOR="").stdout
    assert "\x1b" not in envsmith("check", "--snapshot", path, FORCE_COLOR="1", NO_COLOR="1", TERM="dumb").stdout


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not usable"),
        (b"not json", "is not usable"),
        (b'{"schema": 1, "kind": "plan"}', "missing required field"),
        (b'{"schema": 7, "tool": "x", "collected_at": "y"}', "schema 7"),
    ],
)
def test_a_snapshot_that_is_not_one(tmp_path, content, message):
    path = tmp_path / "machine.json"
    path.write_bytes(content)
    done = envsmith("check", "--snapshot", path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("envsmith: error: ")
    assert "machine.json" in done.stderr
    assert message in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--snapshot", "missing.json"], "cannot read snapshot missing.json: No such file"),
        (["--snapshot", "."], "cannot read snapshot .: Is a directory"),
        (["--snapshot", "a.json", "--image", "b"], "--image and --snapshot exclude each other"),
        (["--python", "a", "--image", "b"], "--python and --image exclude each other"),
        (["--snapshot", "a.json", "--facts"], "--snapshot and --facts exclude each other"),
        (["--facts", "--require-gpu"], "--require-gpu needs checks to be run, and --facts runs none"),
        (["--snapshot", "a.json", "--certificate", "c.json"], "--certificate needs checks to be run"),
        (["--python", "missing"], "--python missing: does not exist"),
        (["--certificate", "missing/c.json"], "cannot write missing/c.json: the folder missing does not exist"),
        (["--save-snapshot", "."], "cannot write .: it is a folder"),
        (["--level", "thorough"], "thorough"),
        (["--seconds", "5"], "--seconds is about checks of level stress"),
        (["--level", "stress", "--seconds", "0"], "--seconds 0 is out of bounds"),
        (["--gpus", ","], "--gpus names none"),
        (["--facts", "--gpus", "0"], "--gpus needs checks to be run"),
        (["--format", "xml"], "xml"),
        (["--unknown"], "--unknown"),
    ],
)
def test_bad_input_is_one_clear_error_and_leaves_nothing(tmp_path, arguments, message):
    done = envsmith("check", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_facts_of_this_machine(tmp_path):
    done = envsmith(
        "check", "--facts", "--python", sys.executable, "--format", "json", "--save-snapshot", "seen.json", cwd=tmp_path
    )
    assert done.returncode in (0, 1), done.stderr
    document = json.loads(done.stdout)
    assert document["report"]["results"] == []
    assert document["report"]["snapshot"]["python"]["executable"] == sys.executable
    snapshot = decode((tmp_path / "seen.json").read_bytes(), Snapshot, "seen.json")
    assert snapshot.python.executable == sys.executable
    again = envsmith("check", "--snapshot", "seen.json", cwd=tmp_path)
    assert again.returncode == done.returncode


def test_a_run_on_this_machine_and_its_certificate(tmp_path):
    done = envsmith("check", "--python", sys.executable, "--certificate", "c.json", cwd=tmp_path)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert "Checks\n" in done.stdout
    assert "PyTorch imports" in done.stderr  # progress, a plain line a check
    assert done.stdout.rstrip().endswith("Certificate: c.json")
    assert envsmith("certificate", "verify", "c.json", cwd=tmp_path).returncode == 0


def test_a_gpu_that_is_required_and_hidden_is_a_failure(tmp_path):
    only = ("--only", "cuda-kernel-driver")
    done = envsmith("check", "--python", sys.executable, "--require-gpu", *only, CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 5
    assert "exit status 5: a GPU is required, and no GPU check passed" in done.stderr


def test_a_gpu_that_is_not_there_is_a_usage_error_that_says_what_is(tmp_path):
    only = ("--only", "cuda-kernel-driver")
    done = envsmith("check", "--python", sys.executable, "--gpus", "77", *only, cwd=tmp_path, CUDA_VISIBLE_DEVICES="")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--gpus: there is no GPU '77': CUDA_VISIBLE_DEVICES='' hides every GPU" in done.stderr


def test_the_checks_are_listed():
    done = envsmith("check", "--list")
    assert done.returncode == 0
    assert done.stdout.splitlines()[0].split()[:2] == ["cuda-kernel-driver", "quick"]
    document = json.loads(envsmith("check", "--list", "--format", "json").stdout)
    assert (document["kind"], document["checks"][0]["id"]) == ("checks", "cuda-kernel-driver")


def test_the_documents_say_what_the_rules_say():
    done = subprocess.run(
        [sys.executable, ROOT / "tools/gen_docs.py", "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_saved_snapshot_can_be_redacted(tmp_path):
    secret = "GPU-0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f"
    known = saved(tmp_path, replace(machine(), env=variables(CUDA_VISIBLE_DEVICES=secret)))
    done = envsmith("check", "--snapshot", known, "--save-snapshot", tmp_path / "plain.json")
    assert secret in (tmp_path / "plain.json").read_text(), done.stderr
    envsmith("check", "--snapshot", known, "--save-snapshot", tmp_path / "safe.json", "--redact")
    text = (tmp_path / "safe.json").read_text()
    assert secret not in text
    assert decode(text, Snapshot, "safe.json").gpus is not None
    alone = envsmith("check", "--snapshot", known, "--redact")
    assert (alone.returncode, "--save-snapshot" in alone.stderr) == (2, True)
