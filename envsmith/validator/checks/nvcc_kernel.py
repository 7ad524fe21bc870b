"""A program that the toolkit's nvcc builds for this GPU's own architecture.

What it proves: nvcc, the host compiler and the toolkit's headers and runtime build machine code for this very GPU
(no PTX), and the program computes every element right, to the bit. Building PyTorch extensions rests on that. A
toolkit that does not fit the machine (too old for the GPU, newer than the driver, at odds with the host compiler) is
a skip that says so: wheels do not use it.
"""

from __future__ import annotations

import array
import os
import random
import re
from pathlib import Path
from typing import Sequence

from envsmith.validator.check import CheckContext, CheckFailed, CheckOutcome, CheckSkipped, CheckTimedOut, check
from envsmith.validator.toolchain import find_nvcc, is_noexec, nvcc_release, run_tool
from envsmith.validator.warden import Ending
from envsmith.wire.results import Metric

_COMPILE_LIMIT_S = 120.0
_RUN_LIMIT_S = 60.0
_VERSION_LIMIT_S = 20.0
_LAST_LINES = 5

# no multiple of the block, so that the last block has threads that must do nothing
_COUNT = 100_003
# elements after the result that no thread may write
_GUARD = 1024
_WORD_BYTES = 4
_POISON = 0xA5

_SOURCE = """
#include <cstdint>
#include <cstdio>
#include <vector>

__global__ void mix(const uint32_t *x, const uint32_t *y, uint32_t *out, uint32_t count) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = (x[i] * MULTIPLIERu + y[i]) ^ i;
}

static void must(cudaError_t status, const char *what) {
    if (status == cudaSuccess) return;
    std::printf("%s: %s: %s\\n", what, cudaGetErrorName(status), cudaGetErrorString(status));
    std::exit(1);
}

int main(int, char **argv) {
    const size_t count = COUNT, whole = count + GUARD, word = sizeof(uint32_t);
    std::vector<uint32_t> in(2 * count), out(whole);
    std::FILE *file = std::fopen(argv[1], "rb");
    if (!file || std::fread(in.data(), word, in.size(), file) != in.size()) return 2;
    std::fclose(file);
    uint32_t *x, *y, *result;
    must(cudaMalloc(&x, count * word), "cudaMalloc");
    must(cudaMalloc(&y, count * word), "cudaMalloc");
    must(cudaMalloc(&result, whole * word), "cudaMalloc");
    must(cudaMemcpy(x, in.data(), count * word, cudaMemcpyHostToDevice), "cudaMemcpy");
    must(cudaMemcpy(y, in.data() + count, count * word, cudaMemcpyHostToDevice), "cudaMemcpy");
    must(cudaMemset(result, POISON, whole * word), "cudaMemset");
    mix<<<(count + 255) / 256, 256>>>(x, y, result, count);
    must(cudaGetLastError(), "launch");
    must(cudaMemcpy(out.data(), result, whole * word, cudaMemcpyDeviceToHost), "cudaMemcpy");
    file = std::fopen(argv[2], "wb");
    if (!file || std::fwrite(out.data(), word, whole, file) != whole || std::fclose(file)) return 3;
    return 0;
}
"""

# What nvcc, or a compiler that it calls, says where the toolkit does not fit the machine; {} is nvcc's name.
_MISFITS = (
    (r"unsupported gpu architecture|is not defined for option 'gpu-(architecture|code)'", "{} does not know this GPU"),
    (r"#error\b.*unsupported .*(version|compiler)", "{} does not take the host compiler here"),
    (
        r"failed to preprocess host compiler|\bcc1plus\b|\b(gcc|g\+\+|cc|clang): (not found|no such file)",
        "{} finds no C++ compiler here",
    ),
    (r"fatal error: \S+: no such file", "{} lacks headers"),
    (r"cannot find -l|cannot find lib", "{} lacks libraries"),
    (
        r"exception specification is incompatible|identifier \"_Float\d+\w*\" is undefined",
        "{} is too old for glibc here",
    ),
)
# What the runtime of a toolkit that is newer than the driver says.
_NEWER_THAN_DRIVER = (
    "cudaErrorInsufficientDriver",
    "cudaErrorUnsupportedPtxVersion",
    "cudaErrorCallRequiresNewerDriver",
)


@check(
    id="nvcc-kernel", title="A program built by nvcc for the GPU's own architecture", limit_s=210, needs_gpu=True,
    requires=("cuda-kernel-driver",), per_gpu=True, optional=True, slow=True,
)  # fmt: skip
def nvcc_kernel(context: CheckContext) -> CheckOutcome:
    """Build for the GPU of this process, run, compare."""
    nvcc = find_nvcc(os.environ)
    if nvcc is None:
        raise CheckSkipped("there is no nvcc here (CUDA_HOME, PATH, /usr/local/cuda)")
    toolkit_cuda = nvcc_release(run_tool((nvcc, "--version"), _VERSION_LIMIT_S, context.scratch).log_tail)
    name = f"nvcc {toolkit_cuda or 'of unknown version'} ({nvcc})"
    architecture = context.only_device.compute_capability.replace(".", "")
    multiplier = random.SystemRandom().randrange(3, 2**32, 2)
    program = _build((nvcc, name), architecture, multiplier, context.scratch)
    x, y = (array.array("I", os.urandom(_COUNT * _WORD_BYTES)) for _ in range(2))
    got = _run(name, program, (x, y), context.scratch)
    compare(got, expected(x, y, multiplier))
    metrics = (
        Metric("toolkit_cuda", toolkit_cuda or "unknown"), Metric("nvcc", nvcc),
        Metric("elements", _COUNT), Metric("wrong_elements", 0, 0),
    )  # fmt: skip
    return CheckOutcome(f"nvcc {toolkit_cuda} for sm_{architecture}, every element right", metrics)


