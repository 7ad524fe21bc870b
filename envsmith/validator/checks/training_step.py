"""Training in mixed precision: a small network under autocast in float16 with gradient scaling, and in bfloat16.

What it proves: forward, backward, loss scaling and the optimizer work together. On a problem that can be learned, the
loss falls to less than half; gradients are finite; and a step whose gradients hold an infinity is left out by the
scaler, which then halves its scale.
"""

from __future__ import annotations

import math
from typing import Any

from envsmith.validator.check import CheckContext, CheckFailed, CheckOutcome, check
from envsmith.validator.checks.products import BY_NAME, has
from envsmith.validator.checks.torch_gpu import only_gpu
from envsmith.validator.occupied import occupied_is_no_fault
from envsmith.wire.results import Metric

_SAMPLES, _INPUTS, _HIDDEN, _OUTPUTS = 512, 64, 128, 16
_STEPS = 40
# 600 random problems and starts, trained on a CPU in bfloat16, ended between 0.011 and 0.014: far from a half.
_LOSS_RATIO_MAX = 0.5
_LEARNING_RATE = 0.01
# Small enough that the gradients of this problem never overflow float16, so each step before the injected one counts.
_SCALE = 2.0**10


@check(
    id="training-step", title="Training step in mixed precision, with gradient scaling", limit_s=120, needs_gpu=True,
    needs_torch=True, requires=("cuda-kernel-torch",), per_gpu=True,
)  # fmt: skip
def training_step(context: CheckContext) -> CheckOutcome:
    """Train in float16 with a scaler, and in bfloat16 without where the GPU has it."""
    import torch

    message = "float16 with gradient scaling"
    with occupied_is_no_fault(context.device):
        place = only_gpu(torch)
        torch.seed()
        metrics = train(torch, place, torch.float16)
        if has(context.only_device, BY_NAME["bfloat16"]):
            metrics += train(torch, place, torch.bfloat16)
            message += " and bfloat16"
    return CheckOutcome(f"the loss falls in {message}; a step with an infinite gradient is left out", tuple(metrics))


def train(torch: Any, place: Any, dtype: Any) -> list[Metric]:
    """Train for some steps; in float16 with a scaler, which is then given an infinity. Raises CheckFailed."""
    name = str(dtype).partition(".")[2]
    layers = torch.nn.Linear(_INPUTS, _HIDDEN), torch.nn.ReLU(), torch.nn.Linear(_HIDDEN, _OUTPUTS)
    model = torch.nn.Sequential(*layers).to(place)
    optimizer = torch.optim.AdamW(model.parameters(), lr=_LEARNING_RATE)
    scaler = _scaler(torch, place, enabled=dtype == torch.float16)
    # a linear map of normal inputs to outputs of variance 1
    inputs = torch.randn(_SAMPLES, _INPUTS, device=place)
    targets = inputs @ torch.randn(_INPUTS, _OUTPUTS, device=place) / math.sqrt(_INPUTS)
    losses = []
    for _ in range(_STEPS):
        losses.append(_backward(torch, model, optimizer, scaler, (inputs, targets, dtype)))
        scaler.unscale_(optimizer)
        _require_finite(torch, model, name)
        scaler.step(optimizer)
        scaler.update()
    first, last = (float(loss) for loss in (losses[0], losses[-1]))
    ratio = Metric(f"{name}_loss_ratio", last / first, _LOSS_RATIO_MAX)
    if not last / first <= _LOSS_RATIO_MAX:
        raise CheckFailed(f"training in {name} took the loss from {first:.4g} to {last:.4g} only", (ratio,))
    if dtype == torch.float16:
        _backward(torch, model, optimizer, scaler, (inputs, targets, dtype))
        inject_infinity(torch, model, optimizer, scaler)
    return [ratio]


def _scaler(torch: Any, place: Any, enabled: bool) -> Any:
    """torch.amp.GradScaler, which came with 2.3, or the older one for CUDA only."""
    if hasattr(torch.amp, "GradScaler"):
        return torch.amp.GradScaler(place.type, init_scale=_SCALE, enabled=enabled)
    return torch.cuda.amp.GradScaler(init_scale=_SCALE, enabled=enabled)


def _backward(torch: Any, model: Any, optimizer: Any, scaler: Any, problem: tuple[Any, Any, Any]) -> Any:
    """Make the gradients, and return the loss. problem: inputs, targets and the type for autocast."""
    inputs, targets, dtype = problem
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast(inputs.device.type, dtype=dtype):
        outputs = model(inputs)
        if outputs.dtype != dtype:
            raise CheckFailed(f"under autocast to {dtype}, a linear layer gives {outputs.dtype}")
        loss = torch.nn.functional.mse_loss(outputs.float(), targets)
    scaler.scale(loss).backward()
    return loss.detach()


def _require_finite(torch: Any, model: Any, name: str) -> None:
    for parameter in model.parameters():
        if parameter.grad is None or not bool(torch.isfinite(parameter.grad).all()):
            raise CheckFailed(f"training in {name}: a gradient is missing, or is not finite")


def inject_infinity(torch: Any, model: Any, optimizer: Any, scaler: Any) -> None:
    """Put an infinity into one gradient: parameters must stay, the scale must be halved. Raises CheckFailed."""
    parameters = list(model.parameters())
    before = [parameter.detach().clone() for parameter in parameters]
    scale = scaler.get_scale()
    parameters[0].grad.view(-1)[int(torch.randint(parameters[0].numel(), ()))] = math.inf
    scaler.step(optimizer)
    scaler.update()
    if not all(torch.equal(old, new.detach()) for old, new in zip(before, parameters)):
        raise CheckFailed("a step whose gradients hold an infinity has changed the parameters")
    if scaler.get_scale() != scale / 2:
        raise CheckFailed(f"after an infinite gradient the scale is {scaler.get_scale():g}, expected {scale / 2:g}")
