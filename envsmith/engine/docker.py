"""The Docker Engine, as the rest of envsmith sees it. Builds go through buildx, everything else through the SDK."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from envsmith.engine import buildx, container, interpreter
from envsmith.engine.command import stream
from envsmith.engine.endpoint import connect, current_endpoint
from envsmith.engine.facts import engine_info, image_store
from envsmith.engine.faults import build_fault, connection_fault, container_fault, daemon_gone, no_buildx, no_docker
from envsmith.engine.progress import PlainProgress, RawJsonProgress
from envsmith.engine.reference import check_reference
from envsmith.engine.steps import blocks_of_steps
from envsmith.engine.uv_folder import uv_folder
from envsmith.errors import UsageError
from envsmith.model.image import BuildEvent, BuildOptions, BuiltImage, ContainerRun, EngineInfo, RenderedContext
from envsmith.model.versions import parse

_RAWJSON_SINCE = "0.13"
_STEP_LOG_LINES = 200


class DockerEngine:
    """A connection to the engine that `docker` uses here and now.

    Use it as a context manager. Every method raises BuildFailedError, with one clear message, when the engine
    cannot be reached, refuses, or goes away.
    """

    def __init__(self) -> None:
        self.endpoint = current_endpoint()
        self._client = connect(self.endpoint)

    def __enter__(self) -> DockerEngine:  # noqa: PYI034 - Self needs Python 3.11
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def info(self) -> EngineInfo:
        """What the engine says of itself, and what this machine says of its disk."""
        with self._faults():
            return engine_info(self._client, self.endpoint)

    def inspect(self, reference: str) -> BuiltImage:
        """The image by name or id. Raises UsageError when the engine has no such image."""
        attributes = self._attributes(reference)
        with self._faults():
            store = image_store(self._client.info())
        return _built_image(reference, attributes, store)

    def build(
        self, context: RenderedContext, options: BuildOptions, on_event: Callable[[BuildEvent], None]
    ) -> BuiltImage:
        """Build the context into the engine's image store and return the image, named by the first tag.

        Raises BuildFailedError: a failing step with its last lines and its template block, or a fault of the
        engine. KeyboardInterrupt ends the build inside the engine too, and leaves no process and no file.
        """
        begun = time.monotonic()
        info = self.info()
        if info.buildx is None:
            raise no_buildx() if shutil.which("docker") else no_docker()
        with uv_folder(options.platform or info.platform) as uv, tempfile.TemporaryDirectory() as scratch:
            rawjson = parse(info.buildx) >= parse(_RAWJSON_SINCE)
            metadata = Path(scratch) / "metadata.json"
            place = buildx.BuildPlace(self.endpoint.context, info.store, rawjson, uv, metadata)
            command = buildx.build_command(options, place, os.environ)
            _run_build(command, context, rawjson, on_event)
            digest = buildx.image_digest(metadata.read_bytes())
        with self._faults():
            attributes = self._client.images.get(digest).attrs
        return _built_image(options.tags[0], attributes, info.store, time.monotonic() - begun)

    def run_bundle(
        self,
        image: str,
        bundle: bytes,
        arguments: Sequence[str],
        gpu: str | None,
        on_line: Callable[[str], None],
        limit_s: float,
    ) -> ContainerRun:
        """Run `python3 BUNDLE arguments...` in a container of the image with the least it needs; then remove it.

        gpu: the way to give it the GPUs, as in EngineInfo.gpu; None = without. Each line of its stdout goes to
        `on_line`. After `limit_s` seconds it is stopped (`timed_out`). Raises UsageError when the engine has no
        such image or the image has no python3.
        """
        attributes = self._attributes(image)
        digest = str(attributes["Id"])
        with self._faults():
            path = interpreter.image_path(attributes)
            python = "python3" if gpu is None else interpreter.find_python(self._client, digest, path)
            with container.short_lived(lambda: container.create(self._client, digest, python, arguments, gpu)) as made:
                container.copy_in(made, bundle)
                ended = container.run(made, on_line, limit_s)
        if ended.exit_status is None and not ended.timed_out:
            raise daemon_gone(self.endpoint.host)
        return ended

    def _attributes(self, reference: str) -> dict[str, Any]:
        """What the engine says of an image. Raises UsageError when it has no such image."""
        from docker.errors import ImageNotFound, NullResource

        check_reference(reference)
        with self._faults():
            try:
                attributes: dict[str, Any] = self._client.images.get(reference).attrs
            except (ImageNotFound, NullResource) as error:
                raise UsageError(
                    f"the engine has no image {reference!r} ({self.endpoint.host})",
                    "see docker image ls, or get it with docker pull",
                ) from error
        return attributes

    @contextlib.contextmanager
    def _faults(self) -> Iterator[None]:
        """Turn the SDK's exceptions into one clear message each."""
        from docker.errors import APIError, DockerException
        from requests import RequestException
        from urllib3.exceptions import HTTPError

        try:
            yield
        except APIError as error:
            known = container_fault(str(error.explanation or error))
            raise known or connection_fault(error, self.endpoint.host) from error
        except (DockerException, RequestException, HTTPError) as error:
            raise connection_fault(error, self.endpoint.host) from error


def _built_image(reference: str, attributes: dict[str, Any], store: str, seconds: float | None = None) -> BuiltImage:
    return BuiltImage(
        reference=reference,
        digest=str(attributes["Id"]),
        size_bytes=int(attributes.get("Size") or 0),
        platform=f"{attributes.get('Os', 'linux')}/{attributes.get('Architecture', '')}",
        labels=dict((attributes.get("Config") or {}).get("Labels") or {}),
        store=store,
        build_seconds=seconds,
    )


def _run_build(
    command: buildx.BuildCommand, context: RenderedContext, rawjson: bool, on_event: Callable[[BuildEvent], None]
) -> None:
    """Run the build to its end; raises BuildFailedError with what failed when it did."""
    progress = (RawJsonProgress if rawjson else PlainProgress)(command.secrets)
    logs: dict[str, deque[str]] = {}
    failures: list[BuildEvent] = []
    blocks = blocks_of_steps(context.dockerfile)

    def follow(line: str) -> None:
        for event in (_with_block(event, blocks) for event in progress.feed(line)):
            if event.kind == "log":
                logs.setdefault(event.step_id, deque(maxlen=_STEP_LOG_LINES)).append(event.text)
            elif event.kind == "failed" and "context canceled" not in event.text:
                failures.append(event)
            on_event(event)

    try:
        status = stream(command.argv, follow, buildx.context_archive(context), command.env)
    except FileNotFoundError as error:
        raise no_docker() from error
    if status != 0:
        failed = failures[-1] if failures else None
        log = logs.get(failed.step_id, ()) if failed else ()
        raise build_fault(status, progress.tail, failed, tuple(log))


def _with_block(event: BuildEvent, blocks: tuple[str, ...]) -> BuildEvent:
    """The event with the block of its step, where the steps are numbered as the Dockerfile has them.

    The first step, FROM, is one that BuildKit shares with other builds: its total may be that of another.
    """
    number = event.number or 0
    if not 1 <= number <= len(blocks) or (event.total != len(blocks) and number != 1):
        return event
    return replace(event, block=blocks[number - 1], total=len(blocks))
