"""Questions to libcuda.so.1 through ctypes. Runs in a bounded child only: see `child`."""

from __future__ import annotations

import ctypes
import os
import uuid

from envsmith.probe.child import Emit, Message
from envsmith.probe.driver_answers import STUB_LIBRARY_CODE
from envsmith.wire.encode import to_plain
from envsmith.wire.facts import GpuFacts

_ECC_ENABLED = 32  # CUdevice_attribute values of cuda.h
_COMPUTE_MAJOR = 75
_COMPUTE_MINOR = 76


class _SymbolInfo(ctypes.Structure):
    """Dl_info of dlfcn.h."""

    _fields_ = (
        ("file_name", ctypes.c_char_p),
        ("file_base", ctypes.c_void_p),
        ("symbol_name", ctypes.c_char_p),
        ("symbol_address", ctypes.c_void_p),
    )


def loaded_path(library: ctypes.CDLL, symbol: str) -> str | None:
    """The real path of the file that a symbol of a loaded library came from."""
    info = _SymbolInfo()
    try:
        address = ctypes.cast(getattr(library, symbol), ctypes.c_void_p)
        if not ctypes.CDLL(None).dladdr(address, ctypes.byref(info)) or not info.file_name:
            return None
    except AttributeError:
        return None
    return os.path.realpath(os.fsdecode(info.file_name))


def ask_libcuda(emit: Emit) -> tuple[ctypes.CDLL | None, str]:
    """Send {"part": "libcuda"} with path, error and cuda_version; return the library, if it loads, and its path.

    `cuDriverGetVersion` does not need `cuInit`, so this neither touches a GPU nor wakes the driver.
    """
    answer: Message = {"part": "libcuda", "path": None, "error": None, "cuda_version": None, "code": None}
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        answer["error"] = str(error)
        emit(answer)
        return None, ""
    answer["path"] = loaded_path(library, "cuDriverGetVersion")
    number = ctypes.c_int(0)
    answer["code"] = library.cuDriverGetVersion(ctypes.byref(number))
    if answer["code"] == 0 and number.value > 0:
        answer["cuda_version"] = cuda_version(number.value)
    emit(answer)
    return library, answer["path"] or ""


def cuda_version(number: int) -> str:
    """13000 -> "13.0", 12040 -> "12.4"."""
    return f"{number // 1000}.{number % 1000 // 10}"


def ask_cuda(library: ctypes.CDLL, emit: Emit, list_devices: bool) -> None:
    """Initialise CUDA; send {"part": "cuda"} with the result and, if it is good and wanted, each device.

    A device is {"part": "gpu"}; {"part": "gpus"} ends the list.
    """
    code = library.cuInit(0)
    emit({"part": "cuda", "code": code, "name": _error_name(library, code)})
    count = ctypes.c_int(0)
    if code != 0 or not list_devices or library.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return
    for index in range(count.value):
        gpu = _device(library, index)
        emit({"part": "lost", "index": index, "error": "cuDeviceGet failed"} if gpu is None else _message(gpu))
    emit({"part": "gpus"})


def _message(gpu: GpuFacts) -> Message:
    return {"part": "gpu", "gpu": to_plain(gpu)}


def _error_name(library: ctypes.CDLL, code: int) -> str:
    if code == STUB_LIBRARY_CODE:
        return "CUDA_ERROR_STUB_LIBRARY"
    text = ctypes.c_char_p()
    if library.cuGetErrorName(code, ctypes.byref(text)) != 0 or not text.value:
        return ""
    return text.value.decode("ascii", "replace")


def _device(library: ctypes.CDLL, index: int) -> GpuFacts | None:
    device = ctypes.c_int(0)
    if library.cuDeviceGet(ctypes.byref(device), index) != 0:
        return None
    name = ctypes.create_string_buffer(256)
    library.cuDeviceGetName(name, len(name), device)
    memory = ctypes.c_size_t(0)
    has_memory = library.cuDeviceTotalMem_v2(ctypes.byref(memory), device) == 0
    major, minor = _attribute(library, device, _COMPUTE_MAJOR), _attribute(library, device, _COMPUTE_MINOR)
    ecc = _attribute(library, device, _ECC_ENABLED)
    return GpuFacts(
        index=index,
        name=name.value.decode("utf-8", "replace"),
        uuid=_uuid(library, device),
        compute_capability=None if major is None or minor is None else f"{major}.{minor}",
        memory_total_bytes=memory.value if has_memory else None,
        memory_used_bytes=None,
        mig_enabled=None,
        is_mig_slice=" MIG " in name.value.decode("utf-8", "replace"),
        ecc_enabled=None if ecc is None else bool(ecc),
        ecc_uncorrected_errors=None,
        other_processes=None,
        source="cuda",
    )


def _attribute(library: ctypes.CDLL, device: ctypes.c_int, which: int) -> int | None:
    value = ctypes.c_int(0)
    if library.cuDeviceGetAttribute(ctypes.byref(value), which, device) != 0:
        return None
    return value.value


def _uuid(library: ctypes.CDLL, device: ctypes.c_int) -> str | None:
    raw = (ctypes.c_ubyte * 16)()
    if library.cuDeviceGetUuid(ctypes.byref(raw), device) != 0:
        return None
    return f"GPU-{uuid.UUID(bytes=bytes(raw))}"
