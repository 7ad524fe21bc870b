"""Numbers of libraries, pins of metadata, and when versions agree. Figures: the libraries' own headers."""

from __future__ import annotations

import re

import pytest

from envsmith.validator import cuda_libraries, mapped, pins, versions
from envsmith.validator.checks import cuda_libraries as check
from envsmith.validator.checks import torch_matches
from envsmith.wire.results import Expectation


def test_version_numbers() -> None:
    assert [versions.cudnn_version(n) for n in (8500, 8902, 90100, 91900)] == ["8.5.0", "8.9.2", "9.1.0", "9.19.0"]
    assert [versions.nccl_version(n) for n in (2708, 21403, 22105, 22809)] == ["2.7.8", "2.14.3", "2.21.5", "2.28.9"]
    assert [versions.cuda_version(n) for n in (11070, 12040, 13000)] == ["11.7", "12.4", "13.0"]


def test_the_release_of_a_torch() -> None:
    told = [versions.release(text) for text in ("2.1.2+cu121", "2.10.0", "2.5.0a0+872d972e41.nv24.08", "unknown")]
    assert told == [(2, 1), (2, 10), (2, 5), (0, 0)]


def test_a_library_of_a_version_that_cannot_be_asked_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    # libnvJitLink of CUDA 12.1, to which torch 2.1 came: nvJitLinkVersion is not there
    monkeypatch.setattr(cuda_libraries, "load", lambda _: object())
    libraries = {library.name: library for library in cuda_libraries.LIBRARIES}
    assert cuda_libraries.version_of(libraries["nvJitLink"], "libnvJitLink.so.12") == ""
    with pytest.raises(cuda_libraries.LibraryError, match="no whole nvrtc"):
        cuda_libraries.version_of(libraries["nvrtc"], "libnvrtc.so.12")


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("9.1.0", "9.1.0.70", True),
        ("12.4", "12.4.127", True),
        ("12.4", "12.40", False),
        ("2.21.5", "2.21.50", False),
        ("12.4", "12.6.1", False),
        ("", "12.4", False),
        ("9.01", "9.1", True),
    ],
)
def test_agreement(a: str, b: str, same: bool) -> None:
    assert versions.agree(a, b) is same
    assert versions.agree(b, a) is same


def test_capabilities_of_build_flags() -> None:
    flags = ["sm_50", "sm_90", "sm_90a", "sm_103", "sm_120", "compute_120", "gfx942", ""]
    assert [versions.capability(flag) for flag in flags] == ["5.0", "9.0", "9.0", "10.3", "12.0", None, None, None]


TORCH_2_6 = [
    "filelock",
    "sympy==1.13.1; python_version >= '3.9'",
    'nvidia-cuda-nvrtc-cu12==12.4.127; platform_system == "Linux" and platform_machine == "x86_64"',
    'nvidia-cudnn-cu12 (==9.1.0.70) ; platform_system == "Linux"',
    'nvidia-nccl-cu12==2.21.5; platform_system == "Linux"',
    'opt-einsum>=3.3; extra == "opt-einsum"',
]
TORCH_2_11 = [
    'cuda-toolkit[cublas,cudart,nvrtc]==13.0.2; platform_system == "Linux"',
    'nvidia-cudnn-cu13==9.19.0.56; platform_system == "Linux"',
    "cuda-bindings<14,>=13.0.3",
]
TOOLKIT = [
    'nvidia-cublas==13.1.0.3.*; extra == "cublas"',
    'nvidia-cublas==13.1.0.3; extra == "cublas"',
    'nvidia-cuda-runtime==13.0.96; extra == "cudart"',
    'nvidia-cufft==12.0.0.61; extra == "cufft"',
]


def test_a_pin_with_a_wildcard_is_met_by_what_pip_installs_for_it() -> None:
    # cuda-toolkit 13.0.2 pins "nvidia-cublas==13.1.0.3.*", and 13.1.0.3 is what gets installed
    assert pins.meets("13.1.0.3", "13.1.0.3.*")
    assert pins.meets("13.1.0.3.1", "13.1.0.3.*")
    assert not pins.meets("13.1.0.30", "13.1.0.3.*")
    assert not pins.meets("13.1.0", "13.1.0.3.*")
    assert not pins.meets(None, "13.1.0.3.*")
    assert pins.meets("9.1.0.70", "9.1.0.70")
    assert not pins.meets("9.1.0.7", "9.1.0.70")


def test_pins_of_metadata() -> None:
    assert pins.read_pins(TORCH_2_6) == {
        "nvidia-cuda-nvrtc-cu12": "12.4.127",
        "nvidia-cudnn-cu12": "9.1.0.70",
        "nvidia-nccl-cu12": "2.21.5",
    }
    assert pins.read_pins(TORCH_2_11) == {"nvidia-cudnn-cu13": "9.19.0.56"}
    extras = pins.metapackage_extras(TORCH_2_11)
    assert extras == {"cublas", "cudart", "nvrtc"}
    assert pins.read_pins(TOOLKIT, extras) == {"nvidia-cublas": "13.1.0.3", "nvidia-cuda-runtime": "13.0.96"}
    assert pins.metapackage_extras(TORCH_2_6) == frozenset()


def test_stems() -> None:
    names = ("nvidia-cublas-cu12", "nvidia_cudnn_cu13", "nvidia-cublas")
    assert [pins.stem(name) for name in names] == ["nvidia-cublas", "nvidia-cudnn", "nvidia-cublas"]


