"""File names of CUDA libraries, and which pip package brings which."""

from __future__ import annotations

import re

# name in LibraryFacts -> the pip package that brings it, without its -cuNN ending
WHEEL_OF = {
    "cudart": "nvidia-cuda-runtime",
    "cublas": "nvidia-cublas",
    "cublasLt": "nvidia-cublas",
    "cudnn": "nvidia-cudnn",
    "nccl": "nvidia-nccl",
    "nvrtc": "nvidia-cuda-nvrtc",
    "nvJitLink": "nvidia-nvjitlink",
    "cusparse": "nvidia-cusparse",
    "cufft": "nvidia-cufft",
}

# folders of NVIDIA's package and of conda's
COMPAT_FOLDERS = frozenset(("compat", "cuda-compat"))
# WSL and Jetson: the driver's libcuda has no version in its name, and may be a small file that hands on to another
UNVERSIONED_DRIVER_FOLDERS = frozenset(("wsl", "tegra"))

# torch once bundled copies whose names carry eight hexadecimal digits: libcudart-d0da41ae.so.11.0
_FILE = re.compile(r"lib({})(?:-[0-9a-f]{{8}})?\.so(?:\.(\d+(?:\.\d+)*))?".format("|".join(WHEEL_OF)))
# cuDNN 8 and 9 consist of a small main library and others that it loads: libcudnn_ops.so.9
_CUDNN_PART = re.compile(r"lib(cudnn_\w+)\.so(?:\.(\d+(?:\.\d+)*))?")
_DRIVER_VERSION = re.compile(r"\.so\.(\d{3,4}\.\d+(?:\.\d+)?)")


def cuda_library(file_name: str) -> tuple[str, str | None] | None:
    """Return (name, version in the file name) for a library of `WHEEL_OF`, else None."""
    found = _FILE.fullmatch(file_name)
    return (found.group(1), found.group(2)) if found else None


def cudnn_part(file_name: str) -> tuple[str, str | None] | None:
    """Return ("cudnn_ops", version) and so on for a part of cuDNN, else None."""
    found = _CUDNN_PART.fullmatch(file_name)
    return (found.group(1), found.group(2)) if found else None


def driver_version(path: str) -> str | None:
    """The driver version at the end of a driver library's real path, such as libcuda.so.580.159.04."""
    found = _DRIVER_VERSION.search(path)
    return found.group(1) if found and path.endswith(found.group(0)) else None


def is_drivers_own(path: str) -> bool:
    """Whether a libcuda's real path is one where a driver puts it, rather than cuda-compat's or a stub's."""
    folders = path.split("/")[:-1]
    if UNVERSIONED_DRIVER_FOLDERS.intersection(folders):
        return True
    return driver_version(path) is not None and not COMPAT_FOLDERS.intersection(folders)
