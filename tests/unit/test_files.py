"""Files are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from envsmith import files
from envsmith.errors import UsageError


def test_a_file_is_replaced_whole_with_the_mode_of_the_umask(tmp_path):
    path = tmp_path / "answer.json"
    path.write_bytes(b"old and longer")
    before = os.umask(0o027)
    try:
        files.write_whole(path, b"new")
    finally:
        os.umask(before)
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("where", ["missing/answer.json", "file/answer.json"])
def test_what_cannot_be_written_is_one_clear_error(tmp_path, where):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UsageError, match=r"cannot write .*answer\.json"):
        files.write_whole(tmp_path / where, b"new")


def test_a_failed_rename_leaves_nothing_behind(tmp_path):
    folder = tmp_path / "answer.json"
    (folder / "full").mkdir(parents=True)
    with pytest.raises(UsageError):
        files.write_whole(folder, b"new")
    assert list(tmp_path.iterdir()) == [folder]


def test_a_full_disk_is_named_and_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fdopen", full)
    with pytest.raises(UsageError, match="No space left on device"):
        files.write_whole(tmp_path / "answer.json", b"new")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_written_whole_with_the_mode_of_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        files.write_folder(tmp_path / "context", {"a": b"1", "b": b"2"})
    finally:
        os.umask(before)
    folder = tmp_path / "context"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"a": b"1", "b": b"2"}
    assert folder.stat().st_mode & 0o777 == 0o750
    assert list(tmp_path.iterdir()) == [folder]


def test_an_empty_folder_is_filled(tmp_path, monkeypatch):
    (tmp_path / "context").mkdir()
    monkeypatch.chdir(tmp_path / "context")
    files.write_folder(Path(), {"a": b"1"})
    assert (tmp_path / "context" / "a").read_bytes() == b"1"


@pytest.mark.parametrize("where", ["full", "full/file", "full/file/under", "missing/context"])
def test_a_folder_that_cannot_be_written_is_one_clear_error_and_leaves_nothing(tmp_path, where):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_bytes(b"mine")
    with pytest.raises(UsageError, match="cannot write the folder"):
        files.write_folder(tmp_path / where, {"a": b"1"})
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "full", tmp_path / "full" / "file"]


def test_a_disk_that_fills_up_leaves_no_half_folder(tmp_path, monkeypatch):
    real = Path.write_bytes

    def full(path, data):
        if path.name == "b":
            raise OSError(28, "No space left on device")
        return real(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(UsageError, match="No space left on device"):
        files.write_folder(tmp_path / "context", {"a": b"1", "b": b"2"})
    assert list(tmp_path.iterdir()) == []


def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "answer.json", tmp_path / "link.json"
    target.write_bytes(b"old")
    link.symlink_to(target)
    files.write_whole(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert list((tmp_path / "there").iterdir()) == [target]


def test_a_pipe_or_a_device_is_written_into_and_stays_one(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    files.require_writable(pipe)
    files.write_whole(pipe, b"answer")
    assert os.read(reader, 100) == b"answer"
    os.close(reader)
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


def test_reading_is_bounded(tmp_path):
    (tmp_path / "file").write_bytes(b"12345")
    assert files.read_within(tmp_path / "file", 5, "snapshot") == b"12345"
    with pytest.raises(UsageError, match=r"snapshot .*file is longer than 4 bytes"):
        files.read_within(tmp_path / "file", 4, "snapshot")
    with pytest.raises(UsageError, match="snapshot /dev/zero is longer than 1000 bytes"):
        files.read_within(Path("/dev/zero"), 1000, "snapshot")
    with pytest.raises(UsageError, match=r"cannot read snapshot .*: Is a directory"):
        files.read_within(tmp_path, 1000, "snapshot")
