"""What a run over all checks proves."""

from __future__ import annotations

from envsmith.validator.check import Check
from envsmith.validator.devices import Device
from envsmith.wire.results import PASS, SKIP, CheckResult


def proved(checks: tuple[Check, ...], results: tuple[CheckResult, ...], devices: tuple[Device, ...]) -> tuple[str, ...]:
    """Compute capabilities of the GPUs on which all of `checks` that need a GPU ran and passed, if no check did badly.

    checks: all that exist, so that a run over some of them proves nothing.
    """
    passed = {result.id: result.ran_on for result in results if result.status == PASS}
    needed = [check.id for check in checks if check.needs_gpu]
    if any(result.status not in (PASS, SKIP) for result in results) or not set(needed) <= set(passed):
        return ()
    sure = [device for device in devices if all(device.label in passed[check] for check in needed)]
    return tuple(sorted({d.compute_capability for d in sure}, key=lambda c: tuple(map(int, c.split(".")))))
