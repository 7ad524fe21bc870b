"""Environment variables that steer CUDA programs: listed families only, secrets masked."""

from __future__ import annotations

import re
from typing import Mapping

from envsmith.probe.look import Look, collector
from envsmith.wire.facts import EnvVar

VALUE_LIMIT_CHARS = 4096
MASK = "<redacted>"

_FAMILIES = (
    "NVIDIA_", "CUDA_", "CUDNN_", "CUBLAS_", "CUBLASLT_", "NCCL_", "NVSHMEM_", "UCX_",
    "TORCH_", "TORCHINDUCTOR_", "PYTORCH_", "TRITON_", "GLOO_", "LD_", "CONDA_", "APPTAINERENV_NVIDIA_",
)  # fmt: skip
_NAMES = frozenset(
    (
        "CUDA_HOME", "NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "KMP_AFFINITY",
        "PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE", "VIRTUAL_ENV", "MASTER_ADDR", "MASTER_PORT", "RANK",
        "LOCAL_RANK", "WORLD_SIZE", "MAX_JOBS", "CC", "CXX", "USE_NNPACK", "SLURM_GPUS", "SLURM_GPUS_ON_NODE",
        "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_TASK", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "SLURM_LOCALID",
        "SLURM_PROCID", "SLURM_NNODES", "SLURM_NTASKS", "SLURM_CPUS_PER_TASK", "SLURM_MEM_PER_NODE",
        "SINGULARITY_NV", "APPTAINER_NV", "ENROOT_ROOTFS", "WSL_DISTRO_NAME",
    )
)  # fmt: skip
_SECRET_WORDS = ("TOKEN", "KEY", "PASSW", "SECRET", "CREDENTIAL", "AUTH")
_URL_CREDENTIALS = re.compile(r"(\b[A-Za-z][A-Za-z0-9+.-]*://)[^/\s]+@")


@collector("env")
def env_facts(look: Look, environ: Mapping[str, str]) -> tuple[EnvVar, ...]:
    """Return the listed variables, sorted by name."""
    del look
    return tuple(EnvVar(name, safe_value(name, environ[name])) for name in sorted(environ) if is_listed(name))


def is_listed(name: str) -> bool:
    """Whether a variable belongs to what a snapshot may hold."""
    return name in _NAMES or name.startswith(_FAMILIES)


def safe_value(name: str, value: str) -> str:
    """The value without secrets, and not longer than `VALUE_LIMIT_CHARS`."""
    if any(word in name.upper() for word in _SECRET_WORDS):
        return MASK
    value = _URL_CREDENTIALS.sub(r"\1***@", value)
    if len(value) > VALUE_LIMIT_CHARS:
        return f"{value[:VALUE_LIMIT_CHARS]}... ({len(value)} characters)"
    return value
