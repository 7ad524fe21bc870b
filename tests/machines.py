"""Hand-made machines and a matrix of a few rows, for tests that judge them.

Figures are real ones, so that a test reads like the case it stands for; what a test does not care about
has a default.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from envsmith.model.matrix import (
    DriverBranch,
    ForwardCompat,
    GpuProduct,
    Matrix,
    MinorVersionFloor,
    Toolkit,
    ToolkitArch,
    TorchBuild,
)
from envsmith.wire.facts import (
    DeviceNode,
    DriverFacts,
    EnvVar,
    GpuFacts,
    HostFacts,
    LibcudaFacts,
    LibraryFacts,
    LimitFacts,
    PackageFacts,
    PythonFacts,
    Snapshot,
    TorchFacts,
)

_ORIGIN = {"source": "test", "checked": "2026-11-30", "confidence": "measured"}
GIB = 1024**3


def build(torch: str, variant: str, capabilities: tuple[str, ...], **changes: Any) -> TorchBuild:
    """A torch row for linux/amd64, variant "cu124" or "cpu"."""
    cuda = None if variant == "cpu" else f"{variant[2:-1]}.{variant[-1]}"
    row = TorchBuild(
        torch=torch,
        variant=variant,
        platform="linux/amd64",
        wheel_cuda=cuda,
        wheel_toolkit=cuda,
        cudnn=None if cuda is None else "9.1.0",
        nccl=None if cuda is None else "2.21.5",
        triton=None,
        triton_below_python=None,
        python_tags=("cp310", "cp311", "cp312"),
        glibc_floor="2.17",
        cxx11_abi=0,
        compute_capabilities=capabilities,
        ptx=(),
        index_path=f"/whl/{variant}",
        pypi_default=False,
        torchvision=(),
        torchaudio=(),
        companion_python_tags=(),
        numpy_majors=(1, 2),
        wheel_size_bytes=None,
        download_size_bytes=None,
        installed_size_bytes=None,
        status="stable",
        release_date="2025-01-29",
        note="",
        **_ORIGIN,
    )
    return replace(row, **changes)


def product(name: str, capability: str, *, forward_compat: bool) -> GpuProduct:
    """A GPU row."""
    return GpuProduct(
        product=name,
        aliases=(f"NVIDIA {name}",),
        compute_capability=capability,
        architecture="",
        product_class="datacenter" if forward_compat else "consumer",
        datacenter=forward_compat,
        forward_compat=forward_compat,
        last_driver_branch=None,
        platforms=("linux/amd64", "linux/arm64"),
        memory_gb=None,
        memory_bandwidth_gb_s=None,
        fp32_tflops=None,
        tf32_tflops=None,
        bf16_tflops=None,
        fp16_tflops=None,
        fp8_tflops=None,
        int8_tops=None,
        fp4_tflops=None,
        nvlink_gb_s=None,
        tdp_w=None,
        note="",
        **_ORIGIN,
    )


def small_matrix() -> Matrix:
    """torch 2.5 to 2.8 in a few variants, the drivers and the GPUs that the tests name."""
    kepler_on = ("5.0", "6.0", "7.0", "7.5", "8.0", "8.6", "9.0")
    toolkits = {"11.8.0": "520.61.05", "12.4.0": "550.54.14", "12.4.1": "550.54.15", "12.6.3": "560.35.05"}
    toolkits |= {"12.8.0": "570.26", "12.9.0": "575.51.03", "13.0.0": "580.65.06"}
    branches = {470: "11.4", 535: "12.2", 550: "12.4", 570: "12.8", 580: "13.0"}
    return Matrix(
        torch_builds=(
            build("2.5.1", "cpu", ()),
            build("2.5.1", "cu118", kepler_on),
            build("2.5.1", "cu124", kepler_on),
            build("2.6.0", "cpu", ()),
            build("2.6.0", "cu118", kepler_on),
            build("2.6.0", "cu124", kepler_on, pypi_default=True),
            build("2.6.0", "cu126", kepler_on),
            build("2.7.1", "cu118", kepler_on),
            build("2.7.1", "cu126", kepler_on),
            build("2.7.1", "cu128", ("7.5", "8.0", "8.6", "9.0", "10.0", "12.0"), ptx=("12.0",)),
            build("2.8.0", "cu126", kepler_on),
            build("2.8.0", "cu128", ("7.0", "7.5", "8.0", "8.6", "9.0", "10.0", "12.0")),
            build("2.9.1", "cu130", ("8.0", "8.6", "9.0", "10.0", "12.0"), ptx=None, python_tags=("cp313",)),
        ),
        toolkits=tuple(
            Toolkit(cuda=cuda, native_driver_min=driver, bundled_driver=None, note="", **_ORIGIN)
            for cuda, driver in toolkits.items()
        ),
        minor_version_floors=tuple(
            MinorVersionFloor(cuda_major=major, driver_min=driver, note="", **_ORIGIN)
            for major, driver in {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}.items()
        ),
        forward_compat=(
            ForwardCompat("12.4.1", "cuda-compat-12-4", (470, 525, 535), ("tesla",), "", **_ORIGIN),
            ForwardCompat("13.0.0", "cuda-compat-13-0", (535, 550, 570), ("tesla",), "", **_ORIGIN),
        ),
        driver_branches=tuple(
            DriverBranch(branch, cuda, "eol" if branch < 535 else "supported", True, None, "", **_ORIGIN)
            for branch, cuda in branches.items()
        ),
        gpus=(
            product("H200", "9.0", forward_compat=True),
            product("A100-SXM4-80GB", "8.0", forward_compat=True),
            product("GeForce RTX 3090", "8.6", forward_compat=False),
            product("GeForce RTX 5090", "12.0", forward_compat=False),
            product("GeForce GTX 1080 Ti", "6.1", forward_compat=False),
        ),
        compute_capabilities=(),
        toolkit_archs=(ToolkitArch("13.0", ("7.5", "8.0", "8.6", "9.0", "10.0", "12.0"), "", **_ORIGIN),),
        cudnn_archs=(),
        base_images=(),
        operating_systems=(),
        host_compilers=(),
        known_bad=(),
        rate_floors=(),
        digest="sha256:" + "0" * 64,
    )


def gpu(name: str = "NVIDIA H200", capability: str | None = "9.0", index: int = 0) -> GpuFacts:
    """One GPU as NVML shows it."""
    return GpuFacts(
        index=index,
        name=name,
        uuid=None,
        compute_capability=capability,
        memory_total_bytes=141 * GIB,
        memory_used_bytes=0,
        mig_enabled=False,
        is_mig_slice=False,
        ecc_enabled=True,
        ecc_uncorrected_errors=0,
        other_processes=0,
        source="nvml",
    )


def host(container: str | None = None, **changes: Any) -> HostFacts:
    """Debian 12 on x86-64."""
    facts = HostFacts(
        os_id="debian",
        os_version="12",
        os_name="Debian GNU/Linux 12 (bookworm)",
        kernel="6.1.0-28-amd64",
        machine="x86_64",
        glibc="2.36",
        container=container,
        wsl=False,
        cpu_count=16,
        memory_total_bytes=64 * GIB,
    )
    return replace(facts, **changes)


def limits(shm_size_bytes: int | None = 32 * GIB, shm_free_bytes: int | None = None) -> LimitFacts:
    """No limit but that of /dev/shm, which is empty unless told otherwise."""
    free = shm_size_bytes if shm_free_bytes is None else shm_free_bytes
    return LimitFacts(
        cgroup_version=2,
        cpu_limit_cores=None,
        memory_limit_bytes=None,
        shm_size_bytes=shm_size_bytes,
        shm_free_bytes=free,
        memlock_limit_bytes=None,
        open_files_limit=1048576,
    )


def driver(version: str = "580.95.05", driver_cuda: str | None = "13.0", **changes: Any) -> DriverFacts:
    """A driver whose module and libraries agree."""
    facts = DriverFacts(
        kernel_module_version=version,
        library_version=version,
        driver_cuda=driver_cuda,
        kernel_module_flavour="open",
        libcuda=LibcudaFacts(f"/usr/lib/x86_64-linux-gnu/libcuda.so.{version}", version, "driver"),
    )
    return replace(facts, **changes)


NODES = tuple(DeviceNode(f"/dev/{name}", True, True) for name in ("nvidia0", "nvidiactl", "nvidia-uvm"))


def torch(version: str = "2.6.0+cu124") -> TorchFacts:
    """torch by its version; the local part says which CUDA it was built for."""
    variant = version.partition("+")[2]
    wheel_cuda = f"{variant[2:-1]}.{variant[-1]}" if variant.startswith("cu") else None
    return TorchFacts(version, wheel_cuda, None, "/opt/venv/lib/python3.11/site-packages/torch", ())


def library(name: str, version: str | None, origin: str, path: str = "") -> LibraryFacts:
    """One copy of a CUDA library."""
    return LibraryFacts(name, path or f"/{origin}/lib/lib{name}.so.{version}", version, origin)


def machine(**changes: Any) -> Snapshot:
    """A host with an H200, driver 580 and torch 2.6.0+cu124, on which nothing is wrong."""
    facts = Snapshot(
        tool="envsmith test",
        collected_at="2026-11-30T21:00:00Z",
        host=host(),
        limits=limits(),
        driver=driver(),
        device_nodes=NODES,
        gpus=(gpu(),),
        container_toolkit=None,
        env=(),
        python=PythonFacts("/opt/venv/bin/python", "3.11.2", "CPython", "/opt/venv", "venv", False),
        packages=(PackageFacts("pip", "24.0", "/opt/venv/lib/python3.11/site-packages"),),
        torch=torch(),
        torch_runtime=None,
        toolkits=(),
        libraries=(library("cudnn", "9.1.0", "wheel"), library("nccl", "2.21.5", "wheel")),
        loaded_libraries=(),
    )
    return replace(facts, **changes)


def laptop(**changes: Any) -> Snapshot:
    """A machine with no NVIDIA hardware or driver and a CPU build of torch."""
    return replace(machine(driver=None, device_nodes=(), gpus=(), torch=torch("2.6.0+cpu"), libraries=()), **changes)


def variables(**values: str) -> tuple[EnvVar, ...]:
    """Environment variables as facts."""
    return tuple(EnvVar(name, value) for name, value in values.items())
