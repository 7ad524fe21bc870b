"""What a plan promises of the image, in the form that `verify.py` holds the image against."""

from __future__ import annotations

from envsmith.model.plan import Plan


def expectation(plan: Plan) -> dict[str, object]:
    """Return the promises by name; None = not known, so not asserted. Versions are as plan and wheel say them."""
    return {
        "python": plan.python,
        "torch": plan.wheel,
        "cuda": plan.wheel_cuda,
        "cudnn": plan.cudnn,
        "nccl": plan.nccl,
        "triton": plan.triton,
        "compute_capabilities": list(plan.compute_capabilities),
        "companions": {package.name: package.version for package in plan.packages if package.name != "torch"},
    }
