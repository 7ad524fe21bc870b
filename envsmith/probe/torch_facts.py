"""The part of a snapshot that only a process with torch can see, and how it comes into the snapshot."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from envsmith.wire.facts import Gap, LibraryFacts, Snapshot, TorchRuntimeFacts


def torch_facts() -> dict[str, object]:
    """Called in a process in which torch has been imported."""
    from envsmith.probe.loaded import loaded_libraries
    from envsmith.probe.torch_runtime import torch_runtime

    return {"torch_runtime": torch_runtime(), "loaded_libraries": loaded_libraries()}


def with_torch_facts(snapshot: Snapshot, value: Any, reason: str) -> Snapshot:
    """The snapshot with what only a process with torch could see, or with gaps that say why not."""
    names = ("torch_runtime", "loaded_libraries")
    gaps = tuple(gap for gap in snapshot.gaps if gap.fact not in names)
    if value is None:
        kind = "failed" if snapshot.torch is not None else "absent"
        return replace(snapshot, gaps=(*gaps, *(Gap(name, kind, reason) for name in names)))
    runtime: Any = {
        name: tuple(item) if isinstance(item, list) else item for name, item in value["torch_runtime"].items()
    }
    return replace(
        snapshot,
        torch_runtime=TorchRuntimeFacts(**runtime),
        loaded_libraries=tuple(LibraryFacts(**library) for library in value["loaded_libraries"]),
        gaps=gaps,
    )
