"""Which of the fitting candidates is best: the order of preference, and the request's answer by it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from packaging.version import Version

from envsmith.compat import candidates as pool
from envsmith.compat.candidates import Candidate
from envsmith.model import fit, versions
from envsmith.model.matrix import Matrix, TorchBuild
from envsmith.model.request import BuildRequest

# more than any CUDA major has had
_MINORS_OF_A_MAJOR = 20


@lru_cache(maxsize=1024)
def solve(request: BuildRequest, matrix: Matrix) -> tuple[Candidate, ...]:
    """Every candidate that meets the whole request, best first; empty if there is none.

    Remembered, since an explanation asks for the same reduced requests again and again.
    """
    return tuple(sorted(pool.candidates(request, matrix), key=lambda candidate: _rank(candidate, request)))


def _rank(candidate: Candidate, request: BuildRequest) -> tuple[Any, ...]:
    """Smallest is best.

    1. the CUDA asked for, over another; 2. what the driver runs as it is, over what needs forward compatibility, even
    if its torch is older; 3. a base image without a second cuDNN; 4. for devel images ubuntu22.04, which has most of
    them; 5. the newest torch; 6. the nearest CUDA to the one asked for; 7. stable over legacy over experimental; 8. the
    newest CUDA; 9. the usual operating system.
    """
    build = candidate.build
    place = pool.OS_PREFERENCE[request.variant].index(candidate.os.os)
    return (
        not pool.is_exact(build, request),
        candidate.how == fit.FORWARD,
        candidate.image.cudnn is not None,
        place if request.variant == pool.DEVEL else 0,
        _newest_first(versions.parse(build.torch)),
        cuda_distance(build, request),
        _standing(build),
        _newest_first(versions.parse(build.wheel_cuda or "0")),
        place,
    )


def _newest_first(version: Version) -> tuple[int, ...]:
    return tuple(-number for number in version.release)


def _standing(build: TorchBuild) -> int:
    """0 for a build that upstream stands by: its own default on PyPI counts as such whatever a table calls it."""
    ranks = {status: rank for rank, status in enumerate(pool.OFFERED)}
    return 0 if build.pypi_default else ranks.get(build.status, len(ranks))


def cuda_distance(build: TorchBuild, request: BuildRequest) -> int:
    """How far the build's CUDA is from the one asked for, in minors; an older major ends where a newer begins."""
    asked = pool.asked_cuda(request)
    if asked is None or build.wheel_cuda is None:
        return 0
    wheel, wanted = versions.parse(build.wheel_cuda).release, versions.parse(asked).release
    return abs((wheel[0] - wanted[0]) * _MINORS_OF_A_MAJOR + wheel[1] - wanted[1])
