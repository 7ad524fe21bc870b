"""Which code of a wheel a GPU would run, and whether a driver knows the GPU at all."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from packaging.version import Version

from envsmith.compat import gpus as gpu_table
from envsmith.compat.drivers import Driver
from envsmith.model import fit, versions
from envsmith.model.matrix import CudnnArch, Matrix, TorchBuild
from envsmith.model.request import GpuWish


def code(build: TorchBuild, gpu: GpuWish, matrix: Matrix) -> fit.Code | None:
    """What the GPU would run out of the torch libraries, None if nothing does, or if cuDNN has nothing for it.

    What the matrix does not know (None) is never counted as code.
    """
    if build.compute_capabilities is None or cudnn_code(build, gpu, matrix) is False:
        return None
    return _code_for(gpu.compute_capability, build.compute_capabilities, build.ptx or ())


def needs_native(build: TorchBuild, gpus: Sequence[GpuWish], matrix: Matrix) -> bool:
    """Whether minor-version compatibility is not enough: a GPU would run PTX, or the code is not known."""
    if build.compute_capabilities is None:
        return True
    return any(_runs_ptx(build, gpu, matrix) for gpu in gpus)


def _runs_ptx(build: TorchBuild, gpu: GpuWish, matrix: Matrix) -> bool:
    found = code(build, gpu, matrix)
    return (found is not None and found.how == fit.PTX) or cudnn_code(build, gpu, matrix) == fit.PTX


def cudnn_code(build: TorchBuild, gpu: GpuWish, matrix: Matrix) -> str | bool | None:
    """What the build's cuDNN has for the GPU: "machine code", "ptx", False for nothing, None for not known.

    A cuDNN that nobody has looked into is judged by the ones before and after it, if those agree.
    """
    if build.cudnn is None or build.wheel_cuda is None:
        return None
    library = (build.cudnn, versions.major(build.wheel_cuda), build.platform)
    return _cudnn_code(matrix, *library, gpu.compute_capability)


# many builds share a cuDNN or a list of capabilities, and an explanation asks about all builds again and again
_code_for = lru_cache(maxsize=4096)(fit.code_for)


@lru_cache(maxsize=4096)
def _cudnn_code(
    matrix: Matrix, cudnn: str, cuda_major: int, platform: str, compute_capability: str
) -> str | bool | None:
    rows = _cudnn_rows(matrix, cudnn, cuda_major, platform)
    verdicts = {_cudnn_verdict(row, compute_capability) for row in rows}
    return verdicts.pop() if len(verdicts) == 1 else None


def _cudnn_verdict(row: CudnnArch, compute_capability: str) -> str | bool:
    found = fit.code_for(compute_capability, row.compute_capabilities, row.ptx)
    return found.how if found else False


def _cudnn_rows(matrix: Matrix, cudnn: str, cuda_major: int, platform: str) -> tuple[CudnnArch, ...]:
    """The row of a cuDNN, else its two neighbours on the same CUDA major and platform; () if one is missing."""
    rows = [row for row in matrix.cudnn_archs if (row.cuda_major, row.platform) == (cuda_major, platform)]
    wanted = versions.parse(cudnn)
    below = [row for row in rows if versions.parse(row.cudnn) <= wanted]
    above = [row for row in rows if versions.parse(row.cudnn) >= wanted]
    if not below or not above:
        return ()
    return max(below, key=_cudnn_version), min(above, key=_cudnn_version)


def _cudnn_version(row: CudnnArch) -> Version:
    return versions.parse(row.cudnn)


def have_a_driver(gpus: Sequence[GpuWish], matrix: Matrix) -> bool:
    """Whether some driver knows all the GPUs: the newest GPU came before the oldest was dropped."""
    lasts = [last for gpu in gpus if (last := gpu_table.last_driver_branch(matrix, gpu)) is not None]
    cudas = [gpu_table.first_cuda(matrix, gpu.compute_capability) for gpu in gpus]
    firsts = [first for cuda in cudas if cuda is not None and (first := fit.native_floor(matrix, cuda)) is not None]
    return not lasts or all(versions.major(first) <= min(lasts) for first in firsts)


def known_to_driver(gpu: GpuWish, driver: Driver, matrix: Matrix) -> bool:
    """Whether the driver is neither too new nor too old for the GPU; True where the matrix cannot tell."""
    return not (too_new_a_driver(gpu, driver, matrix) or too_old_a_driver(gpu, driver, matrix))


def too_new_a_driver(gpu: GpuWish, driver: Driver, matrix: Matrix) -> bool:
    """Whether the driver's branch is later than the last one that supports the GPU."""
    last = gpu_table.last_driver_branch(matrix, gpu)
    return last is not None and driver.branch > last


def too_old_a_driver(gpu: GpuWish, driver: Driver, matrix: Matrix) -> bool:
    """Whether the driver is older than the first CUDA for the GPU's compute capability."""
    first = gpu_table.first_cuda(matrix, gpu.compute_capability)
    if first is None or driver.driver_cuda is None:
        return False
    return versions.parse(driver.driver_cuda) < versions.parse(first)
