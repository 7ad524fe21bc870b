"""The command line of `docker buildx build`. Arguments only: no text ever passes through a shell."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from envsmith.engine.text import secrets_in
from envsmith.errors import BuildFailedError, UsageError
from envsmith.model.decode import decode
from envsmith.model.image import BuildOptions, RenderedContext

# Predefined in every Dockerfile: BuildKit gives them to RUN, but to no layer, no history and no cache key.
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "FTP_PROXY", "ALL_PROXY")
_INDEX_VARIABLE = "ENVSMITH_BUILD_INDEX_URL"
_EXTRA_INDEX_VARIABLE = "ENVSMITH_BUILD_EXTRA_INDEX_URLS"
# Without an attestation the containerd store keeps one plain image, and the classic one refuses them anyway.
_NO_ATTESTATION = ("--provenance=false", "--sbom=false")
_EPOCH_S = 0


@dataclass(frozen=True)
class BuildCommand:
    """argv and environment of one build; secrets: texts that must never be shown."""

    argv: tuple[str, ...]
    env: dict[str, str]
    secrets: tuple[str, ...]


@dataclass(frozen=True)
class BuildPlace:
    """Where and how to build. builder: BuildKit inside the engine that keeps the image, not another builder.

    rawjson: whether this buildx has --progress=rawjson. uv: folder with the uv binary. metadata: what buildx writes.
    """

    builder: str
    store: str
    rawjson: bool
    uv: Path
    metadata: Path


def build_command(options: BuildOptions, place: BuildPlace, environment: Mapping[str, str]) -> BuildCommand:
    """The whole command; the context comes as a tar archive on stdin."""
    env = dict(environment)
    # what a user's environment would change in the form of the output
    for name in ("BUILDX_BUILDER", "BUILDKIT_PROGRESS", "BUILDX_METADATA_PROVENANCE"):
        env.pop(name, None)
    argv = ["docker", "buildx", "build", "--builder", place.builder]
    argv += ["--progress", "rawjson" if place.rawjson else "plain"]
    argv += [*output_options(place.store), *_NO_ATTESTATION, "--metadata-file", str(place.metadata)]
    argv += [f"--build-context=uv={place.uv}"]
    argv += [f"--tag={tag}" for tag in options.tags]
    argv += ["--platform", options.platform] if options.platform else []
    argv += ["--pull"] if options.pull else []
    argv += ["--no-cache"] if options.no_cache else []
    for name in (*PROXY_VARIABLES, *(name.lower() for name in PROXY_VARIABLES)):
        argv += ["--build-arg", name] if env.get(name) else []
    if options.ca_bundle:
        source = os.path.abspath(options.ca_bundle).replace('"', '""')  # noqa: PTH100 - keeps links
        argv += ["--secret", f'id=ca_bundle,"src={source}"']  # one CSV record
    for identity, variable, value in (
        ("index_url", _INDEX_VARIABLE, options.index_url or ""),
        ("extra_index_url", _EXTRA_INDEX_VARIABLE, " ".join(options.extra_index_urls)),
    ):
        if value:
            argv += ["--secret", f"id={identity},env={variable}"]
            env[variable] = value
    return BuildCommand((*argv, "-"), env, build_secrets(options, env))


def image_digest(metadata: bytes) -> str:
    """The id of the built image in the engine's store, out of buildx's metadata file. Raises BuildFailedError.

    On the containerd store that is the digest of the manifest, on the classic one that of the configuration;
    `--iidfile` tells the latter on both.
    """
    try:
        digest = decode(metadata, dict[str, object], "buildx's metadata file").get("containerimage.digest")
    except UsageError as error:
        raise BuildFailedError(f"buildx does not tell what it built: {error}") from error
    if not isinstance(digest, str):
        raise BuildFailedError("buildx does not tell what it built: its metadata file names no image")
    return digest


def output_options(store: str) -> list[str]:
    """How the image gets into the engine's store, the fastest way that suits.

    The classic store takes the layers as they are. The containerd store would compress them with gzip, which
    takes three times as long as zstd level 1 for a torch image; unpacked at once, as it is run at once.
    """
    if store != "containerd":
        return ["--load"]
    return ["--output", "type=image,unpack=true,compression=zstd,compression-level=1,oci-mediatypes=true"]


def build_secrets(options: BuildOptions, env: Mapping[str, str]) -> tuple[str, ...]:
    """Every text to mask: passwords and tokens in index URLs and proxies, longest first."""
    proxies = [env.get(name, "") for name in (*PROXY_VARIABLES, *(name.lower() for name in PROXY_VARIABLES))]
    urls = [options.index_url or "", *options.extra_index_urls, *proxies]
    found = {secret for url in urls for secret in secrets_in(url)}
    return tuple(sorted(found, key=len, reverse=True))


def context_archive(context: RenderedContext) -> bytes:
    """The build context as a tar archive, the same bytes for the same context."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        files = [("Dockerfile", context.dockerfile.encode(), 0o644)]
        files += [(file.path, file.content, file.mode) for file in context.files]
        for path, content, mode in files:
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode, entry.mtime = len(content), mode, _EPOCH_S
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
