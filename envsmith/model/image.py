"""Rendered build contexts and what came out of the engine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ContextFile:
    """One file of the build context, relative path and bytes. mode: unix permission bits."""

    path: str
    content: bytes
    mode: int = 0o644


@dataclass(frozen=True)
class RenderedContext:
    """A Dockerfile and the files beside it. digest: sha256 over all of them."""

    dockerfile: str
    files: tuple[ContextFile, ...]
    digest: str


@dataclass(frozen=True)
class BuildOptions:
    """How to build, apart from what to build. ca_bundle: path of a PEM file, given as a build secret."""

    tags: tuple[str, ...]
    pull: bool = False
    no_cache: bool = False
    platform: str | None = None
    ca_bundle: str | None = None
    index_url: str | None = None
    extra_index_urls: tuple[str, ...] = ()


@dataclass(frozen=True)
class BuiltImage:
    """An image in the engine. digest: what identifies it, "sha256:..." (the image id).

    store: the engine's image store, "overlay2" (classic) or "containerd".
    """

    reference: str
    digest: str
    size_bytes: int
    platform: str
    labels: dict[str, str]
    store: str
    build_seconds: float | None = None


@dataclass(frozen=True)
class BuildEvent:
    """One thing that happened during a build. Texts are printable: no control or escape characters.

    kind: "started", "finished", "cached", "failed" (text: why), "log" (text: one line of its output) or
    "progress" (text: what is being moved; current_bytes, total_bytes, None = unknown).
    step: what the engine calls the step, "RUN uv pip install ..."; step_id tells steps of one name apart.
    number, total: its place among the numbered steps of the Dockerfile, None for the engine's own steps.
    block: the template block that a numbered step came from, "" where that is not known.
    seconds: how long the step took, for "finished" and "failed".
    """

    kind: str
    step_id: str
    step: str
    number: int | None = None
    total: int | None = None
    text: str = ""
    current_bytes: int | None = None
    total_bytes: int | None = None
    seconds: float | None = None
    block: str = ""


@dataclass(frozen=True)
class EngineInfo:
    """What a Docker Engine says of itself.

    store: its image store, "overlay2" (or another classic driver's name) or "containerd".
    free_bytes: free space where it keeps images; None = unknown (a remote engine), `free_bytes_why_unknown` says why.
    platform: its own, "linux/amd64". buildx: version of the buildx plugin, None = no buildx here.
    gpu: how a container can be given the GPUs: "cdi", "runtime" (what `docker run --gpus` uses) or None.
    gpu_why_none: why there is no way, for people.
    """

    server_version: str
    endpoint: str
    store: str
    free_bytes: int | None
    free_bytes_why_unknown: str
    platform: str
    buildx: str | None
    gpu: str | None
    gpu_why_none: str = ""


@dataclass(frozen=True)
class ContainerRun:
    """How one short-lived container ended. exit_status: None when it had to be stopped at the time limit.

    log_tail: last lines of its stderr, printable.
    """

    exit_status: int | None
    timed_out: bool
    seconds: float
    log_tail: tuple[str, ...]
