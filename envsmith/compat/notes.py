"""What a person should know about a plan: decisions made for them, warnings, and what the matrix does not know."""

from __future__ import annotations

from collections.abc import Iterator

from envsmith.compat import candidates as pool
from envsmith.compat import coverage
from envsmith.compat.candidates import DEVEL, Candidate
from envsmith.compat.drivers import Driver
from envsmith.model import fit, versions
from envsmith.model.matrix import Matrix
from envsmith.model.plan import Note
from envsmith.model.request import BuildRequest, GpuWish


def notes(request: BuildRequest, chosen: Candidate, driver: Driver | None, matrix: Matrix) -> tuple[Note, ...]:
    """All notes on a choice, what may go wrong before what was merely decided."""
    return (
        *_known_bad(chosen, matrix),
        *_standing(chosen),
        *_forward(request, chosen),
        *_driver(driver, chosen),
        *(note for gpu in request.gpus for note in _gpu(gpu, chosen, matrix)),
        *_unknown(chosen),
        *_toolkit(request, chosen, matrix),
        *_python(request, chosen),
        *_system(request, chosen),
    )


def _known_bad(chosen: Candidate, matrix: Matrix) -> Iterator[Note]:
    wheel = f"{chosen.build.torch}+{chosen.build.variant}"
    for row in matrix.known_bad:
        toolkit = row.component == "cuda" and chosen.toolkit_cuda in row.versions
        if wheel in row.torch_builds or toolkit or (row.component == "torch" and chosen.build.torch in row.versions):
            mended = f" (mended in {row.mended_in})" if row.mended_in else ""
            what = f"{row.component} {', '.join(row.versions)}"
            yield Note("known-bad", f"{what}: {row.problem}{mended}; source: {row.source}")


def _standing(chosen: Candidate) -> Iterator[Note]:
    build = chosen.build
    if build.status == "stable":
        return
    meaning = {
        "experimental": "upstream calls this build experimental",
        "legacy": "upstream keeps this build for older GPUs and drivers, and means to drop it",
        "unadvertised": "this build is on the index, but upstream never listed it as a release build",
        "unverified": "nobody has yet seen this build: it may not exist",
        "removed": "upstream announced that this build would be removed: it may not exist",
    }
    yield Note(f"status-{build.status}", f"{build.torch}+{build.variant}: {meaning[build.status]}")


def _forward(request: BuildRequest, chosen: Candidate) -> Iterator[Note]:
    if chosen.forward is None:
        return
    yield Note(
        "forward-compatibility",
        f"the driver is too old for CUDA {chosen.build.wheel_cuda}; the image brings {chosen.forward.package}, with "
        f"which NVIDIA supports data-centre GPUs on driver branches "
        f"{', '.join(str(branch) for branch in chosen.forward.driver_branches)}",
    )
    if not request.gpus:
        yield Note(
            "forward-needs-data-centre-gpu",
            "no GPU was named: this works on data-centre GPUs only, not on GeForce; name yours with --gpu to be sure",
        )


def _driver(driver: Driver | None, chosen: Candidate) -> Iterator[Note]:
    if driver is None or chosen.build.wheel_cuda is None:
        return
    if not driver.exact:
        known = f"at least {driver.driver_cuda} is assumed" if driver.driver_cuda else "none is assumed"
        yield Note("driver-cuda-unknown", f"the CUDA of driver branch {driver.branch} is not in the matrix; {known}")
    if chosen.how == fit.MINOR_VERSION:
        yield Note(
            "minor-version-compatibility",
            f"driver {driver.text} offers CUDA {driver.driver_cuda}, older than the wheel's {chosen.build.wheel_cuda}: "
            "machine code runs, code that the driver must first compile (PTX) does not",
        )
    if driver.row is not None and driver.row.status == "eol":
        ended = f" in {driver.row.end_of_life}" if driver.row.end_of_life else ""
        yield Note("driver-end-of-life", f"driver branch {driver.branch} reached its end of life{ended}")


