"""What was seen on a machine: the `Snapshot` and its parts.

Strings are kept as they were read, since they are evidence; parsing them is a rule's work. `None` means
"looked, and there is none", unless a `Gap` of that name in `Snapshot.gaps` says that nobody could look.
"""

from __future__ import annotations

from dataclasses import dataclass, field

SNAPSHOT_SCHEMA = 1


@dataclass(frozen=True)
class Gap:
    """A fact that could not be looked at.

    fact: dotted path into the snapshot, for example "gpus" or "driver.kernel_module_version".
    reason: one of "absent", "denied", "timeout", "failed", "unsupported", "not-looked".
    detail: one line for people.
    """

    fact: str
    reason: str
    detail: str = ""


@dataclass(frozen=True)
class HostFacts:
    """The operating system as this process sees it. `machine` is `uname -m`; sizes in bytes.

    cpu_count: CPUs this process may run on.
    """

    os_id: str | None
    os_version: str | None
    os_name: str | None
    kernel: str
    machine: str
    glibc: str | None
    # "docker", "podman", "kubernetes", "containerd", "apptainer", "lxc", "other"; None outside containers
    container: str | None
    wsl: bool
    cpu_count: int
    memory_total_bytes: int | None


@dataclass(frozen=True)
class LimitFacts:
    """Limits that bite PyTorch. None means unlimited; what could not be read is a Gap."""

    cgroup_version: int | None
    cpu_limit_cores: float | None
    memory_limit_bytes: int | None
    shm_size_bytes: int | None
    shm_free_bytes: int | None
    memlock_limit_bytes: int | None
    open_files_limit: int | None


@dataclass(frozen=True)
class LibcudaFacts:
    """The libcuda.so.1 that the dynamic loader really takes.

    origin: "driver", "compat" (cuda-compat package), "stub" (toolkit stub) or "unknown".
    version: the driver version in its file name, such as "580.159.04", if it has one.
    """

    path: str
    version: str | None
    origin: str


@dataclass(frozen=True)
class DriverFacts:
    """The NVIDIA driver: the kernel module and the user-mode libraries are separate things.

    driver_cuda: highest CUDA the user-mode driver offers, "13.0".
    kernel_module_flavour: "open" or "proprietary".
    other_libcudas: copies that the loader does not take. nvml_error: NVML's words and code, such as
    "Driver/library version mismatch (18)". cuda_error: "803 CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" and the like; cuInit
    is tried only where NVML gave no list of GPUs or libcuda is not the driver's own.
    """

    kernel_module_version: str | None
    library_version: str | None
    driver_cuda: str | None
    kernel_module_flavour: str | None
    libcuda: LibcudaFacts | None
    other_libcudas: tuple[LibcudaFacts, ...] = ()
    nvml_error: str | None = None
    cuda_error: str | None = None


@dataclass(frozen=True)
class DeviceNode:
    """A file under /dev that the driver needs, and whether this user may read and write it."""

    path: str
    readable: bool
    writable: bool


@dataclass(frozen=True)
class PciDevice:
    """An NVIDIA display or 3D controller on the PCI bus, driver or not. device: "10de:2335"."""

    address: str
    device: str


@dataclass(frozen=True)
class GpuFacts:
    """One GPU (or MIG slice) as NVML or the CUDA driver shows it.

    source: "nvml" or "cuda". compute_capability: "9.0". other_processes: compute processes of others.
    A MIG slice follows its GPU and has its index. ecc_uncorrected_errors: since the driver was loaded.
    """

    index: int
    name: str
    uuid: str | None
    compute_capability: str | None
    memory_total_bytes: int | None
    memory_used_bytes: int | None
    mig_enabled: bool | None
    is_mig_slice: bool
    ecc_enabled: bool | None
    ecc_uncorrected_errors: int | None
    other_processes: int | None
    source: str


