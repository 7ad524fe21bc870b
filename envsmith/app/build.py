"""Use case: build the image of a plan, once the engine is seen to have room for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from envsmith.errors import BuildFailedError
from envsmith.model.image import BuildEvent, BuildOptions, BuiltImage, EngineInfo, RenderedContext
from envsmith.model.plan import Plan
from envsmith.render.dockerfile import render

_GB = 1e9


class Engine(Protocol):
    """The part of DockerEngine that a build needs."""

    def info(self) -> EngineInfo:
        """What the engine says of itself."""

    def build(
        self, context: RenderedContext, options: BuildOptions, on_event: Callable[[BuildEvent], None]
    ) -> BuiltImage:
        """Build the context into the engine's image store."""


def build_image(
    plan: Plan, options: BuildOptions, engine: Engine, on_event: Callable[[BuildEvent], None]
) -> tuple[BuiltImage, RenderedContext]:
    """Render and build. Raises BuildFailedError: no room, a fault of the engine, or a step that failed."""
    check_space(plan, engine.info())
    context = render(plan)
    return engine.build(context, options, on_event), context


def needed_bytes(plan: Plan, store: str) -> int | None:
    """Disk space that a build from nothing takes in the engine; None = not predicted.

    The image, and the same once more: uv keeps what it unpacked in a cache mount. The containerd store keeps the
    layers in compressed form too, which is about the size of the download.
    """
    if plan.installed_size_bytes is None:
        return None
    compressed = (plan.download_size_bytes or 0) if store == "containerd" else 0
    return 2 * plan.installed_size_bytes + compressed


def check_space(plan: Plan, info: EngineInfo) -> None:
    """Raise BuildFailedError when the engine has clearly not enough room for the image of the plan."""
    needed = needed_bytes(plan, info.store)
    if needed is None or info.free_bytes is None or info.free_bytes >= needed:
        return
    raise BuildFailedError(
        f"the engine has {info.free_bytes / _GB:.1f} GB of disk space left where it keeps images, and building "
        f"{plan.wheel} takes about {needed / _GB:.1f} GB",
        "free space: docker image prune, docker builder prune, docker system df; nothing was built",
    )


def default_tag(plan: Plan) -> str:
    """The name of the image where none is given, "envsmith/torch:2.6.0-cu124-py311-debian12"."""
    python = "py" + plan.python.replace(".", "")
    parts = [plan.torch, plan.variant, python, plan.os, *(["devel"] if plan.flavour == "devel" else [])]
    if plan.platform != "linux/amd64":
        parts.append(plan.platform.removeprefix("linux/"))
    return "envsmith/torch:" + "-".join(parts)
