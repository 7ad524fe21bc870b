"""The rows of the compatibility matrix, and look-ups over them. Loading is `compat.load`'s work.

Every row has `source` (where the figure was read), `checked` (ISO date) and `confidence`: "measured"
(read out of the artefact itself), "metadata" (package metadata or an index), "documented" (a published
page or build script), "inferred" (derived from neighbours). What is unknown is None.
"""

from __future__ import annotations

from dataclasses import dataclass

from envsmith.model.rates import RateFloor

CONFIDENCES = ("measured", "metadata", "documented", "inferred")


@dataclass(frozen=True)
class TorchBuild:
    """One torch wheel line: release x variant x platform. Key: (torch, variant, platform).

    variant: "cu124" or "cpu". platform: "linux/amd64", "linux/arm64" or "windows/amd64".
    wheel_cuda: "12.4" (None for cpu); wheel_toolkit: the full toolkit it was built with, "12.4.1".
    python_tags: "cp311", "cp313t". compute_capabilities: machine code in the wheel, None = unknown.
    ptx: capabilities with PTX in the wheel; () = none; None = unknown.
    status: "stable", "experimental", "legacy", "unadvertised", "unverified" or "removed"; only the first
    three are offered unless the user names the build exactly.
    torchvision, torchaudio: partner versions, newest last. companion_python_tags: those of python_tags for which the
    newest of both partners have a wheel. triton_below_python: torch asks for triton below this Python only; None =
    always. numpy_majors: numpy that its C API accepts.
    """

    torch: str
    variant: str
    platform: str
    wheel_cuda: str | None
    wheel_toolkit: str | None
    cudnn: str | None
    nccl: str | None
    triton: str | None
    triton_below_python: str | None
    python_tags: tuple[str, ...]
    glibc_floor: str | None
    cxx11_abi: int | None
    compute_capabilities: tuple[str, ...] | None
    ptx: tuple[str, ...] | None
    index_path: str
    pypi_default: bool
    torchvision: tuple[str, ...]
    torchaudio: tuple[str, ...]
    companion_python_tags: tuple[str, ...]
    numpy_majors: tuple[int, ...]
    wheel_size_bytes: int | None
    download_size_bytes: int | None
    installed_size_bytes: int | None
    status: str
    release_date: str
    note: str
    source: str
    checked: str
    confidence: str


@dataclass(frozen=True)
class Toolkit:
    """One CUDA toolkit release. native_driver_min: the driver at which it runs natively on Linux."""

    cuda: str
    native_driver_min: str | None
    bundled_driver: str | None
    note: str
    source: str
    checked: str
    confidence: str


@dataclass(frozen=True)
class MinorVersionFloor:
    """Driver floor for minor-version compatibility within one CUDA major."""

    cuda_major: int
    driver_min: str
    note: str
    source: str
    checked: str
    confidence: str


@dataclass(frozen=True)
class ForwardCompat:
    """cuda-compat of one CUDA release: the older driver branches on which NVIDIA lets it run.

    Data-centre GPUs only; `package` is the apt name, "cuda-compat-12-4".
    """

    cuda: str
    package: str
    driver_branches: tuple[int, ...]
    brands: tuple[str, ...]
    note: str
    source: str
    checked: str
    confidence: str


@dataclass(frozen=True)
class DriverBranch:
    """A driver branch and the highest CUDA it offers. status: "supported", "eol" or "unknown"."""

    branch: int
    driver_cuda: str | None
    status: str
    long_term: bool | None
    end_of_life: str | None
    note: str
    source: str
    checked: str
    confidence: str


@dataclass(frozen=True)
class GpuProduct:
    """One GPU product. Rates are dense peaks (no sparsity) in TFLOP/s; bandwidths in GB/s (10^9 bytes).

    forward_compat: True for data-centre GPUs and Jetson, False for GeForce, None where unknown.
    platforms: of the machines that it sits in: GB200, DGX Spark and Jetson are one with an arm64 CPU.
    aliases: names as NVML prints them. nvlink_gb_s: total of one GPU, both directions.
    """

    product: str
    aliases: tuple[str, ...]
    compute_capability: str
    architecture: str
    product_class: str
    datacenter: bool | None
    forward_compat: bool | None
    last_driver_branch: int | None
    platforms: tuple[str, ...]
    memory_gb: float | None
    memory_bandwidth_gb_s: float | None
    fp32_tflops: float | None
    tf32_tflops: float | None
    bf16_tflops: float | None
    fp16_tflops: float | None
    fp8_tflops: float | None
    int8_tops: float | None
    fp4_tflops: float | None
    nvlink_gb_s: float | None
    tdp_w: float | None
    note: str
    source: str
    checked: str
    confidence: str


