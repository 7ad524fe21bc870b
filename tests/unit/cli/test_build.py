"""`envsmith build` at the command line, with an engine that only remembers what it was asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from envsmith.errors import BuildFailedError
from envsmith.model.certificate import CERTIFIED, FAILED, NOT_ON_GPU, Verdict
from envsmith.model.check_run import CheckRun
from envsmith.model.findings import Diagnosis
from envsmith.model.image import BuildEvent, BuildOptions, BuiltImage, EngineInfo, RenderedContext
from envsmith.wire.results import FAIL, PASS, SKIP, CheckResult, ValidationReport
from tests.machines import laptop
from tests.unit.cli.command import Said, envsmith

PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
NO_CA = {"SSL_CERT_FILE": "", "REQUESTS_CA_BUNDLE": "", "PIP_CERT": ""}
DIGEST = "sha256:" + "ab" * 32


class Engine:
    """Stands for DockerEngine."""

    asked: ClassVar[list[BuildOptions]] = []
    free_bytes: ClassVar[int | None] = 10**12
    fault: ClassVar[BuildFailedError | None] = None

    def __enter__(self) -> Engine:  # noqa: PYI034 - Self needs Python 3.11
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def info(self) -> EngineInfo:
        return EngineInfo("26", "unix:///x.sock", "overlay2", self.free_bytes, "", "linux/amd64", "0.13.1", None)

    def build(
        self, context: RenderedContext, options: BuildOptions, on_event: Callable[[BuildEvent], None]
    ) -> BuiltImage:
        self.asked.append(options)
        if self.fault:
            raise self.fault
        on_event(BuildEvent("started", "1", "RUN x", 4, 6, block="torch"))
        return BuiltImage(options.tags[0], DIGEST, 5_680_000_000, "linux/amd64", {}, "overlay2", 61.0)


@pytest.fixture(autouse=True)
def _engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envsmith.engine.docker.DockerEngine", Engine)
    monkeypatch.setattr(Engine, "asked", [])


def check_gives(monkeypatch: pytest.MonkeyPatch, status: str, *results: str) -> None:
    """Let the check inside the image come to a verdict, with results of these statuses."""
    snapshot = laptop()
    checks = tuple(CheckResult(f"VAL{n:03}", f"check {n}", result, 0.1) for n, result in enumerate(results))
    report = ValidationReport("envsmith test", None, snapshot.collected_at, 1.0, snapshot, checks)
    diagnosis = Diagnosis((), (), "sha256:m")

    def check_image(engine: Any, reference: str, options: Any, on_event: Any, *, name: str) -> CheckRun:
        assert options.expectation.wheel == "2.6.0+cu124"
        assert options.expectation.source == "plan"
        assert reference == DIGEST  # the tag may be another image's by now
        return CheckRun(name, report, diagnosis, Verdict(status, "because"), image_digest=DIGEST)

    monkeypatch.setattr("envsmith.app.check.check_image", check_image)


def build(*arguments: str | Path, cwd: Path, **environment: str) -> Said:
    return envsmith("build", "--torch", "2.6", "--cuda", "12.1", *arguments, cwd=cwd, **(NO_CA | environment))


def test_a_build_ends_with_a_certificate_and_says_what_was_substituted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_gives(monkeypatch, NOT_ON_GPU, PASS, SKIP)
    done = build(cwd=tmp_path)
    assert done.returncode == 0
    assert Engine.asked[0].tags == ("envsmith/torch:2.6.0-cu124-py311-debian12",)
    assert "12.1 was asked for, 12.4 is used" in done.stderr
    assert "12.4 instead of 12.1" in done.stdout
    assert "1 checks passed, 1 skipped; because" in done.stdout
    assert "$ docker run --rm -it --gpus all envsmith/torch:2.6.0-cu124-py311-debian12" in done.stdout
    (written,) = tmp_path.iterdir()
    assert written.name == "envsmith-torch-2.6.0-cu124-py311-debian12.certificate.json"
    statement = json.loads(written.read_text(encoding="utf-8"))
    assert statement["subject"][0]["digest"] == {"sha256": "ab" * 32}
    assert statement["predicate"]["plan"]["wheel"] == "2.6.0+cu124"


def test_json_is_one_document_and_progress_is_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_gives(monkeypatch, CERTIFIED, PASS)
    done = build("--format", "json", "--tag", "a/b:1", "--certificate", "c.json", cwd=tmp_path)
    document = json.loads(done.stdout)
    assert (document["schema"], document["kind"]) == (1, "build")
    assert document["image"]["reference"] == "a/b:1"
    assert document["check"] == {"status": CERTIFIED, "reason": "because", "passed": ["VAL000"], "not_passed": [],
                                 "skipped": [], "findings": []}  # fmt: skip
    assert document["certificate"] == "c.json"
    assert "torch and its libraries" in done.stderr


def test_a_failing_check_keeps_the_image_and_certifies_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_gives(monkeypatch, FAILED, PASS, FAIL)
    done = build(cwd=tmp_path)
    assert done.returncode == 5
    assert "The image is kept" in done.stdout
    assert "docker run" not in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_gpu_that_is_required_and_not_there_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_gives(monkeypatch, NOT_ON_GPU, PASS, SKIP)
    assert build("--require-gpu", cwd=tmp_path).returncode == 5


def test_no_check_checks_nothing_and_writes_nothing(tmp_path: Path) -> None:
    done = build("--no-check", cwd=tmp_path)
    assert done.returncode == 0
    assert "no: --no-check" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_prints_the_dockerfile_alone(tmp_path: Path) -> None:
    done = build("--dry-run", cwd=tmp_path)
    assert done.returncode == 0
    assert "FROM debian:bookworm-slim" in done.stdout
    assert Engine.asked == []


def test_options_of_the_build_reach_the_engine(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_text(PEM, encoding="ascii")
    given = ["--no-check", "--pull", "--no-cache", "-t", "a:1", "-t", "b", "--ca-bundle", bundle]
    assert build(*given, "--extra-index-url", "https://one/simple", cwd=tmp_path).returncode == 0
    assert Engine.asked == [
        BuildOptions(("a:1", "b:latest"), True, True, "linux/amd64", ca_bundle=str(bundle),
                     extra_index_urls=("https://one/simple",))
    ]  # fmt: skip


def test_the_ca_bundle_and_the_indexes_come_from_the_environment(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_text(PEM, encoding="ascii")
    done = build(
        "--no-check",
        cwd=tmp_path,
        PIP_CERT=str(bundle),
        ENVSMITH_INDEX_URL="https://me:s3cret@mirror/simple",
        ENVSMITH_EXTRA_INDEX_URL="https://a/simple https://b/simple",
    )
    assert done.returncode == 0
    assert Engine.asked[0].ca_bundle == str(bundle)
    assert Engine.asked[0].index_url == "https://me:s3cret@mirror/simple"
    assert Engine.asked[0].extra_index_urls == ("https://a/simple", "https://b/simple")
    assert "s3cret" not in done.stdout + done.stderr


def test_no_room_is_status_4(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "free_bytes", 10**9)
    done = build("--no-check", cwd=tmp_path)
    assert done.returncode == 4
    assert "has 1.0 GB of disk space left" in done.stderr


def test_a_fault_of_the_engine_shows_its_last_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "fault", BuildFailedError("step 4/6 failed", "a hint", ("last line",)))
    done = build(cwd=tmp_path)
    assert done.returncode == 4
    assert done.stdout == ""
    assert done.stderr.splitlines()[-3:] == ["  | last line", "envsmith: error: step 4/6 failed", "  hint: a hint"]


def test_a_refusal_is_status_3_and_builds_nothing(tmp_path: Path) -> None:
    done = envsmith("build", "--torch", "2.6", "--cuda", "12.1", "--exact", cwd=tmp_path, **NO_CA)
    assert done.returncode == 3
    assert Engine.asked == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--tag", "x; rm -rf /"], "not the name of a Docker image"),
        (["--tag", "{{ 7*7 }}"], "not the name of a Docker image"),
        (["--progress", "fancy"], "--progress 'fancy' is not known"),
        (["--progress", "tty"], "needs a terminal"),
        (["--no-check", "--require-gpu"], "contradict each other"),
        (["--no-check", "--certificate", "x"], "contradict each other"),
        (["--dry-run", "--tag", "a"], "contradict each other"),
        (["--dry-run", "--format", "json"], "contradict each other"),
        (["--ca-bundle", "/nonexistent/ca.pem"], "cannot be read: No such file"),
        (["--ca-bundle", "/dev/null"], "holds no PEM certificate"),
        (["--certificate", "/nonexistent/c.json"], "does not exist or is not writable"),
        (["--certificate", "."], "it is a folder"),
        (["--index-url", "ftp://mirror/simple"], "is not the URL of a package index"),
        (["--index-url", "https://me:s3cret@mirror/a b"], "is not the URL of a package index"),
        (["--extra-index-url", "https://me:s3cret@[x/simple"], "is not the URL of a package index"),
    ],
)
def test_bad_input_is_one_clear_error_and_builds_nothing(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = build(*arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "s3cret" not in done.stderr + done.stdout
    if "json" in arguments:
        assert said in json.loads(done.stdout)["message"]
    else:
        assert done.stdout == ""
    assert Engine.asked == []
    assert list(tmp_path.iterdir()) == []


def test_a_ca_bundle_of_the_environment_is_blamed_by_its_variable(tmp_path: Path) -> None:
    done = build("--no-check", cwd=tmp_path, REQUESTS_CA_BUNDLE="/nonexistent/ca.pem")
    assert done.returncode == 2
    assert "REQUESTS_CA_BUNDLE" in done.stderr


def test_a_ca_bundle_too_large_for_a_secret(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_text(PEM * 10_000, encoding="ascii")
    done = build("--no-check", "--ca-bundle", bundle, cwd=tmp_path)
    assert done.returncode == 2
    assert "BuildKit takes at most" in done.stderr
