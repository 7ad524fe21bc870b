"""Which Python is examined."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from envsmith.app import interpreter
from envsmith.errors import UsageError


def executable(path: Path, text: str = "#!/bin/sh\nexit 1\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


HAS_TORCH = "#!/bin/sh\nexit 0\n"


def test_an_interpreter_by_its_path(tmp_path):
    python = executable(tmp_path / "python3.9")
    assert interpreter.choose(str(python), {}) == python


def test_the_folder_of_an_environment(tmp_path):
    python = executable(tmp_path / "env/bin/python")
    assert interpreter.choose(str(tmp_path / "env"), {}) == python


def test_a_link_is_kept_since_it_is_what_makes_the_environment(tmp_path):
    target = executable(tmp_path / "usr/python3.11")
    link = tmp_path / "env/bin/python"
    link.parent.mkdir(parents=True)
    link.symlink_to(target)
    assert interpreter.choose(str(link), {}) == link


def test_a_name_on_path(tmp_path):
    python = executable(tmp_path / "python3.9")
    assert interpreter.choose("python3.9", {"PATH": str(tmp_path)}) == python


@pytest.mark.parametrize(
    ("name", "reason"),
    [("missing", "does not exist"), ("plain", "is not executable"), ("empty", "has no bin/python")],
)
def test_what_is_no_interpreter_is_one_clear_error(tmp_path, name, reason):
    (tmp_path / "plain").write_text("")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=f"--python .*{name}.*{reason}"):
        interpreter.choose(str(tmp_path / name), {"PATH": ""})


def test_the_active_environment_comes_first(tmp_path):
    venv = executable(tmp_path / "venv/bin/python")
    conda = executable(tmp_path / "conda/bin/python")
    on_path = executable(tmp_path / "bin/python3", HAS_TORCH)
    environment = {
        "PATH": str(on_path.parent),
        "VIRTUAL_ENV": str(tmp_path / "venv"),
        "CONDA_PREFIX": str(tmp_path / "conda"),
    }
    assert interpreter.choose(None, environment) == venv
    del environment["VIRTUAL_ENV"]
    assert interpreter.choose(None, environment) == conda
    environment["CONDA_PREFIX"] = str(tmp_path / "gone")
    assert interpreter.choose(None, environment) == on_path


def test_the_first_with_torch_is_taken_before_the_first(tmp_path):
    first = executable(tmp_path / "a/python3")
    second = executable(tmp_path / "b/python3", HAS_TORCH)
    path = f"{first.parent}:{second.parent}"
    assert interpreter.choose(None, {"PATH": path}) == second
    second.unlink()
    assert interpreter.choose(None, {"PATH": path}) == first


def test_without_any_python_on_path_it_is_our_own(tmp_path):
    assert interpreter.choose(None, {"PATH": str(tmp_path)}) == Path(sys.executable)


def test_the_look_up_asks_the_import_system_and_not_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(interpreter, "_HAS_TORCH", interpreter._HAS_TORCH.replace("'torch'", "'envsmith_no_such'"))
    assert not interpreter._has_torch(Path(sys.executable))
    monkeypatch.undo()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert interpreter._has_torch(Path(sys.executable))
