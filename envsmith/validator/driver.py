"""The CUDA driver through ctypes: just enough to run a kernel without torch, and to say why it cannot.

Functions with "_v2" are the present ABI of the plain name in cuda.h.
"""

from __future__ import annotations

import ctypes
from typing import Any

from envsmith.validator.versions import cuda_version

# enum CUdevice_attribute and CUjit_option, from cuda.h
COMPUTE_CAPABILITY_MAJOR = 75
COMPUTE_CAPABILITY_MINOR = 76
_JIT_ERROR_LOG_BUFFER = 5
_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6
_JIT_LOG_BYTES = 8192

# What a status means for the person whose machine this is. Texts of cuGetErrorString are terser.
_MEANINGS = {
    3: "the driver was initialised before this process was forked",
    34: "libcuda.so is the toolkit's stub, not a driver",
    46: "the GPU is in exclusive mode and in use",
    100: "the driver sees no GPU here",
    101: "the GPU was taken away, or is not permitted",
    222: "the driver is older than this PTX",
    221: "libnvidia-ptxjitcompiler.so.1 is not there, so the driver cannot compile PTX",
    223: "compiling PTX is switched off (CUDA_DISABLE_PTX_JIT)",
    802: "the NVSwitch fabric is not ready (nvidia-fabricmanager)",
    803: "the user-mode driver and the kernel module are of different versions",
    804: "forward compatibility (cuda-compat) was tried on a GPU that does not have it",
    999: "the kernel module is not usable (nvidia_uvm not loaded, or a driver that was just updated)",
}


class DriverMissingError(Exception):
    """libcuda.so.1 cannot be loaded; the message says why."""


class DriverError(Exception):
    """A driver call returned an error. code: CUresult. log: the PTX compiler's words, if it was asked."""

    def __init__(self, call: str, code: int, name: str, log: str = "") -> None:
        self.call = call
        self.code = code
        self.log = log
        meaning = _MEANINGS.get(code)
        parts = [f"{call} returned {name} ({code})", *([meaning] if meaning else []), *([log] if log else [])]
        super().__init__(": ".join(parts))


class Driver:
    """An initialised driver. Only for a process that was forked for this: CUDA does not survive a fork."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    @staticmethod
    def start() -> Driver:
        """Load libcuda.so.1 as the dynamic loader finds it, and initialise it.

        Raises DriverMissingError, DriverError.
        """
        try:
            driver = Driver(ctypes.CDLL("libcuda.so.1"))
        except OSError as error:
            raise DriverMissingError(f"no driver: {error}") from None
        driver.call("cuInit", ctypes.c_uint(0))
        return driver

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function that returns a CUresult. Raises DriverError when that is not CUDA_SUCCESS."""
        code = int(getattr(self._library, name)(*arguments))
        if code:
            raise DriverError(name, code, self._error_name(code))

    def version(self) -> str:
        """The CUDA version that the driver offers, "13.0"."""
        number = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(number))
        return cuda_version(number.value)

    def device_count(self) -> int:
        """Number of devices visible to this process."""
        count = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        return count.value

    def device(self, index: int) -> ctypes.c_int:
        """The handle of a device."""
        handle = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(handle), ctypes.c_int(index))
        return handle

    def device_name(self, index: int) -> str:
        """For example "NVIDIA H200"."""
        buffer = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", buffer, ctypes.c_int(len(buffer)), self.device(index))
        return buffer.value.decode("utf-8", "replace")

    def attribute(self, index: int, attribute: int) -> int:
        """One integer property (CUdevice_attribute) of a device."""
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), ctypes.c_int(attribute), self.device(index))
        return value.value

    def load_ptx(self, ptx: bytes) -> ctypes.c_void_p:
        """Have the driver compile PTX for the current context's device.

        Raises DriverError with the compiler's log.
        """
        log = ctypes.create_string_buffer(_JIT_LOG_BYTES)
        options = (ctypes.c_int * 2)(_JIT_ERROR_LOG_BUFFER, _JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _JIT_LOG_BYTES)
        module = ctypes.c_void_p()
        try:
            self.call(
                "cuModuleLoadDataEx", ctypes.byref(module), ctypes.c_char_p(ptx), ctypes.c_uint(2), options, values
            )
        except DriverError as error:
            raise DriverError(error.call, error.code, self._error_name(error.code), _log_text(log)) from None
        return module

    def _error_name(self, code: int) -> str:
        name = ctypes.c_char_p()
        self._library.cuGetErrorName(ctypes.c_int(code), ctypes.byref(name))
        return name.value.decode("ascii", "replace") if name.value else "an unknown error"


def _log_text(log: ctypes.Array[ctypes.c_char]) -> str:
    return " ".join(log.value.decode("utf-8", "replace").split())
