"""One chosen candidate -> the whole Plan: floors, packages, labels, notes. Nothing is decided here any more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from envsmith import __version__
from envsmith.compat import candidates as pool
from envsmith.compat import coverage, drivers, gpus, notes
from envsmith.compat.candidates import DEVEL, Candidate
from envsmith.model import fit, versions
from envsmith.model.matrix import Matrix, TorchBuild
from envsmith.model.plan import BLOCKS, Alternative, Coverage, DriverFloor, Package, Plan, Substitution
from envsmith.model.request import BuildRequest, GpuWish

PYPI = "pypi"
DISTRIBUTION = "envsmith-gpu"
# the last numpy with the C interface of numpy 1, by Python (requires-python on PyPI)
_LAST_NUMPY_1 = {"3.7": "1.21.6", "3.8": "1.24.4"}
_LAST_NUMPY_1_ELSE = "1.26.4"


def compose(request: BuildRequest, chosen: Candidate, alternatives: Sequence[Alternative], matrix: Matrix) -> Plan:
    """Write the choice out as a Plan."""
    build = chosen.build
    driver = drivers.read_driver(matrix, request.driver) if request.driver else None
    plan = Plan(
        torch=build.torch,
        wheel=f"{build.torch}+{build.variant}",
        variant=build.variant,
        index=PYPI if build.pypi_default else build.index_path,
        requested_cuda=request.cuda,
        wheel_cuda=build.wheel_cuda,
        toolkit_cuda=chosen.toolkit_cuda,
        driver_cuda=driver.driver_cuda if driver else None,
        driver=driver.text if driver else None,
        cudnn=build.cudnn,
        nccl=build.nccl,
        triton=pool.triton_of(build, chosen.python),
        python=chosen.python,
        python_from=chosen.python_from,
        os=chosen.os.os,
        flavour=request.variant,
        platform=build.platform,
        base_image=f"{chosen.image.image}:{chosen.image.tag}",
        forward_compat_package=chosen.forward.package if chosen.forward else None,
        driver_floor=floor_of(chosen, request.gpus, matrix),
        require_cuda=require_cuda_of(chosen, request.gpus, matrix),
        compute_capabilities=build.compute_capabilities or (),
        ptx=build.ptx,
        coverage=coverage_of(chosen, request.gpus, matrix),
        packages=packages(chosen, request.companions),
        substitutions=substitutions(request, chosen, matrix),
        notes=notes.notes(request, chosen, driver, matrix),
        alternatives=tuple(alternatives),
        download_size_bytes=build.download_size_bytes,
        installed_size_bytes=build.installed_size_bytes,
        blocks=blocks(chosen),
        labels={},
        matrix_digest=matrix.digest,
    )
    return replace(plan, labels=labels(plan))


def floor_of(chosen: Candidate, wished: Sequence[GpuWish], matrix: Matrix) -> DriverFloor | None:
    """The lowest driver for the build and these GPUs; None for a CPU build."""
    build = chosen.build
    if build.wheel_cuda is None:
        return None
    needs_native = coverage.needs_native(build, wished, matrix)
    floor = drivers.driver_floor(
        matrix, build.wheel_cuda, chosen.how, needs_native=needs_native, forward=chosen.forward
    )
    last = [branch for gpu in wished if (branch := gpus.last_driver_branch(matrix, gpu)) is not None]
    return replace(drivers.raise_floor(floor, first_driver_for(wished, matrix)), last_branch=min(last, default=None))


def first_driver_for(wished: Iterable[GpuWish], matrix: Matrix) -> str | None:
    """The lowest driver that knows all these GPUs; None without GPUs, or not known."""
    cudas = (gpus.first_cuda(matrix, gpu.compute_capability) for gpu in wished)
    firsts = (fit.native_floor(matrix, cuda) for cuda in cudas if cuda is not None)
    return max((first for first in firsts if first is not None), key=versions.parse, default=None)


def require_cuda_of(chosen: Candidate, wished: Sequence[GpuWish], matrix: Matrix) -> str:
    """NVIDIA_REQUIRE_CUDA of the image; "" for a CPU build, which needs no driver."""
    build = chosen.build
    if build.wheel_cuda is None:
        return ""
    needs_native = coverage.needs_native(build, wished, matrix)
    return drivers.require_cuda(
        matrix,
        build.wheel_cuda,
        needs_native=needs_native,
        forward=chosen.forward,
        first_driver=first_driver_for(wished, matrix),
    )


def coverage_of(chosen: Candidate, wished: Sequence[GpuWish], matrix: Matrix) -> tuple[Coverage, ...]:
    """How each GPU is served."""
    found = ((gpu, coverage.code(chosen.build, gpu, matrix)) for gpu in wished)
    return tuple(Coverage(gpu.name, gpu.compute_capability, code.how, code.by) for gpu, code in found if code)


def packages(chosen: Candidate, companions: Sequence[str]) -> tuple[Package, ...]:
    """What uv installs, torch first. From an index of one variant the version carries the variant."""
    build = chosen.build
    index = PYPI if build.pypi_default else build.index_path
    local = "" if build.pypi_default else f"+{build.variant}"
    # the aarch64 wheels of the companions carry no variant in their version
    companion_local = local if build.platform == "linux/amd64" else ""
    found = [Package("torch", f"{build.torch}{local}", index)]
    found += [Package(name, f"{pool.partners(build, name)[-1]}{companion_local}", index) for name in companions]
    if "torchvision" in companions and build.numpy_majors == (1,):
        found.append(Package("numpy", _LAST_NUMPY_1.get(chosen.python, _LAST_NUMPY_1_ELSE), PYPI))
    return tuple(found)


def substitutions(request: BuildRequest, chosen: Candidate, matrix: Matrix) -> tuple[Substitution, ...]:
    """What was asked for and is not what the image holds."""
    build = chosen.build
    asked = pool.asked_cuda(request)
    if asked is None or build.wheel_cuda is None or build.wheel_toolkit is None:
        return ()
    if build.wheel_cuda != versions.minor_of(asked):
        reason = (
            f"{_why_not_as_asked(request, build, matrix)}; "
            f"{build.torch}+{build.variant} is the nearest of the same CUDA major, and every driver that runs "
            f"CUDA {versions.minor_of(asked)} runs it too"
        )
    elif not versions.has_prefix(build.wheel_toolkit, asked):
        reason = f"{build.torch}+{build.variant} was built with CUDA {build.wheel_toolkit}"
    else:
        return ()
    kept = f"; nvcc in the image is {chosen.toolkit_cuda}, as asked" if request.variant == DEVEL else ""
    return (Substitution("wheel_cuda", asked, build.wheel_cuda, reason + kept),)


def _why_not_as_asked(request: BuildRequest, build: TorchBuild, matrix: Matrix) -> str:
    """Why no build of this release with the CUDA asked for was taken: mostly that there is none."""
    asked = versions.minor_of(request.cuda or "")
    key = (build.torch, build.platform, asked)
    same = next((row for row in matrix.torch_builds if (row.torch, row.platform, row.wheel_cuda) == key), None)
    if same is None:
        return f"torch {build.torch} has no CUDA {asked} build for {build.platform}"
    wheel = f"{same.torch}+{same.variant}"
    if not pool.is_offered(same, request, matrix):
        return f"{wheel} is not among the builds that upstream stands by"
    unserved = [gpu.name for gpu in request.gpus if coverage.code(same, gpu, matrix) is None]
    return f"{wheel} has no code for {', '.join(unserved)}" if unserved else f"{wheel} does not meet all of the request"


def blocks(chosen: Candidate) -> tuple[str, ...]:
    """The template blocks, in their order: all but those that have nothing to do."""
    optional = {
        "forward-compat": chosen.forward is not None,
        "python": chosen.python_from == "uv",
        "gpu": chosen.build.wheel_cuda is not None,
    }
    return tuple(name for name in BLOCKS if optional.get(name, True))


def labels(plan: Plan) -> dict[str, str]:
    """OCI labels, and what the image claims to hold. What does not apply or is not known has no label."""
    floor = plan.driver_floor
    own = {
        "torch": plan.torch,
        "wheel": plan.wheel,
        "wheel-cuda": plan.wheel_cuda,
        "requested-cuda": plan.requested_cuda,
        "toolkit-cuda": plan.toolkit_cuda,
        "driver-floor": floor.version if floor else None,
        "driver-floor-how": floor.how if floor else None,
        "compute-capabilities": " ".join(plan.compute_capabilities) or None,
        "cudnn": plan.cudnn,
        "nccl": plan.nccl,
        "python": plan.python,
        "matrix-digest": plan.matrix_digest,
        "substitutions": "; ".join(f"{s.what} {s.requested} -> {s.used}" for s in plan.substitutions) or None,
        "tool": f"{DISTRIBUTION} {__version__}",
    }
    platform = f"CUDA {plan.wheel_cuda}" if plan.wheel_cuda else "CPU"
    named = {f"io.envsmith.{name}": value for name, value in own.items() if value is not None}
    return named | {
        "org.opencontainers.image.title": f"PyTorch {plan.wheel}",
        "org.opencontainers.image.description": f"PyTorch {plan.torch} for {platform}, Python {plan.python}, {plan.os}",
        "org.opencontainers.image.version": plan.wheel,
    }
