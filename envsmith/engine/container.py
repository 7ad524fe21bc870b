"""One short-lived container with the least it needs: a bundle is copied in, run, listened to, and all is removed.

The bundle is copied into an anonymous volume: Docker refuses to copy into a read-only root file system, and a
bind mount would not reach a remote engine. The engine itself removes container and volume at the end
(auto-remove), so they go even when envsmith is killed or the daemon restarts.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import tarfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from envsmith.engine.command import ending_signals_interrupt, interrupts_held
from envsmith.engine.facts import CDI_ALL_GPUS
from envsmith.engine.text import printable
from envsmith.model.image import ContainerRun

RUN_LABEL = "io.envsmith.run"  # its value: the process that the container belongs to
BUNDLE_FOLDER = "/envsmith"
BUNDLE_NAME = "envsmith.pyz"
_GIB = 1024**3
_PIDS_MAX = 8192  # a process for each check, each with a thread for each core
_LINE_BYTES_MAX = 64 * 1024**2
_LOG_TAIL_LINES = 40
_HEAD_BYTES = 8
_STDOUT = 1
_ENDED = {"condition": "next-exit"}
_CONNECT_LIMIT_S = 60.0
_KILL_GRACE_S = 30.0
_REMOVAL_LIMIT_S = 30


def create(client: Any, image: str, python: str, arguments: Sequence[str], gpu: str | None) -> Any:
    """Create the container. Its user is the image's; its only writable place is a tmpfs on /tmp.

    /tmp may hold programs, since triton compiles there; HOME is there for the caches of CUDA and triton. It is not
    the working folder: Docker would make it in an image that has none, and its mode would become the tmpfs's.
    """
    return client.containers.create(
        image,
        list(arguments),
        entrypoint=[python, f"{BUNDLE_FOLDER}/{BUNDLE_NAME}"],
        environment={"HOME": "/tmp"},  # noqa: S108 - in the container
        labels={RUN_LABEL: str(os.getpid())},
        network_mode="none",
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        read_only=True,
        tmpfs={"/tmp": f"rw,exec,nosuid,nodev,mode=1777,size={_GIB}"},  # noqa: S108 - in the container
        volumes=[BUNDLE_FOLDER],
        shm_size=_GIB,
        pids_limit=_PIDS_MAX,
        working_dir="/",
        device_requests=_device_requests(gpu),
        auto_remove=True,
        healthcheck={"test": ["NONE"]},
    )


def _device_requests(gpu: str | None) -> list[Any]:
    from docker.types import DeviceRequest

    if gpu == "cdi":
        return [DeviceRequest(driver="cdi", device_ids=[CDI_ALL_GPUS])]
    if gpu == "runtime":
        return [DeviceRequest(count=-1, capabilities=[["gpu"]])]
    return []


def copy_in(container: Any, bundle: bytes) -> None:
    """Put the bundle into the volume, readable by every user."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        entry = tarfile.TarInfo(BUNDLE_NAME)
        entry.size, entry.mode = len(bundle), 0o444
        archive.addfile(entry, io.BytesIO(bundle))
    container.put_archive(BUNDLE_FOLDER, buffer.getvalue())


def run(container: Any, on_line: Callable[[str], None], limit_s: float) -> ContainerRun:
    """Start the container, give each line of its stdout to `on_line`, and wait for its end.

    At `limit_s` seconds it is killed. Errors of the SDK and of `on_line` go through.
    """
    begun = time.monotonic()
    log: deque[str] = deque(maxlen=_LOG_TAIL_LINES)
    limit = _Limit(container, limit_s)
    # both are asked for before the start, so that nothing can be missed
    streams = {"stream": 1, "stdout": 1, "stderr": 1}
    with _follow(container, "attach", streams, limit_s) as output, _follow(container, "wait", _ENDED, limit_s) as ended:
        try:
            container.start()
            limit.start()
            _read(_frames(output), on_line, log)
            status = None if limit.reached.is_set() else _exit_status(ended)
        finally:
            limit.stop()
    return ContainerRun(status, limit.reached.is_set(), time.monotonic() - begun, tuple(log))


