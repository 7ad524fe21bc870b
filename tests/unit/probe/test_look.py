"""Reads stay within bounds, and what cannot be read becomes a gap."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsmith.probe.look import ABSENT, DENIED, FAILED, Look, collector, reason_of
from envsmith.probe.strings import printable
from tests.unit.probe.trees import gaps, plant


def test_a_giant_file_is_cut(tmp_path: Path) -> None:
    look = plant(tmp_path, {}, sizes={"/huge": 8 * 1024**3})
    start = time.monotonic()
    assert len(look.read_bytes("/huge", limit_bytes=100_000)) == 100_000
    assert time.monotonic() - start < 1


def test_a_pipe_does_not_hang_the_probe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    look = Look(str(tmp_path))
    assert look.text_or_none("/pipe", "host.os_id") is None
    assert gaps(look) == {"host.os_id": "failed"}


def test_a_folder_or_a_device_in_the_place_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert Look(str(tmp_path)).text_or_none("/folder") is None
    assert Look().text_or_none("/dev/zero") is None


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    assert plant(tmp_path, {"/f": b"a\xff\x00b"}).read_text("/f") == "a\ufffd\x00b"


def test_a_loop_of_links(tmp_path: Path) -> None:
    look = plant(tmp_path, {}, {"/a": "/b", "/b": "a"})
    assert not look.exists("/a")
    assert look.text_or_none("/a", "x") is None
    assert look.realpath("/a") == "/a"


def test_links_do_not_lead_out_of_the_root(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("secret", encoding="utf-8")
    look = plant(tmp_path / "root", {"/in/file": "inside"}, {"/up": "../../outside", "/abs": "/in/file"})
    assert look.text_or_none("/up") is None
    assert look.read_text("/abs") == "inside"
    assert look.realpath("/in/../abs") == "/in/file"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    look = plant(tmp_path, {"/f": "x"})
    (tmp_path / "f").chmod(0)
    assert look.text_or_none("/f", "x") is None
    assert gaps(look) == {"x": "denied"}


def test_a_denied_read_is_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(*_args: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    look = plant(tmp_path, {"/f": "x"})
    monkeypatch.setattr("envsmith.probe.look.os.open", deny)
    assert look.text_or_none("/f", "x") is None
    assert gaps(look) == {"x": "denied"}


def test_absence_alone_is_no_gap(tmp_path: Path) -> None:
    look = Look(str(tmp_path))
    assert look.text_or_none("/nothing/here", "x") is None
    assert look.gaps == []


def test_a_name_with_a_zero_byte(tmp_path: Path) -> None:
    look = Look(str(tmp_path))
    assert not look.exists("/a\x00b")
    assert look.names("/a\x00b") == ()
    assert look.text_or_none("/a\x00b", "x") is None


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (FileNotFoundError(errno.ENOENT, ""), ABSENT),
        (PermissionError(errno.EPERM, ""), DENIED),
        (OSError(errno.EIO, ""), FAILED),
        (OSError("no number"), FAILED),
        (ValueError(""), FAILED),
    ],
)
def test_reasons(error: Exception, reason: str) -> None:
    assert reason_of(error) == reason


def test_a_collector_never_raises() -> None:
    @collector("part")
    def broken(look: Look) -> int:
        del look
        raise ZeroDivisionError("a\nb")

    look = Look()
    assert broken(look) is None
    (gap,) = look.gaps
    assert (gap.fact, gap.reason, gap.detail) == ("part", "failed", "ZeroDivisionError: a b")


@given(text=st.text(alphabet=st.characters()))
def test_printable_text_can_be_sent_and_shown(text: str) -> None:
    clean = printable(text)
    assert len(clean) == len(text)
    clean.encode("utf-8")
    assert not any(ord(c) < 32 and c not in "\t\n" for c in clean)
    assert printable(clean) == clean


def test_ordinary_text_is_left_alone() -> None:
    text = "/home/ü/日本語　x\u00a0y\tz"
    assert printable(text) == text
    assert printable("\x1b[31mred\x9b\udcff") == "\ufffd[31mred\ufffd\ufffd"
