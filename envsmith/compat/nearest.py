"""Which candidates are nearest to a wish that cannot be met."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace

from envsmith.compat import candidates as pool
from envsmith.compat import gpus
from envsmith.compat import wishes as w
from envsmith.compat.candidates import Candidate
from envsmith.compat.choose import cuda_distance
from envsmith.compat.wishes import Wish
from envsmith.model import versions
from envsmith.model.matrix import Matrix
from envsmith.model.plan import DriverFloor
from envsmith.model.request import BuildRequest, GpuWish

_MOST_EACH = 3


def candidates(
    fitting: Sequence[Candidate], changed: Sequence[Wish], request: BuildRequest, matrix: Matrix
) -> list[Candidate]:
    """Of the candidates that fit without the changed wishes (best first), those nearest to what was wished."""
    if not fitting:
        return []
    if len(changed) > 1:
        return [_nearest_to_all(fitting, changed, request, matrix)]
    wish = changed[0]
    if wish.option == w.TORCH:
        return _by_torch(fitting, wish.value, matrix)
    if wish.option == w.CUDA:
        by_distance = sorted(fitting, key=lambda candidate: cuda_distance(candidate.build, request))
        return one_of_each(by_distance, lambda candidate: candidate.build.wheel_cuda)[:_MOST_EACH]
    if wish.option == w.PYTHON:
        return _by_python(fitting, wish.value, request)
    if wish.option == w.CUDNN:
        known = [candidate for candidate in fitting if candidate.build.cudnn is not None]
        each = one_of_each(known, lambda candidate: candidate.build.cudnn)
        return _around(each, lambda candidate: candidate.build.cudnn or "0", wish.value, wish.value)
    if wish.option == w.OS:
        return one_of_each(fitting, lambda candidate: candidate.os.os)[:_MOST_EACH]
    return list(fitting[:1])


def one_of_each(items: Iterable[Candidate], key: Callable[[Candidate], Hashable]) -> list[Candidate]:
    """The first candidate for each value of the key, in order."""
    first: dict[Hashable, Candidate] = {}
    for item in items:
        first.setdefault(key(item), item)
    return list(first.values())


def _nearest_to_all(
    fitting: Sequence[Candidate], changed: Sequence[Wish], request: BuildRequest, matrix: Matrix
) -> Candidate:
    """One candidate near to several wishes at once: each in turn counts for more than the next."""
    options = {wish.option: wish.value for wish in changed}
    if w.PYTHON in options:
        fitting = [_with_nearest_python(candidate, options[w.PYTHON], request) for candidate in fitting]

    def gaps(candidate: Candidate) -> tuple[object, ...]:
        asked = options.get(w.TORCH)
        return (
            _torch_gap(candidate.build.torch, asked, matrix) if asked else (),
            cuda_distance(candidate.build, request) if w.CUDA in options else 0,
            _python_gap(candidate.python, options[w.PYTHON]) if w.PYTHON in options else (),
        )

    return min(fitting, key=gaps)


def _torch_range(wish: str, matrix: Matrix) -> tuple[str, str] | None:
    """The oldest and newest release that the wish means; the wish itself if it is a version that does not exist."""
    matching = sorted({b.torch for b in matrix.torch_builds if pool.torch_matches(wish, b.torch)}, key=versions.parse)
    if matching:
        return matching[0], matching[-1]
    return None if pool.is_specifier(wish) else (wish, wish)


def _torch_gap(torch: str, wish: str, matrix: Matrix) -> int:
    """How many releases away, whichever way."""
    bounds = _torch_range(wish, matrix)
    if bounds is None or pool.torch_matches(wish, torch):
        return 0
    return min(_releases_between(torch, bound, matrix) for bound in bounds)


def _releases_between(left: str, right: str, matrix: Matrix) -> int:
    low, high = sorted((versions.parse(left), versions.parse(right)))
    return sum(low <= versions.parse(torch) < high for torch in {build.torch for build in matrix.torch_builds})


def _by_torch(fitting: Sequence[Candidate], wish: str, matrix: Matrix) -> list[Candidate]:
    """The nearest older and newer release, then the newest. Of one release the preferred candidate."""
    each = one_of_each(fitting, lambda candidate: candidate.build.torch)
    bounds = _torch_range(wish, matrix)
    if bounds is None:
        return each[:1]
    newest = max(each, key=lambda candidate: versions.parse(candidate.build.torch))
    found = _around(each, lambda candidate: candidate.build.torch, *bounds)
    found.sort(key=lambda candidate: _torch_gap(candidate.build.torch, wish, matrix))
    return one_of_each([*found, newest], lambda candidate: candidate.build.torch)


def _around(items: Sequence[Candidate], version: Callable[[Candidate], str], low: str, high: str) -> list[Candidate]:
    """The item just below `low` and the one just above `high`, as far as there are any."""
    below = [item for item in items if versions.parse(version(item)) < versions.parse(low)]
    above = [item for item in items if versions.parse(version(item)) > versions.parse(high)]
    return [
        *([max(below, key=lambda item: versions.parse(version(item)))] if below else []),
        *([min(above, key=lambda item: versions.parse(version(item)))] if above else []),
    ]


def _by_python(fitting: Sequence[Candidate], wanted: str, request: BuildRequest) -> list[Candidate]:
    offers = [_with_nearest_python(candidate, wanted, request) for candidate in fitting]
    return [min(offers, key=lambda candidate: _python_gap(candidate.python, wanted))]


def _with_nearest_python(candidate: Candidate, wanted: str, request: BuildRequest) -> Candidate:
    offered = pool.pythons(candidate.build, request.companions)
    return replace(candidate, python=min(offered, key=lambda python: _python_gap(python, wanted)))


def _python_gap(python: str, wanted: str) -> tuple[bool, int]:
    """Of the same kind (free-threaded or not) first, then by minor."""
    return python.endswith("t") != wanted.endswith("t"), abs(_minor(python) - _minor(wanted))


def _minor(python: str) -> int:
    return int(python.rstrip("t").partition(".")[2])


def driver_for(floor: DriverFloor, wished: Iterable[GpuWish], matrix: Matrix) -> str:
    """A driver that would do: the floor, or the last branch for a GPU that newer drivers have dropped."""
    last = [branch for gpu in wished if (branch := gpus.last_driver_branch(matrix, gpu)) is not None]
    return str(min(last)) if last else floor.version
