"""The CUDA libraries that PyTorch rests on: where a wheel keeps them, and how each tells its version."""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterable

from envsmith.validator.versions import cuda_version, cudnn_version, nccl_version

# enum libraryPropertyType of library_types.h
_MAJOR, _MINOR, _PATCH = 0, 1, 2


class LibraryError(Exception):
    """A library did not load, or did not answer."""


Version = Callable[[ctypes.CDLL], str]


def _property(function: str) -> Version:
    def read(library: ctypes.CDLL) -> str:
        numbers = []
        for part in (_MAJOR, _MINOR, _PATCH):
            value = ctypes.c_int()
            _succeed(function, getattr(library, function)(ctypes.c_int(part), ctypes.byref(value)))
            numbers.append(str(value.value))
        return ".".join(numbers)

    return read


def _number(function: str, decode: Callable[[int], str]) -> Version:
    def read(library: ctypes.CDLL) -> str:
        value = ctypes.c_int()
        _succeed(function, getattr(library, function)(ctypes.byref(value)))
        return decode(value.value)

    return read


def _pair(function: str, may_lack: bool = False) -> Version:
    """may_lack: older versions do not export the function, and tell "" for a version."""

    def read(library: ctypes.CDLL) -> str:
        if may_lack and not hasattr(library, function):
            return ""
        major, minor = ctypes.c_int(), ctypes.c_int()
        _succeed(function, getattr(library, function)(ctypes.byref(major), ctypes.byref(minor)))
        return f"{major.value}.{minor.value}"

    return read


def _cudnn(library: ctypes.CDLL) -> str:
    function = library.cudnnGetVersion
    function.restype = ctypes.c_size_t
    return cudnn_version(int(function()))


def _succeed(function: str, status: int) -> None:
    if status != 0:
        raise LibraryError(f"{function} returned {status}")


@dataclass(frozen=True)
class Library:
    """One library. package: the distribution that holds it, without its CUDA suffix.

    exact: its version is that of its package to the last part that it tells; the others are compared by
    major and minor only.
    """

    name: str
    package: str
    version: Version
    exact: bool = False

    def pattern(self) -> re.Pattern[str]:
        """File names: "libcublas.so.12", and those that torch's own wheels carry, "libcudart-d0da41ae.so.11.0"."""
        return re.compile(rf"lib{self.name}(?:-[0-9a-f]{{8}})?\.so\.[\d.]+$")


LIBRARIES = (
    Library("cudart", "nvidia-cuda-runtime", _number("cudaRuntimeGetVersion", cuda_version), exact=True),
    Library("nvrtc", "nvidia-cuda-nvrtc", _pair("nvrtcVersion"), exact=True),
    Library("nvJitLink", "nvidia-nvjitlink", _pair("nvJitLinkVersion", may_lack=True)),
    Library("cublasLt", "nvidia-cublas", _property("cublasLtGetProperty")),
    Library("cublas", "nvidia-cublas", _property("cublasGetProperty"), exact=True),
    Library("cudnn", "nvidia-cudnn", _cudnn, exact=True),
    Library("nccl", "nvidia-nccl", _number("ncclGetVersion", nccl_version), exact=True),
    Library("cufft", "nvidia-cufft", _property("cufftGetProperty")),
    Library("curand", "nvidia-curand", _property("curandGetProperty")),
    Library("cusparse", "nvidia-cusparse", _property("cusparseGetProperty")),
    Library("cusolver", "nvidia-cusolver", _property("cusolverGetProperty")),
)


def wheel_files(torch_folder: Path) -> tuple[str, ...]:
    """Library files of the nvidia packages beside torch, and those inside torch's own folder."""
    nvidia = torch_folder.parent / "nvidia"
    found = [*nvidia.glob("*/lib/lib*.so.*"), *(torch_folder / "lib").glob("lib*.so.*")]
    return tuple(sorted(str(path) for path in found))


def copies(library: Library, paths: Iterable[str]) -> tuple[str, ...]:
    """The files that are this library, each once even where links lead to it, in the given order."""
    pattern = library.pattern()
    found = {str(Path(path).resolve()): path for path in reversed(tuple(paths)) if pattern.match(Path(path).name)}
    return tuple(reversed(tuple(found.values())))


def load(path: str) -> ctypes.CDLL:
    """Load a library file. Raises LibraryError with the loader's words."""
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        raise LibraryError(f"{Path(path).name} does not load: {error}") from None


def version_of(library: Library, path: str) -> str:
    """Load a file and ask the library its version, "" where it cannot be asked. Raises LibraryError."""
    try:
        return library.version(load(path))
    except AttributeError as error:
        raise LibraryError(f"{path} is no whole {library.name}: {error}") from None