def expected(x: array.array[int], y: array.array[int], multiplier: int) -> array.array[int]:
    """(x * multiplier + y) mod 2^32, exclusive-or the element's number: a swapped element shows."""
    return array.array("I", ((a * multiplier + b) & 0xFFFFFFFF ^ i for i, (a, b) in enumerate(zip(x, y))))


def write_source(multiplier: int, scratch: str) -> str:
    """Write the program, with a constant that no cache can hold; return its path."""
    text = _SOURCE
    for word, value in (("MULTIPLIER", multiplier), ("COUNT", _COUNT), ("GUARD", _GUARD), ("POISON", _POISON)):
        text = text.replace(word, str(value))
    path = Path(scratch) / "envsmith_nvcc_kernel.cu"
    path.write_text(text, encoding="utf-8")
    return str(path)


def _build(nvcc: tuple[str, str], architecture: str, multiplier: int, scratch: str) -> str:
    """Compile and link; return the program's path. nvcc: its path, and how to call it in a message."""
    path, name = nvcc
    program = os.path.join(scratch, "envsmith_nvcc_kernel")
    # machine code alone: PTX for a later GPU would run as well, through the driver's compiler
    target = f"-gencode=arch=compute_{architecture},code=sm_{architecture}"
    arguments = (path, target, "-o", program, write_source(multiplier, scratch))
    ending = run_tool(arguments, _COMPILE_LIMIT_S, scratch)
    judge_build(name, ending)
    return program


def judge_build(name: str, ending: Ending) -> None:
    """Raise CheckSkipped if nvcc refused for a reason that is known as a misfit, CheckFailed if it broke."""
    if ending.exit_status == 0:
        return
    if ending.timed_out:
        raise CheckTimedOut(f"{name} has not compiled a small kernel in {_COMPILE_LIMIT_S:g} s")
    misfit = why_unfit(name, ending.log_tail)
    if misfit is not None:
        raise CheckSkipped(misfit)
    raise CheckFailed(f"{name} cannot compile a small kernel ({_how(ending)})")


def why_unfit(name: str, lines: Sequence[str]) -> str | None:
    """Say in words, with the line that shows it, why the toolkit does not fit this machine; None if nothing does."""
    for pattern, reason in _MISFITS:
        for line in lines:
            if re.search(pattern, line, re.IGNORECASE):
                return f"{reason.format(name)}: {line.strip()}"
    return None


def _run(name: str, program: str, inputs: tuple[array.array[int], array.array[int]], scratch: str) -> array.array[int]:
    """Run the program on the inputs, through files; return what it wrote: the results and the guard."""
    if is_noexec(scratch):
        raise CheckFailed(f"{scratch} is mounted noexec, so what nvcc builds there cannot run (set TMPDIR elsewhere)")
    given, result = Path(scratch) / "nvcc_inputs", Path(scratch) / "nvcc_result"
    given.write_bytes(inputs[0].tobytes() + inputs[1].tobytes())
    judge_run(name, run_tool((program, str(given), str(result)), _RUN_LIMIT_S, scratch))
    return array.array("I", result.read_bytes())


def judge_run(name: str, ending: Ending) -> None:
    """Raise CheckSkipped if the driver is older than the toolkit wants, CheckFailed for any other bad end."""
    if ending.exit_status == 0:
        return
    if ending.timed_out:
        raise CheckTimedOut(f"a program built by {name} gave no result in {_RUN_LIMIT_S:g} s")
    for line in ending.log_tail:
        if any(word in line for word in _NEWER_THAN_DRIVER):
            raise CheckSkipped(f"{name} is newer than the driver allows: {line}")
    raise CheckFailed(f"a program built by {name} failed ({_how(ending)})")


def _how(ending: Ending) -> str:
    """How a process ended: its signal or status, and its last lines."""
    end = ending.signal or f"exit status {ending.exit_status}"
    return ": ".join([end, " ".join(ending.log_tail[-_LAST_LINES:])]) if ending.log_tail else end


def compare(got: array.array[int], exact: array.array[int]) -> None:
    """Raise CheckFailed unless all elements are right, and the guard behind them is untouched."""
    if got == exact + array.array("I", bytes([_POISON]) * (_GUARD * _WORD_BYTES)):
        return
    wrong = [i for i, (a, b) in enumerate(zip(got, exact)) if a != b]
    metrics = (Metric("elements", len(exact)), Metric("wrong_elements", len(wrong), 0))
    if not wrong:
        raise CheckFailed("the kernel wrote past the end of its result", metrics)
    first = wrong[0]
    raise CheckFailed(
        f"{len(wrong)} of {len(exact)} elements are wrong, "
        f"first element {first}: {got[first]:#010x}, expected {exact[first]:#010x}",
        metrics,
    )
