"""Which compilers are found, why one is not, and how a program is run within bounds."""

from __future__ import annotations

import os
import signal
import sysconfig
from pathlib import Path
from types import SimpleNamespace

import pytest

from envsmith.validator import toolchain
from envsmith.validator.toolchain import find_nvcc, header_folders, is_noexec, nvcc_release, run_tool


def program(path: Path, text: str = "exit 0") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def headers(tmp_path: Path) -> dict[str, str]:
    folder = tmp_path / "include"
    folder.mkdir()
    (folder / "Python.h").touch()
    return {"CPATH": str(folder)}


@pytest.mark.parametrize("name", ["gcc", "clang"])
def test_a_compiler_on_the_path_serves(tmp_path: Path, headers: dict[str, str], name: str) -> None:
    program(tmp_path / "bin" / name)
    assert toolchain.why_no_c_extension({**headers, "PATH": str(tmp_path / "bin")}) is None


def test_cc_alone_is_not_what_triton_takes(tmp_path: Path, headers: dict[str, str]) -> None:
    program(tmp_path / "bin" / "cc")
    reason = toolchain.why_no_c_extension({**headers, "PATH": str(tmp_path / "bin")})
    assert reason == "there is no C compiler (gcc or clang on PATH, or CC)"


def test_what_cc_names_counts_alone(tmp_path: Path, headers: dict[str, str]) -> None:
    program(tmp_path / "bin" / "gcc")
    mine = program(tmp_path / "mine")
    path = {**headers, "PATH": str(tmp_path / "bin")}
    assert toolchain.why_no_c_extension({**path, "CC": str(mine)}) is None
    assert toolchain.why_no_c_extension({**path, "CC": "icc -fast"}) == "CC='icc -fast' is no program"


def test_missing_headers_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin" / "gcc")
    monkeypatch.setattr(sysconfig, "get_paths", lambda *_: {"include": "/usr/include/python3.99"})
    reason = toolchain.why_no_c_extension({"PATH": str(tmp_path / "bin"), "C_INCLUDE_PATH": "/opt/headers"})
    assert reason is not None
    assert "no Python.h in /usr/include/python3.99 or /opt/headers" in reason
    assert "python3-dev" in reason


def test_pythons_own_headers_come_first() -> None:
    assert header_folders({"CPATH": "/a:/b", "C_INCLUDE_PATH": "/b:"})[0] == sysconfig.get_paths()["include"]
    assert header_folders({"CPATH": "/a:/b", "C_INCLUDE_PATH": "/b:"})[-2:] == ("/a", "/b")


def test_nvcc_is_found_where_extension_builds_find_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "_DEFAULT_TOOLKIT", str(tmp_path / "default"))
    assert find_nvcc({"PATH": str(tmp_path / "bin")}) is None
    default = program(tmp_path / "default" / "bin" / "nvcc")
    assert find_nvcc({"PATH": str(tmp_path / "bin")}) == str(default)
    on_path = program(tmp_path / "bin" / "nvcc")
    assert find_nvcc({"PATH": str(tmp_path / "bin"), "CUDA_HOME": ""}) == str(on_path)
    named = program(tmp_path / "home" / "bin" / "nvcc")
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        assert find_nvcc({"PATH": str(tmp_path / "bin"), variable: str(tmp_path / "home")}) == str(named)
    assert find_nvcc({"PATH": str(tmp_path / "bin"), "CUDA_HOME": str(tmp_path / "empty")}) is None


def test_the_release_is_read() -> None:
    said = ("nvcc: NVIDIA (R) Cuda compiler driver", "Cuda compilation tools, release 13.0, V13.0.88")
    assert nvcc_release(said) == "13.0"
    assert nvcc_release(("bash: nvcc: cannot execute",)) is None


@pytest.mark.parametrize(("flags", "noexec"), [(os.ST_NOEXEC | os.ST_RDONLY, True), (os.ST_RDONLY, False)])
def test_noexec_is_read_from_the_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: int, noexec: bool
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=flags))
    assert is_noexec(str(tmp_path)) is noexec


def test_a_tool_runs_in_english_with_its_output_kept(tmp_path: Path) -> None:
    tool = program(tmp_path / "tool", 'echo "$1 in $LC_ALL"; echo broken >&2; exit 3')
    ending = run_tool((str(tool), "a b"), 20, str(tmp_path))
    assert (ending.exit_status, ending.timed_out) == (3, False)
    assert ending.log_tail == ("a b in C", "broken")


def test_a_tool_that_hangs_is_ended(tmp_path: Path) -> None:
    tool = program(tmp_path / "tool", "sleep 600")
    assert run_tool((str(tool),), 0.5, str(tmp_path)).timed_out


def test_a_tool_that_cannot_be_started_says_so(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("text", encoding="utf-8")
    ending = run_tool((str(tmp_path / "tool"),), 20, str(tmp_path))
    assert ending.exit_status == 70
    assert "Permission denied" in ending.log_tail[-1]


def test_a_tool_may_die_of_a_broken_pipe(tmp_path: Path) -> None:
    """Python ignores SIGPIPE; were that inherited, `yes | head` in a compiler's wrapper would never end well."""
    tool = program(tmp_path / "tool", "kill -PIPE $$; echo alive")
    assert run_tool((str(tool),), 20, str(tmp_path)).signal == signal.Signals.SIGPIPE.name


def test_a_compiler_that_builds_nothing_says_why(tmp_path: Path, headers: dict[str, str]) -> None:
    words = "echo 'ld: cannot find libc.so.6: No such file or directory' >&2; exit 1"
    broken = program(tmp_path / "bin" / "gcc", words)
    said = toolchain.broken_compiler({**headers, "PATH": str(tmp_path / "bin")}, str(tmp_path))
    assert said == f"{broken}: ld: cannot find libc.so.6: No such file or directory"


def test_a_compiler_is_given_a_library_to_build_with_the_headers(tmp_path: Path, headers: dict[str, str]) -> None:
    program(tmp_path / "bin" / "gcc", f'echo "$*" > {tmp_path}/arguments')
    assert toolchain.broken_compiler({**headers, "PATH": str(tmp_path / "bin")}, str(tmp_path)) is None
    arguments = (tmp_path / "arguments").read_text(encoding="utf-8").split()
    assert {"-shared", "-fPIC", f"-I{headers['CPATH']}", f"{tmp_path}/envsmith_empty.c"} <= set(arguments)


def test_where_no_compiler_is_none_is_broken(tmp_path: Path) -> None:
    assert toolchain.broken_compiler({"PATH": str(tmp_path)}, str(tmp_path)) is None
