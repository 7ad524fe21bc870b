"""Every fault is told by one message with status 4, out of the words that Docker really used."""

from __future__ import annotations

from pathlib import Path

import pytest

from envsmith.engine.faults import build_fault, connection_fault, container_fault, engine_fault
from envsmith.errors import BuildFailedError, UsageError
from envsmith.model.image import BuildEvent

RECORDED = Path(__file__).parents[2] / "recorded" / "docker"

SAID = {
    "daemon-killed": "the Docker daemon went away in the middle of the work",
    "disk-full-engine": "the engine has no disk space left",
    "no-buildx": "Docker's buildx plugin is not installed",
    "no-daemon": "the Docker daemon is not running, or not where docker looks for it",
    "no-daemon-host": "the host of the Docker daemon has no address",
    "no-permission": "no permission to use the Docker daemon",
    "pull-connection-refused": "the registry of 127.0.0.1:5598/x:1 could not be reached from the engine",
    "pull-denied": "the registry refused to give localhost:5599/denied/x:1: it does not exist there, or needs a login",
    "pull-denied-docker-hub": "the registry refused to give docker.io/nosuch/image:1: "
    "it does not exist there, or needs a login",
    "pull-name-not-resolved": "the name of the registry of docker.io/nvidia/cuda:12.1.1-devel-ubuntu22.04 could not "
    "be resolved: no network, or no DNS, at the engine",
    "pull-not-found": "localhost:5599/gone/x:1 does not exist in its registry",
    "pull-too-many": "the registry refused to give localhost:5599/many/x:1: too many pulls from here",
    "pull-unauthorized": "the registry refused to give localhost:5599/login/x:1: it does not exist there, "
    "or needs a login",
}


def test_every_recorded_fault_is_expected() -> None:
    assert {path.stem for path in RECORDED.glob("*.txt") if not path.stem.startswith("buildx-")} == set(SAID)


@pytest.mark.parametrize("name", sorted(SAID))
def test_one_message_for_each_fault(name: str) -> None:
    tail = (RECORDED / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    fault = build_fault(1, tail, None, ())
    assert fault.message == SAID[name]
    assert fault.exit_status == 4
    assert fault.hint


SDK_SAYS = {
    "('Connection aborted.', FileNotFoundError(2, 'No such file or directory'))": "no-daemon",
    "('Connection aborted.', PermissionError(13, 'Permission denied'))": "no-permission",
    "('Connection aborted.', ConnectionRefusedError(111, 'Connection refused'))": "no-daemon",
    "Max retries exceeded with url: /version (Caused by ... [Errno 111] Connection refused)": "no-daemon",
    "Caused by NameResolutionError(\"Failed to resolve 'nosuch.invalid' ([Errno -2])\")": "no-daemon-host",
    "Response ended prematurely": "daemon-killed",
    "('Connection aborted.', RemoteDisconnected('Remote end closed connection'))": "daemon-killed",
}


@pytest.mark.parametrize("said", sorted(SDK_SAYS))
def test_the_sdk_says_the_same_in_other_words(said: str) -> None:
    fault = connection_fault(RuntimeError(said), "unix:///run/x.sock")
    assert fault.message == f"{SAID[SDK_SAYS[said]]} (unix:///run/x.sock)"


def test_a_daemon_that_hangs_is_told_from_one_that_is_gone() -> None:
    fault = connection_fault(RuntimeError("UnixHTTPConnectionPool(host='localhost'): Read timed out."), "unix:///x")
    assert fault.message == "the Docker daemon does not answer (unix:///x)"


def test_an_unknown_error_of_the_engine_is_quoted() -> None:
    assert engine_fault("something new") is None
    fault = connection_fault(RuntimeError("something new"), "tcp://h:1")
    assert fault.message == "the Docker engine at tcp://h:1 answered with an error: something new"
    fault = build_fault(9, ["one", "ERROR: two", ""], None, ())
    assert fault.message == "docker buildx build failed (exit status 9): two"
    assert fault.log_tail == ("one",)


def failed(
    text: str = 'process "/bin/sh -c x" did not complete successfully: exit code: 2', block: str = "torch"
) -> BuildEvent:
    return BuildEvent("failed", "sha256:1", "RUN uv pip install torch", 4, 9, text, block=block)


def test_a_failing_step_names_its_block_and_shows_its_last_lines() -> None:
    log = [f"line {number}" for number in range(50)]
    fault = build_fault(1, ["Dockerfile:5", "ERROR: failed to solve: process"], failed(), log)
    assert fault.message == "step 4/9 of the block 'torch' failed (exit status 2): RUN uv pip install torch"
    assert fault.log_tail == tuple(log[-20:])


def test_the_block_is_left_out_when_it_is_not_known() -> None:
    fault = build_fault(1, ["ERROR: failed to solve"], failed(block=""), ["x"])
    assert fault.message == "step 4/9 failed (exit status 2): RUN uv pip install torch"


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("dd: error writing '/big': No space left on device", "free space"),
        ("exec /bin/sh: exec format error", "emulation"),
        ("invalid peer certificate: UnknownIssuer", "--ca-bundle"),
        ("Certificate verification failed: The certificate is NOT trusted.", "--ca-bundle"),
        ("Could not resolve 'deb.debian.org'", "HTTPS_PROXY"),
        ("failed to lookup address information: Temporary failure in name resolution", "HTTPS_PROXY"),
        ("HTTP status client error (401 Unauthorized) for url", "--index-url"),
    ],
)
def test_a_known_cause_in_the_output_of_a_step_becomes_its_hint(line: str, hint: str) -> None:
    fault = build_fault(1, ["Dockerfile:5"], failed(), ["before", line])
    assert hint in fault.hint
    assert line in fault.log_tail


def test_what_ran_inside_a_step_is_not_taken_for_the_engine() -> None:
    fault = build_fault(1, ["Dockerfile:5", "Cannot connect to the Docker daemon"], failed(), ())
    assert fault.message.startswith("step 4/9 of the block 'torch' failed")


def test_a_full_disk_between_the_steps_is_a_fault_of_the_engine() -> None:
    fault = build_fault(1, ["ERROR: x"], failed("write /var/lib/x.db: no space left on device"), ())
    assert fault.message == SAID["disk-full-engine"]


def test_why_a_container_did_not_start() -> None:
    no_python = container_fault('exec: "python3": executable file not found in $PATH: unknown')
    assert isinstance(no_python, UsageError)
    assert "no python3" in no_python.message
    too_old = container_fault("nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.4")
    assert isinstance(too_old, BuildFailedError)
    assert too_old.message.startswith("the driver of the engine's machine does not meet what the image requires")
    gpu = container_fault('could not select device driver "cdi" with capabilities: []')
    assert gpu is not None
    assert gpu.exit_status == 4
    assert "could not give the container the GPUs" in gpu.message
    assert container_fault("something else") is None
