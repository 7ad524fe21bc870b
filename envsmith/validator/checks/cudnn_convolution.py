"""A cuDNN convolution, forward and backward, compared with float64 on the CPU.

What it proves: cuDNN of the version that torch reports is loaded and truly computes (the files of it that were
mapped are named), and its forward, input-gradient and weight-gradient results are right in float32.
"""

from __future__ import annotations

import math
from typing import Any

from envsmith.validator.check import CheckContext, CheckFailed, CheckOutcome, CheckSkipped, check
from envsmith.validator.checks.numerics import EPSILON, judge_elements, judge_norm
from envsmith.validator.checks.torch_gpu import labels, torch_devices
from envsmith.validator.cuda_libraries import LIBRARIES, copies, version_of
from envsmith.validator.mapped import mapped_libraries
from envsmith.validator.versions import cudnn_version
from envsmith.wire.results import Metric

# small enough for float64 on one core of a CPU
_BATCH, _IN, _OUT, _SIZE, _KERNEL = 4, 24, 32, 24, 3
# Products summed for one element of each result.
_TERMS = {
    "forward": _IN * _KERNEL**2,
    "input_gradient": _OUT * _KERNEL**2,
    "weight_gradient": _BATCH * _SIZE**2,
}
# Rounding errors of a sum of K products add up like a random walk, to about sqrt(K) * eps * sum of |products|.
# Winograd and FFT algorithms, which cuDNN may take for float32, cost a small factor more. TF32, which is switched
# off here, rounds the inputs to 2^-11, which is some 10 times what the norm allows, so it would show.
_FACTOR = 4.0


@check(
    id="cudnn-convolution", title="cuDNN convolution, forward and backward", limit_s=120, needs_gpu=True,
    needs_torch=True, requires=("cuda-kernel-torch",),
)  # fmt: skip
def cudnn_convolution(context: CheckContext) -> CheckOutcome:
    """Run it on every visible device."""
    import torch

    devices = torch_devices(torch, context)
    if not torch.backends.cudnn.is_available():
        raise CheckSkipped("this torch was built without cuDNN")
    torch.seed()
    metrics: list[Metric] = []
    for device in devices:
        inputs = _inputs(torch)
        exact, scale = _convolve(torch, inputs), _convolve(torch, [tensor.abs() for tensor in inputs])
        got = _on_gpu(torch, inputs, torch.device("cuda", device.index))
        for part, terms in _TERMS.items():
            name = f"cuda{device.index}.{part}"
            growth = _FACTOR * math.sqrt(terms) * EPSILON["float32"]
            metrics.append(judge_elements(f"{name}_error_ratio", got[part], exact[part], growth * scale[part]))
            metrics.append(judge_norm(f"{name}_relative_error", got[part], exact[part], growth))
    version, path = _prove_use(torch)
    metrics += [Metric("cudnn", version), Metric("cudnn_path", path)]
    return CheckOutcome(f"forward and both gradients right with cuDNN {version}", tuple(metrics), labels(devices))


def _inputs(torch: Any) -> list[Any]:
    """Input, weight, and the gradient that comes back: fresh random float32 values, held as float64."""
    shapes = ((_BATCH, _IN, _SIZE, _SIZE), (_OUT, _IN, _KERNEL, _KERNEL), (_BATCH, _OUT, _SIZE, _SIZE))
    return [torch.randn(shape).double() for shape in shapes]


def _convolve(torch: Any, inputs: list[Any]) -> dict[str, Any]:
    """The convolution and its two gradients, wherever and in whatever type the inputs are."""
    x, weight = (tensor.clone().requires_grad_() for tensor in inputs[:2])
    out = torch.nn.functional.conv2d(x, weight, padding=_KERNEL // 2)
    out.backward(inputs[2])
    return {"forward": out.detach(), "input_gradient": x.grad, "weight_gradient": weight.grad}


def _on_gpu(torch: Any, inputs: list[Any], place: Any) -> dict[str, Any]:
    """The same through cuDNN in float32; results as float64 on the CPU."""
    on_gpu = [tensor.float().to(place) for tensor in inputs]
    for shape in {tuple(tensor.shape) for tensor in on_gpu}:
        # freed at once: torch's allocator hands this memory, all NaN, to the results
        torch.full(shape, math.nan, device=place)
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=False, allow_tf32=False):
        if not torch.backends.cudnn.is_acceptable(on_gpu[0]):
            raise CheckFailed(f"torch does not take cuDNN for a float32 convolution on {place}")
        results = _convolve(torch, on_gpu)
        torch.cuda.synchronize(place)
    return {part: result.cpu().double() for part, result in results.items()}


def _prove_use(torch: Any) -> tuple[str, str]:
    """Return the version that the mapped libcudnn itself tells, and its path. Raises CheckFailed.

    cuDNN's main library only forwards: the parts that hold the convolutions (from 9: libcudnn_cnn and engines,
    in 8: libcudnn_cnn_infer and _train) are mapped when one runs.
    """
    parts = mapped_libraries("libcudnn")
    library = next(library for library in LIBRARIES if library.name == "cudnn")
    main = copies(library, parts)
    if not main:
        raise CheckFailed("a convolution ran, but no libcudnn is mapped in the process")
    if not any("_cnn" in part or "_engines" in part for part in parts):
        raise CheckFailed(f"a convolution ran, but only {', '.join(parts)} is mapped: cuDNN did not compute it")
    version, reported = version_of(library, main[0]), cudnn_version(torch.backends.cudnn.version())
    if version != reported or len(main) > 1:
        raise CheckFailed(f"torch reports cuDNN {reported}, mapped are {', '.join(main)} (the first says {version})")
    return version, main[0]
