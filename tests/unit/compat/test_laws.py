"""Laws of the resolver over the whole matrix, with requests that nobody thought of."""

from __future__ import annotations

import shlex
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsmith.cli.request import Typed, build_request
from envsmith.compat.choose import solve
from envsmith.compat.compose import compose
from envsmith.compat.gpus import find_gpu
from envsmith.compat.load import load_matrix
from envsmith.compat.resolve import resolve
from envsmith.model.matrix import Matrix
from envsmith.model.plan import Plan, Refusal
from envsmith.model.request import COMPANIONS, OPERATING_SYSTEMS, PLATFORMS, BuildRequest, GpuWish
from tests.unit.compat import checker

MATRIX = load_matrix()


@cache
def gpus_of_each_kind() -> tuple[GpuWish, ...]:
    """One GPU of each compute capability and eligibility that the matrix has, and each bare capability."""
    kinds = {(row.compute_capability, row.forward_compat, row.last_driver_branch): row.product for row in MATRIX.gpus}
    capabilities = {row.compute_capability for row in MATRIX.compute_capabilities}
    return tuple(find_gpu(MATRIX, name) for name in sorted({*kinds.values(), *capabilities}))


RELEASES = sorted({row.torch for row in MATRIX.torch_builds})
TORCHES = [*RELEASES, *(r.rpartition(".")[0] for r in RELEASES), "2", "9.9", ">=2.4,<2.6", "!=2.15.0", ">2.14,<2.14.1"]
CUDAS = sorted({row.cuda for row in MATRIX.toolkits} | {row.cuda.rpartition(".")[0] for row in MATRIX.toolkits})
CUDAS += ["12.7", "14.0", "10.2"]
DRIVERS = [*checker.DRIVER_SAMPLES, *(str(row.branch) for row in MATRIX.driver_branches), "585.10", "400.10"]
PYTHONS = ["3.7", "3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.13t", "3.14", "3.14t", "3.15", "3.16"]

# those where something happens: with and without code in recent wheels, dropped by drivers, of each eligibility
TELLING_GPUS = [
    find_gpu(MATRIX, name)
    for name in (
        "Tesla K80",
        "P100",
        "V100",
        "T4",
        "A100",
        "RTX 3090",
        "RTX 4090",
        "H200",
        "B200",
        "RTX 5090",
        "RTX A6000",
    )
]
TELLING_DRIVERS = ["450.80.02", "470.256.02", "525.60.13", "535", "550.54.14", "570.26", "580.65.06", "595.58.03"]


def _wishes(telling: bool) -> dict[str, st.SearchStrategy[object]]:
    """How each wish may be filled in."""
    return {
        "torch": st.sampled_from(TORCHES),
        "cuda": st.sampled_from(CUDAS),
        "cudnn": st.sampled_from(["8", "9", "8.9", "9.1", "9.10.2", "9.99"]),
        "python": st.sampled_from(PYTHONS),
        "os": st.sampled_from(OPERATING_SYSTEMS),
        "variant": st.just("devel"),
        "gpus": st.lists(
            st.sampled_from(TELLING_GPUS if telling else gpus_of_each_kind()), min_size=1, max_size=2, unique=True
        ).map(tuple),
        "driver": st.sampled_from(TELLING_DRIVERS if telling else DRIVERS),
        "platform": st.just("linux/arm64"),
        "companions": st.lists(st.sampled_from(COMPANIONS), min_size=1, max_size=2, unique=True).map(tuple),
        "exact": st.just(True),
    }


@st.composite
def requests(draw: st.DrawFn) -> BuildRequest:
    """A few wishes, as people have them, more often than many."""
    wishes = _wishes(telling=draw(st.booleans()))
    chosen = draw(st.sets(st.sampled_from(sorted(wishes)), max_size=draw(st.sampled_from([2, 3, 4, len(wishes)]))))
    return BuildRequest(**{name: draw(wishes[name]) for name in sorted(chosen)})  # type: ignore[arg-type]


