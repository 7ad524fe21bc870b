"""Read again what each torch build downloads and takes once installed, and write that into matrix/torch.json.

    python tools/refresh_sizes.py --torch 2.15.0      one release
    python tools/refresh_sizes.py                     all of them; about a thousand small requests to PyPI, half an hour

For the build that PyPI serves, uv resolves the whole install (torch, the nvidia wheels, triton and the small ones) for
the platform; the index says how large each wheel is and the zip directory, read by HTTP ranges, what it unpacks
to. Bytecode is not counted. No wheel is downloaded. Builds that only PyTorch's own index serves are estimated
from those. Needs Python 3.11 or newer. What changed is printed; commit it after a look.
"""

from __future__ import annotations

import argparse
import functools
import io
import json
import re
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import tomllib
import uv
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import parse_wheel_filename

from envsmith import resources
from envsmith.model.versions import major, parse

Row = dict[str, Any]
UV_PLATFORMS = {
    "linux/amd64": "x86_64-manylinux_2_28",
    "linux/arm64": "aarch64-manylinux_2_28",
    "windows/amd64": "x86_64-pc-windows-msvc",
}
PYTHONS = ("cp310", "cp311")  # the wheels of one release differ by well under 1 %
ESTIMATE = re.compile(r"(; )?sizes estimated from \S+")


class Size(NamedTuple):
    """Bytes to download, and bytes once unpacked."""

    download: int
    installed: int


class _RemoteFile(io.RawIOBase):
    """A file on an HTTP server as a seekable file: each read is one range request."""

    def __init__(self, url: str, size: int) -> None:
        self._url, self._size, self._at = url, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        end = min(self._at + len(buffer), self._size)
        if end <= self._at:
            return 0
        request = urllib.request.Request(self._url, headers={"Range": f"bytes={self._at}-{end - 1}"})
        with urllib.request.urlopen(request, timeout=120) as answer:
            data = answer.read()
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


@functools.cache
def unpacked_bytes(url: str, size: int) -> int:
    """Sum of the sizes of all files in a wheel, from its zip directory."""
    with zipfile.ZipFile(io.BufferedReader(_RemoteFile(url, size))) as wheel:
        return sum(member.file_size for member in wheel.infolist())


def _tags(python: str, platform: str) -> list[Tag]:
    if platform == "windows/amd64":
        names = ["win_amd64"]
    else:
        machine = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}[platform]
        names = [f"manylinux_2_{minor}_{machine}" for minor in range(28, 4, -1)]
        names += [f"{old}_{machine}" for old in ("manylinux2014", "manylinux2010", "manylinux1", "linux")]
    version = (3, int(python[3:]))
    return [*cpython_tags(version, platforms=names), *compatible_tags(version, python, names)]


def _choose(wheels: list[Row], tags: list[Tag]) -> Row:
    """The wheel that an installer takes: best tag first, then the highest build number."""
    ranks = {tag: rank for rank, tag in enumerate(tags)}

    def preference(wheel: Row) -> tuple[int, int] | None:
        _, _, build, found = parse_wheel_filename(wheel["url"].rpartition("/")[2])
        known = [ranks[tag] for tag in found if tag in ranks]
        return (min(known), -(build[0] if build else 0)) if known else None

    ranked = [(rank, wheel) for wheel in wheels if (rank := preference(wheel)) is not None]
    if not ranked:
        raise LookupError(f"no wheel among {[wheel['url'] for wheel in wheels[:3]]} fits")
    return min(ranked, key=lambda pair: pair[0])[1]


def resolved_wheels(torch: str, python: str, platform: str, until: str) -> Iterator[Row]:
    """The wheels that `pip install torch==...` would fetch from PyPI; rows of url and size."""
    command = [uv.find_uv_bin(), "pip", "compile", "-", "--quiet", "--format", "pylock.toml", "--only-binary", ":all:"]
    command += ["--python-platform", UV_PLATFORMS[platform], "--python-version", f"3.{python[3:]}"]
    command += ["--exclude-newer", until, "--no-annotate", "--no-header"]
    done = subprocess.run(command, input=f"torch=={torch}\n", capture_output=True, text=True, check=False)
    if done.returncode:
        raise LookupError(f"uv cannot resolve torch {torch} for {platform}: {done.stderr.strip()}")
    for package in tomllib.loads(done.stdout)["packages"]:
        yield _choose(package["wheels"], _tags(python, platform))


