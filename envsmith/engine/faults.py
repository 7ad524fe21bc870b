"""What goes wrong with an engine, told once each: from the words of docker, buildx and BuildKit to one message."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from envsmith.errors import BuildFailedError, EnvsmithError, UsageError
from envsmith.model.image import BuildEvent

_LOG_TAIL_LINES = 20
_STEP_CHARACTERS = 100
_RUN_FLAGS = re.compile(r"(?<=^RUN )(?:--\S+ )+")  # mounts, which tell nobody what the step does
_EXIT_CODE = re.compile(r"exit code: (\d+)$")
_DISK_HINT = "free space where the engine keeps its images (docker system df; docker builder prune), then build again"
_DAEMON_GONE = "the Docker daemon went away in the middle of the work"
_DAEMON_GONE_HINT = "see why it stopped (journalctl -u docker), start it, and build again: finished steps are cached"


@dataclass(frozen=True)
class _Fault:
    """pattern: what Docker says (searched, any case). message: {image} stands for the base image."""

    pattern: str
    message: str
    hint: str


_NO_BUILDX = _Fault(
    r"unknown command: docker buildx|'buildx' is not a docker command|unknown flag: --(load|progress|builder)",
    "Docker's buildx plugin is not installed",
    "install it: the package docker-buildx-plugin (Docker's own repository) or docker-buildx (Debian, Ubuntu)",
)
_EMULATION_HINT = (
    "install emulation (docker run --privileged --rm tonistiigi/binfmt --install all), or use such a machine"
)

# Faults of the engine or the network around it. The first that is found counts, so the specific come first.
_ENGINE_FAULTS = (
    _Fault(
        r"permission denied while trying to connect|PermissionError\(13|connect: permission denied",
        "no permission to use the Docker daemon",
        "join the group that owns the socket (sudo usermod -aG docker $USER, then log in again), or use sudo",
    ),
    _Fault(
        r"Cannot connect to the Docker daemon|is the docker daemon running|FileNotFoundError\(2|ConnectionRefusedError"
        r"|Max retries exceeded.*(Errno 111|Connection refused)",
        "the Docker daemon is not running, or not where docker looks for it",
        "start it (sudo systemctl start docker), or see docker context ls and DOCKER_HOST",
    ),
    _Fault(
        r"error during connect.*lookup \S+.*no such host|NameResolutionError|Failed to resolve '",
        "the host of the Docker daemon has no address",
        "see docker context ls and DOCKER_HOST",
    ),
    _NO_BUILDX,
    _Fault(
        r"no space left on device|disk quota exceeded",
        "the engine has no disk space left",
        _DISK_HINT,
    ),
    _Fault(
        r"code = Unavailable|error reading from server: (EOF|.*reset)|closing transport|Connection aborted"
        r"|RemoteDisconnected|Connection reset by peer|Response ended prematurely|IncompleteRead",
        _DAEMON_GONE,
        _DAEMON_GONE_HINT,
    ),
    _Fault(
        r"Read timed out",
        "the Docker daemon does not answer",
        "see what keeps it busy (journalctl -u docker), or restart it (sudo systemctl restart docker)",
    ),
)

# Faults of getting a base image, looked for once BuildKit says that it was getting one.
_PULLING = re.compile(
    r"failed to resolve source metadata for (?P<image>\S+): |failed to (copy|do request)|httpReadSeeker"
)
_REACH_HINT = "see that the engine reaches its registry (docker pull), or load the base image first (docker load)"
_PULL_FAULTS = (
    _Fault(
        r"lookup \S+.*(no such host|server misbehaving|i/o timeout|connection refused|Temporary failure)",
        "the name of the registry of {image} could not be resolved: no network, or no DNS, at the engine",
        _REACH_HINT,
    ),
    _Fault(
        r"x509: |failed to verify certificate",
        "the certificate of the registry of {image} is not trusted by the Docker daemon",
        "put the company's CA in /etc/docker/certs.d/REGISTRY/ca.crt (--ca-bundle is for what runs inside the build)",
    ),
    _Fault(
        r"dial tcp|i/o timeout|network is unreachable|TLS handshake timeout|proxyconnect|tls: ",
        "the registry of {image} could not be reached from the engine",
        _REACH_HINT,
    ),
    _Fault(
        r"429 Too Many Requests|toomanyrequests|pull rate limit",
        "the registry refused to give {image}: too many pulls from here",
        "log in (docker login), or wait",
    ),
    _Fault(
        r"pull access denied|not authorized|unauthorized|insufficient_scope|denied: |403 Forbidden",
        "the registry refused to give {image}: it does not exist there, or needs a login",
        "see its name, and docker login",
    ),
    _Fault(
        r"no match for platform in manifest|no matching manifest for",
        "{image} does not exist for this platform",
        "choose another --os or --platform",
    ),
    _Fault(
        r"not found|manifest unknown",
        "{image} does not exist in its registry",
        "see its name and tag; an old nvidia/cuda image may have been withdrawn",
    ),
)

# Causes seen in the output of a step. They add a hint; the step stays what failed.
_STEP_HINTS = (
    (r"no space left on device", _DISK_HINT),
    (
        r"exec format error",
        f"the engine cannot run programs of this platform: {_EMULATION_HINT}",
    ),
    (
        r"UnknownIssuer|certificate verif(y|ication) failed|self.signed certificate|unable to get local issuer",
        "a certificate was not trusted inside the build: give your company's CA bundle with --ca-bundle PATH",
    ),
    (
        r"Could not resolve|dns error|Temporary failure (in name )?resol|Name or service not known",
        "a name could not be resolved inside the build: see the engine's DNS, or set HTTPS_PROXY",
    ),
    (r"401 Unauthorized|403 Forbidden", "the package index refused access: see the credentials in --index-url"),
)


def no_docker() -> BuildFailedError:
    """There is no `docker` in PATH."""
    return BuildFailedError(
        "the docker command is not installed, or not in PATH",
        "install Docker Engine with buildx: https://docs.docker.com/engine/install/",
    )


def no_buildx() -> BuildFailedError:
    """There is a `docker`, without its buildx plugin."""
    return BuildFailedError(_NO_BUILDX.message, _NO_BUILDX.hint)


def daemon_gone(endpoint: str) -> BuildFailedError:
    """The connection ended before what was asked for did."""
    return BuildFailedError(f"{_DAEMON_GONE} ({endpoint})", _DAEMON_GONE_HINT)


def container_fault(text: str) -> EnvsmithError | None:
    """Why a container could not be started, where that lies with the image or the way to the GPU; else None."""
    if re.search(r"exec: \"?python3\"?: (executable file not found|no such file)|python3: no such file", text):
        return UsageError("the image has no python3 in its PATH, so nothing can be checked inside it")
    if re.search(r"exec format error", text):
        return BuildFailedError("the engine cannot run programs of the image's platform", _EMULATION_HINT)
    if re.search(r"requirement error|unsatisfied condition", text):
        return BuildFailedError(
            f"the driver of the engine's machine does not meet what the image requires: {text}",
            "update that driver, or build an image for it: envsmith build --driver VERSION",
        )
    if re.search(r"nvidia-container-cli|could not select device driver|CDI device|nvidia.com/gpu", text):
        return BuildFailedError(
            f"the engine could not give the container the GPUs: {text}",
            "see nvidia-smi on the engine's machine and NVIDIA's container toolkit there (nvidia-ctk cdi list)",
        )
    return None


def engine_fault(text: str) -> BuildFailedError | None:
    """The fault of the engine, or of getting a base image, that the text tells of; else None."""
    pulling = _PULLING.search(text)
    image = (pulling["image"] if pulling else None) or "the base image"
    for fault in (*_ENGINE_FAULTS, *(_PULL_FAULTS if pulling else ())):
        if re.search(fault.pattern, text, re.IGNORECASE):
            return BuildFailedError(fault.message.format(image=image), fault.hint)
    return None


def connection_fault(error: Exception, endpoint: str) -> BuildFailedError:
    """The SDK's error, on connecting or in the middle, as one message."""
    known = engine_fault(str(error))
    if known is None:
        return BuildFailedError(f"the Docker engine at {endpoint} answered with an error: {error}", "")
    return BuildFailedError(f"{known.message} ({endpoint})", known.hint)


