"""Which candidates are nearest to a wish that cannot be met."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import chain

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
        return list(fitting[:1])
    wish = changed[0]
    if wish.option == w.TORCH:
        return _by_torch(fitting, wish.value, matrix)
    if wish.option == w.CUDA:
        by_distance = sorted(fitting, key=lambda candidate: cuda_distance(candidate.build, request.cuda))
        return one_of_each(by_distance, lambda candidate: candidate.build.wheel_cuda)[:_MOST_EACH]
    if wish.option == w.PYTHON:
        return _by_python(fitting, wish.value)
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


def _by_torch(fitting: Sequence[Candidate], wish: str, matrix: Matrix) -> list[Candidate]:
    """The nearest older and newer release, then the newest. Of one release the preferred candidate."""
    # fitting is in order of preference for CUDA first: keep only those that honour it as well as the best does
    each = one_of_each(fitting, lambda candidate: candidate.build.torch)
    matching = sorted({b.torch for b in matrix.torch_builds if pool.torch_matches(wish, b.torch)}, key=versions.parse)
    if not matching and pool.is_specifier(wish):
        return each[:1]
    low, high = (matching[0], matching[-1]) if matching else (wish, wish)
    newest = max(each, key=lambda candidate: versions.parse(candidate.build.torch))
    found = _around(each, lambda candidate: candidate.build.torch, low, high)
    return one_of_each([*found, newest], lambda candidate: candidate.build.torch)


def _around(items: Sequence[Candidate], version: Callable[[Candidate], str], low: str, high: str) -> list[Candidate]:
    """The item just below `low` and the one just above `high`, the closer first by the numbers that differ."""
    below = [item for item in items if versions.parse(version(item)) < versions.parse(low)]
    above = [item for item in items if versions.parse(version(item)) > versions.parse(high)]
    pair = [
        *([max(below, key=lambda item: versions.parse(version(item)))] if below else []),
        *([min(above, key=lambda item: versions.parse(version(item)))] if above else []),
    ]
    return sorted(pair, key=lambda item: _gap(version(item), low))


def _gap(left: str, right: str) -> tuple[int, ...]:
    pairs = zip(chain(versions.parse(left).release, (0, 0, 0)), (*versions.parse(right).release, 0, 0, 0), strict=False)
    return tuple(abs(a - b) for a, b in pairs)


def _by_python(fitting: Sequence[Candidate], wanted: str) -> list[Candidate]:
    """The candidate with the nearest Python: of the same kind (free-threaded or not), then the nearest minor."""

    def gap(python: str) -> tuple[bool, int]:
        return python.endswith("t") != wanted.endswith("t"), abs(_minor(python) - _minor(wanted))

    offers = [replace(c, python=min(pool.pythons(c.build), key=gap)) for c in fitting]
    return [min(offers, key=lambda candidate: gap(candidate.python))]


def _minor(python: str) -> int:
    return int(python.rstrip("t").partition(".")[2])


def driver_for(candidate: Candidate, floor: DriverFloor, wished: Iterable[GpuWish], matrix: Matrix) -> str:
    """A driver that would run the candidate: its floor, or the last branch for a GPU that new drivers dropped."""
    last = [branch for gpu in wished if (branch := gpus.last_driver_branch(matrix, gpu)) is not None]
    return str(min(last)) if last else floor.version
