"""What is told while checks run: others' text is shown as it is, and never as markup or control characters."""

from __future__ import annotations

import pytest

from envsmith.model.check_events import CheckStarted
from envsmith.report.check_progress import CheckProgress
from envsmith.wire.results import CheckResult


def test_on_a_terminal_titles_are_no_markup(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with CheckProgress("image [/x]") as progress:
        assert progress._live is not None
        progress._live._live.refresh()
        progress.on_event(CheckStarted("a", "Kernel [GPU] [/y]", 5.0))
        progress._live._live.refresh()
    shown = capsys.readouterr().err
    assert "image [/x]" in shown
    assert "Kernel [GPU] [/y]" in shown


def test_elsewhere_each_result_is_one_harmless_line(capsys: pytest.CaptureFixture[str]) -> None:
    with CheckProgress("image") as progress:
        progress.on_event(CheckResult("a", "A\x1b[2J [/y]", "pa\x1b[2Jss", 1.25))
    assert capsys.readouterr().err == "pass    A [/y]  1.2 s\n"
