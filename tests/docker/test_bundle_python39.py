"""The bundle under Python 3.9 in a Debian 11 container that has nothing else."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from envsmith.portable import bundle
from tests.docker.conftest import docker

BASE = "debian:bullseye-slim"
# Behind a company's proxy apt needs its certificate; the builder's own bundle is that of the test's machine.
_APT_CONFIG = "/usr/local/share/apt.conf"
_CONFIGURE = f"""echo 'Acquire::https::CaInfo "/usr/local/share/ca.crt";' >{_APT_CONFIG}"""
CA_BUNDLE = Path(os.environ.get("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt"))


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A running container with Python 3.9 and the bundle, by name."""
    folder = tmp_path_factory.mktemp("bundle")
    (folder / "envsmith.pyz").write_bytes(bundle())
    name = f"envsmith-test-{uuid.uuid4().hex[:12]}"
    docker("run", "--detach", "--name", name, "--shm-size", "256m", BASE, "sleep", "900")
    try:
        docker("cp", str(CA_BUNDLE.resolve()), f"{name}:/usr/local/share/ca.crt")
        install = "apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y python3 >/dev/null"
        docker("exec", "--env", f"APT_CONFIG={_APT_CONFIG}", name, "sh", "-c", f"{_CONFIGURE}; {install}")
        docker("cp", str(folder / "envsmith.pyz"), f"{name}:/envsmith.pyz")
        yield name
    finally:
        docker("rm", "--force", name)


def inside(container: str, *arguments: str) -> str:
    return docker("exec", "--user", "1000:1000", container, "python3", "/envsmith.pyz", *arguments)


def test_facts(container: str) -> None:
    snapshot = json.loads(inside(container, "facts", "--format", "json"))
    assert snapshot["python"]["version"].startswith("3.9.")
    assert snapshot["host"]["os_version"] == "11"
    assert snapshot["host"]["container"] == "docker"
    assert snapshot["limits"]["shm_size_bytes"] == 256 << 20
    assert snapshot["torch"] is None


def test_check(container: str) -> None:
    report = json.loads(inside(container, "check", "--format", "json"))
    assert report["bundle_digest"] == f"sha256:{docker('exec', container, 'sha256sum', '/envsmith.pyz').split()[0]}"
    assert {result["status"] for result in report["results"]} == {"skip"}
    messages = {result["id"]: result["message"] for result in report["results"]}
    assert messages["torch-import"] == "PyTorch is not installed for /usr/bin/python3"
    assert messages["cuda-kernel-driver"].startswith("no NVIDIA GPU here")


def test_text_for_people(container: str) -> None:
    lines = inside(container, "check").splitlines()
    assert lines[0].startswith("envsmith ")
    assert lines[-1].startswith("not certified on a GPU: ")


def test_nothing_is_left_in_the_container(container: str) -> None:
    inside(container, "check")
    assert docker("exec", container, "find", "/tmp", "/dev/shm", "-mindepth", "1") == ""
    assert "envsmith" not in docker("top", container, "-eo", "pid,args")
