"""Ways out: requests close to the one made that do have an answer, nearest first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations

from packaging.version import Version

from envsmith.compat import candidates as pool
from envsmith.compat import nearest
from envsmith.compat import wishes as w
from envsmith.compat.candidates import Candidate
from envsmith.compat.choose import solve
from envsmith.compat.compose import floor_of
from envsmith.compat.wishes import Wish, command_line, only, wishes_of
from envsmith.model import fit, versions
from envsmith.model.matrix import Matrix
from envsmith.model.plan import Alternative
from envsmith.model.request import BuildRequest

LIMIT = 6
_OTHER_CUDAS = 3
_MOST_CHANGED = 3
# what a wish costs to change, cheapest first: choices inside the image, then the software, then the machine
_COST = (w.OS, w.PYTHON, w.TORCH, w.CUDA, w.CUDNN, w.VARIANT, w.DRIVER, w.WITH, w.PLATFORM, w.GPU)


@dataclass(frozen=True)
class _Change:
    """The request with some wishes changed. text: which, in a few words; rank: smallest is nearest.

    names_platform: the command must name the platform, since the one that a machine takes by itself is another.
    """

    text: str
    request: BuildRequest
    rank: tuple[int, int]
    names_platform: bool = False


def ways_out(request: BuildRequest, conflict: Collection[Wish], matrix: Matrix) -> tuple[Alternative, ...]:
    """Requests that have an answer, with one wish of the conflict changed; more where one is not enough.

    Each names a CUDA that exists, so the commands need no --exact and the list is the same with and without it.
    """
    for groups in _groups(request, conflict):
        changes = [change for group in groups for change in _changes(request, group, matrix)]
        found = _answered(changes, matrix)
        if found:
            return found
    return ()


def neighbours(request: BuildRequest, chosen: Candidate, matrix: Matrix) -> tuple[Alternative, ...]:
    """Other answers beside a plan: what would honour a CUDA that was replaced, else the same torch on other CUDAs."""
    if not pool.is_exact(chosen.build, request):
        conflict = [wish for wish in wishes_of(request) if wish.option in (w.TORCH, w.CUDA)]
        return ways_out(replace(request, exact=True), conflict, matrix)
    return _answered([*_newer_by_forward(request, chosen, matrix), *_other_cudas(request, chosen, matrix)], matrix)


def _newer_by_forward(request: BuildRequest, chosen: Candidate, matrix: Matrix) -> Iterator[_Change]:
    """A newer torch, or the same one on a newer CUDA, that the driver runs by forward compatibility only."""
    newest = next((other for other in solve(request, matrix) if other.how == fit.FORWARD), None)
    if newest is None or _age(newest) <= _age(chosen):
        return
    text = f"torch {newest.build.torch} on CUDA {newest.build.wheel_cuda}, by forward compatibility"
    if not request.gpus:
        text += ", which is for data-centre GPUs only"
    yield _Change(text, _adopt(request, (w.TORCH, w.CUDA), newest, matrix), (0, 0))


def _age(candidate: Candidate) -> tuple[Version, Version]:
    return versions.parse(candidate.build.torch), versions.parse(candidate.build.wheel_cuda or "0")


def _other_cudas(request: BuildRequest, chosen: Candidate, matrix: Matrix) -> Iterator[_Change]:
    """The same torch on other CUDAs; where torch was left open, also the newest torch of each other CUDA major."""
    if request.cuda == pool.CPU:
        return
    pinned = replace(request, torch=chosen.build.torch, cuda=None, exact=False)
    free = solve(replace(request, cuda=None, exact=False), matrix) if request.torch is None else ()
    others = [
        *nearest.one_of_each(solve(pinned, matrix), lambda other: other.build.wheel_cuda),
        *nearest.one_of_each(free, lambda other: versions.major(other.build.wheel_cuda or "0")),
    ]
    differing = [
        other for other in others if other.build.wheel_cuda != chosen.build.wheel_cuda and other.how != fit.FORWARD
    ]
    for place, other in enumerate(differing[:_OTHER_CUDAS]):
        floor = floor_of(other, request.gpus, matrix)
        drivers = f", for drivers from {floor.version}" if floor else ""
        text = f"CUDA {other.build.wheel_cuda} with torch {other.build.torch}{drivers}"
        yield _Change(text, _adopt(pinned, (w.TORCH, w.CUDA), other, matrix), (1, place))


def _groups(request: BuildRequest, conflict: Collection[Wish]) -> Iterator[list[tuple[Wish, ...]]]:
    """Sets of wishes to change, small ones first. Each touches the conflict: nothing else can help."""
    changeable = [wish for wish in wishes_of(request) if wish.option in _COST]
    for count in range(1, _MOST_CHANGED + 1):
        yield [group for group in combinations(changeable, count) if set(group) & set(conflict)]
    yield [tuple(wish for wish in changeable if wish.option not in (w.PLATFORM, w.GPU))]


def _changes(request: BuildRequest, group: tuple[Wish, ...], matrix: Matrix) -> Iterator[_Change]:
    options = tuple(wish.option for wish in group)
    if w.GPU in options and len(request.gpus) == 1:
        return  # an image for no GPU at all is no way out for somebody who has that one
    freed = only(request, [wish for wish in wishes_of(request) if wish not in group])
    cost = sum(_COST.index(option) for option in options)
    for place, candidate in enumerate(nearest.candidates(solve(freed, matrix), group, request, matrix)):
        changed = _adopt(freed, options, candidate, matrix)
        text = ", ".join(_in_words(wish, changed, request, candidate) for wish in group)
        yield _Change(text, replace(changed, exact=request.exact), (place, cost), w.PLATFORM in options)
    if options == (w.PLATFORM,) and not (request.cuda or request.gpus or request.driver or request.cudnn):
        yield _Change("the CPU build", replace(request, cuda=pool.CPU, variant="runtime"), (len(_COST), cost))


def _adopt(request: BuildRequest, options: Iterable[str], candidate: Candidate, matrix: Matrix) -> BuildRequest:
    """The request with the candidate's values for some options; companions and GPUs are left out instead."""
    build = candidate.build
    values: dict[str, dict[str, str | None]] = {
        w.TORCH: {"torch": build.torch},
        w.CUDA: {"cuda": build.wheel_cuda or pool.CPU},
        w.CUDNN: {"cudnn": build.cudnn},
        w.PYTHON: {"python": candidate.python},
        w.OS: {"os": candidate.os.os},
        w.PLATFORM: {"platform": build.platform},
    }
    changed = request
    for option in options:
        changed = replace(changed, **values.get(option, {}))  # type: ignore[arg-type]  # all of them strings
    floor = floor_of(candidate, request.gpus, matrix)
    if w.DRIVER in options and floor is not None:
        driver = nearest.driver_for(floor, request.gpus, matrix)
        changed = replace(changed, driver=driver, driver_source="given")
    return changed


