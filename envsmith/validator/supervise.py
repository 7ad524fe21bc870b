"""Run checks, each in a process of its own. This process never imports torch and never touches CUDA.

Whatever a check does (crash, hang, print megabytes, start daemons, close its pipes) becomes its result, and
nothing of it is left when the next one starts.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from types import TracebackType
from typing import Any, Callable, Mapping, Sequence

from envsmith.validator.call import Answer, call_forked
from envsmith.validator.check import Check, CheckContext
from envsmith.validator.devices import Device, find_devices
from envsmith.validator.sweep import become_subreaper, children, sweep
from envsmith.validator.torch_host import TorchHost
from envsmith.validator.verdict import classify, run_body, skipped
from envsmith.wire.results import PASS, CheckResult, Expectation


class Supervisor:
    """One run over checks, in their order, as a context manager: leaving it kills all that it started.

    torch_calls: further functions that may be called in a process with torch, by name.
    Raises OSError when no folder for temporary files can be written.
    """

    def __init__(
        self,
        checks: Sequence[Check],
        expectation: Expectation | None = None,
        torch_calls: Mapping[str, Callable[[], object]] | None = None,
    ) -> None:
        self._checks = tuple(checks)
        self._results: dict[str, CheckResult] = {}
        self._torch_calls = dict(torch_calls or {})
        self._host: TorchHost | None = None
        self._no_torch_reason: str | None = None
        self._scratch = tempfile.mkdtemp(prefix="envsmith-")
        self._context = CheckContext((), None, expectation, self._scratch)
        self._looked_for_devices = False

    def __enter__(self) -> Supervisor:  # noqa: PYI034 - Self came with Python 3.11
        become_subreaper()
        self._spared = children()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._host is not None:
            self._host.close()
        sweep(self._spared)
        shutil.rmtree(self._scratch, ignore_errors=True)

    @property
    def devices(self) -> tuple[Device, ...]:
        """CUDA devices visible to this process; looked for once, in a forked process."""
        if not self._looked_for_devices:
            self._looked_for_devices = True
            devices, reason = find_devices(self._scratch)
            self._context = replace(self._context, devices=devices, no_gpu_reason=reason)
        return self._context.devices

    def run(self, check: Check) -> CheckResult:
        """Run one check, or say why it is skipped. Never raises for what the check does."""
        reason = self._reason_to_skip(check)
        if reason is not None:
            result = skipped(check, reason)
        elif check.starts_host:
            result = self._start_host(check)
        elif check.needs_torch:
            result = self._run_in_host(check)
        else:
            context = self._context
            result = classify(check, call_forked(lambda: run_body(check, context), check.limit_s, self._scratch))
        self._results[check.id] = result
        return result

    def call_in_torch(self, name: str, limit_s: float) -> tuple[Any, str]:
        """Call one of torch_calls; return (its value as plain data, "") or (None, why there is none)."""
        host, reason = self._host_for_use()
        if host is None:
            return None, reason
        answer = host.call(name, limit_s)
        if answer.ending.timed_out:
            return None, f"no answer after {limit_s:g} s"
        if answer.problem is not None:
            return None, " ".join(answer.ending.log_tail[-1:]) or answer.ending.signal or answer.problem
        return answer.value, ""

    def _reason_to_skip(self, check: Check) -> str | None:
        if check.needs_gpu and not self.devices and self._context.no_gpu_reason is not None:
            return self._context.no_gpu_reason
        for required in check.requires:
            result = self._results.get(required)
            if result is not None and result.status != PASS:
                return f"needs {required}, which says {result.status}"
        return None

    def _start_host(self, check: Check) -> CheckResult:
        """Fork the host; its import of torch is the check."""
        _ = self.devices  # the context must be complete before it is inherited
        context = self._context
        calls = dict(self._torch_calls)
        for other in self._checks:
            if other.needs_torch and not other.starts_host:
                calls[other.id] = _bound(other, context)
        self._host = TorchHost(lambda: run_body(check, context), calls, self._scratch)
        result = classify(check, self._host.first_answer(check.limit_s))
        if result.status != PASS:
            self._host.close()
            self._no_torch_reason = f"no torch: {result.message}"
        return result

    def _host_for_use(self) -> tuple[TorchHost | None, str]:
        """Return a living host, started if need be (again, if a check took it with it), or the reason for none."""
        starter = next((check for check in self._checks if check.starts_host), None)
        if starter is None:
            return None, "this run does not import torch"
        if self._no_torch_reason is None and (self._host is None or not self._host.alive):
            self._start_host(starter)
        if self._no_torch_reason is not None:
            return None, self._no_torch_reason
        return self._host, ""

    def _run_in_host(self, check: Check) -> CheckResult:
        host, reason = self._host_for_use()
        if host is None:
            return skipped(check, reason)
        answer: Answer = host.call(check.id, check.limit_s)
        return classify(check, answer)


def _bound(check: Check, context: CheckContext) -> Callable[[], object]:
    return lambda: run_body(check, context)
