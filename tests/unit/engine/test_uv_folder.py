"""The folder with uv for a build: only uv, of the right platform, and gone afterwards."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from envsmith.engine import uv_folder as module
from envsmith.engine.command import Captured
from envsmith.errors import BuildFailedError

MINE, OTHER = ("linux/arm64", "linux/amd64") if platform.machine() == "aarch64" else ("linux/amd64", "linux/arm64")


def test_this_machines_uv_is_placed_and_removed() -> None:
    with module.uv_folder(MINE) as folder:
        assert [path.name for path in folder.iterdir()] == ["uv"]
        assert (folder / "uv").stat().st_size > 1_000_000
    assert not folder.exists()


def test_the_uv_of_another_platform_is_the_same_version(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def fetch(argv: list[str], _limit_s: float) -> Captured:
        if argv[1:] == ["--version"]:
            return Captured(0, "uv 0.13.9 (x86_64-unknown-linux-gnu)\n", "")
        asked.append(argv)
        target = Path(argv[argv.index("--target") + 1]) / "bin"
        target.mkdir(parents=True)
        (target / "uv").write_bytes(b"\x7fELF")
        return Captured(0, "", "")

    monkeypatch.setattr(module, "capture", fetch)
    with module.uv_folder(OTHER) as folder:
        assert [path.name for path in folder.iterdir()] == ["uv"]
    assert asked[0][-1] == "uv==0.13.9"
    assert "--no-deps" in asked[0]


def test_a_uv_that_cannot_be_fetched_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([Captured(0, "uv 0.13.9\n", ""), Captured(2, "", "error: no such host\n")])
    monkeypatch.setattr(module, "capture", lambda _argv, _limit_s: next(answers))
    with pytest.raises(BuildFailedError, match="could not be fetched") as caught, module.uv_folder(OTHER):
        pass
    assert caught.value.log_tail == ("error: no such host",)
