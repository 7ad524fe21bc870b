"""The candidates: every torch build that serves the wishes about builds, on every operating system that fits.

A wish about the build is a small named predicate in `BUILD_TESTS`. What then still has to be chosen (Python, base
image, the way the driver runs it) follows from build, operating system and request, and may turn out impossible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from packaging.version import Version

from envsmith.compat import coverage, drivers, gpus
from envsmith.model import fit, versions
from envsmith.model.matrix import BaseImage, ForwardCompat, Matrix, OperatingSystem, TorchBuild
from envsmith.model.request import BuildRequest

# No user can type these. With platform=ANY_PLATFORM a request asks "would another platform do?", and with
# cuda=ANY_BUILD "would a build of either kind do?": no cuda wish at all means a CUDA build.
ANY_PLATFORM = ""
ANY_BUILD = ""
CPU = "cpu"
OFFERED = ("stable", "legacy", "experimental")
DEVEL = "devel"
OS_PREFERENCE = {
    "runtime": ("debian12", "debian13", "ubuntu24.04", "ubuntu22.04", "debian11"),
    DEVEL: ("ubuntu22.04", "ubuntu24.04", "debian12", "debian13", "debian11"),
}


@dataclass(frozen=True)
class Candidate:
    """One complete choice. how: native, minor-version or forward with the given driver; None without one."""

    build: TorchBuild
    os: OperatingSystem
    python: str
    python_from: str
    image: BaseImage
    toolkit_cuda: str | None
    how: str | None
    forward: ForwardCompat | None


def candidates(request: BuildRequest, matrix: Matrix) -> Iterator[Candidate]:
    """Yield every candidate that meets all of the request, in matrix order."""
    systems = [row for row in matrix.operating_systems if request.os in (None, row.os)]
    images = [row for row in matrix.base_images if (row.flavour == DEVEL) == (request.variant == DEVEL)]
    for build in matrix.torch_builds:
        if not all(test(build, request, matrix) for test in BUILD_TESTS):
            continue
        for how, forward in mechanisms(build, request, matrix):
            for image in base_images(build, images, request, forward):
                system = next((row for row in systems if row.os == image.os), None)
                if system is not None and _has_glibc(system, build):
                    python, python_from = choose_python(build, system, request)
                    toolkit_cuda = image.cuda if request.variant == DEVEL else None
                    yield Candidate(build, system, python, python_from, image, toolkit_cuda, how, forward)


# -- wishes about the build ------------------------------------------------------------------------------------------


def runs_on_platform(build: TorchBuild, request: BuildRequest, _matrix: Matrix) -> bool:
    """--platform."""
    if request.platform == ANY_PLATFORM:
        return build.platform.startswith("linux/")
    return build.platform == request.platform


def is_the_torch(build: TorchBuild, request: BuildRequest, _matrix: Matrix) -> bool:
    """--torch."""
    return request.torch is None or torch_matches(request.torch, build.torch)


def has_the_cuda(build: TorchBuild, request: BuildRequest, matrix: Matrix) -> bool:
    """--cuda and --exact: the CUDA asked for, or one that may stand in for it. A CPU build only if asked for.

    Another CUDA of the same major may stand in where every driver that runs the requested one runs it too: an older one
    always, a newer one by minor-version compatibility, so not where a GPU would need its PTX.
    """
    if request.cuda == ANY_BUILD:
        return True
    if request.cuda == CPU or build.wheel_cuda is None:
        return request.cuda == CPU and build.wheel_cuda is None
    asked = asked_cuda(request)
    if asked is None or is_exact(build, request):
        return True
    if request.exact or versions.major(build.wheel_cuda) != versions.major(asked):
        return False
    older = versions.parse(build.wheel_cuda) <= versions.parse(versions.minor_of(asked))
    return older or not coverage.needs_native(build, request.gpus, matrix)


def asked_cuda(request: BuildRequest) -> str | None:
    """The CUDA version asked for, if it was one."""
    return None if request.cuda in (None, CPU, ANY_BUILD) else request.cuda


def is_exact(build: TorchBuild, request: BuildRequest) -> bool:
    """Whether the build's CUDA is the one asked for, to as many numbers as --exact makes count."""
    asked = asked_cuda(request)
    if asked is None:
        return True
    if build.wheel_cuda is None:
        return False
    if request.exact and build.wheel_toolkit is not None:
        return versions.has_prefix(build.wheel_toolkit, asked)
    return build.wheel_cuda == versions.minor_of(asked)


def is_offered(build: TorchBuild, request: BuildRequest, _matrix: Matrix) -> bool:
    """Builds that upstream does not advertise, or that nobody has seen, are for those who name them exactly."""
    return build.status in OFFERED or (
        request.torch == build.torch and asked_cuda(request) is not None and is_exact(build, request)
    )


def has_the_cudnn(build: TorchBuild, request: BuildRequest, _matrix: Matrix) -> bool:
    """--cudnn."""
    return request.cudnn is None or (build.cudnn is not None and versions.has_prefix(build.cudnn, request.cudnn))


def has_the_python(build: TorchBuild, request: BuildRequest, _matrix: Matrix) -> bool:
    """--python."""
    return request.python is None or request.python in pythons(build)


def has_companions(build: TorchBuild, request: BuildRequest, _matrix: Matrix) -> bool:
    """--with, for the Python asked for: not every Python that torch has a wheel for has one of its companions."""
    if not all(partners(build, name) for name in request.companions):
        return False
    offered = pythons(build, request.companions)
    return bool(offered) if request.python is None else request.python in offered


def has_code_for_gpus(build: TorchBuild, request: BuildRequest, matrix: Matrix) -> bool:
    """--gpu."""
    return all(coverage.code(build, gpu, matrix) is not None for gpu in request.gpus)


