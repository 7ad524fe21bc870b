"""Kernels written in Triton, compiled here and now.

What it proves: Triton's compiler, the ptxas that it brings and the C compiler that it builds its launcher with
all work together on this machine: an elementwise kernel with a reduction, and a float16 matrix product (on tensor
cores from capability 8.0), are compiled into an empty folder and compute every element right. torch.compile rests on
the same chain.
"""

from __future__ import annotations

import importlib.util
import math
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from envsmith.validator.check import CheckContext, CheckFailed, CheckOutcome, CheckSkipped, check
from envsmith.validator.checks.numerics import EPSILON, judge_elements
from envsmith.validator.checks.torch_gpu import only_gpu
from envsmith.validator.devices import Device
from envsmith.validator.toolchain import broken_compiler, is_noexec, why_no_c_extension
from envsmith.wire.results import Metric

# Below capability 7.0 Triton compiles nothing (torch.compile refuses such GPUs for the same reason).
CAPABILITY_MIN = (7, 0)

# No multiple of the block, so that the mask has something to do.
_COUNT = 100_003
_BLOCK = 1024
_SIZE = 64
_FRAMES = 5

# Triton reads a kernel's source from its file, and the bundle is a zip: hence a file of its own.
_SOURCE = """
import triton
import triton.language as tl


@triton.jit
def mix(x, y, mixed, sums, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    value = tl.load(x + at, mask=inside, other=0.0) * {scale} + tl.load(y + at, mask=inside, other=0.0)
    tl.store(mixed + at, value, mask=inside)
    tl.store(sums + tl.program_id(0), tl.sum(value, axis=0))


@triton.jit
def product(a, b, out, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    tl.store(out + at, tl.dot(tl.load(a + at), tl.load(b + at)))
"""


@check(
    id="triton-kernel", title="Triton kernels, compiled here", limit_s=180, needs_gpu=True, needs_torch=True,
    requires=("cuda-kernel-torch",), per_gpu=True, optional=True,
)  # fmt: skip
def triton_kernel(context: CheckContext) -> CheckOutcome:
    """Compile both kernels for the GPU of this process, and run them."""
    import torch

    place = only_gpu(torch)
    require_triton(context.only_device)
    torch.seed()
    scale = 1 + int(torch.randint(1, 1024, ())) / 1024
    try:
        kernels = load_kernels(context.scratch, scale)
        metrics = (*_mix(torch, place, kernels, scale), _product(torch, place, kernels))
    except CheckFailed:
        raise
    except Exception as error:  # Triton, its compilers and the dynamic loader raise what they like
        raise explain(error, "Triton", context.scratch) from error
    version = sys.modules["triton"].__version__
    return CheckOutcome(f"Triton {version}, every element right", (Metric("triton", version), *metrics))


def require_triton(device: Device) -> None:
    """Raise CheckSkipped where Triton cannot compile for this GPU by rights, CheckFailed where its import fails."""
    if os.environ.get("TRITON_INTERPRET") == "1":
        raise CheckSkipped("TRITON_INTERPRET=1: Triton interprets kernels on the CPU")
    if importlib.util.find_spec("triton") is None:
        raise CheckSkipped("Triton is not installed")
    if tuple(map(int, device.compute_capability.split("."))) < CAPABILITY_MIN:
        least = ".".join(map(str, CAPABILITY_MIN))
        raise CheckSkipped(f"Triton needs compute capability {least}, this GPU has {device.compute_capability}")
    try:
        importlib.import_module("triton")
    except ModuleNotFoundError as error:
        raise missing_module(error, "Triton") from error
    except Exception as error:  # a broken library, or a version that this Python does not fit
        raise CheckFailed(f"import triton: {type(error).__name__}: {error}") from error


