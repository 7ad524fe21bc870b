"""Plans made by hand, so that rendering is tested apart from resolving."""

from __future__ import annotations

from dataclasses import replace

from envsmith.model.plan import BLOCKS, DriverFloor, Package, Plan

_CONDITIONAL = {"forward-compat", "python"}


def blocks_with(*conditional: str) -> tuple[str, ...]:
    """The blocks of a CUDA plan that also takes these."""
    return tuple(block for block in BLOCKS if block not in _CONDITIONAL or block in conditional)


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
    blocks=blocks_with(),
    labels={
        "io.envsmith.torch": "2.6.0",
        "io.envsmith.wheel": "2.6.0+cu124",
        "io.envsmith.wheel-cuda": "12.4",
        "org.opencontainers.image.title": "PyTorch 2.6.0+cu124",
    },
    matrix_digest="sha256:" + "0" * 64,
)

INDEX_RUNTIME = replace(
    PYPI_RUNTIME,
    wheel="2.6.0+cu126",
    variant="cu126",
    index="/whl/cu126",
    requested_cuda="12.6",
    wheel_cuda="12.6",
    cudnn="9.5.1.17",
    nccl=None,
    packages=(Package("torch", "2.6.0+cu126", "/whl/cu126"),),
)

COMPANIONS = replace(
    INDEX_RUNTIME,
    packages=(
        Package("torch", "2.6.0+cu126", "/whl/cu126"),
        Package("torchvision", "0.21.0+cu126", "/whl/cu126"),
        Package("numpy", "1.26.4", "pypi"),
    ),
)

DEVEL = replace(
    PYPI_RUNTIME,
    toolkit_cuda="12.1.1",
    python="3.10",
    os="ubuntu22.04",
    flavour="devel",
    base_image="nvidia/cuda:12.1.1-devel-ubuntu22.04",
)

FORWARD_COMPAT = replace(
    PYPI_RUNTIME,
    python="3.10",
    os="ubuntu22.04",
    driver="470.82.01",
    base_image="nvidia/cuda:12.4.1-base-ubuntu22.04",
    forward_compat_package="cuda-compat-12-4",
    driver_floor=DriverFloor("470", "forward", "550.54.14"),
    require_cuda="cuda>=12.0 brand=tesla,driver>=470,driver<471",
    blocks=blocks_with("forward-compat"),
)

ARM64 = replace(
    INDEX_RUNTIME,
    platform="linux/arm64",
    compute_capabilities=("9.0",),
)

UV_PYTHON = replace(PYPI_RUNTIME, python="3.13t", python_from="uv", blocks=blocks_with("python"))

CPU = replace(
    PYPI_RUNTIME,
    wheel="2.6.0+cpu",
    variant="cpu",
    index="/whl/cpu",
    requested_cuda="cpu",
    wheel_cuda=None,
    cudnn=None,
    nccl=None,
    triton=None,
    driver_floor=None,
    require_cuda="",
    compute_capabilities=(),
    packages=(Package("torch", "2.6.0+cpu", "/whl/cpu"),),
    blocks=tuple(block for block in blocks_with() if block != "gpu"),
)

HOSTILE_TEXTS = (
    "$(touch /pwned) `touch /pwned` ${HOME} $HOME $",
    "'; touch /pwned; echo '",
    '" && touch /pwned && "',
    "{{ 7*7 }}{% include '/etc/passwd' %}{# x #}",
    "# syntax=evil/frontend",
    "# escape=`",
    # no backslash before a quote: BuildKit reads that right (tests/docker/test_render.py), hadolint does not
    "back\\slash \\$HOME \\\\ in the middle",
    "\ttab\rreturn\x1b[31mred\x7f 漢字 🔥",
    "<<EOF",
    "",
)

HOSTILE = replace(
    PYPI_RUNTIME,
    labels={f"io.envsmith.hostile-{number}": text for number, text in enumerate(HOSTILE_TEXTS)},
    packages=(Package("torch; touch /pwned", "2.6.0 $(id)", "/whl/`id` || true"),),
    require_cuda='cuda>=12.0 $(id) "quoted"',
    python="3.11 && id",
)

GOLDEN = {
    "arm64": ARM64,
    "companions": COMPANIONS,
    "cpu": CPU,
    "devel": DEVEL,
    "forward-compat": FORWARD_COMPAT,
    "hostile": HOSTILE,
    "runtime-index": INDEX_RUNTIME,
    "runtime-pypi": PYPI_RUNTIME,
    "uv-python": UV_PYTHON,
}
