"""torch.compile of a small function with two reductions, forward and backward.

What it proves: Dynamo captures the function whole, Inductor makes GPU code of it (the kernels are counted), Triton
compiles that, and results and gradients equal those of eager float64 on the CPU.
"""

from __future__ import annotations

import os
from typing import Any

from envsmith.validator.check import LIGHT, CheckContext, CheckFailed, CheckOutcome, CheckSkipped, check
from envsmith.validator.checks.numerics import EPSILON, judge_elements, poison
from envsmith.validator.checks.torch_gpu import only_gpu
from envsmith.validator.checks.triton_kernel import explain, missing_module, require_triton
from envsmith.wire.results import Metric

# Small: compiling takes all the time. No powers of two, so that the kernels need their masks.
_ROWS, _COLUMNS = 61, 257
_SWITCHES = ("TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE")


@check(
    id="torch-compile", title="torch.compile, forward and backward", limit_s=240, needs_gpu=True, needs_torch=True,
    requires=("cuda-kernel-torch",), per_gpu=True, claims=LIGHT, optional=True, slow=True,
)  # fmt: skip
def torch_compile(context: CheckContext) -> CheckOutcome:
    """Compile for the GPU of this process, run, compare."""
    import torch

    place = only_gpu(torch)
    _require_compiler(torch)
    require_triton(context.only_device)
    torch.seed()
    x, weight = torch.randn(_ROWS, _COLUMNS), torch.randn(_COLUMNS)
    for shape in ((_ROWS,), (1,), (_ROWS, _COLUMNS), (_COLUMNS,)):
        poison(torch, shape, place, torch.float32)
    try:
        got, kernels = compiled(torch, (x.to(place), weight.to(place)))
    except CheckFailed:
        raise
    except Exception as error:  # Dynamo, Inductor, Triton and its compilers raise what they like
        raise explain(error, "torch.compile", context.scratch) from error
    exact = evaluate(torch, work, (x.double(), weight.double()))
    metrics = judge(x.double(), weight.double(), exact, [result.cpu().double() for result in got])
    return CheckOutcome(
        f"{kernels} kernels made, results and gradients right", (Metric("generated_kernels", kernels), *metrics)
    )


def _require_compiler(torch: Any) -> None:
    """Raise CheckSkipped where this torch cannot compile under this Python, or was told not to."""
    switched_off = [name for name in _SWITCHES if os.environ.get(name) == "1"]
    if switched_off:
        raise CheckSkipped(f"{switched_off[0]}=1: torch.compile is switched off")
    try:
        from torch._dynamo.eval_frame import check_if_dynamo_supported
    except ModuleNotFoundError as error:
        raise missing_module(error, "torch.compile") from error
    try:
        check_if_dynamo_supported()
    except RuntimeError as error:
        raise CheckSkipped(f"torch {torch.__version__} does not compile here: {error}") from error


def work(x: Any, weight: Any) -> Any:
    """What is compiled: (sum of each row of tanh(x * weight), the sum of their squares)."""
    sums = (x * weight).tanh().sum(dim=1)
    return sums, (sums * sums).sum()


def evaluate(torch: Any, function: Any, inputs: tuple[Any, Any]) -> list[Any]:
    """Call it on the inputs; return [row sums, total, gradient of the total for x, for weight]."""
    x, weight = (tensor.clone().requires_grad_() for tensor in inputs)
    sums, total = function(x, weight)
    gradients = torch.autograd.grad(total, (x, weight))
    return [sums.detach(), total.detach().reshape(1), *gradients]


def compiled(torch: Any, inputs: tuple[Any, Any]) -> tuple[list[Any], int]:
    """The same through torch.compile, and how many kernels Inductor made. Raises CheckFailed if it made none."""
    from torch._dynamo import config as dynamo
    from torch._inductor import config as inductor
    from torch._inductor import metrics

    inductor.compile_threads = 1  # in this process: a pool of them takes longer to start
    dynamo.suppress_errors = False  # True would be a silent way back to eager
    if hasattr(inductor, "force_disable_caches"):  # an older PyTorch has caches in its folder only
        inductor.force_disable_caches = True  # one may be shared over the network; hashing for them takes time too
    before = metrics.generated_kernel_count
    results = evaluate(torch, torch.compile(work, fullgraph=True, dynamic=False), inputs)
    kernels = metrics.generated_kernel_count - before
    if kernels < 1:
        raise CheckFailed("torch.compile ran the function, but Inductor made no kernel of it")
    return results, kernels


def judge(x: Any, weight: Any, exact: list[Any], got: list[Any]) -> list[Metric]:
    """Compare float64 tensors, [row sums, total, gradient for x, for weight].

    Each tanh is off by at most 4 eps (its argument's rounding counts less than that, as |a * tanh'(a)| < 0.5; the
    function itself is good to 2 eps). n of them, and the rounding of their sum (a random walk, as their signs differ),
    stay below 8 n eps, whence `row`. The gradient for x is 2 * sum * (1 - tanh^2) * weight: it inherits the error of
    its row's sum, and 1 - tanh^2 is off by at most 10 eps. All bounds are twice that or more.
    """
    epsilon = EPSILON["float32"]
    sums = exact[0]
    row = 8 * epsilon * x.shape[1]
    of_gradient = 2 * row + 48 * epsilon * sums.abs()
    bounds = (
        (0 * sums + row),
        (2 * row * sums.abs() + 32 * epsilon * sums**2).sum().reshape(1),
        of_gradient[:, None] * weight.abs(),
        (of_gradient[:, None] * x.abs()).sum(0),
    )
    names = ("row_sums", "total", "input_gradient", "weight_gradient")
    return [
        judge_elements(f"{name}_error_ratio", mine, reference, bound)
        for name, mine, reference, bound in zip(names, got, exact, bounds)
    ]