def measure(row: Row) -> tuple[int, Size]:
    """Return the size of the torch wheel and of the whole install of a PyPI build."""
    python = next(tag for tag in PYTHONS if tag in row["python_tags"])
    wheels = list(resolved_wheels(row["torch"], python, row["platform"], row["checked"]))
    torch = next(wheel for wheel in wheels if "/torch-" in wheel["url"])
    with ThreadPoolExecutor(4) as pool:
        unpacked = sum(pool.map(lambda wheel: unpacked_bytes(wheel["url"], wheel["size"]), wheels))
    return torch["size"], Size(sum(wheel["size"] for wheel in wheels), unpacked)


def nearest(row: Row, measured: list[Row], releases: list[str]) -> Row | None:
    """The measured build that an unmeasured CUDA build is estimated from, None where none is near enough.

    The same variant of the nearest release; else the same release, unless one of the two is CUDA 13 (its
    libraries are a third smaller); else the same CUDA major of the nearest release.
    """
    if row["variant"] == "cpu":
        return None
    mine = [other for other in measured if other["platform"] == row["platform"] and other["variant"] != "cpu"]
    at = releases.index(row["torch"])
    mine.sort(key=lambda other: (abs(releases.index(other["torch"]) - at), -releases.index(other["torch"])))
    cuda = major(row["wheel_cuda"])

    def first(wanted: Any) -> Row | None:
        return next(filter(wanted, mine), None)

    return (
        first(lambda other: other["variant"] == row["variant"])
        or first(lambda other: other["torch"] == row["torch"] and max(cuda, major(other["wheel_cuda"])) < 13)
        or first(lambda other: major(other["wheel_cuda"]) == cuda)
    )


def refresh(rows: list[Row], only: str | None) -> None:
    """Measure the PyPI builds (of one release, or all) and estimate every other one from them."""
    measured = [row for row in rows if row["pypi_default"]]
    for row in measured:
        if only in (None, row["torch"]):
            print(f"reading {row['torch']}+{row['variant']} {row['platform']}", file=sys.stderr)
            row["wheel_size_bytes"], size = measure(row)
            row["download_size_bytes"], row["installed_size_bytes"] = size
    releases = sorted({row["torch"] for row in rows}, key=parse)
    for row in rows:
        if not row["pypi_default"]:
            other = nearest(row, measured, releases)
            row["download_size_bytes"] = other["download_size_bytes"] if other else None
            row["installed_size_bytes"] = other["installed_size_bytes"] if other else None
            note = ESTIMATE.sub("", row["note"])
            estimate = f"sizes estimated from {other['torch']}+{other['variant']}" if other else ""
            row["note"] = "; ".join(filter(None, (note, estimate)))


def main() -> int:
    """Rewrite matrix/torch.json where sizes differ, and print each difference."""
    parser = argparse.ArgumentParser(description="Refresh the sizes in matrix/torch.json from PyPI.")
    parser.add_argument("--torch", help="only this release, such as 2.15.0; default: all")
    options = parser.parse_args()
    path: Path = resources.data_dir("matrix") / "torch.json"
    document = json.loads(path.read_text("utf-8"))
    before = json.loads(path.read_text("utf-8"))["rows"]
    refresh(document["rows"], options.torch)
    for old, new in zip(before, document["rows"], strict=True):
        for field in ("wheel_size_bytes", "download_size_bytes", "installed_size_bytes", "note"):
            if old[field] != new[field]:
                print(f"{new['torch']}+{new['variant']} {new['platform']} {field}: {old[field]} -> {new[field]}")
    lines = ",\n".join(json.dumps(row) for row in document["rows"])
    fresh = path.with_suffix(".json.new")
    fresh.write_text(f'{{"schema": {document["schema"]}, "kind": "torch", "rows": [\n{lines}\n]}}\n', "utf-8")
    fresh.replace(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
