"""Whatever ends a build or a check in the middle, no process, container, volume or file is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from envsmith.engine.docker import DockerEngine
from tests.docker.conftest import BASE, ROOT, Built, docker
from tests.docker.pyz import bundle
from tests.docker.slow_build import TAG
from tests.docker.small_engine import small_engine


def wait_for(condition: Callable[[], bool], limit_s: float = 20.0) -> bool:
    end = time.monotonic() + limit_s
    while not condition() and time.monotonic() < end:
        time.sleep(0.1)
    return condition()


def processes(words: str) -> list[str]:
    """Command lines that hold the words, but for this one."""
    found = subprocess.run(["pgrep", "-af", words], capture_output=True, text=True, check=False)
    return [line for line in found.stdout.splitlines() if "slow_build" not in line]


@pytest.fixture
def seconds() -> str:
    """How long the step sleeps: a figure that no other process has in its command line."""
    return f"{600 + uuid.uuid4().int % 10_000}.{uuid.uuid4().int % 10_000}"


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """The folder for temporary files of a started command, which must be empty afterwards."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    yield folder
    assert list(folder.iterdir()) == []


def start(module: str, *arguments: str, scratch: Path, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(scratch), **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_build_that_is_interrupted(number: signal.Signals, seconds: str, scratch: Path) -> None:
    with start("tests.docker.slow_build", seconds, scratch=scratch) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "sleeping\n"
        assert wait_for(lambda: processes(f"sleep {seconds}") != [])
        child.send_signal(number)
        assert child.wait(20) == 130
    assert wait_for(lambda: processes(f"sleep {seconds}") == []), "the step goes on inside the engine"
    assert processes(str(scratch)) == []
    assert TAG not in docker("image", "ls", "--format", "{{.Repository}}:{{.Tag}}").split()


def test_the_whole_command_that_is_interrupted(tmp_path: Path, scratch: Path, ca_bundle: Path) -> None:
    """At the first step that does something; started as from a shell, with SIGINT listened to."""
    program = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    program += "from envsmith.cli.main import run; sys.exit(run(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "build", "--torch", "2.6", "--cuda", "12.1", "--no-cache"]
    env = {**os.environ, "TMPDIR": str(scratch), "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [*command, "--ca-bundle", str(ca_bundle), "--tag", TAG, "--certificate", "c.json"],
        cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as child:  # fmt: skip
        assert child.stderr is not None
        for line in child.stderr:
            if "Get:" in line or "Fetched" in line or "Hit:" in line:
                break
        child.send_signal(signal.SIGINT)
        stdout, stderr = child.communicate(timeout=30)
    assert (child.returncode, stdout) == (130, "")
    assert stderr.splitlines()[-1] == "envsmith: interrupted"
    assert processes(str(scratch)) == []
    assert list(tmp_path.glob("*.json")) == []
    assert tempfile.gettempdir() != str(scratch)


def test_a_daemon_that_is_killed(scratch: Path) -> None:
    with (
        small_engine(BASE) as small,
        start("tests.docker.slow_build", "15", scratch=scratch, DOCKER_HOST=small.host) as child,
    ):
        assert child.stdout is not None
        assert child.stdout.readline() == "sleeping\n"
        time.sleep(1)
        small.kill()
        assert child.stdout.readline() == "the Docker daemon went away in the middle of the work\n"
        assert child.wait(20) == 4
    assert processes(str(scratch)) == []


def test_a_check_that_is_interrupted_leaves_no_container(torch_image: Built, engine: DockerEngine) -> None:
    sleeper = bundle("import time; print('up', flush=True); time.sleep(600)")

    def interrupt(_line: str) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt):
        engine.run_bundle(torch_image.reference, sleeper, [], None, interrupt, 60.0)


def test_a_daemon_that_is_killed_during_a_check(scratch: Path) -> None:
    with (
        small_engine(BASE, "400m") as small,
        start("tests.docker.slow_check", scratch=scratch, DOCKER_HOST=small.host) as child,
    ):
        assert child.stdout is not None
        assert child.stdout.readline() == "up\n"
        small.kill()
        assert "the Docker daemon went away in the middle of the work" in child.stdout.readline()
        assert child.wait(30) == 4
