"""The bundle: the same bytes wherever it is made, nothing in it that does not belong, and it runs."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from envsmith import portable
from envsmith.cli.main import run
from envsmith.errors import DataError, UsageError
from tests.source_tree import PACKAGE, ROOT, portable_files


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@pytest.fixture(scope="module")
def archive() -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(portable.bundle()))


def test_it_holds_the_portable_set_and_pynvml(archive: zipfile.ZipFile) -> None:
    expected = {
        path.relative_to(ROOT).as_posix() for name, path in portable_files().items() if "render" not in name.split(".")
    }
    assert set(archive.namelist()) == expected | {"__main__.py", "pynvml.py"}
    assert archive.testzip() is None


def test_nvidias_licence_is_in_it(archive: zipfile.ZipFile) -> None:
    notice = archive.read("pynvml.py")[:2500]
    assert b"Copyright (c) 2011" in notice
    assert b"Redistributions of source code must retain the above copyright notice" in notice


def test_its_entries_tell_nothing_of_the_machine(archive: zipfile.ZipFile) -> None:
    entries = archive.infolist()
    assert [entry.filename for entry in entries] == sorted(archive.namelist())
    assert {entry.date_time for entry in entries} == {(1980, 1, 1, 0, 0, 0)}
    assert {entry.external_attr >> 16 for entry in entries} == {0o100644}
    assert {(entry.compress_type, entry.create_system) for entry in entries} == {(zipfile.ZIP_STORED, 3)}


def test_it_is_small() -> None:
    assert len(portable.bundle()) < 1_200_000


def test_it_starts_as_a_program(tmp_path: Path) -> None:
    assert portable.bundle().startswith(b"#!/usr/bin/env python3\n")
    path = tmp_path / "envsmith.pyz"
    assert portable.write_bundle(path) == digest(path.read_bytes())
    done = subprocess.run([str(path), "--version"], capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout.startswith("envsmith ")


def test_other_times_orders_and_umasks_make_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "envsmith"
    before = portable.bundle()
    for path in sorted(PACKAGE.rglob("*.py"), reverse=True):
        target = copy / path.relative_to(PACKAGE)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
        target.chmod(0o600)
        os.utime(target, (1_700_000_000, 1_700_000_000))
    (copy / "probe" / "__pycache__").mkdir()
    (copy / "probe" / "__pycache__" / "host.cpython-311.pyc").write_bytes(b"x")
    monkeypatch.setattr(portable, "_PACKAGE", copy)
    old = os.umask(0o077)
    try:
        assert portable.bundle() == before
    finally:
        os.umask(old)


def test_without_pynvml_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portable, "find_spec", lambda name: None)
    with pytest.raises(DataError, match="pynvml") as caught:
        portable.bundle()
    assert caught.value.hint == "reinstall envsmith-gpu"


def test_the_command_prints_the_digest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a b.pyz"
    assert run(["portable", str(path)]) == 0
    assert capsys.readouterr().out == digest(path.read_bytes()) + "\n"
    assert path.stat().st_mode & 0o100


@pytest.mark.parametrize("name", ["missing/envsmith.pyz", "folder"])
def test_a_path_that_cannot_be_written_leaves_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match=r"cannot write .*: (No such file or directory|Is a directory)$"):
        portable.write_bundle(tmp_path / name)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["folder"]


def test_no_space_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """/dev/full cannot be renamed onto; a limit on the size of files stands in for a full disk."""
    code = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000));"
        "from envsmith.cli.main import entry; entry()"
    )
    command = [sys.executable, "-c", code, "portable", str(tmp_path / "envsmith.pyz")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 2
    assert "cannot write" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_it_runs_alone(tmp_path: Path) -> None:
    """Isolated from this environment: no site packages, no environment variables, no checkout."""
    path = tmp_path / "envsmith.pyz"
    expected = portable.write_bundle(path)
    command = [sys.executable, "-I", "-S", str(path), "check", "--only", "cuda-kernel-driver", "--format", "json"]
    environment = {"PATH": "/usr/bin:/bin", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", env=environment)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["kind"], report["bundle_digest"]) == ("validation", expected)
    assert [(result["id"], result["status"]) for result in report["results"]] == [("cuda-kernel-driver", "skip")]