def build_fault(
    exit_status: int, tail: Sequence[str], failed: BuildEvent | None, log: Sequence[str]
) -> BuildFailedError:
    """Why `docker buildx build` ended with this status.

    tail: its last words outside the progress; failed: the step that failed, if one did; log: that step's output.
    """
    words = "\n".join(tail)
    ran = failed is not None and _EXIT_CODE.search(failed.text) is not None
    if failed is not None and ran:
        return _failing_step(failed, log)
    known = engine_fault(words) or (engine_fault(failed.text) if failed else None)
    if known:
        return known
    if failed is not None:
        return _failing_step(failed, log)
    said = [line for line in tail if line.strip()]
    message = said[-1].removeprefix("ERROR: ") if said else "it said nothing"
    return BuildFailedError(
        f"docker buildx build failed (exit status {exit_status}): {message}", "", tuple(said[-_LOG_TAIL_LINES:-1])
    )


def _failing_step(failed: BuildEvent, log: Sequence[str]) -> BuildFailedError:
    where = f" of the block {failed.block!r}" if failed.block else ""
    code = _EXIT_CODE.search(failed.text)
    how = f"exit status {code[1]}" if code else failed.text
    step = _RUN_FLAGS.sub("", failed.step)
    step = step if len(step) <= _STEP_CHARACTERS else step[:_STEP_CHARACTERS] + " ..."
    place = f"step {failed.number}/{failed.total}" if failed.number else "a step"
    output = "\n".join([*log, failed.text])
    hint = next((hint for pattern, hint in _STEP_HINTS if re.search(pattern, output, re.IGNORECASE)), "")
    shown = tuple(line for line in log if line.strip())[-_LOG_TAIL_LINES:]
    return BuildFailedError(f"{place}{where} failed ({how}): {step}", hint, shown)
