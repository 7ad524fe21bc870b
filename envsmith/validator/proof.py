"""What a run over all checks of a level proves."""

from __future__ import annotations

from typing import Sequence

from envsmith.validator.check import Check
from envsmith.validator.devices import Device
from envsmith.wire.results import PASS, SKIP, CheckResult, ValidationReport


def proved(checks: Sequence[Check], results: Sequence[CheckResult], devices: Sequence[Device]) -> tuple[str, ...]:
    """Compute capabilities of the GPUs on which all of `checks` that need a GPU ran and passed, if no check did badly.

    checks: all of the run's level, so that a run over some of them proves nothing. One that is optional may have
    been skipped.
    """
    status = {result.id: result.status for result in results}
    ran_on = {result.id: result.ran_on for result in results if result.status == PASS}
    needed = [check.id for check in checks if check.needs_gpu and not (check.optional and status.get(check.id) == SKIP)]
    if any(result.status not in (PASS, SKIP) for result in results) or not needed or not set(needed) <= set(ran_on):
        return ()
    sure = [device for device in devices if all(device.label in ran_on[check] for check in needed)]
    return tuple(sorted({d.compute_capability for d in sure}, key=lambda c: tuple(map(int, c.split(".")))))


def verdict(report: ValidationReport, devices: tuple[Device, ...]) -> str:
    """One sentence on what the run came to. "Certified" is not said here: that word is the host's."""
    bad = [result.id for result in report.results if result.status not in (PASS, SKIP)]
    if bad:
        return f"FAILED: {', '.join(bad)}"
    if report.proved_compute_capabilities:
        return f"passed on {len(devices)} GPU(s): {', '.join(device.label for device in devices)}"
    reasons = [f"{r.id} was skipped: {r.message}" for r in report.results if r.needs_gpu and r.status == SKIP]
    return f"not certified on a GPU: {reasons[0] if reasons else 'not every GPU check was asked for'}"
