"""Packages, torch, toolkits and libraries of an environment made of files."""

from __future__ import annotations

import platform
import sys
import sysconfig
from pathlib import Path

import pytest

from envsmith.probe.libraries import library_facts, wheel_version
from envsmith.probe.loaded import loaded_libraries
from envsmith.probe.look import Look
from envsmith.probe.packages import package_facts
from envsmith.probe.python import python_facts
from envsmith.probe.toolkits import toolkit_facts
from envsmith.probe.torch import torch_facts
from envsmith.wire.facts import LibraryFacts, PackageFacts, ToolkitFacts
from tests.unit.probe.trees import executable, gaps, ld_cache, plant, recorded

SITE = "/opt/venv/lib/python3.11/site-packages"
SYSTEM_SITE = "/usr/lib/python3/dist-packages"
LIB = "/usr/lib/x86_64-linux-gnu"
TORCH = {
    f"{SITE}/torch/version.py": recorded("torch-2.6.0-cu124.version.py.txt"),
    f"{SITE}/torch-2.6.0.dist-info/METADATA": (
        "Name: torch\nRequires-Dist: filelock\n"
        'Requires-Dist: nvidia-cudnn-cu12==9.1.0.70; platform_system == "Linux"\n'
        'Requires-Dist: triton==3.2.0; platform_system == "Linux"\n\nlong text\n'
    ),
}
WHEELS = {
    f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9": "",
    f"{SITE}/nvidia/cudnn/lib/libcudnn_ops.so.9": "",
    f"{SITE}/nvidia/cuda_runtime/lib/libcudart.so.12": "",
    f"{SITE}/nvidia_cudnn_cu12-9.1.0.70.dist-info/METADATA": "",
    f"{SITE}/nvidia_cuda_runtime_cu12-12.4.127.dist-info/METADATA": "",
}


def test_packages_in_the_order_of_the_search_path(tmp_path: Path) -> None:
    files = {
        **TORCH,
        **WHEELS,
        f"{SITE}/requests-2.0.dist-info/METADATA": "",
        f"{SYSTEM_SITE}/numpy-1.21.5.egg-info/PKG-INFO": "",
        "/opt/venv/conda-meta/cudatoolkit-11.8.0-h4ba93d1_13.json": "{}",
        "/opt/venv/conda-meta/history": "",
    }
    found = package_facts(plant(tmp_path, files), ["", "/zip.pyz", SITE, SITE, SYSTEM_SITE], "/opt/venv")
    assert found == (
        PackageFacts("nvidia-cuda-runtime-cu12", "12.4.127", SITE),
        PackageFacts("nvidia-cudnn-cu12", "9.1.0.70", SITE),
        PackageFacts("torch", "2.6.0", SITE),
        PackageFacts("numpy", "1.21.5", SYSTEM_SITE),
        PackageFacts("cudatoolkit", "11.8.0", "/opt/venv/conda-meta"),
    )


def test_torch_by_its_files(tmp_path: Path) -> None:
    torch = torch_facts(plant(tmp_path, TORCH), [SYSTEM_SITE, SITE])
    assert torch is not None
    assert (torch.version, torch.wheel_cuda, torch.hip) == ("2.6.0+cu124", "12.4", None)
    assert torch.location == f"{SITE}/torch"
    assert [line.split("=")[0] for line in torch.requires] == ["nvidia-cudnn-cu12", "triton"]


def test_no_torch(tmp_path: Path) -> None:
    look = plant(tmp_path, {f"{SITE}/torch/readme": ""})
    assert torch_facts(look, [SITE]) is None
    assert look.gaps == []


@pytest.mark.parametrize("text", ["", "this is not python", "\x00", "__version__ = compute()\n"])
def test_a_version_file_that_says_nothing(tmp_path: Path, text: str) -> None:
    look = plant(tmp_path, {f"{SITE}/torch/version.py": text})
    torch = torch_facts(look, [SITE])
    assert torch is not None
    assert torch.wheel_cuda is None
    assert gaps(look) == {"torch.wheel_cuda": "failed"}


