"""Does it fit? The judgements about drivers, wheels and GPUs that planning and diagnosing share.

Pure look-ups over the matrix. The rules of compatibility are NVIDIA's (docs.nvidia.com/deploy/cuda-compatibility):
native, minor-version, and forward compatibility through a cuda-compat package.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from envsmith.model import versions
from envsmith.model.matrix import ForwardCompat, GpuProduct, Matrix

NATIVE = "native"
MINOR_VERSION = "minor-version"
FORWARD = "forward"

MACHINE_CODE = "machine code"
PTX = "ptx"


@dataclass(frozen=True)
class Code:
    """Code in a wheel that a GPU can run. how: MACHINE_CODE or PTX; by: the capability it was built for."""

    how: str
    by: str


@lru_cache(maxsize=256)
def _capability(text: str) -> tuple[int, int]:
    """(9, 0) for "9.0" and for the architecture-specific spelling "9.0a"."""
    major, _, minor = text.partition(".")
    return int(major), int(re.match(r"\d*", minor)[0] or 0)  # type: ignore[index]  # \d* always matches


def code_for(gpu: str, compute_capabilities: Iterable[str], ptx: Iterable[str]) -> Code | None:
    """Return what a GPU of compute capability `gpu` would run out of a wheel, or None.

    Machine code runs within one major: code for 8.0 or 8.6 runs on 8.6 and 8.9, never the other way round.
    PTX runs on any later capability, after the driver has compiled it.
    """
    wanted = _capability(gpu)
    binary = [c for c in compute_capabilities if _capability(c)[0] == wanted[0] and _capability(c) <= wanted]
    if binary:
        return Code(MACHINE_CODE, max(binary, key=_capability))
    virtual = [c for c in ptx if _capability(c) <= wanted]
    return Code(PTX, max(virtual, key=_capability)) if virtual else None


@lru_cache(maxsize=512)
def native_floor(matrix: Matrix, cuda: str) -> str | None:
    """Lowest driver known to offer this CUDA minor ("12.4" or "12.4.1") natively; None = unknown."""
    minor = versions.minor_of(cuda)
    floors = [
        row.native_driver_min
        for row in matrix.toolkits
        if row.native_driver_min is not None and versions.minor_of(row.cuda) == minor
    ]
    return min(floors, key=versions.parse, default=None)


def minor_version_floor(matrix: Matrix, cuda: str) -> str | None:
    """Lowest driver that runs any machine code of this CUDA's major; None = the major has no such promise."""
    major = versions.major(cuda)
    return next((row.driver_min for row in matrix.minor_version_floors if row.cuda_major == major), None)


def how_driver_runs(matrix: Matrix, wheel_cuda: str, driver: str, driver_cuda: str | None = None) -> str | None:
    """Return NATIVE, MINOR_VERSION or None for a wheel of `wheel_cuda` on a driver version.

    driver_cuda: what the driver itself reports, where known; it decides before the table does. Forward
    compatibility is apart, since it needs a package: see `forward_compat`.
    """
    if driver_cuda is not None and versions.parse(driver_cuda) >= versions.parse(versions.minor_of(wheel_cuda)):
        return NATIVE
    native = native_floor(matrix, wheel_cuda)
    if driver_cuda is None and native is not None and versions.parse(driver) >= versions.parse(native):
        return NATIVE
    floor = minor_version_floor(matrix, wheel_cuda)
    if floor is not None and versions.parse(driver) >= versions.parse(floor):
        return MINOR_VERSION
    return None


def forward_compat(matrix: Matrix, cuda: str, driver: str) -> ForwardCompat | None:
    """The cuda-compat row that brings this CUDA minor to the branch of an older driver, if NVIDIA allows one."""
    minor, branch = versions.minor_of(cuda), versions.major(driver)
    rows = [
        row for row in matrix.forward_compat if versions.minor_of(row.cuda) == minor and branch in row.driver_branches
    ]
    return max(rows, key=lambda row: versions.parse(row.cuda), default=None)


@lru_cache(maxsize=4096)
def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", " ", re.sub(r"\b(nvidia|geforce|tesla)\b", "", name.lower())).strip()


def product_named(matrix: Matrix, name: str) -> GpuProduct | None:
    """The product whose name or alias is what NVML prints for a GPU; None = not in the matrix."""
    wanted = _plain(name)
    for product in matrix.gpus:
        if wanted in {_plain(product.product), *(_plain(alias) for alias in product.aliases)}:
            return product
    return None
