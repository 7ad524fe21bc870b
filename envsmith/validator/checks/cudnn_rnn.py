"""An LSTM and a GRU of torch.nn through cuDNN, forward and backward."""

from __future__ import annotations

import copy
from typing import Any

from envsmith.validator.checks.cudnn_shared import Findings, computed_by_cudnn, cudnn_on, gradients, poison_results
from envsmith.validator.checks.numerics import EPSILON

_STEPS, _BATCH, _INPUT, _HIDDEN, _LAYERS = 12, 6, 32, 48, 2

# A step passes on the errors of the one before it and adds its own, of some epsilons: what torch's own CPU kernels
# do comes to 3 epsilons in the norm here. TF32, which is switched off, comes to 1,250 and more, of which 144 are
# the most allowed. In float16 sums are kept in float32, and the state is rounded after each step: 1.2 epsilons;
# the sum of a weight gradient over the steps may be rounded to the type as well.
_FLOAT32_FACTOR_A_STEP = 12.0
_NARROW_FACTOR = 16.0


def limit(dtype: str) -> float:
    """The largest norm of an error, relative to the norm of the exact result."""
    factor = _FLOAT32_FACTOR_A_STEP * _STEPS if dtype == "float32" else _NARROW_FACTOR
    return factor * EPSILON[dtype]


def run_rnn(torch: Any, place: Any, layer: str, dtype: str, findings: Findings) -> None:
    """Run and judge a layer of torch.nn ("LSTM" or "GRU") of two levels, both ways. Raises CheckFailed."""
    name = f"{layer.lower()}_{dtype}"
    kind = getattr(torch, dtype)
    module = getattr(torch.nn, layer)(_INPUT, _HIDDEN, num_layers=_LAYERS, bidirectional=True).to(kind)
    x = torch.randn(_STEPS, _BATCH, _INPUT).to(kind)
    gradient = torch.randn(_STEPS, _BATCH, 2 * _HIDDEN).to(kind)
    exact, _ = step(torch, copy.deepcopy(module).double(), x.double(), gradient.double())
    with cudnn_on(torch, name):
        module, x, gradient = module.to(place), x.to(place), gradient.to(place)
        poison_results(torch, place, kind, [x, gradient, *module.parameters()])
        results, through_cudnn = step(torch, module, x, gradient)
        results = {part: result.cpu() for part, result in results.items()}
    for part, result in results.items():
        findings.judge(f"{name}_{part}", name, result, exact[part], limit(dtype))
    findings.done(name, None if through_cudnn else "kernels of its own")


def step(torch: Any, module: Any, x: Any, gradient: Any) -> tuple[dict[str, Any], bool]:
    """The output, the last states and all gradients of a layer, and whether cuDNN computed it."""
    x = x.detach().requires_grad_()
    out, states = module(x)
    names, parameters = zip(*module.named_parameters())
    found = gradients(torch, out, (x, *parameters), gradient)
    results = {"forward": out, "input_gradient": found[0]}
    results.update({f"state_{i}": state for i, state in enumerate(states if isinstance(states, tuple) else (states,))})
    results.update({f"{name}_gradient": value for name, value in zip(names, found[1:])})
    return {part: result.detach() for part, result in results.items()}, computed_by_cudnn(out)
