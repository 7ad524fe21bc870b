"""The SDK talks to the engine that `docker` talks to: its context, DOCKER_HOST, or the default socket."""

from __future__ import annotations

import gc
import json
import shlex
from pathlib import Path

import pytest

from envsmith.engine.endpoint import Endpoint, connect, current_endpoint
from envsmith.errors import BuildFailedError


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a `docker` that prints the file `answer` and exits with `status`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "docker"
    quoted = shlex.quote(str(tmp_path))
    program.write_text(
        f"#!/bin/sh\n/bin/cat {quoted}/answer\n/bin/cat {quoted}/errors >&2\nexit $(/bin/cat {quoted}/status)\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    (tmp_path / "status").write_text("0", encoding="ascii")
    (tmp_path / "errors").write_text("WARNING: Error loading config file: permission denied\n", encoding="ascii")
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    return tmp_path


def answer(host: str, tls: str = "<IN MEMORY>") -> str:
    endpoint = {"Host": host, "SkipTLSVerify": False}
    return json.dumps(
        [{"Name": "far", "Metadata": {}, "Endpoints": {"docker": endpoint}, "TLSMaterial": {},
          "Storage": {"MetadataPath": "<IN MEMORY>", "TLSPath": tls}}]
    )  # fmt: skip


def test_the_current_context(docker: Path) -> None:
    (docker / "answer").write_text(answer("tcp://10.0.0.1:2376"), encoding="utf-8")
    assert current_endpoint() == Endpoint("far", "tcp://10.0.0.1:2376")
    assert not current_endpoint().local


def test_the_certificates_of_a_context(docker: Path) -> None:
    (docker / "tls" / "docker").mkdir(parents=True)
    (docker / "tls" / "docker" / "ca.pem").touch()
    (docker / "answer").write_text(answer("tcp://10.0.0.1:2376", str(docker / "tls")), encoding="utf-8")
    assert current_endpoint().tls_folder == docker / "tls" / "docker"


@pytest.mark.parametrize("text", ["", "[]", "{}", "no such context", '[{"Name": 3}]'])
def test_an_answer_that_is_none_is_one_clear_error(docker: Path, text: str) -> None:
    (docker / "answer").write_text(text, encoding="utf-8")
    with pytest.raises(BuildFailedError, match="docker cannot tell which engine it uses"):
        current_endpoint()


def test_a_context_that_does_not_exist(docker: Path) -> None:
    (docker / "answer").touch()
    (docker / "errors").write_text('context "gone": context not found', encoding="utf-8")
    (docker / "status").write_text("1", encoding="ascii")
    with pytest.raises(BuildFailedError, match="context not found"):
        current_endpoint()


def test_without_a_docker_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    assert current_endpoint().host == "unix:///var/run/docker.sock"
    monkeypatch.setenv("DOCKER_HOST", "tcp://1.2.3.4:5")
    assert current_endpoint().host == "tcp://1.2.3.4:5"


def test_ssh_is_refused_with_a_way_out() -> None:
    with pytest.raises(BuildFailedError, match="over ssh") as caught:
        connect(Endpoint("far", "ssh://me@host"))
    assert "ssh -nNT -L" in caught.value.hint


# the SDK leaves the socket that could not connect to the garbage collector
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("variable", [None, ""])
def test_a_socket_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str | None) -> None:
    if variable is None:
        monkeypatch.delenv("DOCKER_HOST", raising=False)
    else:  # docker takes this for not set
        monkeypatch.setenv("DOCKER_HOST", variable)
    with pytest.raises(BuildFailedError, match="daemon is not running"):
        connect(Endpoint("default", f"unix://{tmp_path}/none.sock"))
    gc.collect()