def _in_words(wish: Wish, changed: BuildRequest, asked: BuildRequest, candidate: Candidate) -> str:
    if wish.option == w.TORCH:
        exact = pool.is_exact(candidate.build, asked)
        verb = "keeping" if exact else f"on {candidate.build.wheel_cuda} for"
        cuda = f", {verb} CUDA {asked.cuda}" if asked.cuda is not None and changed.cuda == asked.cuda else ""
        return f"torch {changed.torch} instead of {wish.value}{cuda}"
    if wish.option == w.DRIVER:
        words = "" if changed.driver and changed.driver.isdigit() else " or newer"
        return f"driver {changed.driver}{words} instead of {wish.value}"
    simple = {
        w.CUDA: f"CUDA {changed.cuda} instead of {wish.value}",
        w.CUDNN: f"cuDNN {changed.cudnn} instead of {wish.value}",
        w.PYTHON: f"Python {changed.python} instead of {wish.value}",
        w.OS: f"{changed.os} instead of {wish.value}",
        w.PLATFORM: f"{changed.platform} instead of {wish.value}",
        w.VARIANT: "a runtime image, without nvcc",
    }
    return simple.get(wish.option, f"without {wish.value}")


def _answered(changes: Iterable[_Change], matrix: Matrix) -> tuple[Alternative, ...]:
    """The changes that do have an answer, nearest first and each once."""
    found: dict[str, Alternative] = {}
    for change in sorted(changes, key=lambda change: change.rank):
        # held to what was asked for, then written without --exact, which the answer no longer needs
        if not solve(change.request, matrix):
            continue
        request = replace(change.request, exact=False)
        best = solve(request, matrix)[0].build
        command = command_line(request, names_platform=change.names_platform)
        alternative = Alternative(change.text, best.torch, best.wheel_cuda, command)
        found.setdefault(alternative.command, alternative)
        if len(found) == LIMIT:
            break
    return tuple(found.values())
