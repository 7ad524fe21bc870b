"""PyTorch can be imported.

What it proves: the interpreter finds torch, every library that it is linked to loads, and the import ends. It runs
in the process from which all other torch checks are forked.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

from envsmith.validator.check import CheckContext, CheckFailed, CheckOutcome, CheckSkipped, check
from envsmith.wire.results import QUICK, Metric


# The first import reads some gigabytes of libraries: over a network file system that takes a minute or more.
@check(id="torch-import", title="PyTorch imports", limit_s=240, needs_torch=True, level=QUICK, starts_host=True)
def torch_import(context: CheckContext) -> CheckOutcome:
    """Import torch here, for good."""
    if find_spec("torch") is None:
        missing = f"PyTorch is not installed for {sys.executable}"
        if context.expectation is not None and context.expectation.wheel:
            raise CheckFailed(f"{missing}; by the {context.expectation.source} it is {context.expectation.wheel}")
        raise CheckSkipped(missing)
    try:
        import torch
    except ImportError as error:
        raise CheckFailed(f"import torch: {error}") from error
    version = getattr(torch, "__version__", None)
    if version is None or not hasattr(torch, "tensor"):
        raise CheckFailed(f"what is imported as torch is no whole PyTorch: {torch.__spec__}")
    built_for = f"CUDA {torch.version.cuda}" if torch.version.cuda else "no CUDA"
    return CheckOutcome(f"torch {version}, built for {built_for}", (Metric("torch", str(version)),))
