"""An assertion that fails inside a kernel is raised and seen.

What it proves: a fault on the GPU reaches Python as an error, with the assertion printed, and ends only the process
that made it: another one can use the GPU right after. The fault (an index out of bounds) is made on purpose, in a
child of the check's process.
"""

from __future__ import annotations

import os
import stat
from typing import Mapping

from envsmith.validator.call import call_forked
from envsmith.validator.check import CheckContext, CheckFailed, CheckOutcome, CheckSkipped, CheckTimedOut, check
from envsmith.validator.checks.torch_gpu import require_cuda_build
from envsmith.validator.warden import Ending

_LIMIT_S = 60.0
_COUNT = 4
# Beyond the tensor, but within the 512 bytes that torch's allocator gives it: should nothing check the index, what
# is read is no fault.
_INDEX = 7
_ERROR = "device-side assert triggered"
_ASSERTION = "out of bounds"
_SUM_TO = 1000
# where MPS has its pipes unless it is told otherwise
_MPS_PIPES = "/tmp/nvidia-mps"  # noqa: S108 - its own choice


@check(
    id="device-assert", title="A failed assertion on the GPU is raised and seen", limit_s=2 * _LIMIT_S + 10,
    needs_gpu=True, needs_torch=True, requires=("cuda-kernel-torch",), per_gpu=True, optional=True,
)  # fmt: skip
def device_assert(context: CheckContext) -> CheckOutcome:
    """Make the fault in one process, compute in the next."""
    import torch

    require_cuda_build(torch)
    pipe = mps_pipe(os.environ)
    if pipe is not None:
        raise CheckSkipped(f"under MPS ({pipe}) a failed assertion ends every process on the GPU")
    judge_fault(call_forked(_index_out_of_bounds, _LIMIT_S, context.scratch).ending)
    answer = call_forked(_compute, _LIMIT_S, context.scratch)
    judge_after(answer.value, answer.ending)
    return CheckOutcome(f"raised as {_ERROR!r}, printed, and the next process computes")


def mps_pipe(environ: Mapping[str, str]) -> str | None:
    """The pipe of the MPS control daemon, when one is there: its clients share one context, and so their faults."""
    path = os.path.join(environ.get("CUDA_MPS_PIPE_DIRECTORY") or _MPS_PIPES, "control")
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return None
    return path if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) else None


def _index_out_of_bounds() -> float:
    """The fault. Runs in a process of its own, which ends with torch's error."""
    import torch

    os.environ.pop("CUDA_ENABLE_COREDUMP_ON_EXCEPTION", None)  # this one is wanted, and needs no dump of the GPU
    values = torch.zeros(_COUNT, device="cuda")
    picked = values[torch.tensor([_INDEX], device="cuda")]
    torch.cuda.synchronize()
    return float(picked.sum())


def _compute() -> int:
    import torch

    return int(torch.arange(_SUM_TO + 1, device="cuda").sum())


def judge_fault(ending: Ending) -> None:
    """Raise CheckFailed unless the process ended with the error, and the GPU's assertion was printed."""
    seen = "\n".join(ending.log_tail)
    if ending.timed_out:
        raise CheckTimedOut(f"a failed assertion on the GPU hangs: no error after {_LIMIT_S:g} s")
    if ending.exit_status == 0:
        raise CheckFailed("an index out of bounds on the GPU raised no error")
    if _ERROR not in seen:
        how = ending.signal or f"exit status {ending.exit_status}"
        last = f": {ending.log_tail[-1]}" if ending.log_tail else ""
        raise CheckFailed(f"an index out of bounds on the GPU ended as {how}, not as {_ERROR!r}{last}")
    if _ASSERTION not in seen:
        raise CheckFailed("the assertion that failed on the GPU was raised, but its text was not printed")


def judge_after(value: object, ending: Ending) -> None:
    """Raise CheckFailed unless the process after the fault computed the sum of 0 to 1000."""
    expected = _SUM_TO * (_SUM_TO + 1) // 2
    if ending.timed_out:
        raise CheckTimedOut(f"after a failed assertion, the next process on the GPU hangs for {_LIMIT_S:g} s")
    if ending.exit_status != 0:
        last = ending.log_tail[-1] if ending.log_tail else ending.signal or f"exit status {ending.exit_status}"
        raise CheckFailed(f"after a failed assertion, the next process cannot use the GPU: {last}")
    if value != expected:
        raise CheckFailed(f"after a failed assertion, a sum on the GPU is {value}, expected {expected}")