SEEN = {
    "torch": "2.6.0+cu124",
    "wheel_cuda": "12.4",
    "cudnn": "9.1.0",
    "nccl": "2.21.5",
    "compute_capabilities": "8.0 9.0",
}
EXPECTED = Expectation("2.6.0+cu124", "12.4", "9.1.0", "2.21.5", ("9.0", "8.0"), "plan")


def test_what_was_promised_and_is_there() -> None:
    assert torch_matches.against_expectation(SEEN, EXPECTED) == []
    assert torch_matches.against_expectation(SEEN, Expectation()) == []
    assert torch_matches.against_expectation(SEEN, Expectation(wheel="2.6.0")) == []


@pytest.mark.parametrize(
    ("fact", "value", "words"),
    [
        ("torch", "2.5.1+cu124", "torch is 2.5.1+cu124, by the plan 2.6.0+cu124"),
        ("torch", "2.6.0+cu126", "torch is 2.6.0+cu126, by the plan 2.6.0+cu124"),
        ("wheel_cuda", "", "the wheel's CUDA is none, by the plan 12.4"),
        ("cudnn", None, "the loaded cudnn is none, by the plan 9.1.0"),
        ("nccl", "2.20.5", "the loaded nccl is 2.20.5, by the plan 2.21.5"),
        ("compute_capabilities", "8.0", "the wheel has machine code for 8.0, by the plan for 8.0, 9.0"),
        ("compute_capabilities", None, "the wheel has machine code for no GPU, by the plan for 8.0, 9.0"),
    ],
)
def test_each_difference_is_told(fact: str, value: str | None, words: str) -> None:
    assert torch_matches.against_expectation({**SEEN, fact: value}, EXPECTED) == [words]


def test_the_loaded_cudnn_is_held_against_the_pin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_matches, "_stated_version", lambda: "2.6.0")
    torch_pins = pins.read_pins(TORCH_2_6)
    assert torch_matches.against_metadata(SEEN, torch_pins) == []
    assert torch_matches.against_metadata({**SEEN, "cudnn": "9.5.1"}, torch_pins) == [
        "the loaded cudnn is 9.5.1, torch pins nvidia-cudnn-cu12==9.1.0.70"
    ]
    monkeypatch.setattr(torch_matches, "_stated_version", lambda: "2.6.1")
    assert torch_matches.against_metadata(SEEN, torch_pins) == ["torch says 2.6.0+cu124, its metadata 2.6.1"]


def test_pinned_packages_must_be_there_in_that_version(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = {"nvidia-cuda-nvrtc-cu12": "12.4.127", "nvidia-cudnn-cu12": "9.5.1.17"}
    monkeypatch.setattr(torch_matches, "installed_version", installed.get)
    assert torch_matches.against_pins(pins.read_pins(TORCH_2_6)) == [
        "torch pins nvidia-cudnn-cu12==9.1.0.70, installed is 9.5.1.17",
        "torch pins nvidia-nccl-cu12==2.21.5, installed is none",
    ]


def library(name: str) -> cuda_libraries.Library:
    return next(entry for entry in cuda_libraries.LIBRARIES if entry.name == name)


def test_file_names_of_libraries() -> None:
    assert library("cudart").pattern().match("libcudart-d0da41ae.so.11.0")
    assert library("cublas").pattern().match("libcublas.so.12")
    assert not library("cublas").pattern().match("libcublasLt.so.12")
    assert not library("nvrtc").pattern().match("libnvrtc-builtins.so.12.4")
    assert not library("cudnn").pattern().match("libcudnn_cnn.so.9")


def test_the_copy_in_use_comes_first_and_links_count_once(tmp_path) -> None:  # type: ignore[no-untyped-def]
    used, shipped = tmp_path / "used" / "libnccl.so.2", tmp_path / "libnccl.so.2"
    used.parent.mkdir()
    used.touch()
    shipped.touch()
    link = tmp_path / "libnccl.so.2.0"
    link.symlink_to(shipped)
    found = cuda_libraries.copies(library("nccl"), [str(used), str(shipped), str(link), "/lib/libc.so.6"])
    assert found == (str(used), str(shipped))


@pytest.mark.parametrize(
    ("name", "version", "package", "wrong"),
    [
        ("cublas", "12.4.5", "12.4.5.8", False),
        ("cublas", "12.6.4", "12.4.5.8", True),
        ("cublas", "12.6.4", None, False),
        ("cudnn", "9.1.0", "9.1.0.70", False),
        ("cudnn", "9.1.1", "9.1.0.70", True),
        ("curand", "10.3.6", "10.3.5.147", False),
        ("curand", "10.2.5", "10.3.5.147", True),
        ("cudart", "12.8", None, False),
        ("cudart", "11.8", None, True),
    ],
)
def test_disagreements(name: str, version: str, package: str | None, wrong: bool) -> None:
    assert bool(check.disagreements(library(name), version, "/x", package, "12.4")) is wrong


def test_mapped_files() -> None:
    maps = (
        "7f00-7f01 r-xp 00000000 08:01 1 /opt/a folder/libcudnn.so.9\n"
        "7f01-7f02 r--p 00000000 08:01 1 /opt/a folder/libcudnn.so.9\n"
        "7f02-7f03 rw-p 00000000 00:00 0 \n7f03-7f04 rw-p 00000000 00:00 0 [heap]\n"
        "7f04-7f05 r-xp 00000000 08:01 2 /lib/libcudnn_cnn.so.9\n"
    )
    assert mapped.mapped_files(maps) == ("/opt/a folder/libcudnn.so.9", "/lib/libcudnn_cnn.so.9")
    assert mapped.mapped_libraries("libcudnn_", maps) == ("/lib/libcudnn_cnn.so.9",)
    assert any(re.search(r"python|libc", path) for path in mapped.mapped_files())