def sits_beside_gpus(build: TorchBuild, request: BuildRequest, matrix: Matrix) -> bool:
    """--gpu: some GPUs are one with an arm64 CPU."""
    return all(build.platform in gpus.platforms(matrix, gpu) for gpu in request.gpus)


def driver_knows_gpus(_build: TorchBuild, request: BuildRequest, matrix: Matrix) -> bool:
    """--driver with --gpu: a GPU too new or too old for the driver stays so whatever the build.

    Without --driver there must be one that knows all of the GPUs.
    """
    if request.driver is None:
        return coverage.have_a_driver(request.gpus, matrix)
    driver = drivers.read_driver(matrix, request.driver)
    return all(coverage.known_to_driver(gpu, driver, matrix) for gpu in request.gpus)


BUILD_TESTS: tuple[Callable[[TorchBuild, BuildRequest, Matrix], bool], ...] = (
    runs_on_platform,
    is_the_torch,
    is_offered,
    has_the_cuda,
    has_the_cudnn,
    has_the_python,
    has_companions,
    has_code_for_gpus,
    sits_beside_gpus,
    driver_knows_gpus,
)


def mechanisms(
    build: TorchBuild, request: BuildRequest, matrix: Matrix
) -> Iterator[tuple[str | None, ForwardCompat | None]]:
    """Yield the best way in which the given driver runs the build, none if it does not.

    With no driver given, and for a CPU build, there is nothing to judge: one way, called None.
    """
    if request.driver is None or build.wheel_cuda is None:
        yield None, None
        return
    driver = drivers.read_driver(matrix, request.driver)
    how = drivers.how_it_runs(matrix, build.wheel_cuda, driver)
    if how == fit.NATIVE or (how is not None and not coverage.needs_native(build, request.gpus, matrix)):
        yield how, None
        return
    forward = fit.forward_compat(matrix, build.wheel_cuda, driver.version)
    if forward is not None and all(gpu.forward_compat is True for gpu in request.gpus):
        yield fit.FORWARD, forward


# -- what follows from build, operating system and request -----------------------------------------------------------


def _has_glibc(system: OperatingSystem, build: TorchBuild) -> bool:
    return build.glibc_floor is None or versions.parse(system.glibc) >= versions.parse(build.glibc_floor)


def choose_python(build: TorchBuild, system: OperatingSystem, request: BuildRequest) -> tuple[str, str]:
    """Return (Python, "os" or "uv"): as wanted, else the system's own if there are wheels for it, else the newest."""
    offered, wanted = pythons(build, request.companions), request.python
    if wanted is None:
        newest = max((tag for tag in offered if not tag.endswith("t")), key=versions.parse)
        wanted = system.python if system.python in offered else newest
    return wanted, "os" if wanted == system.python else "uv"


def base_images(
    build: TorchBuild, images: Sequence[BaseImage], request: BuildRequest, forward: ForwardCompat | None
) -> list[BaseImage]:
    """The best base image of each system: the slim system, or the nvidia/cuda image that brings what is needed."""
    flavour = DEVEL if request.variant == DEVEL else "base" if forward is not None else "slim"
    best: dict[str, BaseImage] = {}
    for image in images:
        fits = image.flavour == flavour and build.platform in image.platforms
        if fits and (flavour == "slim" or _carries(image, build, request, forward)):
            rival = best.get(image.os)
            if rival is None or _image_rank(image, build) > _image_rank(rival, build):
                best[image.os] = image
    return list(best.values())


def _carries(image: BaseImage, build: TorchBuild, request: BuildRequest, forward: ForwardCompat | None) -> bool:
    if image.cuda is None or build.wheel_cuda is None:
        return False
    wanted = (asked_cuda(request) if request.variant == DEVEL else None) or build.wheel_cuda
    if not versions.has_prefix(image.cuda, wanted):
        return False
    return forward is None or (image.cuda_compat and versions.minor_of(image.cuda) == versions.minor_of(forward.cuda))


def _image_rank(image: BaseImage, build: TorchBuild) -> tuple[bool, bool, Version]:
    """Best last: without a second cuDNN; the toolkit that the wheel was built with; the newest patch."""
    return image.cudnn is None, image.cuda == build.wheel_toolkit, versions.parse(image.cuda or "0")


def pythons(build: TorchBuild, companions: Sequence[str] = ()) -> tuple[str, ...]:
    """The Python versions that the build, and its companions if any are wanted, have wheels for: "3.11", "3.13t"."""
    tags = build.companion_python_tags if companions else build.python_tags
    return tuple(f"{tag[2]}.{tag[3:]}" for tag in tags)


def triton_of(build: TorchBuild, python: str) -> str | None:
    """The triton that comes with torch; None if not known, or if torch does not ask for it on this Python."""
    below = build.triton_below_python
    return None if below is not None and versions.parse(python.rstrip("t")) >= versions.parse(below) else build.triton


def partners(build: TorchBuild, name: str) -> tuple[str, ...]:
    """Versions of torchvision or torchaudio that belong to the build, newest last."""
    return build.torchvision if name == "torchvision" else build.torchaudio


@lru_cache(maxsize=4096)
def torch_matches(wish: str, torch: str) -> bool:
    """Whether a release meets `--torch`: a prefix, an exact version or a specifier."""
    if is_specifier(wish):
        from packaging.specifiers import SpecifierSet  # few need it, and it is slow to import

        return SpecifierSet(wish).contains(torch)
    return versions.has_prefix(torch, wish)


def is_specifier(wish: str) -> bool:
    """Whether `--torch` holds a PEP 440 specifier rather than a version."""
    return any(sign in wish for sign in "<>=!~")
