"""Which of the fitting candidates is best: the order of preference, and the request's answer by it."""

from __future__ import annotations

from typing import Any

from packaging.version import Version

from envsmith.compat import candidates as pool
from envsmith.compat.candidates import Candidate
from envsmith.model import fit, versions
from envsmith.model.matrix import Matrix, TorchBuild
from envsmith.model.request import BuildRequest


def solve(request: BuildRequest, matrix: Matrix) -> list[Candidate]:
    """Every candidate that meets the whole request, best first; empty if there is none."""
    return sorted(pool.candidates(request, matrix), key=lambda candidate: _rank(candidate, request))


def _rank(candidate: Candidate, request: BuildRequest) -> tuple[Any, ...]:
    """Smallest is best.

    1. the CUDA asked for, over another; 2. a driver that runs it as it is, over forward compatibility that rests on an
    unnamed GPU; 3. the newest torch; 4. no forward compatibility; 5. the nearest CUDA to the one asked for;
    6. stable over legacy over experimental; 7. the newest CUDA; 8. the usual operating system.
    """
    build = candidate.build
    forward = candidate.how == fit.FORWARD
    return (
        not pool.is_exact(build, request),
        forward and not request.gpus,
        _newest_first(versions.parse(build.torch)),
        forward,
        cuda_distance(build, request.cuda),
        _standing(build),
        _newest_first(versions.parse(build.wheel_cuda or "0")),
        pool.OS_PREFERENCE[request.variant].index(candidate.os.os),
    )


def _newest_first(version: Version) -> tuple[int, ...]:
    return tuple(-number for number in version.release)


def _standing(build: TorchBuild) -> int:
    """0 for a build that upstream stands by: its own default on PyPI counts as such whatever a table calls it."""
    ranks = {status: rank for rank, status in enumerate(pool.OFFERED)}
    return 0 if build.pypi_default else ranks.get(build.status, len(ranks))


def cuda_distance(build: TorchBuild, requested_cuda: str | None) -> int:
    """How many minors the build's CUDA is away from the one asked for; another major is further than any minor."""
    if requested_cuda in (None, pool.CPU) or build.wheel_cuda is None:
        return 0
    wheel, wanted = versions.parse(build.wheel_cuda).release, versions.parse(requested_cuda).release
    return abs(wheel[0] - wanted[0]) * 100 + abs(wheel[1] - wanted[1])
