"""Why no row serves a request: a minimal set of wishes that conflict, with what the matrix says to each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from envsmith.compat import candidates as pool
from envsmith.compat import coverage, drivers, gpus
from envsmith.compat import wishes as w
from envsmith.compat.candidates import Candidate
from envsmith.compat.choose import solve
from envsmith.compat.compose import floor_of
from envsmith.compat.wishes import Wish, only, wishes_of
from envsmith.model import versions
from envsmith.model.matrix import Matrix, TorchBuild
from envsmith.model.plan import Conflict
from envsmith.model.request import BuildRequest, GpuWish

_LISTED = 4


def minimal_conflict(request: BuildRequest, matrix: Matrix) -> tuple[Wish, ...]:
    """A set of wishes that no candidate meets together, while any one less leaves some. Deterministic.

    Wishes are given up one by one, the least telling first, as long as the rest still conflicts. Once round is not
    always enough, since dropping "--cuda cpu" may take candidates away: so until nothing more can go.
    """
    kept = list(wishes_of(request))
    while True:
        before = len(kept)
        for wish in tuple(kept):
            rest = [other for other in kept if other != wish]
            if not solve(only(request, rest), matrix):
                kept = rest
        if len(kept) == before:
            return tuple(reversed(kept))


def conflicts(request: BuildRequest, clash: Sequence[Wish], matrix: Matrix) -> tuple[Conflict, ...]:
    """Each wish of a minimal conflict with what would be possible were it not for this one."""
    return tuple(
        Conflict(wish.option, wish.value, _reason(wish, request, _without(request, clash, wish, matrix), matrix))
        for wish in clash
    )


def summary(clash: Sequence[Wish]) -> str:
    """One sentence that names the conflict."""
    wishes = [str(wish) for wish in clash]
    if not wishes:
        return "the matrix has no build for any request"
    if len(wishes) == 1:
        return f"nothing in the matrix meets {wishes[0]}"
    return f"no PyTorch build meets {', '.join(wishes[:-1])} and {wishes[-1]} together"


def _without(request: BuildRequest, clash: Sequence[Wish], wish: Wish, matrix: Matrix) -> tuple[Candidate, ...]:
    return solve(only(request, [other for other in clash if other != wish]), matrix)


def _reason(wish: Wish, request: BuildRequest, others: Sequence[Candidate], matrix: Matrix) -> str:
    if wish.option == w.GPU:
        gpu = next(gpu for gpu in request.gpus if gpu.name == wish.value)
        return _about_gpu(gpu, others, request, matrix)
    if wish.option == w.DRIVER:
        return _about_driver(request, others, matrix)
    if wish.option == w.VARIANT:
        return _about_devel(request, matrix)
    builds = [candidate.build for candidate in others]
    torches = _span(build.torch for build in builds)
    cudas = _span(build.wheel_cuda for build in builds)
    said = {
        w.TORCH: f"torch {torches} would do",
        w.CUDA: f"there are builds for CUDA {cudas}",
        w.EXACT: f"without it, a build for CUDA {cudas} may stand in",
        w.CUDNN: f"the builds come with cuDNN {_span(build.cudnn for build in builds)}",
        w.PYTHON: f"there are wheels for Python {_span(_all_pythons(others, request))}",
        w.OS: f"{_words(candidate.os.os for candidate in others)} would do",
        w.PLATFORM: f"there are such builds for {_words(build.platform for build in builds)}",
        w.WITH: f"torch {torches} would do, but without {wish.value}" + _for_this_python(wish, request, builds),
    }
    return said[wish.option]


def _all_pythons(others: Iterable[Candidate], request: BuildRequest) -> Iterable[str]:
    offers = (pool.pythons(candidate.build, request.companions) for candidate in others)
    return (python for offered in offers for python in offered if not python.endswith("t"))


def _for_this_python(wish: Wish, request: BuildRequest, builds: Sequence[TorchBuild]) -> str:
    known = any(pool.partners(build, wish.value) for build in builds)
    return f" for Python {request.python}" if known and request.python else ""


def _about_devel(request: BuildRequest, matrix: Matrix) -> str:
    devel = [image for image in matrix.base_images if image.flavour == pool.DEVEL]
    systems = {image.os for image in devel}
    if request.os not in (None, *systems):
        return f"devel images build on nvidia/cuda, which is published for {_words(systems)}; a runtime image would do"
    cudas = _span(versions.minor_of(image.cuda) for image in devel if image.cuda is not None)
    return f"devel images build on nvidia/cuda, of which there is CUDA {cudas}; a runtime image would do"


def _about_gpu(gpu: GpuWish, others: Sequence[Candidate], request: BuildRequest, matrix: Matrix) -> str:
    product = "" if gpu.product is None else f"{gpu.name} has "
    capability = f"{product}compute capability {gpu.compute_capability}"
    platforms = gpus.platforms(matrix, gpu)
    if others and not any(candidate.build.platform in platforms for candidate in others):
        return f"{capability}, and is in {_words(platforms)} machines only"
    last = gpus.last_driver_branch(matrix, gpu)
    driver = drivers.read_driver(matrix, request.driver) if request.driver else None
    if driver is not None and coverage.too_new_a_driver(gpu, driver, matrix):
        return f"{capability}; {last} is the last driver branch that supports it"
    if driver is None and not coverage.have_a_driver(request.gpus, matrix):
        first = gpus.first_cuda(matrix, gpu.compute_capability)
        known = f"drivers know it from CUDA {first} on"
        return f"{capability}; {f'{last} is the last driver branch that supports it' if last is not None else known}"
    served = [candidate for candidate in others if coverage.code(candidate.build, gpu, matrix) is not None]
    if served and driver is not None:
        if coverage.too_old_a_driver(gpu, driver, matrix):
            first = gpus.first_cuda(matrix, gpu.compute_capability)
            return f"{capability}, which drivers know from CUDA {first} on"
        if gpu.forward_compat is not True:
            known = "not one of them" if gpu.forward_compat is False else "not known to be one of them"
            return f"forward compatibility would do, but is for data-centre GPUs, and {gpu.name} is {known}"
    known_code = {c for o in others for c in o.build.compute_capabilities or ()}
    unknown = any(candidate.build.compute_capabilities is None for candidate in others)
    ptx = {c for o in others for c in o.build.ptx or ()}
    parts = [f"machine code for {_span(known_code)}" if known_code else "", f"PTX for {_span(ptx)}" if ptx else ""]
    has = " and ".join(part for part in parts if part) or "no code that is known"
    no_ptx = "" if ptx else " and no PTX" + (" that is known of" if any(o.build.ptx is None for o in others) else "")
    doubt = "; for some the list is not known, and does not count" if unknown else ""
    return f"{capability}; the builds have {has}{no_ptx}{doubt}"


def _about_driver(request: BuildRequest, others: Sequence[Candidate], matrix: Matrix) -> str:
    driver = drivers.read_driver(matrix, request.driver or "0")
    offers = f"offers CUDA {driver.driver_cuda}" if driver.driver_cuda else "offers a CUDA that is not known"
    for gpu in request.gpus:
        if coverage.too_new_a_driver(gpu, driver, matrix):
            return f"branch {driver.branch} no longer supports {gpu.name}"
    floors = {floor.version for c in others if (floor := floor_of(c, request.gpus, matrix)) is not None}
    lowest = min(floors, key=versions.parse, default=None)
    return f"it {offers}; the rest needs a driver of at least {lowest or 'an unknown version'}"


def _span(values: Iterable[str | None]) -> str:
    """Versions: all of a few, else the first and the last."""
    ordered = sorted({value for value in values if value is not None}, key=versions.parse)
    if len(ordered) <= _LISTED:
        return ", ".join(ordered) or "nothing"
    return f"{ordered[0]} to {ordered[-1]}"


def _words(values: Iterable[str]) -> str:
    return ", ".join(sorted(set(values)))
