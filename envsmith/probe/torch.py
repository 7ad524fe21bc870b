"""The installed torch, from its files: nothing of it is imported or executed."""

from __future__ import annotations

import importlib.util
from typing import Sequence

from envsmith.probe.look import Look, collector
from envsmith.probe.parse.metadata import canonical, dist_info, requirements
from envsmith.probe.parse.torch_version import torch_version
from envsmith.wire.facts import TorchFacts

_METADATA_LIMIT_BYTES = 1024 * 1024


@collector("torch")
def torch_facts(look: Look, search_path: Sequence[str]) -> TorchFacts | None:
    """Return the torch that `import torch` would take, or None if there is none."""
    location = _location(look, search_path)
    if location is None:
        return None
    values = torch_version(look.read_text(location + "/version.py"))
    if "__version__" not in values or "cuda" not in values:
        look.gap("torch.wheel_cuda", "failed", f"{location}/version.py does not say __version__ and cuda")
    return TorchFacts(
        version=values.get("__version__") or "",
        wheel_cuda=values.get("cuda"),
        hip=values.get("hip"),
        location=location,
        requires=_requires(look, location.rsplit("/", 1)[0]),
    )


def _location(look: Look, search_path: Sequence[str]) -> str | None:
    for folder in search_path:
        if folder.startswith("/") and look.exists(folder + "/torch/version.py"):
            return folder.rstrip("/") + "/torch"
    if look.root != "/":
        return None
    # an editable install is found by an import hook only; asking the hooks does not run the package
    try:
        spec = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        return None
    places = list(spec.submodule_search_locations or ()) if spec else []
    return next((place for place in places if look.exists(place + "/version.py")), None)


def _requires(look: Look, folder: str) -> tuple[str, ...]:
    """The Requires-Dist lines of torch about NVIDIA's packages and triton."""
    for name in look.names(folder):
        known = dist_info(name)
        if known and known[0] == "torch" and name.endswith(".dist-info"):
            try:
                text = look.read_text(f"{folder}/{name}/METADATA", _METADATA_LIMIT_BYTES)
            except OSError as error:
                look.gap_from("torch.requires", error)
                return ()
            return tuple(line for line in requirements(text) if _is_cuda_part(line))
    return ()


def _is_cuda_part(requirement: str) -> bool:
    name = canonical(requirement)
    return name.startswith(("nvidia-", "triton", "pytorch-triton", "cuda-"))
