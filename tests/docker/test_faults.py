"""Every fault of an engine is one clear message with status 4, made to happen for real."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from envsmith.engine.docker import DockerEngine
from envsmith.errors import BuildFailedError
from envsmith.model.image import BuildEvent, BuildOptions, RenderedContext
from tests.docker.conftest import BASE, docker, envsmith
from tests.docker.fake_registry import registry
from tests.docker.small_engine import small_engine

TAG = "envsmith-test/fault:1"
BUILD = ("build", "--torch", "2.6", "--cuda", "12.1", "--no-check")


def build(engine: DockerEngine, dockerfile: str, on_event: Callable[[BuildEvent], None] | None = None) -> None:
    engine.build(RenderedContext(dockerfile, (), ""), BuildOptions(tags=(TAG,)), on_event or (lambda _: None))


def fault(engine: DockerEngine, dockerfile: str) -> BuildFailedError:
    with pytest.raises(BuildFailedError) as caught:
        build(engine, dockerfile)
    assert caught.value.hint or caught.value.log_tail
    assert TAG not in docker("image", "ls", "--format", "{{.Repository}}:{{.Tag}}").split()
    return caught.value


def test_a_failing_step_shows_its_last_lines_and_its_block(engine: DockerEngine) -> None:
    dockerfile = f"""# block: base
FROM {BASE}
# block: torch
ENV A=b
RUN --network=none for i in 1 2 3; do echo line $i; done; printf '\\033[2Jhidden'; exit 7
"""
    error = fault(engine, dockerfile)
    assert error.message.startswith("step 2/2 of the block 'torch' failed (exit status 7): RUN for i in 1 2 3")
    assert error.log_tail == ("line 1", "line 2", "line 3", "hidden")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gone", "does not exist in its registry"),
        ("denied", "the registry refused to give"),
        ("login", "the registry refused to give"),
        ("many", "too many pulls from here"),
    ],
)
def test_a_base_image_that_cannot_be_had(engine: DockerEngine, name: str, said: str) -> None:
    with registry() as host:
        error = fault(engine, f"FROM {host}/{name}/image:1\n")
    assert said in error.message
    assert f"{host}/{name}/image:1" in error.message


def test_a_registry_without_an_address(engine: DockerEngine) -> None:
    error = fault(engine, "FROM registry.invalid/image:1\n")
    assert "the name of the registry of registry.invalid/image:1 could not be resolved" in error.message


def test_a_registry_that_does_not_answer(engine: DockerEngine) -> None:
    assert "could not be reached" in fault(engine, "FROM 127.0.0.1:9/image:1\n").message


def test_no_docker_command(tmp_path: Path) -> None:
    done = envsmith(*BUILD, cwd=tmp_path, env={"PATH": str(tmp_path)})
    assert (done.status, done.stdout) == (4, "")
    assert "the docker command is not installed" in done.stderr


def test_no_buildx(tmp_path: Path) -> None:
    program = tmp_path / "docker"
    context = [{"Name": "default", "Endpoints": {"docker": {"Host": "unix:///var/run/docker.sock"}}, "Storage": {}}]
    program.write_text(
        f"#!/bin/sh\n[ \"$1\" = buildx ] || {{ echo '{json.dumps(context)}'; exit; }}\n"
        "echo 'docker: unknown command: docker buildx' >&2; exit 1\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    done = envsmith(*BUILD, cwd=tmp_path, env={"PATH": str(tmp_path)})
    assert done.status == 4
    assert "Docker's buildx plugin is not installed" in done.stderr


def test_no_daemon(tmp_path: Path) -> None:
    done = envsmith(*BUILD, cwd=tmp_path, env={"DOCKER_HOST": f"unix://{tmp_path}/none.sock"})
    assert done.status == 4
    assert "the Docker daemon is not running" in done.stderr
    assert f"unix://{tmp_path}/none.sock" in done.stderr


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a forked child that gives up root, since root may use every socket."""
    path = tmp_path / "docker.sock"
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        path.chmod(0)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            if os.geteuid() == 0:
                os.setuid(65534)
            try:
                DockerEngine()
            except BuildFailedError as error:
                os.write(writer, error.message.encode())
            os._exit(0)
        os.close(writer)
        os.waitpid(child, 0)
        with os.fdopen(reader) as told:
            assert told.read() == f"no permission to use the Docker daemon (unix://{path})"


def test_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    with small_engine(BASE) as small:
        monkeypatch.setenv("DOCKER_HOST", small.host)
        with DockerEngine() as engine:
            fill = "dd if=/dev/zero of=/big bs=1M count=400"
            with pytest.raises(BuildFailedError) as in_a_step:
                build(engine, f"# block: torch\nFROM {BASE}\nRUN --network=none {fill}\n")
            with pytest.raises(BuildFailedError) as between_steps:
                build(engine, f"FROM {BASE}\nRUN --network=none {fill} || true\nRUN --network=none true\n")
    assert in_a_step.value.message.startswith("step 2/2 of the block 'torch' failed")
    assert "free space" in in_a_step.value.hint
    assert between_steps.value.message == "the engine has no disk space left"


def test_no_room_is_seen_before_anything_is_built(tmp_path: Path) -> None:
    with small_engine(BASE) as small:
        done = envsmith(*BUILD, cwd=tmp_path, env={"DOCKER_HOST": small.host})
    assert done.status == 4
    assert "GB of disk space left where it keeps images" in done.stderr
    assert "base image" not in done.stderr