def _follow(container: Any, what: str, params: Mapping[str, str | int], limit_s: float) -> Any:
    """A response whose body comes while, or once, the container runs.

    Asked for by hand, as the SDK neither tells when a wait has begun nor closes the socket of an attach. It gives
    up when the engine is silent for longer than the container may run.
    """
    api = container.client.api
    url = f"{api.base_url}/v{api.api_version}/containers/{container.id}/{what}"
    response = api.post(url, params=params, stream=True, timeout=(_CONNECT_LIMIT_S, limit_s + _KILL_GRACE_S))
    response.raise_for_status()
    return response


def _exit_status(ended: Any) -> int | None:
    status = json.loads(ended.content or b"{}").get("StatusCode")
    return status if isinstance(status, int) else None


class _Limit:
    """Kills the container when its time is over."""

    def __init__(self, container: Any, limit_s: float) -> None:
        self.reached = threading.Event()
        self._container = container
        self._timer = threading.Timer(limit_s, self._kill)
        self._timer.daemon = True

    def start(self) -> None:
        self._timer.start()

    def stop(self) -> None:
        self._timer.cancel()

    def _kill(self) -> None:
        self.reached.set()
        with contextlib.suppress(Exception):  # it may have ended by itself, or the engine may be gone
            self._container.kill()


def _frames(response: Any) -> Iterator[tuple[int, bytes]]:
    """Pieces of output: 1 for stdout or 2 for stderr, and bytes. Docker sends 8 bytes of head before each."""
    while len(head := response.raw.read(_HEAD_BYTES)) == _HEAD_BYTES:
        yield head[0], response.raw.read(int.from_bytes(head[4:], "big"))


def _read(frames: Iterable[tuple[int, bytes]], on_line: Callable[[str], None], log: deque[str]) -> None:
    """Cut both streams into lines; stdout goes to `on_line`, the end of stderr to `log`."""
    out, err = bytearray(), bytearray()
    for stream, piece in frames:
        if stream == _STDOUT:
            out += piece
            for line in _lines(out):
                on_line(line)
        else:
            err += piece
            log.extend(printable(line) for line in _lines(err))
    if out:
        on_line(out.decode("utf-8", "replace"))
    if err:
        log.append(printable(err.decode("utf-8", "replace")))


def _lines(buffer: bytearray) -> Iterator[str]:
    """Take the complete lines out of the buffer; what grows without a line break is cut, not kept for ever."""
    end = buffer.rfind(b"\n")
    if end < 0 and len(buffer) > _LINE_BYTES_MAX:
        end = len(buffer) - 1
    if end < 0:
        return
    whole = bytes(buffer[: end + 1])
    del buffer[: end + 1]
    yield from whole.decode("utf-8", "replace").removesuffix("\n").split("\n")


@contextlib.contextmanager
def short_lived(create: Callable[[], Any]) -> Iterator[Any]:
    """A container that is removed with its volume however the block ends, by Ctrl-C at any moment, too.

    An interrupt waits while the container is made, since one that nobody knows of would stay, and while it is removed.
    """
    made = None
    with ending_signals_interrupt():
        try:
            with interrupts_held():
                made = create()
            yield made
        finally:
            if made is not None:
                with interrupts_held():
                    _remove(made)


def _remove(container: Any) -> None:
    """Remove it, or wait until the engine, which does so by itself once it ended, is done with that."""
    from docker.errors import DockerException
    from requests import RequestException

    with contextlib.suppress(DockerException, RequestException):
        container.remove(force=True, v=True)
    with contextlib.suppress(DockerException, RequestException):
        container.wait(condition="removed", timeout=_REMOVAL_LIMIT_S)