def test_two_cudnns(tmp_path: Path) -> None:
    """The wheel's, and an older one of the system that the loader's cache knows."""
    files = {**WHEELS, f"{LIB}/libcudnn.so.8.9.7": "", "/etc/ld.so.cache": ld_cache([("libcudnn.so.8", f"{LIB}/l.8")])}
    links = {f"{LIB}/libcudnn.so.8": "libcudnn.so.8.9.7"}
    files["/etc/ld.so.cache"] = ld_cache([("libcudnn.so.8", f"{LIB}/libcudnn.so.8"), ("libz.so.1", f"{LIB}/libz.so.1")])
    found = library_facts(plant(tmp_path, files, links), {}, [SITE], "/opt/venv")
    assert found == (
        LibraryFacts("cudart", f"{SITE}/nvidia/cuda_runtime/lib/libcudart.so.12", "12.4.127", "wheel"),
        LibraryFacts("cudnn", f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9", "9.1.0.70", "wheel"),
        LibraryFacts("cudnn", f"{LIB}/libcudnn.so.8.9.7", "8.9.7", "system"),
    )


def test_every_origin_and_each_file_once(tmp_path: Path) -> None:
    toolkit = "/usr/local/cuda-12.1"
    files = {
        f"{SITE}/torch/lib/libcudart-d0da41ae.so.11.0": "",
        "/data/libs/libnccl.so.2.18.3": "",
        "/opt/venv/conda-meta/history": "",
        "/opt/venv/lib/libcublas.so.11.11.3.6": "",
        f"{toolkit}/targets/x86_64-linux/lib/libnvrtc.so.12.1.105": "",
        f"{toolkit}/lib64/libcublasLt.so.12.1.3.1": "",
        "/etc/ld.so.cache": ld_cache([("libnvrtc.so.12", f"{toolkit}/targets/x86_64-linux/lib/libnvrtc.so.12.1.105")]),
    }
    links = {"/data/libs/libnccl.so.2": "libnccl.so.2.18.3", "/data/libs/libnccl.so": "libnccl.so.2"}
    found = library_facts(
        plant(tmp_path, files, links),
        {"LD_LIBRARY_PATH": "/data/libs/::relative"},
        [SITE],
        "/opt/venv",
        (ToolkitFacts(toolkit, "12.1", None),),
    )
    assert [(library.name, library.version, library.origin) for library in found or ()] == [
        ("cudart", "11.0", "wheel"),
        ("nccl", "2.18.3", "ld_library_path"),
        ("cublas", "11.11.3.6", "conda"),
        ("nvrtc", "12.1.105", "toolkit"),
        ("cublasLt", "12.1.3.1", "toolkit"),
    ]


def test_without_a_cache_the_default_folders_are_searched(tmp_path: Path) -> None:
    found = library_facts(plant(tmp_path, {f"{LIB}/libnccl.so.2.21.5": ""}), {}, [], "/usr")
    assert found == (LibraryFacts("nccl", f"{LIB}/libnccl.so.2.21.5", "2.21.5", "system"),)


def test_a_cache_entry_whose_file_is_gone_is_no_library(tmp_path: Path) -> None:
    cache = ld_cache([("libnccl.so.2", f"{LIB}/libnccl.so.2")])
    assert library_facts(plant(tmp_path, {"/etc/ld.so.cache": cache}), {}, [], "/usr") == ()


def test_wheels_of_cuda_13_carry_no_ending_and_share_a_folder(tmp_path: Path) -> None:
    files = {
        f"{SITE}/nvidia/cu13/lib/libcudart.so.13": "",
        f"{SITE}/nvidia_cuda_runtime-13.0.96.dist-info/METADATA": "",
    }
    found = library_facts(plant(tmp_path, files), {}, [SITE], "/opt/venv")
    assert found == (LibraryFacts("cudart", f"{SITE}/nvidia/cu13/lib/libcudart.so.13", "13.0.96", "wheel"),)


@pytest.mark.parametrize(
    ("versions", "named", "expected"),
    [
        ({"nvidia-nccl-cu12": "2.21.5"}, "2", "2.21.5"),
        # both packages write into one folder: whose file it is cannot be told
        ({"nvidia-nccl-cu12": "2.21.5", "nvidia-nccl-cu11": "2.20.5"}, "2", None),
        ({"nvidia-nccl-cu12": "2.21.5", "nvidia-nccl-cu11": "2.21.5"}, "2", "2.21.5"),
        ({"nvidia-cudnn-cu12": "9.1.0.70"}, "2", None),
        ({"nvidia-nccl-cu12": "3.0.0"}, "2", None),
    ],
)
def test_wheel_versions(versions: dict[str, str], named: str, expected: str | None) -> None:
    assert wheel_version(versions, "nccl", named) == expected


def test_loaded_libraries(tmp_path: Path) -> None:
    site = "/opt/venv/lib/python3.12/site-packages"
    files = {
        "/proc/self/maps": recorded("h200-after-convolution.maps.txt")
        + f"7f00-7f01 r-xp 00000000 fe:00 1 {LIB}/libcudnn_ops.so.9.14.0\n"
        + "7f00-7f01 r-xp 00000000 fe:00 1 /opt/conda/lib/libnccl.so.2.20.5\n"
        + "7f00-7f01 r-xp 00000000 fe:00 1 /usr/local/cuda-12.4/targets/x86_64-linux/lib/libnvrtc.so.12.4.127\n",
        f"{site}/nvidia_cudnn_cu13-9.19.0.56.dist-info/METADATA": "",
        f"{site}/nvidia_cublas-13.1.0.3.dist-info/METADATA": "",
        "/opt/conda/conda-meta/history": "",
    }
    found = loaded_libraries(plant(tmp_path, files))
    known = {(library.name, library.version, library.origin) for library in found}
    assert {
        ("cudnn", "9.19.0.56", "wheel"),
        ("cudnn_graph", "9.19.0.56", "wheel"),
        ("cublasLt", "13.1.0.3", "wheel"),
        ("nccl", "2", "wheel"),
        ("cudnn_ops", "9.14.0", "system"),
        ("nccl", "2.20.5", "conda"),
        ("nvrtc", "12.4.127", "toolkit"),
    } <= known


def test_loaded_libraries_of_this_process_are_none() -> None:
    assert loaded_libraries() == ()


def test_toolkits_by_their_version_files(tmp_path: Path) -> None:
    files = {
        "/usr/local/cuda-12.4/version.json": '{"cuda": {"name": "CUDA SDK", "version": "12.4.1"}}',
        "/usr/local/cuda-12.4/bin/nvcc": "",
        "/usr/local/cuda-10.2/version.txt": "CUDA Version 10.2.89\n",
        "/usr/local/cuda-10.2/lib64/libcudart.so.10.2.89": "",
        "/usr/local/cuda-11.8/targets/x86_64-linux/lib/libcudart.so.11.8.89": "",
        "/usr/local/cuda-13.0/compat/libcuda.so.580.95.05": "",  # cuda-compat alone is no toolkit
    }
    links = {"/usr/local/cuda": "/etc/alternatives/cuda", "/etc/alternatives/cuda": "/usr/local/cuda-12.4"}
    found = toolkit_facts(plant(tmp_path, files, links), {"CUDA_HOME": "/usr/local/cuda/"})
    assert found == (
        ToolkitFacts("/usr/local/cuda-12.4", "12.4.1", "/usr/local/cuda-12.4/bin/nvcc"),
        ToolkitFacts("/usr/local/cuda-10.2", "10.2.89", None),
        ToolkitFacts("/usr/local/cuda-11.8", "11.8", None),
    )


def test_a_toolkit_that_must_be_asked(tmp_path: Path) -> None:
    executable(tmp_path, "/usr/bin/nvcc", "echo 'Cuda compilation tools, release 11.5, V11.5.119'")
    assert toolkit_facts(Look(str(tmp_path)), {"PATH": "/usr/bin"}) == (ToolkitFacts("/usr", "11.5", "/usr/bin/nvcc"),)


@pytest.mark.parametrize(
    ("script", "reason"),
    [("sleep 60", "timeout"), ("exec yes", "failed"), ("exit 3", "failed"), ("sleep 60 & exec yes", "failed")],
)
def test_an_nvcc_that_misbehaves(tmp_path: Path, script: str, reason: str) -> None:
    executable(tmp_path, "/usr/local/cuda-12.4/bin/nvcc", script)
    look = Look(str(tmp_path))
    (toolkit,) = toolkit_facts(look, {}, limit_s=0.5) or ()
    assert toolkit.toolkit_cuda == "12.4"  # the folder's name is left
    assert gaps(look) == {"toolkits.toolkit_cuda": reason}


def test_this_interpreter() -> None:
    facts = python_facts(Look())
    assert facts is not None
    assert facts.version == platform.python_version()
    assert facts.implementation == "cpython"
    assert facts.prefix == sys.prefix
    assert facts.environment == ("system" if sys.prefix == sys.base_prefix else "venv")
    assert facts.free_threaded == bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
