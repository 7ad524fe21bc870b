"""What a run of checks amounts to: certified, not certified on a GPU, or failed, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from envsmith.model.certificate import CERTIFIED, FAILED, NOT_ON_GPU, Verdict
from envsmith.model.rates import INCONCLUSIVE, LOW, RateJudgement, called, rate_text
from envsmith.wire.facts import Snapshot
from envsmith.wire.results import PASS, SKIP, ValidationReport


def judge(report: ValidationReport, *, complete: bool = True, rates: Sequence[RateJudgement] = ()) -> Verdict:
    """Say what a run of checks amounts to.

    complete: every check of the level was asked for. rates: the measured ones, judged.
    Only a complete run in which at least one GPU was there, every GPU check passed, nothing failed and no rate is
    low is CERTIFIED. An optional check that was skipped, and a rate that is inconclusive, do not stand in its way.
    Where only a part of the GPUs was asked for, it is those that are certified, and the reason says so.
    """
    bad = [result for result in report.results if result.status not in (PASS, SKIP)]
    if bad:
        names = ", ".join(f"{result.id} ({result.status})" for result in bad)
        return Verdict(FAILED, f"{len(bad)} of {len(report.results)} checks did not pass: {names}")
    on_gpu = [result for result in report.results if result.needs_gpu]
    low = [rate for rate in rates if rate.status == LOW]
    if low:
        return Verdict(FAILED, "; ".join(describe_rate(rate) for rate in low))
    skipped = [result for result in on_gpu if result.status != PASS]
    if not on_gpu:
        return Verdict(NOT_ON_GPU, "no check was run on a GPU")
    if len({result.message for result in on_gpu}) == 1 and len(skipped) == len(on_gpu):
        return Verdict(NOT_ON_GPU, on_gpu[0].message)
    needed = [result for result in skipped if not result.optional]
    if needed:
        return Verdict(NOT_ON_GPU, f"{needed[0].id} was skipped: {needed[0].message}")
    if len(skipped) == len(on_gpu):
        return Verdict(NOT_ON_GPU, "every check on a GPU was skipped")
    if not complete:
        return Verdict(NOT_ON_GPU, "only a part of the checks was asked for")
    if not report.proved_compute_capabilities:
        return Verdict(NOT_ON_GPU, "the checks do not say which GPU they ran on")
    passed = len(on_gpu) - len(skipped)
    return Verdict(CERTIFIED, _certified(report, passed, tuple(result.id for result in skipped), rates))


def _certified(report: ValidationReport, passed: int, skipped: tuple[str, ...], rates: Sequence[RateJudgement]) -> str:
    """What was proved on what, and what was not."""
    level = f" of level {report.level}" if report.level else ""
    which = "all" if not skipped else "the"
    text = f"{which} {passed} GPU checks{level} passed on {gpus_of(report)}"
    if skipped:
        text += f"; skipped, as what they test is not here: {', '.join(skipped)}"
    inconclusive = sum(rate.status == INCONCLUSIVE for rate in rates)
    if inconclusive:
        text += f"; {inconclusive} of {len(rates)} rates inconclusive: right results, and the speed is not proved"
    return text


def describe_rate(rate: RateJudgement) -> str:
    """One line: "bfloat16 product 705 TFLOP/s on cuda:0 NVIDIA H200 (9.0): 71% of the peak of ..."."""
    where = f" on {rate.device}" if rate.device else ""
    return f"{called(rate.quantity)} {rate_text(rate.measured, rate.unit)}{where}: {rate.reason}"


def gpu_names(snapshot: Snapshot) -> tuple[str, ...]:
    """The GPUs of the machine, for people: "NVIDIA H200 (9.0)"."""
    return tuple(f"{gpu.name} ({gpu.compute_capability or 'capability unknown'})" for gpu in snapshot.gpus or ())


def gpus_present(snapshot: Snapshot) -> int | None:
    """GPUs that a CUDA program can be given: a GPU that is cut in MIG slices is so many as it has slices."""
    if snapshot.gpus is None:
        return None
    return sum(gpu.is_mig_slice or not gpu.mig_enabled for gpu in snapshot.gpus)


def gpus_of(report: ValidationReport) -> str:
    """The GPUs of the run, for people: "2 x NVIDIA H200 (9.0)", "NVIDIA H200 (9.0), 1 of the 2 GPUs here"."""
    names = tuple(label.partition(" ")[2] for label in report.gpus) or gpu_names(report.snapshot)
    text = ", ".join(name if count == 1 else f"{count} x {name}" for name, count in Counter(names).items())
    present = gpus_present(report.snapshot)
    if report.gpus and present is not None and len(report.gpus) < present:
        text += f", {len(report.gpus)} of the {present} GPUs here"
    return text
