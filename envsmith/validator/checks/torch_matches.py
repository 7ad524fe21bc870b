"""The installed torch is the one that its metadata, the image's labels and the plan say.

What it proves: torch's own version, its CUDA, the cuDNN and NCCL that it reports at run time, and the compute
capabilities in its binary equal what was promised, and the NVIDIA packages installed are those it pins.
"""

from __future__ import annotations

import warnings
from importlib import metadata
from typing import Any

from envsmith.validator.check import CheckContext, CheckFailed, CheckOutcome, check
from envsmith.validator.pins import installed_version, meets, stem, torch_pins
from envsmith.validator.versions import agree, capability, cudnn_version, nccl_version
from envsmith.wire.results import QUICK, Expectation, Metric


@check(
    id="torch-matches", title="PyTorch is what it is said to be", limit_s=60, needs_torch=True,
    requires=("torch-import",), level=QUICK,
)  # fmt: skip
def torch_matches(context: CheckContext) -> CheckOutcome:
    """Compare, and name everything that differs."""
    import torch

    seen = look(torch)
    pins = torch_pins()
    different = [*against_metadata(seen, pins), *against_pins(pins)]
    if context.expectation is not None:
        different += against_expectation(seen, context.expectation)
    metrics = tuple(Metric(name, value) for name, value in seen.items() if value is not None)
    if different:
        raise CheckFailed("; ".join(different), metrics)
    held = f"its metadata and the {context.expectation.source}" if context.expectation else "its metadata"
    return CheckOutcome(f"torch {seen['torch']} agrees with {held}", metrics)


def look(torch: Any) -> dict[str, str | None]:
    """What torch says of itself; compute_capabilities as "8.0 9.0"."""
    flags = getattr(torch._C, "_cuda_getArchFlags", None)
    words = (flags() or "").split() if flags else []
    capabilities = [found for found in map(capability, words) if found]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "torch": str(torch.__version__),
            "wheel_cuda": torch.version.cuda or "",
            "cudnn": _cudnn(torch),
            "nccl": _nccl(torch),
            "compute_capabilities": " ".join(capabilities) or None,
        }


def _cudnn(torch: Any) -> str | None:
    number = torch.backends.cudnn.version()  # raises when the loaded cuDNN is not of the kind torch was built with
    return cudnn_version(number) if number else None


def _nccl(torch: Any) -> str | None:
    if not torch.version.cuda or not hasattr(torch._C, "_nccl_version"):
        return None
    version = torch.cuda.nccl.version()
    return nccl_version(version) if isinstance(version, int) else ".".join(map(str, version[:3]))


def against_metadata(seen: dict[str, str | None], pins: dict[str, str]) -> list[str]:
    """Differences from torch's own version in its metadata, and from its pins of cuDNN and NCCL."""
    different = []
    stated = _stated_version()
    # the metadata may lack the local part, "+cu124"
    if stated is not None and stated != (seen["torch"] if "+" in stated else str(seen["torch"]).partition("+")[0]):
        different.append(f"torch says {seen['torch']}, its metadata {stated}")
    by_stem = {stem(name): (name, version) for name, version in pins.items()}
    for fact in ("cudnn", "nccl"):
        name, version = by_stem.get(f"nvidia-{fact}", ("", ""))
        value = seen[fact]
        if version and value and not agree(value, version):
            different.append(f"the loaded {fact} is {value}, torch pins {name}=={version}")
    return different


def _stated_version() -> str | None:
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return None


def against_pins(pins: dict[str, str]) -> list[str]:
    """Pinned NVIDIA packages that are missing or of another version."""
    different = []
    for name, version in sorted(pins.items()):
        installed = installed_version(name)
        if not meets(installed, version):
            different.append(f"torch pins {name}=={version}, installed is {installed or 'none'}")
    return different


def against_expectation(seen: dict[str, str | None], expected: Expectation) -> list[str]:
    """Differences from what the plan or the labels say."""
    who = f"by the {expected.source}"
    different = []
    if expected.wheel and expected.wheel != _like(expected.wheel, str(seen["torch"])):
        different.append(f"torch is {seen['torch']}, {who} {expected.wheel}")
    if expected.wheel_cuda is not None and expected.wheel_cuda != seen["wheel_cuda"]:
        different.append(f"the wheel's CUDA is {seen['wheel_cuda'] or 'none'}, {who} {expected.wheel_cuda or 'none'}")
    for fact in ("cudnn", "nccl"):
        wanted: str | None = getattr(expected, fact)
        value = seen[fact]
        if wanted and (value is None or not agree(wanted, value)):
            different.append(f"the loaded {fact} is {value or 'none'}, {who} {wanted}")
    if expected.compute_capabilities is not None:
        wanted_set = set(expected.compute_capabilities)
        has = set((seen["compute_capabilities"] or "").split())
        if wanted_set != has:
            different.append(f"the wheel has machine code for {_list(has)}, {who} for {_list(wanted_set)}")
    return different


def _like(expected: str, version: str) -> str:
    """The version, without its local part if the expected one has none."""
    return version if "+" in expected else version.partition("+")[0]


def _list(capabilities: set[str]) -> str:
    return ", ".join(sorted(capabilities, key=lambda c: tuple(map(int, c.split("."))))) or "no GPU"
