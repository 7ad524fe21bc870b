"""What a user asked for, as types. Built from strings by the cli layer and nowhere later."""

from __future__ import annotations

from dataclasses import dataclass

OPERATING_SYSTEMS = ("debian11", "debian12", "debian13", "ubuntu22.04", "ubuntu24.04")
PLATFORMS = ("linux/amd64", "linux/arm64")
VARIANTS = ("runtime", "devel")
COMPANIONS = ("torchvision", "torchaudio")


@dataclass(frozen=True)
class GpuWish:
    """A GPU to run on. name: as typed. product: the matrix name, None when only a capability was given.

    forward_compat: whether NVIDIA's forward compatibility is for this GPU; None = unknown.
    """

    name: str
    compute_capability: str
    product: str | None
    forward_compat: bool | None


@dataclass(frozen=True)
class BuildRequest:
    """The wishes. None or an empty tuple means "choose for me".

    torch: a prefix ("2.6"), an exact version ("2.6.0") or a PEP 440 specifier (">=2.4,<2.6").
    cuda: "12.1" or "12.1.1" (requested_cuda). cudnn: prefix such as "9" or "9.1". python: "3.11" or "3.13t".
    driver: a driver version "550.54.15", or a branch "550". driver_source: "given" or "host".
    """

    torch: str | None = None
    cuda: str | None = None
    cudnn: str | None = None
    python: str | None = None
    os: str | None = None
    variant: str = "runtime"
    gpus: tuple[GpuWish, ...] = ()
    driver: str | None = None
    driver_source: str = "given"
    platform: str = "linux/amd64"
    companions: tuple[str, ...] = ()
    exact: bool = False
