"""How the end of a process with a failed assertion is judged, and where none is made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from envsmith.validator.check import CheckFailed, CheckTimedOut
from envsmith.validator.checks.device_assert import judge_after, judge_fault, mps_pipe
from envsmith.validator.warden import Ending

# as an H200 with torch 2.11 prints them
PRINTED = (
    "/pytorch/aten/src/ATen/native/cuda/IndexKernel.cu:111: operator(): block: [0,0,0], thread: [0,0,0] Assertion "
    '`-sizes[i] <= index && index < sizes[i] && "index out of bounds"` failed.'
)
RAISED = "torch.AcceleratorError: CUDA error: device-side assert triggered"


def test_an_error_with_its_assertion_is_right() -> None:
    judge_fault(Ending(False, 70, None, 1.0, (PRINTED, "Traceback (most recent call last):", RAISED)))


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        (Ending(False, 0, None, 1.0, ()), "raised no error"),
        (Ending(False, 70, None, 1.0, (RAISED,)), "its text was not printed"),
        (Ending(False, 70, None, 1.0, (PRINTED, "RuntimeError: CUDA error: unknown error")), "not as"),
        (Ending(False, None, "SIGSEGV", 1.0, (PRINTED,)), "ended as SIGSEGV"),
        (Ending(False, 1, None, 1.0, ()), "ended as exit status 1"),
    ],
)
def test_another_end_is_a_failure(ending: Ending, said: str) -> None:
    with pytest.raises(CheckFailed, match=said):
        judge_fault(ending)


def test_a_hang_is_a_timeout() -> None:
    with pytest.raises(CheckTimedOut, match="hangs"):
        judge_fault(Ending(True, None, None, 60.0, (PRINTED,)))
    with pytest.raises(CheckTimedOut, match="hangs"):
        judge_after(None, Ending(True, None, None, 60.0, ()))


def test_the_next_process_must_compute() -> None:
    judge_after(500500, Ending(False, 0, None, 1.0, ()))
    with pytest.raises(CheckFailed, match="is 500501, expected 500500"):
        judge_after(500501, Ending(False, 0, None, 1.0, ()))
    with pytest.raises(CheckFailed, match="cannot use the GPU: CUDA error: busy"):
        judge_after(None, Ending(False, 70, None, 1.0, ("CUDA error: busy",)))


def test_mps_is_known_by_its_pipe(tmp_path: Path) -> None:
    assert mps_pipe({"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)}) is None
    (tmp_path / "control").touch()
    assert mps_pipe({"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)}) is None
    (tmp_path / "control").unlink()
    os.mkfifo(tmp_path / "control")
    assert mps_pipe({"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)}) == str(tmp_path / "control")
