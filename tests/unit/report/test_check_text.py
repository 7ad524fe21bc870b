"""What people read of a check."""

from __future__ import annotations

from dataclasses import replace

from envsmith.doctor.run import diagnose
from envsmith.model.check_run import CheckRun
from envsmith.model.rates import GOOD, INCONCLUSIVE, RateJudgement
from envsmith.model.verdict import judge
from envsmith.report.check_text import print_check
from envsmith.wire.facts import Gap
from envsmith.wire.results import CheckResult, ClusterReport, Metric, RankReport, ValidationReport
from tests.machines import driver, host, laptop, limits, machine, small_matrix

PASSED = CheckResult("amp", "AMP products", "pass", 4.51, "", True, (Metric("fp16_tflops", 612.1234),))
CRASHED = CheckResult("conv", "Convolution", "crash", 1.0, "SIGSEGV", True, log_tail=("last \x1b[31mwords",))


def text_of(capsys, monkeypatch, snapshot=None, results=(PASSED,), **changes) -> str:
    monkeypatch.setenv("COLUMNS", "80")
    report = ValidationReport("envsmith", None, "2026-11-30T21:00:00Z", 1.0, snapshot or machine(), results, ("9.0",))
    run = CheckRun("/opt/venv", report, diagnose(report.snapshot, small_matrix()), judge(report))
    print_check(replace(run, **changes))
    return capsys.readouterr().out


def test_a_good_run(capsys, monkeypatch):
    assert text_of(capsys, monkeypatch) == (
        "Checks\n"
        "  pass    AMP products  4.5 s  fp16 612 TFLOP/s\n"
        "\n"
        "Python  3.11.2  /opt/venv/bin/python (venv)\n"
        "torch   2.6.0+cu124, CUDA 12.4\n"
        "Driver  580.95.05, offers CUDA 13.0\n"
        "GPU 0   NVIDIA H200, compute capability 9.0, 141.0 GiB\n"
        "System  Debian GNU/Linux 12 (bookworm), x86_64\n"
        "Limits  shared memory 32.0 GiB\n"
        "\n"
        "certified: all 1 GPU checks passed on NVIDIA H200 (9.0)\n"
    )


def test_a_consequence_stands_after_its_cause(capsys, monkeypatch):
    bare = driver(libcuda=None, library_version=None, driver_cuda=None)
    small = limits(64 * 1024**2)
    snapshot = machine(host=host("docker"), driver=bare, device_nodes=(), gpus=(), limits=small)
    text = text_of(capsys, monkeypatch, snapshot)
    places = [
        text.index(words)
        for words in ("Root cause\nERROR ENV301", "Consequence of ENV301\nERROR ENV001", "Also found\nWARNING ENV401")
    ]
    assert places == sorted(places)
    assert "(needs root)\n       $ sudo nvidia-ctk runtime configure --runtime=docker\n" in text


def test_what_is_only_told_is_no_cause(capsys, monkeypatch):
    assert text_of(capsys, monkeypatch, laptop(), ()).startswith("Note\nINFO ENV001")


def test_a_check_that_failed_shows_its_last_words(capsys, monkeypatch):
    text = text_of(capsys, monkeypatch, results=(CRASHED,))
    assert "  crash   Convolution  1.0 s  SIGSEGV\n          | last words\n" in text
    assert text.endswith("failed: 1 of 1 checks did not pass: conv (crash)\n")


def test_what_was_skipped_is_told_by_reason(capsys, monkeypatch):
    skips = tuple(CheckResult(name, name.upper(), "skip", 0.0, "no GPU", True) for name in ("a", "b"))
    assert "  skip    A; B  no GPU\n" in text_of(capsys, monkeypatch, results=skips)


def test_gaps_name_the_rules_that_they_silence(capsys, monkeypatch):
    snapshot = replace(machine(gpus=None), gaps=(Gap("gpus", "timeout", "NVML"), Gap("toolkits", "denied")))
    text = text_of(capsys, monkeypatch, snapshot)
    assert "Not looked at\n  gpus: timeout (NVML); so ENV102 could not judge\n  toolkits: denied\n" in text


def test_lines_end_where_their_text_ends(capsys, monkeypatch):
    snapshot = replace(machine(driver=driver("470.256.02", "11.4")), gaps=(Gap("gpus", "failed", "word " * 60),))
    text = text_of(capsys, monkeypatch, snapshot, certificate="c.json", stray_output=("a warning",))
    assert [line for line in text.splitlines() if line != line.rstrip()] == []
    assert all(len(line) <= 80 for line in text.splitlines() if "$ " not in line)
    assert text.endswith("Certificate: c.json\n")


RATE = RateJudgement(
    device="cuda:0 NVIDIA H200 (9.0)",
    check="rates",
    quantity="bfloat16_rate_tflops",
    measured=705.2,
    unit="TFLOP/s",
    peak=989.0,
    fraction=0.713,
    floor=494.5,
    basis="H200 SXM: measured",
    status=GOOD,
    reason="71% of the peak of 989 TFLOP/s, the floor is 494 TFLOP/s (50%)",
)


def test_of_several_nodes_each_process_is_told(capsys, monkeypatch):
    ranks = (RankReport(0, "a", "pass", ("cuda:0 NVIDIA H200 (9.0)",)), RankReport(1, "b\x1b[2J", "missing"))
    cluster = ClusterReport("torchrun", 0, 2, "a:29400", "fail", "rank 1 is missing", ranks)
    snapshot = machine()
    report = ValidationReport("envsmith", None, "2026-11-30T21:00:00Z", 1.0, snapshot, (PASSED,), cluster=cluster)
    text = text_of(capsys, monkeypatch, report=report)
    assert "\nNodes\n  2 processes started by torchrun, meeting at a:29400\n" in text
    assert "  pass    rank 0 on a: cuda:0 NVIDIA H200 (9.0)\n  missing rank 1 on b\n" in text


def test_rates_are_told_with_their_floors(capsys, monkeypatch):
    busy = replace(RATE, status=INCONCLUSIVE, reason="because of other users")
    text = text_of(capsys, monkeypatch, rates=(RATE, busy))
    assert "\nRates\n  good         bfloat16 product 705 TFLOP/s on cuda:0 NVIDIA H200 (9.0): 71% of" in text
    assert "  inconclusive bfloat16 product 705 TFLOP/s on cuda:0 NVIDIA H200 (9.0): because" in text
