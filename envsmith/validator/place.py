"""Where a check's process works: a folder of its own, and the GPUs that it may see."""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from envsmith.validator.check import CheckContext
from envsmith.validator.devices import visible_together
from envsmith.validator.schedule import threads_each

# Each in the folder, so that nothing is found that another process left, and nothing stays behind.
_FOLDERS = (
    "TMPDIR",
    "TRITON_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "TORCH_EXTENSIONS_DIR",
    "PYTORCH_KERNEL_CACHE_PATH",
)


def context_for(base: CheckContext, device_index: int | None, scratch: str) -> CheckContext:
    """The context of one process: for one GPU of the run, or for all that a process can see at once."""
    if device_index is not None:
        return replace(base, device=base.devices[device_index], scratch=scratch)
    return replace(base, devices=visible_together(base.devices), scratch=scratch)


def enter(context: CheckContext) -> None:
    """Make this process, which has not touched CUDA, work in its folder and see its GPUs only. Raises OSError."""
    devices = context.devices if context.device is None else (context.device,)
    if devices:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(device.visible_as for device in devices)
    if "torch" in sys.modules:
        # as many as there are processors, in each of several processes, spin for work and take the time from each other
        sys.modules["torch"].set_num_threads(threads_each())
    os.chdir(context.scratch)
    for variable in _FOLDERS:
        folder = Path(context.scratch) / variable.lower()
        folder.mkdir(exist_ok=True)
        os.environ[variable] = str(folder)
    tempfile.tempdir = None  # what was found before no longer holds
