"""cuDNN convolutions, forward and backward, compared with float64 on the CPU.

What it proves: the cuDNN that torch reports is loaded and truly computes (the file that was mapped tells
its version and is named), and its forward, input-gradient and weight-gradient results are right: in two and three
dimensions, in float32 without and with TF32, float16 and bfloat16, in both orders of memory. At level quick: in two
dimensions in float32.
"""

from __future__ import annotations

from typing import Any

from envsmith.validator.check import CheckContext, CheckFailed, CheckOutcome, check
from envsmith.validator.checks.cudnn_cases import QUICK_CASE, TYPES, Case, References, cases, convolve, placed
from envsmith.validator.checks.cudnn_shared import (
    Findings,
    cudnn_on,
    offered,
    poison_results,
    prove_use,
    require_cudnn,
    torch_dtype,
)
from envsmith.validator.checks.torch_gpu import only_gpu
from envsmith.wire.results import QUICK

# The parts of cuDNN that hold convolutions: from 9 libcudnn_cnn and libcudnn_engines_*, in 8 libcudnn_cnn_infer.
_LIBRARY_PARTS = ("_cnn", "_engines")


@check(
    id="cudnn-convolution", title="cuDNN convolution, forward and backward", limit_s=180, needs_gpu=True,
    needs_torch=True, requires=("cuda-kernel-torch",), level=QUICK, per_gpu=True,
)  # fmt: skip
def cudnn_convolution(context: CheckContext) -> CheckOutcome:
    """Run every case that this GPU offers."""
    import torch

    place = only_gpu(torch)
    reported = require_cudnn(torch)
    torch.seed()
    types, lacks = offered(TYPES, context.only_device.compute_capability)
    findings = Findings()
    references = References(torch)
    if context.level == QUICK:
        run_case(torch, QUICK_CASE, references, place, findings)
    else:
        findings.left_out += [f"{dtype} (needs compute capability 8.0)" for dtype in lacks]
        for case in cases(types):
            run_case(torch, case, references, place, findings)
    proof = prove_use("a convolution", reported, _LIBRARY_PARTS)
    return CheckOutcome(findings.message(reported), (*findings.metrics, *proof))


def run_case(torch: Any, case: Case, references: References, place: Any, findings: Findings) -> None:
    """Run and judge one case; leave it out where torch takes another library for it, except for the first.

    torch's rules for that follow faults of single versions of cuDNN, so they differ between releases. Raises
    CheckFailed.
    """
    given, exact = references.of(case)
    with cudnn_on(torch, case.name, tf32=case.dtype == "tfloat32"):
        on_gpu = placed(torch, case, given, place)
        chosen = chosen_backend(torch, on_gpu)
        if chosen != "Cudnn":
            if case == QUICK_CASE:
                raise CheckFailed(f"torch does not take cuDNN for a float32 convolution on {place}, but {chosen}")
            findings.done(case.name, chosen)
            return
        poison_results(torch, place, torch_dtype(torch, case.dtype), on_gpu)
        results = {part: result.cpu() for part, result in convolve(torch, on_gpu).items()}
    for part, result in results.items():
        findings.judge(f"{case.name}_{part}", f"{case.dtype}_{part}", result, exact[part], case.limit(part))
    findings.done(case.dtype)


def chosen_backend(torch: Any, given: list[Any]) -> str:
    """What torch would compute this convolution with, "Cudnn" or another name of its own.

    It is asked through a function that torch's own tests use; a torch without it says only whether cuDNN is on.
    """
    x, weight, _ = given
    ask = getattr(torch._C, "_select_conv_backend", None)
    if ask is None:
        return "Cudnn" if torch.backends.cudnn.is_acceptable(x) else "its own kernels"
    dimensions = x.dim() - 2
    ones = [1] * dimensions
    padding = [weight.shape[-1] // 2] * dimensions
    return str(ask(x, weight, None, ones, padding, ones, False, [0] * dimensions, 1).name)