@st.composite
def cpu_requests(draw: st.DrawFn) -> BuildRequest:
    return BuildRequest(
        torch=draw(st.sampled_from([None, *TORCHES])),
        cuda="cpu",
        python=draw(st.sampled_from([None, *PYTHONS])),
        platform=draw(st.sampled_from(PLATFORMS)),
    )


def _reduced(request: BuildRequest, kept: list[tuple[str, str]]) -> list[BuildRequest]:
    """The request with just these (option, value) wishes: one for each platform if that is not among them, and of
    either kind of build if "--cuda cpu" has gone."""
    values = dict(kept)
    reduced = BuildRequest(
        torch=values.get("--torch"),
        cuda=values.get("--cuda"),
        cudnn=values.get("--cudnn"),
        python=values.get("--python"),
        os=values.get("--os"),
        variant=values.get("--variant", "runtime"),
        gpus=tuple(gpu for gpu in request.gpus if ("--gpu", gpu.name) in kept),
        driver=values.get("--driver"),
        companions=tuple(name for name in request.companions if ("--with", name) in kept),
        exact="--exact" in values,
    )
    platforms = [values["--platform"]] if "--platform" in values else PLATFORMS
    kinds = [None, "cpu"] if request.cuda == "cpu" and "--cuda" not in values else [reduced.cuda]
    return [replace(reduced, platform=platform, cuda=cuda) for platform in platforms for cuda in kinds]


def _served(candidates: list[BuildRequest]) -> bool:
    return any(solve(request, MATRIX) for request in candidates)


def _typed(command: str) -> Typed:
    """A command line -> the options as typed. Written by hand: what a shell does, then pairs of option and value."""
    words = shlex.split(command)
    assert words[:2] == ["envsmith", "build"]
    values: dict[str, list[str]] = {}
    rest = iter(words[2:])
    for option in rest:
        values.setdefault(option, []).append("" if option == "--exact" else next(rest))
    first = {option: found[0] for option, found in values.items()}
    return Typed(
        torch=first.get("--torch"),
        cuda=first.get("--cuda"),
        cudnn=first.get("--cudnn"),
        python=first.get("--python"),
        os=first.get("--os"),
        variant=first.get("--variant", "runtime"),
        gpus=tuple(values.get("--gpu", ())),
        driver=first.get("--driver"),
        platform=first.get("--platform", "linux/amd64"),
        companions=first.get("--with"),
        exact="--exact" in values,
    )


@given(requests() | cpu_requests())
def test_every_plan_satisfies_an_independent_checker(request: BuildRequest) -> None:
    answer = resolve(request, MATRIX)
    if isinstance(answer, Plan):
        assert checker.problems(answer, request) == []


@given(requests() | cpu_requests())
def test_every_conflict_is_minimal_and_every_way_out_works(request: BuildRequest) -> None:
    answer = resolve(request, MATRIX)
    if isinstance(answer, Refusal):
        clash = [(conflict.subject, conflict.wanted) for conflict in answer.conflicts]
        assert clash, "a refusal names what conflicts"
        assert not _served(_reduced(request, clash)), f"{clash} do not conflict"
        for wish in clash:
            rest = [other for other in clash if other != wish]
            assert _served(_reduced(request, rest)), f"without {wish} the conflict stays"
        assert all(conflict.reason for conflict in answer.conflicts)
    for alternative in answer.alternatives:
        changed = build_request(_typed(alternative.command), MATRIX)
        other = resolve(changed, MATRIX)
        assert changed.companions == request.companions or "without torch" in alternative.change
        assert changed.gpus == request.gpus or "without" in alternative.change
        assert (changed.os, changed.python) == (request.os, request.python) or "instead of" in alternative.change
        assert isinstance(other, Plan), alternative.command
        assert (other.torch, other.wheel_cuda) == (alternative.torch, alternative.wheel_cuda), alternative.command


