"""The main job, end to end: `envsmith build --torch 2.6 --cuda 12.1`, its check and its certificate."""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path

from tests.docker.conftest import MARKER, Built, docker, envsmith

BUILD = ("build", "--torch", "2.6", "--cuda", "12.1")


def test_the_image_holds_what_its_tag_says(torch_image: Built) -> None:
    assert torch_image.reference == "envsmith/torch:2.6.0-cu124-py311-debian12"
    program = "import os, torch; print(torch.__version__, torch.version.cuda, torch.backends.cudnn.version())"
    program += "; print(os.getuid(), os.getcwd())"
    said = docker("run", "--rm", "--network=none", torch_image.reference, "python", "-c", program)
    assert said.split() == ["2.6.0+cu124", "12.4", "90100", "1000", "/workspace"]


def test_the_substitution_is_told_everywhere(torch_image: Built) -> None:
    (substitution,) = torch_image.document["plan"]["substitutions"]
    assert (substitution["requested"], substitution["used"]) == ("12.1", "12.4")
    labels = torch_image.document["image"]["labels"]
    assert labels["io.envsmith.requested-cuda"] == "12.1"
    assert labels["io.envsmith.wheel-cuda"] == "12.4"
    assert "12.1" in labels["io.envsmith.substitutions"]
    statement = json.loads(torch_image.certificate.read_text(encoding="utf-8"))
    assert statement["predicate"]["plan"]["substitutions"] == [substitution]


def test_the_check_inside_passed_and_says_that_no_gpu_was_there(torch_image: Built) -> None:
    check = torch_image.document["check"]
    assert check["not_passed"] == []
    assert check["passed"]
    if check["status"] != "certified":
        assert check["status"] == "not certified on a GPU"
        assert check["skipped"]


def test_the_certificate_is_of_this_image(torch_image: Built) -> None:
    good = envsmith(
        "certificate", "verify", torch_image.certificate, "--image", torch_image.reference, cwd=torch_image.folder
    )
    assert good.status == 0, good.stderr
    other = envsmith("certificate", "verify", torch_image.certificate, "--image", "debian:bookworm-slim",
                     cwd=torch_image.folder)  # fmt: skip
    assert other.status == 5
    assert "about another image" in other.stderr


def test_a_second_build_takes_everything_from_the_first(torch_image: Built, ca_bundle: Path, tmp_path: Path) -> None:
    done = envsmith(*BUILD, "--ca-bundle", ca_bundle, "--no-check", "--format", "json", cwd=tmp_path)
    again = json.loads(done.stdout)
    assert again["image"]["digest"] == torch_image.document["image"]["digest"]
    assert again["seconds"] < 60
    assert list(tmp_path.iterdir()) == []


def test_a_mislabelled_image_is_caught(torch_image: Built, tmp_path: Path) -> None:
    dockerfile = f"FROM {torch_image.reference}\nLABEL io.envsmith.wheel=2.6.0+cu126 io.envsmith.wheel-cuda=12.6\n"
    (tmp_path / "Dockerfile").write_text(dockerfile, encoding="utf-8")
    docker("buildx", "build", "--quiet", "--load", "--tag", "envsmith-test/mislabelled:1", str(tmp_path))
    try:
        done = envsmith("check", "--image", "envsmith-test/mislabelled:1", cwd=tmp_path)
    finally:
        docker("rmi", "envsmith-test/mislabelled:1")
    assert done.status == 5, done.stdout + done.stderr
    assert "2.6.0+cu126" in done.stdout
    assert "2.6.0+cu124" in done.stdout


def test_the_ca_bundle_leaves_no_trace_in_any_layer(torch_image: Built) -> None:
    """The classic store saves layers as they are; the containerd store compresses them, so there all files are read."""
    lines = [line for line in MARKER.read_bytes().splitlines() if len(line) > 40]
    assert len(lines) >= 5
    classic = torch_image.document["image"]["store"] != "containerd"
    container = docker("create", torch_image.reference).strip()
    command = ["docker", "save", torch_image.reference] if classic else ["docker", "export", container]
    searched = 0
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE) as saving:
            assert saving.stdout is not None
            with tarfile.open(fileobj=saving.stdout, mode="r|") as archive:
                for entry in archive:
                    content = archive.extractfile(entry) if entry.isfile() else None
                    searched += _search(content, lines, entry.name) if content else 0
    finally:
        docker("rm", container)
    assert searched > 5_000_000_000


def _search(content: object, lines: list[bytes], name: str) -> int:
    """Bytes looked through in one file of the archive; a layer is a tar archive whose files are stored as they are."""
    before, total = b"", 0
    while block := content.read(1 << 20):  # type: ignore[attr-defined]
        window = before + block
        assert not [line for line in lines if line in window], f"a line of the CA bundle is in {name}"
        before, total = window[-100:], total + len(block)
    return total


def test_a_wrong_password_of_a_mirror_is_shown_nowhere(torch_image: Built, ca_bundle: Path, tmp_path: Path) -> None:
    del torch_image  # so that the steps before this one are there
    url = "http://me:s3cret-t0ken@127.0.0.1:9/simple"
    done = envsmith(*BUILD, "--ca-bundle", ca_bundle, "--index-url", url, "--no-cache", cwd=tmp_path)
    assert done.status == 4
    assert "of the block 'torch' failed" in done.stderr
    assert "s3cret-t0ken" not in done.stdout + done.stderr
    assert list(tmp_path.iterdir()) == []
