"""What a driver offers, the lowest driver that a wheel needs, and how a container runtime is told so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from envsmith.model import fit, versions
from envsmith.model.matrix import DriverBranch, ForwardCompat, Matrix
from envsmith.model.plan import DriverFloor

# NVML's brand names of GPUs that forward compatibility is for: data-centre boards, and vGPU profiles of them
FORWARD_BRANDS = ("cloudgaming", "grid", "nvidia", "tesla", "unknown", "vapps", "vcs", "vpc", "vws")


@dataclass(frozen=True)
class Driver:
    """A driver that was given. text: as typed. version: comparable; a bare branch counts as its newest driver.

    driver_cuda: the CUDA of its branch, or of the newest known older branch (then `exact` is False).
    """

    text: str
    version: str
    branch: int
    driver_cuda: str | None
    exact: bool
    row: DriverBranch | None


@lru_cache(maxsize=256)
def read_driver(matrix: Matrix, text: str) -> Driver:
    """Look a driver version ("550.54.15") or branch ("550") up."""
    branch = versions.major(text)
    version = text if "." in text else f"{text}.999.99"
    known = [row for row in matrix.driver_branches if row.branch <= branch and row.driver_cuda is not None]
    nearest = max(known, key=lambda row: row.branch, default=None)
    row = next((row for row in matrix.driver_branches if row.branch == branch), None)
    return Driver(
        text=text,
        version=version,
        branch=branch,
        driver_cuda=nearest.driver_cuda if nearest else None,
        exact=nearest is not None and nearest.branch == branch,
        row=row,
    )


def how_it_runs(matrix: Matrix, wheel_cuda: str, driver: Driver) -> str | None:
    """Return "native", "minor-version" or None for a wheel on a driver, whatever the GPU.

    The branch's CUDA and the toolkit's own minimum each suffice for native. Never gets worse with a newer driver.
    """
    native = fit.native_floor(matrix, wheel_cuda)
    if native is not None and versions.parse(driver.version) >= versions.parse(native):
        return fit.NATIVE
    return fit.how_driver_runs(matrix, wheel_cuda, driver.version, driver.driver_cuda or "0.0")


def driver_floor(
    matrix: Matrix, wheel_cuda: str, how: str | None, *, needs_native: bool, forward: ForwardCompat | None
) -> DriverFloor:
    """The lowest driver for a wheel. how: the mechanism with the given driver, None without one.

    needs_native: PTX has to be compiled, or the machine code is not known, so minor-version compatibility
    cannot be counted on. Raises LookupError if the matrix has no floor for this CUDA at all.
    """
    native = fit.native_floor(matrix, wheel_cuda)
    if forward is not None:
        return DriverFloor(str(min(forward.driver_branches)), fit.FORWARD, native)
    minor = None if needs_native else fit.minor_version_floor(matrix, wheel_cuda)
    floor = minor or native
    if floor is None:
        raise LookupError(f"the matrix has no driver floor for CUDA {wheel_cuda}")
    return DriverFloor(floor, how or (fit.NATIVE if floor == native else fit.MINOR_VERSION), native)


def raise_floor(floor: DriverFloor, first_driver: str | None) -> DriverFloor:
    """The floor for GPUs that drivers know from `first_driver` on only."""
    if first_driver is None or versions.parse(floor.version) >= versions.parse(first_driver):
        return floor
    native = floor.native is not None and versions.parse(first_driver) >= versions.parse(floor.native)
    how = fit.NATIVE if native and floor.how == fit.MINOR_VERSION else floor.how
    return DriverFloor(first_driver, how, floor.native)


def require_cuda(
    matrix: Matrix, wheel_cuda: str, *, needs_native: bool, forward: ForwardCompat | None, first_driver: str | None
) -> str:
    """The value of NVIDIA_REQUIRE_CUDA: container start is refused on a driver that it does not let in.

    A space is "or", a comma is "and" (libnvidia-container src/cli/dsl.c). The first clause lets every native driver in
    and is what the runtime quotes when it refuses. The second adds those that run the wheel by minor-version
    compatibility, from `first_driver` on, the first that knows the GPUs asked for. Forward compatibility adds the
    listed branches, brand by brand, as NVIDIA's own images do.
    nvidia-container-toolkit (internal/requirements) takes semantic versions only, where "450.80.02" is an
    error, so leading zeros are left out; libnvidia-container compares number by number and does not mind.
    """
    clauses = [f"cuda>={versions.minor_of(wheel_cuda)}"]
    minor = None if needs_native else fit.minor_version_floor(matrix, wheel_cuda)
    if minor is not None:
        lowest = max(minor, first_driver or minor, key=versions.parse)
        clauses.append(f"driver>={'.'.join(str(number) for number in versions.parse(lowest).release)}")
    if forward is not None:
        clauses += _forward_clauses(forward.brands, forward.driver_branches)
    return " ".join(clauses)


def _forward_clauses(brands: Iterable[str], branches: Iterable[int]) -> list[str]:
    return [
        f"brand={brand},driver>={branch},driver<{branch + 1}"
        for brand in sorted(set(brands) & set(FORWARD_BRANDS))
        for branch in sorted(branches)
    ]