@dataclass(frozen=True)
class ContainerToolkitFacts:
    """NVIDIA Container Toolkit and CDI as seen from here (on a host; usually absent inside a container)."""

    version: str | None
    cdi_specs: tuple[str, ...]
    docker_runtime_configured: bool | None


@dataclass(frozen=True)
class EnvVar:
    """One environment variable of the allow-listed families (NVIDIA_*, CUDA_*, NCCL_*, LD_*, ...)."""

    name: str
    value: str


@dataclass(frozen=True)
class PythonFacts:
    """The interpreter that was examined. environment: "venv", "conda" or "system"."""

    executable: str
    version: str
    implementation: str
    prefix: str
    environment: str
    free_threaded: bool


@dataclass(frozen=True)
class PackageFacts:
    """One installed distribution, from its metadata. location: the folder that holds it."""

    name: str
    version: str
    location: str


@dataclass(frozen=True)
class TorchFacts:
    """torch as its files say, without importing it.

    version: "2.6.0+cu124" (torch/version.py, which knows the local part that metadata may lack).
    wheel_cuda: torch.version.cuda, None for a CPU or ROCm build. hip: torch.version.hip.
    requires: the Requires-Dist lines of nvidia packages and triton.
    """

    version: str
    wheel_cuda: str | None
    hip: str | None
    location: str
    requires: tuple[str, ...]


@dataclass(frozen=True)
class TorchRuntimeFacts:
    """torch as it says itself after import, in a process of its own.

    compute_capabilities: machine code in the wheel ("9.0"); ptx: PTX in the wheel ("12.0").
    cudnn, nccl: the versions the loaded libraries report, "9.1.0" and "2.21.5".
    """

    version: str
    wheel_cuda: str | None
    cudnn: str | None
    nccl: str | None
    compute_capabilities: tuple[str, ...]
    ptx: tuple[str, ...]
    cuda_available: bool
    device_count: int
    unavailable_reason: str | None


@dataclass(frozen=True)
class ToolkitFacts:
    """A CUDA toolkit on disk. toolkit_cuda: "12.1.1" or "12.1". nvcc: path, if it is there."""

    path: str
    toolkit_cuda: str | None
    nvcc: str | None


@dataclass(frozen=True)
class LibraryFacts:
    """One copy of a CUDA library that a process here could load, or did load.

    name: "cudart", "cudnn", "cublas", "cublasLt", "nccl", "nvrtc", "nvJitLink", "cusparse", "cufft"; among loaded ones
    also cuDNN's parts ("cudnn_ops"). path: the real one, after all links. version: as precise as the file tells.
    origin: "wheel", "toolkit", "system", "conda", "ld_library_path" or "other".
    """

    name: str
    path: str
    version: str | None
    origin: str


@dataclass(frozen=True)
class Snapshot:
    """A machine, looked at once.

    libraries: copies that could be loaded; loaded_libraries: those mapped after `import torch`.
    nvidia_pci_devices: from /sys/bus/pci, which a container sees too; () = looked, and there is none.
    """

    tool: str
    collected_at: str
    host: HostFacts | None = None
    limits: LimitFacts | None = None
    driver: DriverFacts | None = None
    device_nodes: tuple[DeviceNode, ...] | None = None
    gpus: tuple[GpuFacts, ...] | None = None
    container_toolkit: ContainerToolkitFacts | None = None
    env: tuple[EnvVar, ...] | None = None
    python: PythonFacts | None = None
    packages: tuple[PackageFacts, ...] | None = None
    torch: TorchFacts | None = None
    torch_runtime: TorchRuntimeFacts | None = None
    toolkits: tuple[ToolkitFacts, ...] | None = None
    libraries: tuple[LibraryFacts, ...] | None = None
    loaded_libraries: tuple[LibraryFacts, ...] | None = None
    gaps: tuple[Gap, ...] = field(default=())
    schema: int = SNAPSHOT_SCHEMA
    kind: str = "snapshot"
    nvidia_pci_devices: tuple[PciDevice, ...] | None = None
