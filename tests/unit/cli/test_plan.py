"""`envsmith plan` from the command line to its exit status: what is typed, what is printed."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import shlex
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsmith.app import plan as use_case
from envsmith.app.plan import HostGpus, make_plan
from envsmith.cli.main import run
from envsmith.cli.request import Typed, build_request, native_platform
from envsmith.compat.load import load_matrix
from envsmith.compat.resolve import resolve
from envsmith.errors import UsageError
from envsmith.model.plan import Plan, Refusal
from envsmith.model.request import BuildRequest
from envsmith.report.plan_text import print_answer

MATRIX = load_matrix()


@pytest.fixture(autouse=True)
def _no_gpu_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(use_case, "host_gpus", HostGpus)


def plan(capsys: pytest.CaptureFixture[str], command: str) -> tuple[int, str, str]:
    status = run(["plan", *shlex.split(command)])
    out, err = capsys.readouterr()
    return status, out, err


# -- answers -----------------------------------------------------------------------------------------------------------


def test_the_plan_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = plan(capsys, "--torch 2.6 --cuda 12.1 --platform linux/amd64")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "torch 2.6.0+cu124  CUDA 12.4, Python 3.11, debian12, runtime, linux/amd64"
    assert lines[2] == "! CUDA 12.1 was asked for; the wheel is for CUDA 12.4"
    assert "     envsmith build --torch 2.5.1 --cuda 12.1" in lines
    assert "\x1b" not in out
    assert all(line == line.rstrip() for line in lines)


def test_the_plan_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = plan(capsys, "--torch 2.6 --cuda 12.1 --format json")
    document = json.loads(out)
    assert (status, err) == (0, "")
    assert list(document)[:2] == ["schema", "kind"]
    assert (document["schema"], document["kind"]) == (1, "plan")
    named = {
        "torch", "wheel", "requested_cuda", "wheel_cuda", "toolkit_cuda", "cudnn", "nccl", "triton", "python",
        "base_image", "driver_floor", "compute_capabilities", "ptx", "substitutions", "alternatives", "labels",
        "matrix_digest",
    }  # fmt: skip
    assert named <= set(document)
    assert set(document["driver_floor"]) == {"version", "how", "native", "last_branch"}


def test_a_refusal_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = plan(capsys, "--torch 2.6 --gpu 'RTX 5090' --platform linux/amd64")
    assert (status, err) == (3, "")
    assert out.startswith("no solution: no PyTorch build meets --torch 2.6 and --gpu RTX 5090 together\n")
    assert "     envsmith build --torch 2.7.0 --gpu 'RTX 5090'\n" in out


def test_a_refusal_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = plan(capsys, "--torch 2.6 --cuda 12.1 --exact --format json")
    document = json.loads(out)
    assert (status, document["kind"]) == (3, "refusal")
    assert {conflict["subject"] for conflict in document["conflicts"]} == {"--torch", "--cuda", "--exact"}
    assert document["alternatives"][0]["command"].startswith("envsmith build --torch 2.5.1 --cuda 12.1")


def test_all_options_together(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = plan(
        capsys,
        "--torch '>=2.6,<2.9' --cuda 12.6 --cudnn 9 --python 3.12 --os ubuntu22.04 --variant devel --gpu A100 --gpu T4 "
        "--driver 560.35.05 --platform linux/amd64 --with torchvision,torchaudio --exact --format json",
    )
    document = json.loads(out)
    assert status == 0
    assert document["wheel"] == "2.8.0+cu126"
    assert document["base_image"] == "nvidia/cuda:12.6.3-devel-ubuntu22.04"
    assert [package["name"] for package in document["packages"]] == ["torch", "torchvision", "torchaudio"]


# -- what is typed becomes types, or one clear error -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("--torch latest", "--torch 'latest'"),
        ("--torch 2.6.0rc1", "--torch '2.6.0rc1'"),
        ("--torch ''", "--torch ''"),
        ("--torch '>=2.6,<'", "--torch '>=2.6,<'"),
        ("--torch '$(id)'", "--torch '$(id)'"),
        ("--torch '{{ 7*7 }}'", "--torch '{{ 7*7 }}'"),
        ("--torch '==2.6;id'", "--torch '==2.6;id'"),
        ("--cuda 12", "--cuda '12'"),
        ("--cuda twelve", "--cuda 'twelve'"),
        ("--cuda '12.1; id'", "--cuda '12.1; id'"),
        ("--cudnn nine", "--cudnn 'nine'"),
        ("--python 3.11.4", "--python '3.11.4'"),
        ("--python 2.7", "--python '2.7'"),
        ("--os centos7", "--os 'centos7'"),
        ("--variant fat", "--variant 'fat'"),
        ("--gpu ''", "--gpu ''"),
        ("--gpu '`id`'", "--gpu '`id`'"),
        ("--gpu banana", "--gpu 'banana'"),
        ("--driver new", "--driver 'new'"),
        ("--platform windows", "--platform 'windows'"),
        ("--with numpy", "--with 'numpy'"),
        ("--with torchvision,", "--with ''"),
        ("--format yaml", "--format 'yaml'"),
        ("--torch 2.6.0+cu124 --cuda 12.1", "contradict"),
        ("--cuda cpu --gpu H100", "contradict"),
        ("--cuda cpu --driver 550", "contradict"),
        ("--cuda cpu --variant devel", "contradict"),
        ("--cuda cpu --cudnn 9", "contradict"),
    ],
)
def test_bad_input_is_one_error(capsys: pytest.CaptureFixture[str], options: str, named: str) -> None:
    status, out, err = plan(capsys, options)
    assert (status, out) == (2, "")
    assert err.startswith("envsmith: error: ")
    assert named in err
    assert "Traceback" not in err
    assert "hint: " in err


@pytest.mark.parametrize("option", ["--torch", "--cuda", "--cudnn", "--python", "--os", "--gpu", "--driver", "--with"])
def test_control_characters_are_printed_escaped(capsys: pytest.CaptureFixture[str], option: str) -> None:
    status = run(["plan", option, "2.6\x1b[31m\n\x07\u202e"])
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert not {"\x1b", "\x07", "\u202e"} & set(err)
    assert r"\x1b[31m\n\x07\u202e" in err


@pytest.mark.parametrize(
    ("typed", "request_"),
    [
        (Typed(torch="2.6.0+cu124"), BuildRequest(torch="2.6.0", cuda="12.4", exact=True)),
        (Typed(torch="2.6.0+cu124", cuda="12.4"), BuildRequest(torch="2.6.0", cuda="12.4", exact=True)),
        (Typed(torch="2.6.0+cpu"), BuildRequest(torch="2.6.0", cuda="cpu", exact=True)),
        (Typed(cuda="cu128"), BuildRequest(cuda="12.8")),
        (Typed(torch=">= 2.4, < 2.6"), BuildRequest(torch="<2.6,>=2.4")),
        (Typed(companions="torchaudio, torchvision"), BuildRequest(companions=("torchaudio", "torchvision"))),
        (Typed(companions="torchaudio,torchaudio"), BuildRequest(companions=("torchaudio",))),
    ],
)
def test_typed_becomes_a_request(typed: Typed, request_: BuildRequest) -> None:
    built = build_request(typed, MATRIX)
    assert built == BuildRequest(**{**vars(request_), "platform": native_platform()})


@given(
    st.sampled_from(["torch", "cuda", "cudnn", "python", "os", "variant", "driver", "platform", "companions"]),
    st.text(max_size=30) | st.from_regex(r"[0-9.<>=!~+a-z*, ]{1,12}", fullmatch=True),
)
def test_any_text_is_a_request_or_a_usage_error(field: str, text: str) -> None:
    said = "ok"
    try:
        request = build_request(Typed(**{field: text}), MATRIX)
    except UsageError as error:
        said = error.message
    else:
        assert isinstance(resolve(request, MATRIX), Plan | Refusal)
    assert said.isprintable()


# -- this host's driver and GPUs ---------------------------------------------------------------------------------------


def notes(answer: Plan | Refusal) -> dict[str, str]:
    assert isinstance(answer, Plan)
    return {note.code: note.text for note in answer.notes}


@pytest.fixture
def _x86(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")


@pytest.mark.usefixtures("_x86")
def test_this_hosts_driver_shapes_what_was_left_open() -> None:
    answer = make_plan(BuildRequest(), MATRIX, HostGpus("570.26", ("NVIDIA H200",)))
    assert isinstance(answer, Plan)
    assert (answer.wheel, answer.driver) == ("2.14.1+cu126", "570.26")
    assert [coverage.compute_capability for coverage in answer.coverage] == ["9.0"]
    assert "570.26 with NVIDIA H200" in notes(answer)["host-considered"]


@pytest.mark.usefixtures("_x86")
def test_a_host_that_does_not_fit_is_left_out_with_a_warning() -> None:
    host = HostGpus("580.65.06", ("NVIDIA GeForce RTX 5090",))
    answer = make_plan(BuildRequest(torch="2.6"), MATRIX, host)
    assert isinstance(answer, Plan)
    assert (answer.wheel, answer.driver) == ("2.6.0+cu124", None)
    assert "will not run on this host" in notes(answer)["host-does-not-fit"]
    assert "12.0" in notes(answer)["host-does-not-fit"]


@pytest.mark.usefixtures("_x86")
def test_a_request_that_nothing_meets_does_not_blame_the_host() -> None:
    answer = make_plan(BuildRequest(torch="2.6", python="3.14"), MATRIX, HostGpus("580.65.06", ("NVIDIA H200",)))
    assert isinstance(answer, Refusal)
    assert {conflict.subject for conflict in answer.conflicts} == {"--torch", "--python"}


@pytest.mark.usefixtures("_x86")
@pytest.mark.parametrize(
    "request_",
    [
        BuildRequest(torch="2.6", driver="550.54.15"),
        BuildRequest(torch="2.6", cuda="cpu"),
        BuildRequest(torch="2.6", platform="linux/arm64", cuda="12.6"),
    ],
)
def test_the_host_is_no_matter_for_another_machine(request_: BuildRequest) -> None:
    assert make_plan(request_, MATRIX, HostGpus("470.256.02", ("Tesla V100-SXM2-16GB",))) == resolve(request_, MATRIX)


@pytest.mark.usefixtures("_x86")
def test_named_gpus_take_the_place_of_the_hosts() -> None:
    gpus = build_request(Typed(gpus=("T4",)), MATRIX).gpus
    answer = make_plan(BuildRequest(gpus=gpus), MATRIX, HostGpus("580.65.06", ("NVIDIA H200",)))
    assert isinstance(answer, Plan)
    assert [coverage.gpu for coverage in answer.coverage] == ["T4"]


def test_the_host_is_read_from_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    version = tmp_path / "version"
    version.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n")
    for number, model in enumerate(("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3")):
        (tmp_path / "gpus" / str(number)).mkdir(parents=True)
        (tmp_path / "gpus" / str(number) / "information").write_text(f"Model: \t\t {model}\nIRQ: 25\n")
    monkeypatch.setattr(use_case, "_DRIVER_FILE", str(version))
    monkeypatch.setattr(use_case, "_GPU_FOLDER", str(tmp_path / "gpus"))
    assert use_case.host_gpus() == HostGpus("550.54.15", ("NVIDIA H100 80GB HBM3",))
    version.write_text("no such module\n")
    assert use_case.host_gpus() == HostGpus()
    version.unlink()
    assert use_case.host_gpus() == HostGpus()


# -- on a terminal -----------------------------------------------------------------------------------------------------


def on_terminal(answer: Plan | Refusal, columns: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm-256color")
    reader, writer = pty.openpty()
    with os.fdopen(writer, "w", encoding="utf-8") as stream:
        print_answer(answer, stream)
        stream.flush()
        text = os.read(reader, 65536).decode()
    os.close(reader)
    return text.replace("\r\n", "\n")


@pytest.mark.skipif(sys.platform != "linux", reason="needs a pseudo-terminal")
def test_a_terminal_gets_colour_and_wrapped_lines_but_whole_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    gpus = build_request(Typed(gpus=("H100",)), MATRIX).gpus
    request = BuildRequest(torch="2.6", cuda="12.1", variant="devel", gpus=gpus, driver="535.104.05")
    coloured = on_terminal(resolve(request, MATRIX), 80, monkeypatch)
    assert "\x1b[" in coloured
    monkeypatch.setenv("NO_COLOR", "1")
    plain = on_terminal(resolve(request, MATRIX), 80, monkeypatch)
    assert not re.search(r"\x1b\[(\d+;)*3\d", plain), "bold is left, colour is not"
    lines = re.sub(r"\x1b\[[0-9;]*m", "", plain).splitlines()
    commands = [line for line in lines if line.lstrip().startswith("envsmith build")]
    assert commands[0].endswith("--driver 535.104.05")
    assert max(len(line) for line in lines if line not in commands) <= 80


def test_text_says_what_is_not_known() -> None:
    answer = resolve(BuildRequest(torch="2.9.0", cuda="12.9"), MATRIX)
    stream = io.StringIO()
    print_answer(answer, stream)
    assert "which GPUs the wheel has code for is not known" in stream.getvalue()
    assert "cuDNN not known, NCCL not known" in stream.getvalue()
