"""A run with everything in it that a report has to show, hostile text included."""

from __future__ import annotations

from dataclasses import replace

from envsmith.doctor.run import diagnose
from envsmith.model.check_run import CheckRun
from envsmith.model.findings import Diagnosis, Evidence, Finding, Fix, Outcome, Severity
from envsmith.model.rates import GOOD, INCONCLUSIVE, LOW, NOT_JUDGED, RateJudgement
from envsmith.model.verdict import judge
from envsmith.wire.facts import Gap
from envsmith.wire.results import CheckResult, Metric, ValidationReport
from tests.machines import machine, small_matrix

H200 = "cuda:0 NVIDIA H200 (9.0)"
HOSTILE = 'a\x00b\x1b[31mc\ud800d | <script>`x`</script> @all [l](http://e) ]]> & "q"\n# head\ufffe'

RESULTS = (
    CheckResult("torch-import", "PyTorch imports", "pass", 2.7, "torch 2.11.0"),
    CheckResult("rates", "Rates", "pass", 1.5, "", True, (Metric("cuda0.bfloat16_rate_tflops", 705.2),), (H200,)),
    CheckResult("conv", "Convolution", "fail", 1.25, HOSTILE, True, log_tail=("last ``` words", HOSTILE)),
    CheckResult("nccl", "NCCL", "timeout", 60.0, "no answer after 60 s", True),
    CheckResult("kernel", "Kernel", "crash", 0.5, "", True, signal="SIGSEGV"),
    CheckResult("nvcc", "Compiler", "skip", 0.0, "no nvcc here", True, optional=True),
)

FINDING = Finding(
    "ENV002",
    "driver-too-old",
    Severity.ERROR,
    f"Driver too old {HOSTILE}",
    (Evidence("driver.version", "470|`x`", "525"),),
    Fix("Install a newer driver", ("sudo apt-get install nvidia-driver-580", "echo '````'"), True, True),
    other_fixes=(Fix("Use an older torch"),),
)
WARNING = Finding("ENV401", "small-shm", Severity.WARNING, "/dev/shm is small", (), None, ("ENV002",))
OUTCOMES = (
    Outcome("ENV002", "driver-too-old", "found", (FINDING,)),
    Outcome("ENV401", "small-shm", "found", (WARNING,)),
    Outcome("ENV101", "cpu-build", "clean"),
    Outcome("ENV201", "two-cudnn", "skipped", reason="libraries: denied"),
    Outcome("ENV301", "no-nodes", "broken", reason="KeyError"),
)


def rate(status: str, reason: str = "71% of the peak") -> RateJudgement:
    peak = None if status == NOT_JUDGED else 989.0
    return RateJudgement(
        H200, "rates", "bfloat16_rate_tflops", 705.2, "TFLOP/s", peak, 0.71, 494.5, "why", status, reason
    )


def full_run() -> CheckRun:
    """Every status of a check, of a rule and of a rate."""
    snapshot = replace(machine(), gaps=(Gap("gpus", "denied", "a|b"),))
    report = ValidationReport(
        "envsmith 0.1.0", None, "2026-12-01T00:00:00Z", 66.5, snapshot, RESULTS, level="standard", gpus=(H200,)
    )
    rates = tuple(rate(status) for status in (GOOD, LOW, INCONCLUSIVE, NOT_JUDGED))
    diagnosis = Diagnosis(OUTCOMES, (FINDING, WARNING), "sha256:0")
    return CheckRun(f"img {HOSTILE}", report, diagnosis, judge(report, rates=rates), rates=rates)


def good_run() -> CheckRun:
    """Two checks that passed on a machine on which nothing is wrong."""
    report = replace(full_run().report, results=RESULTS[:2], proved_compute_capabilities=("9.0",), snapshot=machine())
    return CheckRun("/opt/venv", report, diagnose(report.snapshot, small_matrix()), judge(report))