@dataclass(frozen=True)
class ComputeCapability:
    """One compute capability: first and last CUDA that compile for it (last None = still supported)."""

    compute_capability: str
    architecture: str | None
    first_cuda: str | None
    last_cuda: str | None
    last_driver_branch: int | None
    note: str
    source: str
    checked: str
    confidence: str


@dataclass(frozen=True)
class ToolkitArch:
    """Compute capabilities that nvcc of one CUDA minor compiles for."""

    cuda_minor: str
    compute_capabilities: tuple[str, ...]
    note: str
    source: str
    checked: str
    confidence: str


@dataclass(frozen=True)
class CudnnArch:
    """Compute capabilities with machine code (and PTX) in the core libraries of one cuDNN build."""

    cudnn: str
    cuda_major: int
    platform: str
    compute_capabilities: tuple[str, ...]
    ptx: tuple[str, ...]
    note: str
    source: str
    checked: str
    confidence: str


@dataclass(frozen=True)
class BaseImage:
    """One tag of a base image. flavour: "slim", "base", "runtime" or "devel"; cudnn: None = without cuDNN.

    cuda_compat: whether the image carries the cuda-compat package of its CUDA.
    """

    image: str
    tag: str
    os: str
    flavour: str
    cuda: str | None
    cudnn: str | None
    platforms: tuple[str, ...]
    cuda_compat: bool
    supported: bool | None
    size_bytes: int | None
    note: str
    source: str
    checked: str
    confidence: str


@dataclass(frozen=True)
class OperatingSystem:
    """An operating system that images are built on, its own Python and its glibc."""

    os: str
    python: str
    glibc: str
    end_of_life: str | None
    note: str
    source: str
    checked: str
    confidence: str


@dataclass(frozen=True)
class HostCompiler:
    """Host compilers that nvcc of one CUDA minor accepts. gcc_max: highest gcc major."""

    cuda_minor: str
    gcc_min: int | None
    gcc_max: int | None
    clang_max_exclusive: int | None
    note: str
    source: str
    checked: str
    confidence: str


@dataclass(frozen=True)
class KnownBad:
    """A version that exists and must be warned of. component: "cuda", "torch", ...; versions: exact ones."""

    component: str
    versions: tuple[str, ...]
    torch_builds: tuple[str, ...]
    problem: str
    mended_in: str | None
    note: str
    source: str
    checked: str
    confidence: str


@dataclass(frozen=True, eq=False)
class Matrix:
    """All rows. digest: "sha256:..." over the canonical JSON of every file.

    Each is equal to itself only, so that look-ups can be remembered by matrix without comparing thousands of rows.
    """

    torch_builds: tuple[TorchBuild, ...]
    toolkits: tuple[Toolkit, ...]
    minor_version_floors: tuple[MinorVersionFloor, ...]
    forward_compat: tuple[ForwardCompat, ...]
    driver_branches: tuple[DriverBranch, ...]
    gpus: tuple[GpuProduct, ...]
    compute_capabilities: tuple[ComputeCapability, ...]
    toolkit_archs: tuple[ToolkitArch, ...]
    cudnn_archs: tuple[CudnnArch, ...]
    base_images: tuple[BaseImage, ...]
    operating_systems: tuple[OperatingSystem, ...]
    host_compilers: tuple[HostCompiler, ...]
    known_bad: tuple[KnownBad, ...]
    rate_floors: tuple[RateFloor, ...]
    digest: str

    def __repr__(self) -> str:
        """Short: a traceback or a failed test that shows a matrix would print a megabyte."""
        return f"Matrix({self.digest!r})"
