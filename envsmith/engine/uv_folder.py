"""The folder with the uv binary that a build mounts read-only, so that no image ever downloads uv."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from envsmith.engine.command import capture
from envsmith.errors import BuildFailedError

_TARGETS = {"linux/amd64": "x86_64-unknown-linux-gnu", "linux/arm64": "aarch64-unknown-linux-gnu"}
_MACHINES = {"linux/amd64": ("x86_64", "amd64"), "linux/arm64": ("aarch64", "arm64")}
_VERSION_LIMIT_S = 10.0
_DOWNLOAD_LIMIT_S = 300.0


@contextlib.contextmanager
def uv_folder(image_platform: str) -> Iterator[Path]:
    """A temporary folder that holds just `uv`, for the platform of the image.

    The binary is the one that envsmith depends on; for another platform than this machine's, the same version
    is fetched from the package index. Raises BuildFailedError when that cannot be had.
    """
    own = str(own_uv())
    with tempfile.TemporaryDirectory(prefix="envsmith-uv-") as name:
        folder = Path(name)
        if sys.platform == "linux" and platform.machine() in _MACHINES[image_platform]:
            _place(Path(own), folder / "uv")
        else:
            _fetch(own, folder, image_platform)
        yield folder


def own_uv() -> Path:
    """The uv binary that envsmith depends on. Raises BuildFailedError when it is missing."""
    from uv import find_uv_bin

    try:
        return Path(find_uv_bin())
    except FileNotFoundError as error:
        raise BuildFailedError(f"envsmith's uv is missing: {error}", "reinstall envsmith-gpu") from error


def _place(source: Path, target: Path) -> None:
    """Link, or copy with the time stamp: BuildKit knows by it that it has the file already."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _fetch(own: str, folder: Path, image_platform: str) -> None:
    version = capture([own, "--version"], _VERSION_LIMIT_S).output.split()[1]
    place = folder / "fetched"
    argv = [own, "pip", "install", "--quiet", "--python", sys.executable, "--target", str(place), "--no-deps"]
    argv += ["--only-binary", ":all:", "--python-platform", _TARGETS[image_platform], f"uv=={version}"]
    fetched = capture(argv, _DOWNLOAD_LIMIT_S)
    if fetched.status != 0:
        raise BuildFailedError(
            f"uv {version} for {image_platform} could not be fetched, and the build needs it",
            "see that the package index is reached from here",
            tuple(fetched.errors.splitlines()[-5:]),
        )
    (place / "bin" / "uv").replace(folder / "uv")
    shutil.rmtree(place)
