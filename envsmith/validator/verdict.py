"""What a check's process says of itself, and what is made of it together with how the process ended."""

from __future__ import annotations

import math
import traceback
from dataclasses import dataclass
from typing import Any

from envsmith.validator.call import Answer
from envsmith.validator.check import Check, CheckContext, CheckFailed, CheckOutcome, CheckSkipped, CheckTimedOut
from envsmith.validator.occupied import occupied_is_no_fault
from envsmith.validator.place import enter
from envsmith.validator.text import one_message
from envsmith.wire.results import CRASH, FAIL, PASS, SKIP, TIMEOUT, CheckResult, Metric

_OWN_WORD = (PASS, FAIL, SKIP, TIMEOUT)

# What a signal usually means in a program that uses CUDA.
_SIGNAL_HINTS = {
    "SIGKILL": "often the kernel's out-of-memory killer",
    "SIGILL": "the processor lacks an instruction that the library was built with",
    "SIGBUS": "often a full /dev/shm, or a file cut short under a mapping",
}


@dataclass(frozen=True)
class Verdict:
    """A check's own word: pass, fail, skip or timeout."""

    status: str
    message: str = ""
    metrics: tuple[Metric, ...] = ()
    ran_on: tuple[str, ...] = ()


def run_body(check: Check, context: CheckContext) -> Verdict:
    """Run a check's body here and now. Whatever it raises is a verdict."""
    try:
        with occupied_is_no_fault(context.device):
            outcome = check.body(context)
    except CheckSkipped as skipped:
        return Verdict(SKIP, one_message(str(skipped)))
    except CheckFailed as failed:
        status = TIMEOUT if isinstance(failed, CheckTimedOut) else FAIL
        return Verdict(status, one_message(failed.message), _finite(failed.metrics))
    except Exception as error:  # noqa: BLE001 - any error is the check's result
        traceback.print_exc()
        return Verdict(FAIL, one_message(f"{type(error).__name__}: {error}"))
    if not isinstance(outcome, CheckOutcome):
        return Verdict(FAIL, "the check returned no outcome")
    return Verdict(PASS, one_message(outcome.message), _finite(outcome.metrics), outcome.ran_on)


def run_in_place(check: Check, context: CheckContext) -> Verdict:
    """Run a check's body in this process, which was forked for it, in the folder and with the GPUs of the context."""
    enter(context)
    return run_body(check, context)


def _finite(metrics: tuple[Metric, ...]) -> tuple[Metric, ...]:
    """JSON has no NaN and no infinity: such a value is kept as a word."""
    return tuple(Metric(m.name, _finite_number(m.value), m.limit) for m in metrics)


def _finite_number(value: float | str) -> float | int | str:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _decode(value: Any) -> Verdict | None:
    """Read a verdict that has crossed a process boundary; None if it is not one."""
    try:
        if value["status"] not in _OWN_WORD or not isinstance(value["message"], str):
            return None
        metrics = tuple(_decode_metric(metric) for metric in value["metrics"])
        ran_on = tuple(str(device) for device in value["ran_on"])
        return Verdict(value["status"], value["message"], metrics, ran_on)
    except (KeyError, TypeError):
        return None


def _decode_metric(value: Any) -> Metric:
    metric = Metric(value["name"], value["value"], value["limit"])
    if not isinstance(metric.name, str) or not isinstance(metric.value, (int, float, str)):
        raise TypeError("not a metric")
    return metric


def skipped(check: Check, reason: str) -> CheckResult:
    """The result of a check that was not started."""
    return CheckResult(check.id, check.title, SKIP, 0.0, reason, needs_gpu=check.needs_gpu, optional=check.optional)


def classify(check: Check, answer: Answer) -> CheckResult:
    """Judge a check by its verdict and by how its process ended; the worse of the two counts."""
    ending = answer.ending
    verdict = _decode(answer.value)
    if ending.timed_out:
        status, message = TIMEOUT, f"no result after {check.limit_s:g} s: killed"
    elif ending.signal is not None or ending.exit_status != 0 or verdict is None:
        status, message = CRASH, _describe_crash(answer, verdict)
    else:
        status, message = verdict.status, verdict.message
    if ending.survivors:
        message += f"; could not be killed: process {', '.join(map(str, ending.survivors))} (stuck in the kernel?)"
    return CheckResult(
        id=check.id,
        title=check.title,
        status=status,
        seconds=round(ending.seconds, 3),
        message=message,
        needs_gpu=check.needs_gpu,
        metrics=verdict.metrics if verdict else (),
        ran_on=verdict.ran_on if verdict else (),
        exit_status=ending.exit_status,
        signal=ending.signal,
        log_tail=ending.log_tail if status in (FAIL, TIMEOUT, CRASH) else (),
        optional=check.optional,
    )


def _describe_crash(answer: Answer, verdict: Verdict | None) -> str:
    ending = answer.ending
    if ending.refused:
        return ending.refused
    who = "the process that imports torch" if answer.host_lost else "its process"
    if ending.warden_lost and not answer.host_lost:
        who = "the process that watches over it"
    if ending.signal is not None:
        hint = _SIGNAL_HINTS.get(ending.signal)
        how = f"{who} died of {ending.signal}" + (f" ({hint})" if hint else "")
    elif ending.exit_status:
        how = f"{who} exited with status {ending.exit_status}"
    else:
        how = f"{who} {answer.problem or 'left a verdict that is not one'}"
    return how if verdict is None else f"{how}, after the verdict {verdict.status!r}"
