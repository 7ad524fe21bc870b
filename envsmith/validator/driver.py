"""The CUDA driver through ctypes: just enough to copy memory and run a kernel without torch, and to say why it cannot.

Functions with "_v2" are the present ABI of the plain name in cuda.h.
"""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any, Iterator

from envsmith.validator.versions import cuda_version

# enum CUdevice_attribute and CUjit_option, from cuda.h
COMPUTE_CAPABILITY_MAJOR = 75
COMPUTE_CAPABILITY_MINOR = 76
COMPUTE_MODE = 20
_JIT_ERROR_LOG_BUFFER = 5
_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6
_JIT_LOG_BYTES = 8192

# enum CUresult: the two that another user of the GPU can be the reason for
OUT_OF_MEMORY = 2
DEVICE_UNAVAILABLE = 46

# enum CUcomputemode: one thread, or one process, may use the device
EXCLUSIVE_MODES = (1, 3)

# What a status means for the person whose machine this is. Texts of cuGetErrorString are terser.
_MEANINGS = {
    OUT_OF_MEMORY: "there is not enough memory left",
    3: "the driver was initialised before this process was forked",
    34: "libcuda.so is the toolkit's stub, not a driver",
    DEVICE_UNAVAILABLE: "the GPU is in exclusive mode and in use",
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

    @contextlib.contextmanager
    def primary_context(self, index: int) -> Iterator[None]:
        """Make the primary context of a device current; what was allocated in it is freed on leaving."""
        handle = ctypes.c_void_p()
        device = self.device(index)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(handle), device)
        try:
            self.call("cuCtxSetCurrent", handle)
            yield
        finally:
            self.call("cuDevicePrimaryCtxRelease_v2", device)

    def allocate(self, size_bytes: int) -> int:
        """The address of new memory of the current context's device."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size_bytes))
        return address.value

    def allocate_pinned(self, size_bytes: int) -> int:
        """The address of new page-locked memory of the host, for which the GPU copies by itself."""
        address = ctypes.c_void_p()
        self.call("cuMemHostAlloc", ctypes.byref(address), ctypes.c_size_t(size_bytes), ctypes.c_uint(0))
        return address.value or 0

    def fill(self, address: int, byte: int, size_bytes: int) -> None:
        """Set memory of the device."""
        self.call("cuMemsetD8_v2", ctypes.c_uint64(address), ctypes.c_ubyte(byte), ctypes.c_size_t(size_bytes))

    def copy_in(self, to: int, from_host: int, size_bytes: int) -> None:
        """Copy from the host to the device; the arguments are addresses."""
        self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(to), ctypes.c_void_p(from_host), ctypes.c_size_t(size_bytes))

    def copy_across(self, to: int, source: int, size_bytes: int) -> None:
        """Copy within the device. Returns before it is done; the next copy to the host waits for it."""
        self.call("cuMemcpyDtoD_v2", ctypes.c_uint64(to), ctypes.c_uint64(source), ctypes.c_size_t(size_bytes))

    def copy_out(self, to_host: int, source: int, size_bytes: int) -> None:
        """Copy from the device to the host; the arguments are addresses."""
        self.call("cuMemcpyDtoH_v2", ctypes.c_void_p(to_host), ctypes.c_uint64(source), ctypes.c_size_t(size_bytes))

    def memory_info(self) -> tuple[int, int]:
        """Free and total bytes of the current context's device."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def memory_total_bytes(self, index: int) -> int | None:
        """Size of the device's memory; None where the driver does not tell."""
        size = ctypes.c_size_t()
        if not self._answers("cuDeviceTotalMem_v2", ctypes.byref(size), self.device(index)):
            return None
        return size.value

    def device_uuid(self, index: int) -> str | None:
        """For example "GPU-0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f"; None where the driver does not tell."""
        data = (ctypes.c_ubyte * 16)()
        device = self.device(index)
        # the first is there since CUDA 11.4
        if not any(self._answers(name, data, device) for name in ("cuDeviceGetUuid_v2", "cuDeviceGetUuid")):
            return None
        text = bytes(data).hex()
        return "GPU-" + "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    def _answers(self, name: str, *arguments: Any) -> bool:
        """Call a function that older drivers may not have; say whether it answered."""
        try:
            self.call(name, *arguments)
        except (AttributeError, DriverError):
            return False
        return True

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