def missing_module(error: ModuleNotFoundError, what: str) -> Exception:
    """Make an outcome of an import that lacks a module: a skip where another package should bring it.

    Older releases need such packages and do not require them (Triton 2 setuptools, torch 2.0 numpy).
    """
    package = (error.name or "").partition(".")[0]
    if package in ("", "torch", "triton"):
        return CheckFailed(f"import of {what}: {error}")
    return CheckSkipped(f"{what} needs the module {package}, which is not installed")


def explain(error: BaseException, what: str, scratch: str) -> Exception:
    """Make an outcome of what was raised while something was compiled: a skip where no compiler is, else a failure.

    What the compiler itself printed is in the log of this process, of which the last lines are kept: hence few frames.
    """
    traceback.print_exception(type(error), error, error.__traceback__, limit=-_FRAMES, chain=False)
    missing = why_no_c_extension(os.environ)
    if missing is not None:
        return CheckSkipped(f"{missing}, without which {what} ended in {type(error).__name__}")
    broken = broken_compiler(os.environ, scratch)
    if broken is not None:
        return CheckFailed(f"{what} failed, as the C compiler cannot build even an empty library: {broken}")
    text = f"{what} failed: {type(error).__name__}: {error}"
    if is_noexec(scratch):
        text = f"{scratch} is mounted noexec, so nothing compiled there can be loaded (set TMPDIR elsewhere): {text}"
    return CheckFailed(text)


def load_kernels(scratch: str, scale: float) -> Any:
    """Write the kernels, with a constant that no cache can hold, into a module, and import it."""
    path = Path(scratch) / "envsmith_triton_kernels.py"
    path.write_text(_SOURCE.format(scale=repr(scale)), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _mix(torch: Any, place: Any, kernels: Any, scale: float) -> tuple[Metric, Metric]:
    """Sum scale * x + y, of each element and of each block."""
    blocks = math.ceil(_COUNT / _BLOCK)
    x, y = (torch.randn(_COUNT) for _ in range(2))
    mixed, sums = (torch.full((count,), math.nan, device=place) for count in (_COUNT, blocks))
    _require_machine_code(kernels.mix[(blocks,)](x.to(place), y.to(place), mixed, sums, _COUNT, BLOCK=_BLOCK))
    scaled = scale * x.double()
    exact = scaled + y.double()
    # two roundings, of the product and of the sum, each at most half an epsilon of its result, plus as much again
    bound = EPSILON["float32"] * (y.double().abs() + 2 * scaled.abs())
    elements = judge_elements("elementwise_error_ratio", mixed.cpu().double(), exact, bound)
    padded = torch.nn.functional.pad(exact, (0, blocks * _BLOCK - _COUNT)).reshape(blocks, _BLOCK)
    # A thread adds some elements in a row, then threads add in a tree: never deeper than twice the tree of all,
    # as there are at least as many threads as elements of each. The elements' own rounding is within the same.
    growth = EPSILON["float32"] * 2 * math.log2(_BLOCK)
    return elements, judge_elements("sum_error_ratio", sums.cpu().double(), padded.sum(1), growth * padded.abs().sum(1))


def _product(torch: Any, place: Any, kernels: Any) -> Metric:
    """A float16 product, summed and stored in float32."""
    a, b = (torch.randn(_SIZE, _SIZE).half() for _ in range(2))
    out = torch.full((_SIZE, _SIZE), math.nan, device=place)
    _require_machine_code(kernels.product[(1,)](a.to(place), b.to(place), out, SIZE=_SIZE))
    a, b = a.double(), b.double()
    # Products of float16 are exact in float32. Tensor cores may cut a sum off instead of rounding it: at most an
    # epsilon of what is added, for each of the terms.
    bound = EPSILON["float32"] * _SIZE * (a.abs() @ b.abs())
    return judge_elements("product_error_ratio", out.cpu().double(), a @ b, bound)


def _require_machine_code(compiled: Any) -> None:
    """Raise CheckFailed unless Triton made machine code of the kernel that it ran."""
    if "cubin" not in getattr(compiled, "asm", {}):
        raise CheckFailed("Triton ran a kernel of which it made no machine code for this GPU")
