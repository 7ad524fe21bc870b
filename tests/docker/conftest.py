"""The docker ring: real builds on a real engine. Nothing is skipped: who asks for this ring has an engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from envsmith.engine.docker import DockerEngine
from envsmith.errors import BuildFailedError

ROOT = Path(__file__).parents[2]
BASE = "debian:bookworm-slim"
# A certificate that no operating system ships, so that each of its lines would tell of a leak.
MARKER = Path(__file__).parent / "throwaway-ca.pem"
_SYSTEM_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.docker)
            item.add_marker(pytest.mark.timeout(1800))


@dataclass(frozen=True)
class Said:
    """What a command came to."""

    status: int
    stdout: str
    stderr: str


def envsmith(*arguments: str | Path, cwd: Path, env: dict[str, str] | None = None) -> Said:
    """Run the real command in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "envsmith", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Said(done.returncode, done.stdout, done.stderr)


def docker(*arguments: str) -> str:
    """Run the docker command; its failure fails the test with its words."""
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session", autouse=True)
def _engine_is_there() -> None:
    try:
        with DockerEngine() as engine:
            info = engine.info()
    except BuildFailedError as error:
        pytest.exit(f"the docker ring needs a Docker Engine: {error.message} ({error.hint})", returncode=4)
    if info.buildx is None:
        pytest.exit("the docker ring needs Docker's buildx plugin", returncode=4)
    if subprocess.run(["docker", "image", "inspect", BASE], capture_output=True, check=False).returncode != 0:
        docker("pull", BASE)


@pytest.fixture(scope="session")
def engine() -> Iterator[DockerEngine]:
    with DockerEngine() as connected:
        yield connected


@pytest.fixture(autouse=True)
def _no_container_is_left() -> Iterator[None]:
    """Every test ends with no container of this process; others may use the same engine."""
    yield
    assert docker("ps", "--all", "--quiet", "--filter", f"label=io.envsmith.run={os.getpid()}").split() == []


@dataclass(frozen=True)
class Built:
    """The image that the main job ends in. document: the JSON answer; folder: where the command ran."""

    reference: str
    document: dict[str, Any]
    folder: Path
    certificate: Path


@pytest.fixture(scope="session")
def ca_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The CA bundle that downloads need here, if they need one, with the throw-away certificate at its end."""
    given = [os.environ.get(name, "") for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT")]
    system = next(Path(path) for path in (*given, *_SYSTEM_BUNDLES) if path and Path(path).is_file())
    bundle = tmp_path_factory.mktemp("ca") / "bundle.pem"
    bundle.write_bytes(system.read_bytes().rstrip() + b"\n" + MARKER.read_bytes())
    return bundle


@pytest.fixture(scope="session")
def torch_image(tmp_path_factory: pytest.TempPathFactory, ca_bundle: Path) -> Built:
    """`envsmith build --torch 2.6 --cuda 12.1`, the whole of it. The image is left to the engine for the next run."""
    folder = tmp_path_factory.mktemp("build")
    done = envsmith(
        "build", "--torch", "2.6", "--cuda", "12.1", "--ca-bundle", ca_bundle, "--format", "json", cwd=folder
    )
    assert done.status == 0, done.stderr[-3000:]
    document = json.loads(done.stdout)
    (certificate,) = folder.glob("*.certificate.json")
    return Built(document["image"]["reference"], document, folder, certificate)
