"""`envsmith certificate` at the command line."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from envsmith import certify
from envsmith.wire.results import Expectation
from tests.unit.cli.command import envsmith
from tests.unit.test_certify import GOOD, IMAGE, OTHER_IMAGE, RECORDED, issued, report, result, run


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "certificate.json"
    certify.write(issued(), file)
    return file


def write(path, *results, **changes):
    certify.write(certify.issue(replace(run(report(*results)), **changes)), path)


def test_show(path):
    done = envsmith("certificate", "show", path)
    assert done.returncode == 0
    assert done.stdout.startswith("Verdict: certified\n")
    assert f"  image      {IMAGE}\n" in done.stdout
    assert "proved     compute capabilities 9.0" in done.stdout


def test_show_as_json_has_the_statement_as_it_is(path):
    document = json.loads(envsmith("certificate", "show", path, "--format", "json").stdout)
    assert (document["schema"], document["kind"]) == (1, "certificate")
    assert document["statement"] == json.loads(path.read_bytes())


def test_verify_by_digest_needs_no_engine(path):
    done = envsmith("certificate", "verify", path, "--image", IMAGE, DOCKER_HOST="unix:///nowhere.sock")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"not edited; it is about the image {IMAGE}; it says: certified\n"


def test_verify_without_an_image_says_what_it_did_not_compare(path):
    assert "no image was named to compare with" in envsmith("certificate", "verify", path).stdout


def test_the_json_of_an_older_certificate_is_what_was_issued():
    old = RECORDED / "h200-x2.json"
    document = json.loads(envsmith("certificate", "show", old, "--format", "json").stdout)
    assert document["statement"] == json.loads(old.read_bytes())


def test_show_tells_what_was_predicted_and_not_proved(path):
    expectation = Expectation(compute_capabilities=("8.0", "9.0", "12.0"), source="labels")
    level = replace(report(*GOOD), level="standard", gpus=("cuda:0 NVIDIA H200 (9.0)",))
    certify.write(certify.issue(replace(run(level), expectation=expectation)), path)
    shown = envsmith("certificate", "show", path).stdout
    assert "predicted  compute capabilities 8.0, 9.0, 12.0 (by the labels)\n" in shown
    assert "proved     compute capabilities 9.0\n" in shown
    assert "not proved compute capabilities 8.0, 12.0: predicted, and not run on any such GPU\n" in shown
    assert "level      standard\n" in shown
    assert f"coverage   3 of {certify.coverage(level).checks_of_level} checks, 1 of 1 GPUs\n" in shown


def test_an_older_certificate_states_no_level():
    old = RECORDED / "h200-x2.json"
    assert "level      none stated" in envsmith("certificate", "show", old).stdout
    assert envsmith("certificate", "verify", old).returncode == 0
    done = envsmith("certificate", "verify", old, "--level", "quick")
    assert (done.returncode, done.stdout) == (5, "")
    assert "states no level, and quick is required" in done.stderr


def test_the_level_must_be_reached(path):
    certify.write(certify.issue(run(replace(report(*GOOD), level="standard"))), path)
    done = envsmith("certificate", "verify", path, "--level", "standard")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("it says: certified at level standard\n")
    done = envsmith("certificate", "verify", path, "--level", "stress")
    assert done.returncode == 5
    assert "is of level standard, and stress is required" in done.stderr
    assert "--level stress" in done.stderr
    assert envsmith("certificate", "verify", path, "--level", "extreme").returncode == 2


def test_another_image(path):
    done = envsmith("certificate", "verify", path, "--image", OTHER_IMAGE)
    assert (done.returncode, done.stdout) == (5, "")
    assert "is about another image" in done.stderr


def test_an_edited_file(path):
    path.write_bytes(path.read_bytes().replace(b'"verdict":"certified"', b'"verdict":"certifiee"'))
    for command in ("show", "verify"):
        done = envsmith("certificate", command, path)
        assert (done.returncode, done.stdout) == (1, "")
        assert "was edited" in done.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "it is not JSON"),
        ("{}", "_type is None"),
        (
            '{"_type": "https://in-toto.io/Statement/v1", "predicateType": "https://slsa.dev/provenance/v1"}',
            "predicateType",
        ),
    ],
)
def test_what_is_no_certificate(path, content, message):
    path.write_text(content)
    done = envsmith("certificate", "verify", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_a_file_that_is_not_there(tmp_path):
    done = envsmith("certificate", "show", "missing.json", cwd=tmp_path)
    assert done.returncode == 2
    assert "cannot read certificate missing.json: No such file" in done.stderr


def test_a_certificate_of_failed_checks_does_not_verify(path):
    write(path, *GOOD, result("amp-matmul", "fail", message="off by much"))
    done = envsmith("certificate", "verify", path)
    assert done.returncode == 5
    assert "was not edited, and it says: failed" in done.stderr


def test_without_a_gpu_it_verifies_unless_a_gpu_is_required(path):
    write(path, GOOD[0], result("cuda-kernel", "skip", message="no GPU here"))
    assert "it says: not certified on a GPU" in envsmith("certificate", "verify", path).stdout
    assert envsmith("certificate", "verify", path, "--require-gpu").returncode == 5


def test_a_host_certificate_is_no_image_certificate(path):
    write(path, *GOOD, image_digest=None)
    done = envsmith("certificate", "verify", path, "--image", IMAGE)
    assert done.returncode == 5
    assert "certifies a host, not an image" in done.stderr


def poisoned(value):
    """The same JSON with a terminal escape in every text that is free."""
    if isinstance(value, dict):
        return {
            name: poisoned(item) if name not in {"rule", "statement_digest"} else item for name, item in value.items()
        }
    if isinstance(value, list):
        return [poisoned(item) for item in value]
    return f"\x1b]0;x\x07{value}\x1b[2J\x9b2J\u202e" if isinstance(value, str) else value


def test_nothing_that_a_certificate_says_reaches_the_terminal_as_a_control_character(path):
    write(path, *GOOD, result("amp", "fail", message="wrong"), result("nccl", "skip", message="none"))
    statement = json.loads(path.read_text(encoding="ascii"))
    statement["subject"], statement["predicate"] = poisoned(statement["subject"]), poisoned(statement["predicate"])
    statement["predicate"]["statement_digest"] = certify._statement_digest(statement)
    path.write_text(json.dumps(statement), encoding="ascii")
    for arguments in (["show"], ["verify", "--require-gpu"], ["verify", "--image", IMAGE], ["verify"]):
        done = envsmith("certificate", arguments[0], path, *arguments[1:])
        assert done.returncode in {0, 5, 2}, done.stderr
        said = done.stdout + done.stderr
        assert said
        assert not set(said) & set("\x1b\x07\x9b\u202e"), arguments
