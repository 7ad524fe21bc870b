"""The GPUs, as NVML or else the CUDA driver lists them."""

from __future__ import annotations

from envsmith.probe.driver_answers import NO_SUCH_FILE, DriverAnswers
from envsmith.probe.look import ABSENT, FAILED, TIMEOUT, Look, collector
from envsmith.wire.facts import GpuFacts


@collector("gpus")
def gpu_facts(look: Look, answers: DriverAnswers) -> tuple[GpuFacts, ...] | None:
    """Return the GPUs, or None with a gap that says why nobody could list them."""
    for index, why in answers.lost_gpus:
        look.gap(f"gpus[{index}]", FAILED, why)
    if answers.trouble and not answers.is_list_complete:
        # a GPU that hangs or kills the driver's library comes after those that were listed
        fact = f"gpus[{answers.gpus[-1].index + 1}]" if answers.gpus else "gpus"
        look.gap(fact, TIMEOUT if answers.timed_out else FAILED, f"asking the driver: {answers.trouble}")
        return answers.gpus
    if answers.gpus is not None:
        return answers.gpus
    missing = answers.nvml_absent and NO_SUCH_FILE in (answers.libcuda_error or "")
    words = [f"NVML: {answers.nvml_error}"] if answers.nvml_error else []
    if answers.cuda_error:
        words.append(f"CUDA: {answers.cuda_error}")
    elif answers.libcuda_error:
        words.append(f"CUDA: {answers.libcuda_error}")
    look.gap("gpus", ABSENT if missing else FAILED, "; ".join(words) or "no answer from NVML or CUDA")
    return None
