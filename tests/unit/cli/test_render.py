"""`envsmith render` at the command line."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.unit.cli.command import envsmith

EXAMPLE = ("render", "--torch", "2.6", "--cuda", "12.1", "--os", "debian12", "--platform", "linux/amd64")


def test_the_dockerfile_is_the_answer() -> None:
    said = envsmith(*EXAMPLE)
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.startswith("# Rendered by envsmith")
    assert "FROM debian:bookworm-slim\n" in said.stdout
    assert "pip install --compile-bytecode torch==2.6.0" in said.stdout
    assert said.stdout.endswith('"\n')


def test_the_same_request_gives_the_same_dockerfile_as_a_dry_run_of_build() -> None:
    assert envsmith(*EXAMPLE).stdout == envsmith("build", *EXAMPLE[1:], "--dry-run").stdout


def test_a_written_context_is_complete_and_the_command_to_build_it_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "a context; id"
    said = envsmith(*EXAMPLE, "--output", folder)
    assert (said.returncode, said.stdout) == (0, "")
    assert sorted(path.name for path in folder.iterdir()) == ["Dockerfile", "expect.json", "verify.py"]
    assert (folder / "Dockerfile").read_text(encoding="utf-8") == envsmith(*EXAMPLE).stdout
    command = shlex.split(said.stderr.splitlines()[-1])
    assert command[:4] == ["docker", "buildx", "build", "--load"]
    assert command[-1] == str(folder)
    uv = next(word for word in command if word.startswith("--build-context=uv="))
    assert (Path(uv.partition("uv=")[2]) / "uv").is_file()


def test_the_command_for_another_platform_does_not_name_the_uv_of_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    said = envsmith(*EXAMPLE, "--platform", "linux/amd64", "--output", tmp_path / "context")
    assert said.returncode == 0
    assert "--build-context=uv=FOLDER_OF_UV_FOR_LINUX_AMD64" in shlex.split(said.stderr.splitlines()[-1])


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x", encoding="utf-8")
    said = envsmith(*EXAMPLE, "--output", tmp_path)
    assert (said.returncode, said.stdout) == (2, "")
    assert "cannot write the folder" in said.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_folder_below_one_that_is_missing_is_one_clear_error(tmp_path: Path) -> None:
    said = envsmith(*EXAMPLE, "--output", tmp_path / "missing" / "context")
    assert said.returncode == 2
    assert "No such file or directory" in said.stderr


def test_a_refusal_is_told_and_writes_nothing(tmp_path: Path) -> None:
    said = envsmith("render", "--torch", "2.6", "--gpu", "12.0", "--output", tmp_path / "context")
    assert said.returncode == 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("torch", ["2.6; rm -rf /", "$(id)", "{{7*7}}", "2.6\nRUN id"])
def test_hostile_versions_are_usage_errors(torch: str) -> None:
    said = envsmith("render", "--torch", torch)
    assert (said.returncode, said.stdout) == (2, "")
    assert said.stderr.startswith("envsmith: error: --torch ")
