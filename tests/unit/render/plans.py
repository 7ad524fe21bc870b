"""Plans made by hand, so that rendering is tested apart from resolving."""

from __future__ import annotations

from dataclasses import replace

from envsmith.model.plan import BLOCKS, DriverFloor, Package, Plan

_CONDITIONAL = {"forward-compat", "python"}

PYPI_RUNTIME = Plan(
    torch="2.6.0",
    wheel="2.6.0+cu124",
    variant="cu124",
    index="pypi",
    requested_cuda="12.1",
    wheel_cuda="12.4",
    toolkit_cuda=None,
    driver_cuda=None,
    driver=None,
    cudnn="9.1.0.70",
    nccl="2.21.5",
    triton="3.2.0",
    python="3.11",
    python_from="os",
    os="debian12",
    flavour="runtime",
    platform="linux/amd64",
    base_image="debian:bookworm-slim",
    forward_compat_package=None,
    driver_floor=DriverFloor("525.60.13", "minor-version", "550.54.14"),
    require_cuda="cuda>=12.0 driver>=525",
    compute_capabilities=("5.0", "6.0", "7.0", "7.5", "8.0", "8.6", "9.0"),
    ptx=(),
    coverage=(),
    packages=(Package("torch", "2.6.0", "pypi"),),
    substitutions=(),
    notes=(),
    alternatives=(),
    download_size_bytes=None,
    installed_size_bytes=None,
    blocks=tuple(block for block in BLOCKS if block not in _CONDITIONAL),
    labels={
        "io.envsmith.torch": "2.6.0",
        "io.envsmith.wheel": "2.6.0+cu124",
        "io.envsmith.wheel-cuda": "12.4",
        "org.opencontainers.image.title": "PyTorch 2.6.0, CUDA 12.4",
    },
    matrix_digest="sha256:" + "0" * 64,
)


def with_blocks(*conditional: str) -> tuple[str, ...]:
    """Return the blocks of a plan that also takes these."""
    return tuple(block for block in BLOCKS if block not in _CONDITIONAL or block in conditional)


INDEX_RUNTIME = replace(
    PYPI_RUNTIME,
    wheel="2.6.0+cu126",
    variant="cu126",
    index="/whl/cu126",
    wheel_cuda="12.6",
    cudnn="9.5.1.17",
    nccl=None,
    packages=(Package("torch", "2.6.0+cu126", "/whl/cu126"),),
)
