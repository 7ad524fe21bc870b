"""torchvision and torchaudio import, where they are installed.

What it proves: both were built for this torch. A wrong pairing shows as an undefined symbol at import, or as an
operator that does not exist, so one of torchvision's own operators is called as well (on the CPU).
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import Any

from envsmith.validator.check import CheckContext, CheckFailed, CheckOutcome, CheckSkipped, check
from envsmith.validator.text import one_message
from envsmith.wire.results import Metric

_NAMES = ("torchvision", "torchaudio")


@check(
    id="companions-import", title="torchvision and torchaudio import", limit_s=120, needs_torch=True,
    requires=("torch-import",),
)  # fmt: skip
def companions(context: CheckContext) -> CheckOutcome:
    """Import those that are there."""
    del context
    present = [name for name in _NAMES if find_spec(name) is not None]
    if not present:
        raise CheckSkipped("neither torchvision nor torchaudio is installed")
    metrics, problems = [], []
    for name in present:
        try:
            module = importlib.import_module(name)
            if name == "torchvision":
                _call_operator(module)
        except Exception as error:  # noqa: BLE001 - RuntimeError, OSError, ImportError: all mean the same here
            problems.append(one_message(f"{name}: {type(error).__name__}: {error}"))
            continue
        metrics.append(Metric(name, str(getattr(module, "__version__", "unknown"))))
    if problems:
        raise CheckFailed("; ".join(problems), tuple(metrics))
    return CheckOutcome(" and ".join(f"{m.name} {m.value}" for m in metrics), tuple(metrics))


def _call_operator(torchvision: Any) -> None:
    """Non-maximum suppression of three boxes, of which two overlap by 81 %."""
    import torch

    boxes = torch.tensor([[0.0, 0.0, 10.0, 10.0], [0.0, 0.0, 9.0, 9.0], [20.0, 20.0, 30.0, 30.0]])
    kept = torchvision.ops.nms(boxes, torch.tensor([0.9, 0.8, 0.7]), 0.5).tolist()
    if kept != [0, 2]:
        raise CheckFailed(f"torchvision.ops.nms kept boxes {kept}, expected [0, 2]")
