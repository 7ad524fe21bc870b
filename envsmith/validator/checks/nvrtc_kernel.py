"""A kernel that PyTorch compiles while it runs, with NVRTC.

What it proves: NVRTC and its built-in headers load, produce code for this GPU, and the code computes every element
right, to the bit. PyTorch compiles some of its own functions so (torch.gcd, torch.special.*): where NVRTC is broken
they fail although all else works ("failed to open libnvrtc-builtins.so").
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Any

from envsmith.validator.check import CheckContext, CheckFailed, CheckOutcome, CheckSkipped, check
from envsmith.validator.checks.numerics import poison
from envsmith.validator.checks.torch_gpu import only_gpu
from envsmith.validator.mapped import mapped_libraries
from envsmith.wire.results import Metric

_COUNT = 100_003
# Operands of the float kernel are integers below this, and so are its constants: scale * x + y * y + offset stays
# below 2^24, where float32 holds every integer. Whether the compiler fuses or not, the result is exact.
_OPERANDS = 2**11
_FACTORS = 2**10
_CODE = "template <typename T> T envsmith_mix(T x, T y) {{ return T({scale}) * x + y * y + T({offset}); }}"


@check(
    id="nvrtc-kernel", title="A kernel compiled at run time (NVRTC)", limit_s=120, needs_gpu=True, needs_torch=True,
    requires=("cuda-kernel-torch",), per_gpu=True, optional=True,
)  # fmt: skip
def nvrtc_kernel(context: CheckContext) -> CheckOutcome:
    """Compile a kernel with new constants, then one of PyTorch's own."""
    import torch

    place = only_gpu(torch)
    if not hasattr(torch._C, "_cuda_jiterator_compile_and_launch_kernel"):
        raise CheckSkipped(f"torch {torch.__version__} does not compile kernels with NVRTC")
    torch.seed()
    # read when the first kernel is compiled: neither an old kernel answers, nor is one left behind
    os.environ["PYTORCH_KERNEL_CACHE_PATH"] = tempfile.mkdtemp(dir=context.scratch)
    try:
        _new_kernel(torch, place)
        _own_kernel(torch, place)
    except RuntimeError as error:
        raise CheckFailed(
            f"PyTorch cannot compile and run a kernel with NVRTC: {compilers_words(str(error))}"
        ) from error
    # an older PyTorch has NVRTC linked into it
    paths = [path for path in mapped_libraries("libnvrtc") if "builtins" not in Path(path).name]
    used = tuple(Metric("nvrtc_path", path) for path in paths[:1])
    metrics = (Metric("elements", 2 * _COUNT), Metric("wrong_elements", 0, 0), *used)
    return CheckOutcome("compiled for this GPU, every element right", metrics)


def _new_kernel(torch: Any, place: Any) -> None:
    """A float32 kernel whose constants are new, so that no cache can hold it."""
    from torch.cuda.jiterator import _create_jit_fn

    scale, offset = (int(torch.randint(3, _FACTORS, ())) for _ in range(2))
    x, y = (torch.randint(_OPERANDS, (_COUNT,)) for _ in range(2))
    on_gpu = x.float().to(place), y.float().to(place)
    poison(torch, (_COUNT,), place, torch.float32)
    got = _create_jit_fn(_CODE.format(scale=scale, offset=offset))(*on_gpu)
    judge_exact("a new kernel", got.cpu().double(), (scale * x + y * y + offset).double())


def _own_kernel(torch: Any, place: Any) -> None:
    """Compute torch.gcd of integers, which PyTorch compiles with NVRTC, against the CPU."""
    x, y = (torch.randint(1, 2**31 - 1, (_COUNT,)) for _ in range(2))
    judge_exact("torch.gcd", torch.gcd(x.to(place), y.to(place)).cpu(), torch.gcd(x, y))


def compilers_words(error: str) -> str:
    """What the compiler complained of: PyTorch puts the whole source, hundreds of lines, before it."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    complaints = [line for line in lines if re.search(r"\): (catastrophic )?error\b|^nvrtc: error", line)]
    return "; ".join((complaints or lines[-1:])[:3])


def judge_exact(what: str, got: Any, exact: Any) -> None:
    """Raise CheckFailed unless two tensors are equal, element by element; a NaN equals nothing."""
    wrong = got != exact
    count = int(wrong.sum())
    if count:
        first = int(wrong.nonzero()[0])
        metrics = (Metric("elements", got.numel()), Metric("wrong_elements", count, 0))
        raise CheckFailed(
            f"{what}: {count} of {got.numel()} elements are wrong, "
            f"first element {first}: {got[first].item()!r}, expected {exact[first].item()!r}",
            metrics,
        )
