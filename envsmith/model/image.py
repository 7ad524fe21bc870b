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
    progress: str = "auto"
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