@pytest.mark.parametrize("gpu", [None, *TELLING_GPUS], ids=lambda gpu: gpu.name if gpu else "any GPU")
@pytest.mark.parametrize("torch", [None, "2.6"])
def test_every_gpu_on_every_driver(gpu: GpuWish | None, torch: str | None) -> None:
    """Without luck: the whole table of drivers, for a GPU of each kind."""
    for driver in checker.DRIVER_SAMPLES:
        request = BuildRequest(torch=torch, gpus=(gpu,) if gpu else (), driver=driver)
        for candidate in solve(request, MATRIX)[:2]:
            plan = compose(request, candidate, (), MATRIX)
            wrong = [w for w in checker.problems(plan, request) if w != "not the default system, without need"]
            assert wrong == [], (driver, plan.wheel)


@given(requests() | cpu_requests())
def test_the_same_request_gives_the_same_answer(request: BuildRequest) -> None:
    first = resolve(request, MATRIX)
    solve.cache_clear()
    assert resolve(request, MATRIX) == first


def _runs(request: BuildRequest) -> dict[tuple[str, str, str], str | None]:
    """Every build that fits, with the mechanism."""
    return {(c.build.torch, c.build.variant, c.build.platform): c.how for c in solve(request, MATRIX)}


@given(requests(), st.sampled_from(DRIVERS), st.sampled_from(DRIVERS))
def test_a_newer_driver_never_removes_a_runnable_build(request: BuildRequest, one: str, other: str) -> None:
    """Up to the last branch that supports the GPUs named. A build that runs by forward compatibility alone is bound to
    the branches that NVIDIA lists, and there are newer branches that it does not list: of those nothing is promised."""
    older, newer = sorted((one, other), key=checker.driver_numbers)
    last = min((branch for gpu in request.gpus if (branch := checker.last_branch(gpu)) is not None), default=10**6)
    if checker.driver_numbers(newer)[0] > last:
        return
    before, after = _runs(replace(request, driver=older)), _runs(replace(request, driver=newer))
    for build, how in before.items():
        listed = checker.driver_numbers(newer)[0] in checker.forward_branches(_cuda_of(build[1]))
        if how != "forward" or listed:
            assert build in after, f"{build} ran ({how}) on {older} and does not on {newer}"
        if how == "native":
            assert after[build] == "native"


def _cuda_of(variant: str) -> str:
    return f"{variant[2:4]}.{variant[4]}"


@given(requests(), st.sampled_from(gpus_of_each_kind()))
def test_one_more_gpu_never_enlarges_the_set(request: BuildRequest, gpu: GpuWish) -> None:
    more = replace(request, gpus=(*request.gpus, gpu))
    assert set(_runs(more)) <= set(_runs(request))


@given(requests())
def test_each_single_wish_only_narrows_the_choice(request: BuildRequest) -> None:
    """What makes a minimal conflict mean what it says."""
    wished = _runs(request)
    for field in ("cudnn", "python", "os", "driver"):
        assert set(wished) <= set(_runs(replace(request, **{field: None})))
    assert set(wished) <= set(_runs(replace(request, exact=False)))


@pytest.mark.parametrize(
    "gpu", [gpu for gpu in gpus_of_each_kind() if checker.numbers(gpu.compute_capability) < (7, 5)]
)
def test_an_old_gpu_never_gets_a_wheel_without_code_for_it(gpu: GpuWish) -> None:
    for candidate in solve(BuildRequest(gpus=(gpu,)), MATRIX):
        build = candidate.build
        has = checker.code(gpu.compute_capability, list(build.compute_capabilities or ()), list(build.ptx or ()))
        assert has == "machine code", build


def test_the_matrix_under_test_is_the_real_one() -> None:
    assert isinstance(MATRIX, Matrix)
    assert len(MATRIX.torch_builds) > 200
