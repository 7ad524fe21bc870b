"""Which engine the docker command line talks to, so that the SDK talks to the same one.

The SDK knows DOCKER_HOST but no `docker context`; the command line knows both.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envsmith.engine.command import capture
from envsmith.engine.faults import connection_fault
from envsmith.errors import BuildFailedError, UsageError
from envsmith.model.decode import decode

_DEFAULT_HOST = "unix:///var/run/docker.sock"
_CLI_LIMIT_S = 20.0
_REQUEST_LIMIT_S = 60


@dataclass(frozen=True)
class Endpoint:
    """context: its name, which is also that of buildx's builder inside that engine. host: a URL.

    tls_folder: where the context keeps ca.pem, cert.pem and key.pem; None = no TLS, or given by DOCKER_* variables.
    """

    context: str
    host: str
    tls_folder: Path | None = None
    skip_tls_verify: bool = False

    @property
    def local(self) -> bool:
        """Whether the engine's files may be this machine's."""
        return self.host.startswith("unix://")


# The parts of `docker context inspect` that are used; field names are Docker's.
@dataclass(frozen=True)
class _DockerEndpoint:
    Host: str = _DEFAULT_HOST
    SkipTLSVerify: bool = False


@dataclass(frozen=True)
class _Context:
    Name: str
    Endpoints: dict[str, _DockerEndpoint]
    Storage: dict[str, str]


def current_endpoint() -> Endpoint:
    """The endpoint of `docker` here and now: DOCKER_HOST, DOCKER_CONTEXT or the current context.

    Without a docker command: DOCKER_HOST or the default socket. Raises BuildFailedError when docker cannot tell.
    """
    try:
        told = capture(["docker", "context", "inspect"], _CLI_LIMIT_S)
    except (FileNotFoundError, PermissionError):
        return Endpoint("default", os.environ.get("DOCKER_HOST") or _DEFAULT_HOST)
    if told.status != 0:
        raise BuildFailedError(
            f"docker cannot tell which engine it uses: {told.errors.strip()}",
            "see docker context ls and DOCKER_CONTEXT",
        )
    try:
        context = decode(told.output, tuple[_Context, ...], "the answer of docker context inspect")[0]
    except (UsageError, IndexError) as error:
        raise BuildFailedError(f"docker cannot tell which engine it uses: {error}", "see docker context ls") from error
    endpoint = context.Endpoints.get("docker", _DockerEndpoint())
    folder = Path(context.Storage.get("TLSPath", "")) / "docker"
    tls = folder if (folder / "ca.pem").is_file() or (folder / "cert.pem").is_file() else None
    return Endpoint(context.Name, endpoint.Host, tls, endpoint.SkipTLSVerify)


def connect(endpoint: Endpoint) -> Any:
    """A docker.DockerClient for the endpoint, after one answer from it.

    Raises BuildFailedError: no daemon, no permission, no such host, or a kind of endpoint the SDK does not know.
    """
    import docker
    import docker.errors
    import requests

    if endpoint.host.startswith("ssh://"):
        raise BuildFailedError(
            f"the engine at {endpoint.host} is reached over ssh, which envsmith cannot do itself",
            "forward its socket (ssh -nNT -L /tmp/docker.sock:/var/run/docker.sock HOST) and set "
            "DOCKER_HOST=unix:///tmp/docker.sock",
        )
    try:
        if os.environ.get("DOCKER_HOST"):  # set and empty is the same as not set, to docker
            return docker.from_env(timeout=_REQUEST_LIMIT_S)
        return docker.DockerClient(base_url=endpoint.host, tls=_tls(endpoint), timeout=_REQUEST_LIMIT_S)
    except (docker.errors.DockerException, requests.RequestException, OSError) as error:
        raise connection_fault(error, endpoint.host) from error


def _tls(endpoint: Endpoint) -> Any:
    from docker.tls import TLSConfig

    if endpoint.tls_folder is None:
        return False
    cert, key, ca = (endpoint.tls_folder / name for name in ("cert.pem", "key.pem", "ca.pem"))
    return TLSConfig(
        client_cert=(str(cert), str(key)) if cert.is_file() else None,
        ca_cert=str(ca) if ca.is_file() else None,
        verify=not endpoint.skip_tls_verify,
    )
