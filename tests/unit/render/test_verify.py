"""verify.py, the program that a build runs in its image, with an invented torch."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from envsmith.render import verify

EXPECTED: dict[str, object] = {
    "python": "{}.{}".format(*sys.version_info[:2]),
    "torch": "2.6.0+cu124",
    "cuda": "12.4",
    "cudnn": "9.1.0.70",
    "nccl": "2.21.5",
    "triton": "3.2.0",
    "compute_capabilities": ["8.0", "9.0"],
    "companions": {"torchvision": "0.21.0+cu124"},
}


def module(name: str, **attributes: object) -> ModuleType:
    made = ModuleType(name)
    made.__dict__.update(attributes)
    return made


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A torch 2.6.0+cu124 as it is without a GPU, with triton and torchvision beside it."""
    made = module(
        "torch",
        __version__="2.6.0+cu124",
        version=SimpleNamespace(cuda="12.4"),
        backends=SimpleNamespace(cudnn=SimpleNamespace(version=lambda: 90100)),
        cuda=SimpleNamespace(nccl=SimpleNamespace(version=lambda: (2, 21, 5))),
        _C=SimpleNamespace(_cuda_getArchFlags=lambda: "sm_50 sm_80 sm_86 sm_90 compute_90"),
    )
    monkeypatch.setitem(sys.modules, "torch", made)
    monkeypatch.setitem(sys.modules, "triton", module("triton", __version__="3.2.0"))
    monkeypatch.setitem(sys.modules, "torchvision", module("torchvision", __version__="0.21.0+cu124"))
    return made


def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], **changes: object) -> tuple[int, list[str]]:
    path = tmp_path / "expect.json"
    path.write_text(json.dumps({**EXPECTED, **changes}), encoding="utf-8")
    status = verify.main(str(path))
    printed = capsys.readouterr()
    assert printed.out == ""
    return status, printed.err.splitlines()


def test_what_was_planned_passes(torch: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, capsys) == (
        0,
        ["envsmith-verify: torch 2.6.0+cu124, CUDA 12.4, cuDNN 9.1.0, NCCL 2.21.5: as planned"],
    )


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("torch", "2.6.0+cu126", "torch: expected 2.6.0+cu126, found 2.6.0+cu124"),
        ("torch", "2.5.1+cu124", "torch: expected 2.5.1+cu124, found 2.6.0+cu124"),
        ("cuda", "12.1", "cuda: expected 12.1, found 12.4"),
        ("cudnn", "9.1.1.17", "cudnn: expected 9.1.1.17, found 9.1.0"),
        ("nccl", "2.21", None),
        ("nccl", "2.20.5", "nccl: expected 2.20.5, found 2.21.5"),
        ("triton", "3.2.1", None),
        ("triton", "3.1.0", "triton: expected 3.1.0, found 3.2.0"),
        ("python", "2.7", "python: expected 2.7, found {}.{}".format(*sys.version_info[:2])),
        (
            "compute_capabilities",
            ["8.0", "12.0"],
            "compute_capabilities: expected 8.0 12.0, found 5.0 8.0 8.6 9.0",
        ),
        ("companions", {"torchvision": "0.20.0"}, "torchvision: expected 0.20.0, found 0.21.0+cu124"),
    ],
)
def test_a_difference_is_told(
    torch: ModuleType,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    value: object,
    line: str | None,
) -> None:
    status, lines = run(tmp_path, capsys, **{name: value})
    if line is None:
        assert status == 0
    else:
        assert (status, lines) == (1, [f"envsmith-verify: {line}"])


def test_a_build_without_nccl_is_told(torch: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.cuda = SimpleNamespace(nccl=SimpleNamespace())
    assert run(tmp_path, capsys) == (1, ["envsmith-verify: nccl: expected 2.21.5, found None"])


def test_all_differences_are_told_at_once(
    torch: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, lines = run(tmp_path, capsys, cuda="11.8", nccl="2.0.0")
    assert (status, len(lines)) == (1, 2)


def test_what_is_not_known_is_not_asserted(
    torch: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unknown = dict.fromkeys(("cudnn", "nccl", "triton"))
    assert run(tmp_path, capsys, **unknown, companions={}, compute_capabilities=[])[0] == 0


def test_a_cpu_build_in_place_of_a_cuda_one_is_told(
    torch: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.__version__, torch.version = "2.6.0", SimpleNamespace(cuda=None)
    status, lines = run(tmp_path, capsys)
    assert status == 1
    assert "envsmith-verify: cuda: expected 12.4, found None" in lines


def test_a_module_that_does_not_import_is_a_difference(
    torch: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    status, lines = run(tmp_path, capsys)
    assert status == 1
    assert lines[0].startswith("envsmith-verify: triton: expected 3.2.0, found ModuleNotFoundError")


@pytest.mark.parametrize(
    ("number", "version"), [(8902, "8.9.2"), (8500, "8.5.0"), (90100, "9.1.0"), (91002, "9.10.2"), (None, None)]
)
def test_cudnn_numbers(number: int | None, version: str | None) -> None:
    assert verify.cudnn_version(number) == version


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("sm_50 sm_75 compute_75", ["5.0", "7.5"]),
        ("sm_90a sm_100 sm_120a", ["9.0a", "10.0", "12.0a"]),
        ("", []),
        (None, []),
    ],
)
def test_architecture_flags(flags: str | None, expected: list[str]) -> None:
    assert verify.capabilities(flags) == expected
