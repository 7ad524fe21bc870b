"""What is told while checks run: others' text is shown as it is, and never as markup or control characters."""

from __future__ import annotations

import pytest

from envsmith.model.check_events import CheckStarted
from envsmith.report.check_progress import CheckProgress
from envsmith.wire.results import CheckResult, Metric

RATES = CheckResult("rates", "Rates [/y]", "pass", 1.25, metrics=(Metric("cuda0.bfloat16_rate_tflops", 705.2),))


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.delenv("NO_COLOR", raising=False)


def refresh(progress: CheckProgress) -> None:
    assert progress._live is not None
    progress._live.refresh()


def test_on_a_terminal_titles_are_no_markup(terminal: None, capsys: pytest.CaptureFixture[str]) -> None:
    with CheckProgress("image [/x]") as progress:
        refresh(progress)
        progress.on_event(CheckStarted("a", "Kernel [GPU] [/y]", 5.0))
        refresh(progress)
    shown = capsys.readouterr().err
    assert "image [/x]" in shown
    assert "Kernel [GPU] [/y]" in shown


def test_on_a_terminal_all_that_run_are_shown_until_they_end(
    terminal: None, capsys: pytest.CaptureFixture[str]
) -> None:
    with CheckProgress("here") as progress:
        progress.on_event(CheckStarted("rates", "Rates [/y]", 60.0))
        progress.on_event(CheckStarted("conv", "Convolution " + "long " * 30, 120.0))
        refresh(progress)
        both = capsys.readouterr().err
        progress.on_event(RATES)
        refresh(progress)
        one = capsys.readouterr().err
    assert "Rates [/y]" in both
    assert "    0 s" in both
    assert "at most 60 s" in both
    assert "Convolution" in both
    assert both.count("long ") < 12  # cut at the width of the terminal, so that what is redrawn is one line
    assert "Rates [/y]  1.2 s  bfloat16 705 TFLOP/s" in one
    assert "at most 60 s" not in one


def test_a_check_of_several_gpus_is_one_line(terminal: None, capsys: pytest.CaptureFixture[str]) -> None:
    with CheckProgress("here") as progress:
        for device in ("cuda:0 NVIDIA H200 (9.0)", "cuda:1 NVIDIA H200 (9.0)"):
            progress.on_event(CheckStarted("rates", "Rates", 60.0, device))
        capsys.readouterr()
        refresh(progress)
        shown = capsys.readouterr().err
    assert shown.count("Rates on 2 GPUs") == 1


def test_elsewhere_each_result_is_one_harmless_line(capsys: pytest.CaptureFixture[str]) -> None:
    with CheckProgress("image") as progress:
        progress.on_event(CheckStarted("a", "A", 5.0))
        progress.on_event(CheckResult("a", "A\x1b[2J [/y]", "pa\x1b[2Jss", 1.25))
        progress.on_event(RATES)
    assert capsys.readouterr().err == (
        "pass    A [/y]  1.2 s\n"
        "pass    Rates [/y]  1.2 s  bfloat16 705 TFLOP/s\n"
    )  # fmt: skip
