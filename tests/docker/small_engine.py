"""A Docker Engine of its own on a few hundred megabytes of memory, to be filled up and killed.

It runs in a network namespace of its own: an engine without a bridge would take away the bridge of the other.
Needs root, or sudo without a password.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_START_LIMIT_S = 60.0


@dataclass(frozen=True)
class SmallEngine:
    """host: for DOCKER_HOST. folder: where all of it is."""

    host: str
    folder: Path

    def kill(self) -> None:
        """End the daemon at once, as a crash or the kernel's out-of-memory killer would."""
        _root("kill", "-KILL", (self.folder / "pid").read_text(encoding="ascii").strip())


def _root(*argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]
    done = subprocess.run([*prefix, *argv], capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, (
        f"{argv}: {done.stderr} (this test needs root, or sudo without a password)"
    )
    return done


@contextlib.contextmanager
def small_engine(image: str, size: str = "300m", *, containerd: bool = False) -> Iterator[SmallEngine]:
    """Start it on a tmpfs of that size, with the image loaded; at the end nothing of it is left.

    containerd: on the containerd image store, not the classic one.
    """
    # a short path, as those of sockets must be
    with (
        tempfile.TemporaryDirectory(prefix="es-", dir="/tmp") as name,
        _started(Path(name), size, containerd) as engine,
    ):
        _load(engine, image)
        yield engine


@contextlib.contextmanager
def _started(folder: Path, size: str, containerd: bool) -> Iterator[SmallEngine]:
    _root("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))
    engine = SmallEngine(f"unix://{folder}/sock", folder)
    try:
        options = [f"--data-root={folder}/data", f"--exec-root={folder}/exec", f"--pidfile={folder}/pid"]
        options += [f"--host={engine.host}", "--iptables=false", "--ip6tables=false", "--bridge=none"]
        (folder / "daemon.json").write_text(json.dumps({"features": {"containerd-snapshotter": containerd}}))
        options += [f"--config-file={folder}/daemon.json"]
        prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]
        with (folder / "log").open("wb") as log:
            daemon = subprocess.Popen([*prefix, "unshare", "--net", "dockerd", *options], stdout=log, stderr=log)
        try:
            _wait_for(engine, daemon)
            yield engine
        finally:
            _end(engine, daemon)
    finally:
        _root("umount", "--recursive", "--lazy", str(folder))


def _wait_for(engine: SmallEngine, daemon: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < end and daemon.poll() is None:
        if _root("docker", "--host", engine.host, "version", check=False).returncode == 0:
            _root("chmod", "666", str(engine.folder / "sock"))
            return
        time.sleep(0.2)
    raise AssertionError((engine.folder / "log").read_text(encoding="utf-8")[-2000:])


def _load(engine: SmallEngine, image: str) -> None:
    with subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE) as saving:
        loaded = subprocess.run(
            ["docker", "--host", engine.host, "load"], stdin=saving.stdout, capture_output=True, text=True, check=False
        )
    assert loaded.returncode == 0, loaded.stderr


def _end(engine: SmallEngine, daemon: subprocess.Popen[bytes]) -> None:
    """Stop the daemon, with which its containerd ends, and what a killed daemon leaves of a container."""
    pid = engine.folder / "pid"
    if daemon.poll() is None and pid.is_file():
        _root("kill", pid.read_text(encoding="ascii").strip(), check=False)
    try:
        daemon.wait(30)
    except subprocess.TimeoutExpired:
        engine.kill()
        daemon.wait(10)
    for shim in _naming(engine.folder):
        _root("kill", "-KILL", shim, check=False)


def _naming(folder: Path) -> list[str]:
    """Ids of the processes of containerd that name the folder in their command line."""
    found = []
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = command.read_bytes()
            if line.startswith(b"/usr/bin/containerd-shim") and bytes(folder) in line:
                found.append(command.parent.name)
    return found