def _gpu(gpu: GpuWish, chosen: Candidate, matrix: Matrix) -> Iterator[Note]:
    build = chosen.build
    found = coverage.code(build, gpu, matrix)
    name = gpu.name
    if found is not None and found.how == fit.PTX:
        yield Note(
            "ptx-coverage",
            f"{name} ({gpu.compute_capability}) has no machine code in the wheel: the driver compiles the PTX for "
            f"{found.by} at first use, which takes minutes and needs a native driver",
        )
    if build.cudnn is not None and coverage.cudnn_code(build, gpu, matrix) is None:
        yield Note(
            "cudnn-coverage-unknown",
            f"whether cuDNN {build.cudnn} has code for {name} ({gpu.compute_capability}) is not in the matrix",
        )


def _unknown(chosen: Candidate) -> Iterator[Note]:
    build = chosen.build
    if build.wheel_cuda is None:
        return
    if build.compute_capabilities is None:
        yield Note(
            "coverage-unknown",
            f"which GPUs {build.torch}+{build.variant} has machine code for on {build.platform} is not in the matrix, "
            "so the driver floor is the native one",
        )
    elif build.ptx is None:
        yield Note("ptx-unknown", "whether the wheel has PTX is not in the matrix; none is counted on")
    missing = [name for name, value in (("cuDNN", build.cudnn), ("NCCL", build.nccl)) if value is None]
    if missing:
        yield Note("version-unknown", f"the version of {' and '.join(missing)} in this wheel is not in the matrix")
    if build.glibc_floor is None:
        yield Note("glibc-unknown", "the oldest glibc for this wheel is not in the matrix")


def _toolkit(request: BuildRequest, chosen: Candidate, matrix: Matrix) -> Iterator[Note]:
    toolkit = chosen.toolkit_cuda
    if request.variant != DEVEL or toolkit is None:
        return
    if versions.minor_of(toolkit) != chosen.build.wheel_cuda:
        yield Note(
            "toolkit-differs",
            f"nvcc is {toolkit} and the wheel was built with CUDA {chosen.build.wheel_cuda}: extensions compile (same "
            "major), with a warning from torch",
        )
    archs = next((a for a in matrix.toolkit_archs if a.cuda_minor == versions.minor_of(toolkit)), None)
    for gpu in request.gpus:
        if archs is not None and gpu.compute_capability not in archs.compute_capabilities:
            yield Note("toolkit-lacks-gpu", f"nvcc {toolkit} cannot compile for {gpu.name} ({gpu.compute_capability})")
    if chosen.image.cudnn is not None:
        yield Note("second-cudnn", f"{chosen.image.tag} brings a cuDNN of its own; torch loads the one in its wheels")
    if chosen.image.supported is not True:
        state = "no longer maintained by NVIDIA" if chosen.image.supported is False else "not in NVIDIA's own list"
        yield Note("image-unsupported", f"{chosen.image.image}:{chosen.image.tag} is {state}")


def _python(request: BuildRequest, chosen: Candidate) -> Iterator[Note]:
    system = chosen.os
    if chosen.python_from == "os":
        yield Note("python-from-os", f"Python {chosen.python} is {system.os}'s own")
    else:
        wheels = " and ".join([f"torch {chosen.build.torch}", *request.companions])
        have = "have" if request.companions else "has"
        why = "asked for" if request.python else f"the newest that {wheels} {have} wheels for"
        yield Note(
            "python-from-uv", f"Python {chosen.python} ({why}) is installed by uv; {system.os} has {system.python}"
        )
    if chosen.build.triton is not None and pool.triton_of(chosen.build, chosen.python) is None:
        yield Note(
            "no-triton",
            f"torch {chosen.build.torch} brings no Triton for Python {chosen.python}, so torch.compile does not "
            f"work on GPUs; below Python {chosen.build.triton_below_python} it brings {chosen.build.triton}",
        )
    if chosen.build.numpy_majors == (1,):
        yield Note("numpy-1-only", f"torch {chosen.build.torch} works with numpy 1 only: keep numpy below 2")


def _system(request: BuildRequest, chosen: Candidate) -> Iterator[Note]:
    usual = pool.OS_PREFERENCE[request.variant][0]
    if request.os is None and chosen.os.os != usual:
        yield Note("os-chosen", f"{chosen.os.os} was taken, since {usual} does not serve this request, or less well")
    if chosen.image.flavour == "slim" and chosen.image.supported is False:
        yield Note("os-end-of-life", f"{chosen.os.os} reached its end of life on {chosen.os.end_of_life}")
