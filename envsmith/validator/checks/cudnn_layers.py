"""Batch norm, recurrent layers and attention through cuDNN, compared with float64 on the CPU.

What it proves: what else torch asks of cuDNN is right, forward and backward: batch norm (training, its running
statistics, and inference), LSTM and GRU, and scaled-dot-product attention where torch, cuDNN and the GPU offer it.
Where torch takes another library for one of them, the message says so.
"""

from __future__ import annotations

from typing import Any

from envsmith.validator.check import CheckContext, CheckFailed, CheckOutcome, check
from envsmith.validator.checks.cudnn_attention import run_attention
from envsmith.validator.checks.cudnn_norm import run_batch_norm
from envsmith.validator.checks.cudnn_rnn import run_rnn
from envsmith.validator.checks.cudnn_shared import Findings, offered, prove_use, require_cudnn
from envsmith.validator.checks.torch_gpu import only_gpu

_NARROW = ("float16", "bfloat16")
# Any part of cuDNN beside the main library, which only forwards: which one holds a layer differs between versions.
_LIBRARY_PARTS = ("libcudnn_",)


@check(
    id="cudnn-layers", title="cuDNN batch norm, RNN and attention", limit_s=180, needs_gpu=True, needs_torch=True,
    requires=("cuda-kernel-torch",), per_gpu=True,
)  # fmt: skip
def cudnn_layers(context: CheckContext) -> CheckOutcome:
    """Run every layer that torch computes through cuDNN on this GPU."""
    import torch

    place = only_gpu(torch)
    reported = require_cudnn(torch)
    torch.seed()
    findings = Findings()
    run_layers(torch, place, context.only_device.compute_capability, findings)
    if not findings.ran:
        raise CheckFailed(f"torch takes cuDNN for nothing: {', '.join(findings.left_out)}", findings.metrics)
    proof = prove_use(findings.ran[0], reported, _LIBRARY_PARTS)
    return CheckOutcome(findings.message(reported), (*findings.metrics, *proof))


def run_layers(torch: Any, place: Any, compute_capability: str, findings: Findings) -> None:
    """Run and judge all layers. Raises CheckFailed."""
    run_batch_norm(torch, place, "float32", findings)
    run_batch_norm(torch, place, "float16", findings)
    run_rnn(torch, place, "LSTM", "float32", findings)
    run_rnn(torch, place, "LSTM", "float16", findings)
    run_rnn(torch, place, "GRU", "float32", findings)
    types, lacks = offered(_NARROW, compute_capability)
    if lacks:
        findings.left_out.append("attention (needs compute capability 8.0)")
        return
    for dtype in types:
        run_attention(torch, place, dtype, findings)
