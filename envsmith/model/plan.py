"""A plan: every version chosen, and why. Frozen before anything touches Docker."""

from __future__ import annotations

from dataclasses import dataclass

PLAN_SCHEMA = 1

# The label that names the plan of an image; a plan cannot hold it among its own labels.
PLAN_DIGEST_LABEL = "io.envsmith.plan-digest"

# Names of the template blocks, in the order in which they stand in a Dockerfile. A plan takes all but:
# "forward-compat" only with a forward_compat_package, "python" only with python_from "uv" (the OS's own Python
# comes with "apt"), "gpu" (the NVIDIA_* variables) only for a CUDA wheel. What changes least comes first, so that a
# rebuild finds most of it in the cache; "verify" comes after "user", as whom it looks.
BLOCKS = ("base", "forward-compat", "apt", "python", "account", "torch", "gpu", "user", "verify", "labels")


@dataclass(frozen=True)
class DriverFloor:
    """The lowest driver the wheel runs on, for the GPUs asked for.

    version: lowest driver version. how: "native", "minor-version" or "forward", the mechanism by which the
    given driver runs it (without a given driver: by which `version` would). native: lowest native driver.
    last_branch: the last driver branch that still supports the GPUs asked for; None = no last one is known.
    """

    version: str
    how: str
    native: str | None
    last_branch: int | None = None


@dataclass(frozen=True)
class Coverage:
    """How one GPU that was asked for is served. how: "machine code" or "ptx"; by: the capability used."""

    gpu: str
    compute_capability: str
    how: str
    by: str


@dataclass(frozen=True)
class Substitution:
    """Something asked for that was replaced. Never silent: shown, labelled and certified."""

    what: str
    requested: str
    used: str
    reason: str


@dataclass(frozen=True)
class Note:
    """A decision worth telling. code: short and stable, "python-from-os"; text: one sentence."""

    code: str
    text: str


@dataclass(frozen=True)
class Alternative:
    """A way out, best first. change: what differs from the request; command: the full command line."""

    change: str
    torch: str
    wheel_cuda: str | None
    command: str


@dataclass(frozen=True)
class Conflict:
    """One constraint of a minimal set that cannot be met together.

    subject: the option, "--torch"; wanted: its value; reason: what the matrix says.
    """

    subject: str
    wanted: str
    reason: str


@dataclass(frozen=True)
class Package:
    """One distribution to install, exact. index: "pypi", or an index path such as "/whl/cu126"."""

    name: str
    version: str
    index: str


@dataclass(frozen=True)
class Plan:
    """The whole answer to a BuildRequest.

    wheel: "2.6.0+cu124". The four CUDA numbers: requested_cuda, wheel_cuda, toolkit_cuda (devel images
    only), driver_cuda (of the given or this host's driver). python: "3.11"; python_from: "os" or "uv".
    blocks: names of the template blocks, in order. packages: what uv installs, torch first.
    download_size_bytes, installed_size_bytes: predictions, None = unknown. expect: versions that the
    installed torch must report (None = not known, so not asserted).
    labels: OCI and io.envsmith.* labels of the image, without the plan's own digest.
    """

    torch: str
    wheel: str
    variant: str
    index: str
    requested_cuda: str | None
    wheel_cuda: str | None
    toolkit_cuda: str | None
    driver_cuda: str | None
    driver: str | None
    cudnn: str | None
    nccl: str | None
    triton: str | None
    python: str
    python_from: str
    os: str
    flavour: str
    platform: str
    base_image: str
    forward_compat_package: str | None
    driver_floor: DriverFloor | None
    require_cuda: str
    compute_capabilities: tuple[str, ...]
    ptx: tuple[str, ...] | None
    coverage: tuple[Coverage, ...]
    packages: tuple[Package, ...]
    substitutions: tuple[Substitution, ...]
    notes: tuple[Note, ...]
    alternatives: tuple[Alternative, ...]
    download_size_bytes: int | None
    installed_size_bytes: int | None
    blocks: tuple[str, ...]
    labels: dict[str, str]
    matrix_digest: str
    schema: int = PLAN_SCHEMA
    kind: str = "plan"


@dataclass(frozen=True)
class Refusal:
    """Why no row serves the request: a minimal set of conflicting constraints and the nearest ways out."""

    summary: str
    conflicts: tuple[Conflict, ...]
    alternatives: tuple[Alternative, ...]
    matrix_digest: str
    schema: int = PLAN_SCHEMA
    kind: str = "refusal"
