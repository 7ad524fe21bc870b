"""What an image is said to hold, for the checks inside it to compare with what they load."""

from __future__ import annotations

import re
from collections.abc import Mapping

from envsmith.model.plan import PLAN_DIGEST_LABEL, Plan
from envsmith.wire.results import Expectation

_PREFIX = "io.envsmith."
_DIGEST = re.compile(r"sha256:[a-f0-9]{64}")


def from_plan(plan: Plan) -> Expectation:
    """What the plan of a built image promises."""
    return Expectation(
        wheel=plan.wheel,
        wheel_cuda=plan.wheel_cuda or "",
        cudnn=plan.cudnn,
        nccl=plan.nccl,
        compute_capabilities=plan.compute_capabilities or None,
        source="plan",
    )


def from_labels(labels: Mapping[str, str]) -> Expectation | None:
    """What an image's own labels claim; None for an image that envsmith did not label."""
    wheel = labels.get(f"{_PREFIX}wheel")
    if wheel is None:
        return None
    capabilities = labels.get(f"{_PREFIX}compute-capabilities")
    return Expectation(
        wheel=wheel,
        wheel_cuda=labels.get(f"{_PREFIX}wheel-cuda", ""),
        cudnn=labels.get(f"{_PREFIX}cudnn"),
        nccl=labels.get(f"{_PREFIX}nccl"),
        compute_capabilities=tuple(capabilities.split()) if capabilities else None,
        source="labels",
    )


def plan_digest(labels: Mapping[str, str]) -> str | None:
    """The digest of the plan that an image's labels name; None if they name none."""
    text = labels.get(PLAN_DIGEST_LABEL, "")
    return text if _DIGEST.fullmatch(text) else None
