"""The build use case: room on the disk first, then the rendered context goes to the engine with the options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from envsmith.app.build import build_image, check_space, default_tag, needed_bytes
from envsmith.app.plan import HostGpus, make_plan
from envsmith.compat.load import load_matrix
from envsmith.errors import BuildFailedError
from envsmith.model.image import BuildEvent, BuildOptions, BuiltImage, EngineInfo, RenderedContext
from envsmith.model.plan import Plan
from envsmith.model.request import BuildRequest

INFO = EngineInfo("26.1.5", "unix:///var/run/docker.sock", "overlay2", 10**12, "", "linux/amd64", "0.13.1", None)


@pytest.fixture(scope="module")
def plan() -> Plan:
    answer = make_plan(BuildRequest(torch="2.6", cuda="12.1"), load_matrix(), HostGpus())
    assert isinstance(answer, Plan)
    return replace(answer, installed_size_bytes=5_700_000_000, download_size_bytes=3_000_000_000)


class Engine:
    def __init__(self, info: EngineInfo) -> None:
        self._info = info
        self.built: list[tuple[RenderedContext, BuildOptions]] = []

    def info(self) -> EngineInfo:
        return self._info

    def build(
        self, context: RenderedContext, options: BuildOptions, on_event: Callable[[BuildEvent], None]
    ) -> BuiltImage:
        self.built.append((context, options))
        on_event(BuildEvent("started", "x", "RUN x"))
        return BuiltImage(options.tags[0], "sha256:1", 1, "linux/amd64", {}, "overlay2")


def test_a_build_renders_the_plan_and_passes_the_options_on(plan: Plan) -> None:
    engine, events = Engine(INFO), []
    options = BuildOptions(tags=("a:1",), pull=True)
    image, context = build_image(plan, options, engine, events.append)
    assert engine.built == [(context, options)]
    assert "torch==2.6.0" in context.dockerfile
    assert image.reference == "a:1"
    assert [event.kind for event in events] == ["started"]


def test_no_room_is_told_with_figures_before_anything_is_built(plan: Plan) -> None:
    engine = Engine(replace(INFO, free_bytes=4_200_000_000))
    with pytest.raises(BuildFailedError) as caught:
        build_image(plan, BuildOptions(tags=("a:1",)), engine, print)
    assert "has 4.2 GB of disk space left" in caught.value.message
    assert "takes about 11.4 GB" in caught.value.message
    assert "docker builder prune" in caught.value.hint
    assert engine.built == []


def test_the_containerd_store_needs_room_for_the_compressed_layers_too(plan: Plan) -> None:
    assert needed_bytes(plan, "overlay2") == 11_400_000_000
    assert needed_bytes(plan, "containerd") == 14_400_000_000


def test_what_is_not_known_refuses_nothing(plan: Plan) -> None:
    check_space(plan, replace(INFO, free_bytes=None))
    check_space(replace(plan, installed_size_bytes=None), replace(INFO, free_bytes=1))


@pytest.mark.parametrize(
    ("change", "tag"),
    [
        ({}, "envsmith/torch:2.6.0-cu124-py311-debian12"),
        ({"python": "3.13t"}, "envsmith/torch:2.6.0-cu124-py313t-debian12"),
        ({"flavour": "devel", "os": "ubuntu22.04"}, "envsmith/torch:2.6.0-cu124-py311-ubuntu22.04-devel"),
        ({"platform": "linux/arm64"}, "envsmith/torch:2.6.0-cu124-py311-debian12-arm64"),
    ],
)
def test_the_name_says_what_is_inside(plan: Plan, change: dict[str, str], tag: str) -> None:
    assert default_tag(replace(plan, **change)) == tag  # type: ignore[arg-type]
