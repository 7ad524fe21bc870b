"""A CUDA kernel from PTX through the driver, with no torch and no toolkit.

What it proves: the driver initialises, makes a context, compiles PTX for the GPU and runs it, with every element of
two results exactly right and nothing written beside them. If this fails, no framework can work; if it passes and
torch fails, the driver is not to blame.
"""

from __future__ import annotations

import array
import ctypes
import os
import random
from typing import Any

from envsmith.validator.check import CheckContext, CheckFailed, CheckOutcome, check
from envsmith.validator.checks.driver_gpu import driver_on_gpu
from envsmith.validator.driver import Driver
from envsmith.wire.results import QUICK, Metric

# PTX 5.0 for sm_30 is the oldest that serves: each driver compiles older PTX for its own GPUs (Kepler to Blackwell;
# the assembler of CUDA 13.0 takes it for sm_75 to sm_121), none compiles PTX newer than itself.
PTX = b"""
.version 5.0
.target sm_30
.address_size 64

.visible .entry envsmith_mix(
    .param .u64 p_x, .param .u64 p_y, .param .u64 p_bits, .param .u64 p_sums,
    .param .f32 p_scale, .param .u32 p_count)
{
    .reg .pred %p<2>;
    .reg .f32 %f<5>;
    .reg .b32 %r<11>;
    .reg .b64 %rd<10>;

    ld.param.u64 %rd1, [p_x];
    ld.param.u64 %rd2, [p_y];
    ld.param.u64 %rd3, [p_bits];
    ld.param.u64 %rd4, [p_sums];
    ld.param.f32 %f1, [p_scale];
    ld.param.u32 %r1, [p_count];
    cvta.to.global.u64 %rd1, %rd1;
    cvta.to.global.u64 %rd2, %rd2;
    cvta.to.global.u64 %rd3, %rd3;
    cvta.to.global.u64 %rd4, %rd4;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra DONE;
    mul.wide.u32 %rd5, %r5, 4;
    add.u64 %rd6, %rd1, %rd5;
    add.u64 %rd7, %rd2, %rd5;
    add.u64 %rd8, %rd3, %rd5;
    add.u64 %rd9, %rd4, %rd5;
    ld.global.u32 %r6, [%rd6];
    ld.global.u32 %r7, [%rd7];
    mad.lo.u32 %r8, %r6, 2654435761, %r7;
    xor.b32 %r8, %r8, %r5;
    st.global.u32 [%rd8], %r8;
    and.b32 %r9, %r6, 2047;
    and.b32 %r10, %r7, 2047;
    cvt.rn.f32.u32 %f2, %r9;
    cvt.rn.f32.u32 %f3, %r10;
    fma.rn.f32 %f4, %f1, %f2, %f3;
    st.global.f32 [%rd9], %f4;
DONE:
    ret;
}
\0"""
_KERNEL = b"envsmith_mix"
_MULTIPLIER = 2654435761
_LOW_BITS = 2047

_THREADS = 256
# no multiple of the block, so that the last block has threads that must do nothing
_COUNT = 100_003
# elements after the results that no thread may write
_GUARD = 1024
_WORD_BYTES = 4
_POISON = 0xA5


@check(
    id="cuda-kernel-driver", title="CUDA kernel compiled from PTX by the driver (no torch)", limit_s=60, needs_gpu=True,
    level=QUICK, per_gpu=True,
)  # fmt: skip
def cuda_kernel_driver(context: CheckContext) -> CheckOutcome:
    """Run the kernel with fresh inputs and compare."""
    x, y = (array.array("I", os.urandom(_COUNT * _WORD_BYTES)) for _ in range(2))
    scale = random.SystemRandom().randrange(3, _LOW_BITS, 2)
    with driver_on_gpu(context) as driver:
        bits, sums = _run_kernel(driver, x, y, scale)
        version = driver.version()
    _compare("integer", bits, expected_bits(x, y))
    _compare("floating-point", sums, expected_sums(x, y, scale))
    metrics = (Metric("driver_cuda", version), Metric("elements", _COUNT), Metric("wrong_elements", 0, 0))
    return CheckOutcome(f"all {_COUNT} elements right, driver for CUDA {version}", metrics)


def expected_bits(x: array.array[int], y: array.array[int]) -> array.array[int]:
    """(x * multiplier + y) mod 2^32, exclusive-or the element's number: a swapped element shows."""
    return array.array("I", ((a * _MULTIPLIER + b) & 0xFFFFFFFF ^ i for i, (a, b) in enumerate(zip(x, y))))


def expected_sums(x: array.array[int], y: array.array[int], scale: int) -> array.array[int]:
    """The bits of float32 scale * x + y: operands of 11 bits, so exact in float32 (below 2^24), no tolerance."""
    sums = array.array("f", (float(scale * (a & _LOW_BITS) + (b & _LOW_BITS)) for a, b in zip(x, y)))
    return array.array("I", sums.tobytes())


def _run_kernel(
    driver: Driver, x: array.array[int], y: array.array[int], scale: int
) -> tuple[array.array[int], array.array[int]]:
    """Compile, copy in, poison, launch, wait, copy out. The primary context owns everything and frees it."""
    function = ctypes.c_void_p()
    driver.call("cuModuleGetFunction", ctypes.byref(function), driver.load_ptx(PTX), ctypes.c_char_p(_KERNEL))
    inputs = [_copy_in(driver, values) for values in (x, y)]
    outputs = [_poisoned(driver) for _ in range(2)]
    addresses = [ctypes.c_uint64(address) for address in (*inputs, *outputs)]
    values: tuple[Any, ...] = (*addresses, ctypes.c_float(scale), ctypes.c_uint(_COUNT))
    parameters = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
    blocks = (_COUNT + _THREADS - 1) // _THREADS
    shape = [ctypes.c_uint(n) for n in (blocks, 1, 1, _THREADS, 1, 1, 0)]
    driver.call("cuLaunchKernel", function, *shape, None, parameters, None)
    driver.call("cuCtxSynchronize")
    bits, sums = (_copy_out(driver, address) for address in outputs)
    return bits, sums


def _copy_in(driver: Driver, values: array.array[int]) -> int:
    source, count = values.buffer_info()
    address = driver.allocate(count * _WORD_BYTES)
    driver.copy_in(address, source, count * _WORD_BYTES)
    return address


def _poisoned(driver: Driver) -> int:
    size_bytes = (_COUNT + _GUARD) * _WORD_BYTES
    address = driver.allocate(size_bytes)
    driver.fill(address, _POISON, size_bytes)
    return address


def _copy_out(driver: Driver, address: int) -> array.array[int]:
    buffer = ctypes.create_string_buffer((_COUNT + _GUARD) * _WORD_BYTES)
    driver.copy_out(ctypes.addressof(buffer), address, len(buffer))
    return array.array("I", buffer.raw)


def _compare(what: str, got: array.array[int], expected: array.array[int]) -> None:
    """Raise CheckFailed unless all elements are as expected and the guard is still poisoned."""
    guard = array.array("I", bytes([_POISON]) * (_GUARD * _WORD_BYTES))
    if got == expected + guard:
        return
    wrong = [i for i, (a, b) in enumerate(zip(got, expected)) if a != b]
    metrics = (Metric("wrong_elements", len(wrong), 0), Metric("elements", _COUNT))
    if not wrong:
        raise CheckFailed(f"the kernel wrote past the end of its {what} result", metrics)
    first = wrong[0]
    raise CheckFailed(
        f"{len(wrong)} of {_COUNT} {what} results are wrong, "
        f"first element {first}: {got[first]:#010x}, expected {expected[first]:#010x}",
        metrics,
    )
