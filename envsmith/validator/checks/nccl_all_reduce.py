"""NCCL collectives over all visible GPUs, one process each, with every element of every result verified.

What it proves: NCCL initialises with the links that there are; all-reduce, all-gather, reduce-scatter and broadcast
give every rank the right elements, for integers and floats, from a few bytes to megabytes, and for memory that is not
aligned. With one GPU there is one rank, and no link between GPUs is tested; nor is it between MIG slices, which NCCL
does not join. At level quick it is one all-reduce. The user's NCCL_* variables are in force as they are. When it hangs
or fails, short probes that each change one of them find out why; the message names the GPUs or the setting.
"""

from __future__ import annotations

from typing import Any

from envsmith.validator.check import CheckContext, CheckFailed, CheckOutcome, check
from envsmith.validator.checks.torch_gpu import labels
from envsmith.validator.nccl.collectives import COUNTS, FLOATS, INTEGERS, Case, Group, cases, verify
from envsmith.validator.nccl.run import CHECK_LIMIT_S, nccl_torch, run_group, told_transport
from envsmith.validator.ranks import Stage
from envsmith.wire.results import QUICK, Metric

# GPUs before this one lack the arithmetic for bfloat16.
_BFLOAT16_SINCE = (8, 0)


@check(
    id="nccl-all-reduce", title="NCCL collectives over all GPUs", limit_s=CHECK_LIMIT_S, needs_gpu=True,
    needs_torch=True, requires=("cuda-kernel-torch",), level=QUICK,
)  # fmt: skip
def nccl_all_reduce(context: CheckContext) -> CheckOutcome:
    """Verify on every rank, and name the ranks that got anything wrong."""
    torch = nccl_torch()
    world = len(context.devices)
    plan = _plan(context)

    def work(group: Group, stage: Stage) -> dict[str, Any]:
        problems, worst = verify(group, plan, stage)
        return {"problems": problems, "worst": worst}

    values, log = run_group(torch, context, work)
    metrics = (
        Metric("ranks", world),
        Metric("collectives", len(plan)),
        Metric("sum_error_ratio", max(value["worst"] for value in values), 1.0),
        *([Metric("transport", told_transport(log))] if world > 1 else []),
    )
    wrong = [f"rank {rank} on {context.devices[rank].label}: {value['problems'][0]}" + _more(value["problems"])
             for rank, value in enumerate(values) if value["problems"]]  # fmt: skip
    if wrong:
        raise CheckFailed("; ".join(wrong), metrics)
    types = ", ".join(dict.fromkeys(case.dtype for case in plan))
    alone = "NCCL does not join MIG slices" if context.devices[0].is_slice else "no link between GPUs was tested"
    ranks = f"1 rank ({alone})" if world == 1 else f"{world} ranks ({told_transport(log)})"
    plural = "s" if len(plan) > 1 else ""
    return CheckOutcome(
        f"{len(plan)} collective{plural} right on {ranks}, in {types}", metrics, labels(context.devices)
    )


def _plan(context: CheckContext) -> list[Case]:
    if context.level == QUICK:
        return [Case("all-reduce", "float32", COUNTS[-1])]
    capabilities = [tuple(int(part) for part in d.compute_capability.split(".")) for d in context.devices]
    floats = [name for name in FLOATS if name != "bfloat16" or min(capabilities) >= _BFLOAT16_SINCE]
    return cases([*INTEGERS, *floats])


def _more(problems: list[str]) -> str:
    return f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
