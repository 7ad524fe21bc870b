"""The parsers on recorded text, and on anything at all: they never raise."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsmith.probe.parse import cgroup, libraries, metadata, proc, toolkit, torch_arch
from envsmith.probe.parse.ld_cache import cached_libraries
from envsmith.probe.parse.os_release import os_release
from envsmith.probe.parse.torch_version import torch_version
from tests.unit.probe.trees import ld_cache, recorded

TEXT_PARSERS = [
    cgroup.cpu_max_cores,
    cgroup.memory_limit_bytes,
    cgroup.own_groups,
    libraries.cuda_library,
    libraries.cudnn_part,
    libraries.driver_version,
    libraries.is_drivers_own,
    metadata.canonical,
    metadata.conda_record,
    metadata.dist_info,
    metadata.requirements,
    os_release,
    proc.kernel_module,
    proc.mapped_files,
    proc.memory_total_bytes,
    proc.mounts,
    toolkit.container_toolkit_version,
    toolkit.folder_version,
    toolkit.nvcc_release,
    toolkit.version_json,
    toolkit.version_txt,
    torch_arch.architectures,
    torch_version,
]
# text with the words that parsers look for, so that hypothesis gets past their first line
WORDS = st.sampled_from(
    ["ID=", '"', "'", "\\", "0::/", "1:cpu,cpuacct:/a", " - ", " ", "\n", "MemTotal: 9 kB", "Kernel Module  1.2", "/x",
     "{", '{"cuda":', "[" * 200, "CUDA Version 1.2", "release 1.2", "Requires-Dist: a", "-", ".dist-info", "a = None",
     "\x00", "\ud800", "\u0663", "max", "100000", "9" * 30, "1 2 3 4 5 /lib/x (deleted)", "sm_90", "\\040"]
)  # fmt: skip
ANY_TEXT = st.one_of(st.text(), st.lists(WORDS, max_size=12).map("".join))


@pytest.mark.parametrize("parser", TEXT_PARSERS, ids=lambda parser: parser.__name__)
@given(text=ANY_TEXT)
def test_a_parser_takes_any_text(parser, text: str) -> None:
    parser(text)


@given(quota=ANY_TEXT, period=ANY_TEXT)
def test_quota_takes_any_text(quota: str, period: str) -> None:
    cores = cgroup.quota_cores(quota, period)
    assert cores is None or cores >= 0


@given(data=st.binary(max_size=300), tail=st.binary(max_size=300), count=st.integers(0, 2**32 - 1))
def test_the_cache_parser_takes_any_bytes(data: bytes, tail: bytes, count: int) -> None:
    for text in (data, data + b"glibc-ld.so.cache1.1" + count.to_bytes(4, "little") + tail):
        for soname, path in cached_libraries(text):
            assert soname
            assert path.startswith("/")


@given(cut=st.integers(0, 200), flip=st.integers(0, 199), byte=st.integers(0, 255))
def test_a_damaged_cache_is_no_disaster(cut: int, flip: int, byte: int) -> None:
    data = bytearray(ld_cache([("libcuda.so.1", "/usr/lib/libcuda.so.1"), ("libnccl.so.2", "/usr/lib/libnccl.so.2")]))
    data[flip % len(data)] = byte
    cached_libraries(bytes(data[: max(cut, 1)]))
    cached_libraries(bytes(data))


def test_the_cache_is_read_in_order_and_behind_an_older_format() -> None:
    entries = [("libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1"), ("libcuda.so.1", "/lib/libcuda.so.1")]
    assert cached_libraries(ld_cache(entries)) == tuple(entries)
    assert cached_libraries(ld_cache(entries, before=b"ld.so-1.7.0\0\0\0\0\0")) == tuple(entries)
    assert cached_libraries(b"") == ()


def test_the_cache_of_this_machine_says_what_ldconfig_says() -> None:
    command = shutil.which("ldconfig") or shutil.which("ldconfig", path="/sbin:/usr/sbin")
    cache = Path("/etc/ld.so.cache")
    if command is None or not cache.is_file():
        pytest.skip("no glibc loader cache here")
    printed = subprocess.run([command, "-p"], capture_output=True, text=True, check=True).stdout
    expected = [(line.split(" (")[0].strip(), line.split(" => ")[1]) for line in printed.splitlines() if " => " in line]
    assert list(cached_libraries(cache.read_bytes())) == expected


def test_os_release_resolves_quotes_and_escapes() -> None:
    text = '# comment\nID=debian\nPRETTY_NAME="A \\"quoted\\" \\$name"\nNAME=\'single\'\nno assignment\nVERSION_ID=\n'
    assert os_release(text) == {
        "ID": "debian",
        "PRETTY_NAME": 'A "quoted" $name',
        "NAME": "single",
        "VERSION_ID": "",
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nvidia-open-580.159.04.proc-version.txt", ("580.159.04", "open")),
        ("nvidia-proprietary-550.54.15.proc-version.txt", ("550.54.15", "proprietary")),
    ],
)
def test_kernel_module(name: str, expected: tuple[str, str]) -> None:
    assert proc.kernel_module(recorded(name)) == expected


def test_kernel_module_of_something_else() -> None:
    assert proc.kernel_module("GCC version: 12.3.0\n") == (None, None)


def test_mounts_with_optional_fields_and_escapes() -> None:
    found = proc.mounts("74 48 0:39 / /a\\040b rw shared:1 master:2 - overlay over rw,x=1\nnonsense\n")
    assert found == (proc.Mount("/", "/a b", "overlay", "over", "rw,x=1"),)


def test_mounts_of_a_container() -> None:
    found = proc.mounts(recorded("docker-cgroup-v1.mountinfo.txt"))
    assert found[0].point == "/"
    assert "/var/lib/docker/overlay2/" in found[0].options
    assert [mount.point for mount in found if mount.filesystem == "cgroup" and mount.options == "rw,memory"] == [
        "/sys/fs/cgroup/memory"
    ]


def test_mapped_files_after_a_convolution() -> None:
    found = proc.mapped_files(recorded("h200-after-convolution.maps.txt"))
    assert "/opt/venv/lib/python3.12/site-packages/nvidia/cudnn/lib/libcudnn.so.9" in found
    assert len(found) == len(set(found))
    assert "[heap]" not in found


def test_mapped_files_of_an_upgraded_driver_lose_their_mark() -> None:
    line = "7f00-7f01 r-xp 00000000 fe:00 1   /usr/lib/x/libcuda.so.535.54.03 (deleted)\n"
    assert proc.mapped_files(line) == ("/usr/lib/x/libcuda.so.535.54.03",)


def test_cgroup_limits() -> None:
    assert cgroup.memory_limit_bytes("536870912\n") == 536870912
    assert cgroup.memory_limit_bytes("max\n") is None
    assert cgroup.memory_limit_bytes("9223372036854771712\n") is None  # version 1 without a limit
    assert cgroup.cpu_max_cores("150000 100000\n") == 1.5
    assert cgroup.cpu_max_cores("max 100000\n") is None
    assert cgroup.quota_cores("-1\n", "100000\n") is None
    assert cgroup.quota_cores("100000", "0") is None


def test_own_groups_of_both_versions() -> None:
    groups = cgroup.own_groups(recorded("docker-cgroup-v1.cgroup.txt"))
    assert groups["memory"].startswith("/docker/")
    assert groups["cpu"] == groups[""]
    assert cgroup.own_groups("3:cpu,cpuacct:/a:b\n0::/c\n") == {"cpu": "/a:b", "cpuacct": "/a:b", "": "/c"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("libcudart.so.12.4.127", ("cudart", "12.4.127")),
        ("libcudart-d0da41ae.so.11.0", ("cudart", "11.0")),
        ("libcublasLt.so.12", ("cublasLt", "12")),
        ("libcublas.so.12", ("cublas", "12")),
        ("libcudnn.so.9", ("cudnn", "9")),
        ("libnccl.so.2.21.5", ("nccl", "2.21.5")),
        ("libnvrtc.so", ("nvrtc", None)),
        ("libnvJitLink.so.12", ("nvJitLink", "12")),
        ("libnvrtc-builtins.so.12.4", None),
        ("libcudnn_ops.so.9", None),
        ("libcudart_static.a", None),
        ("libcusparseLt.so.0", None),
        ("libnccl.so.2.21.5.bak", None),
        ("xlibnccl.so.2", None),
    ],
)
def test_library_names(name: str, expected: tuple[str, str | None] | None) -> None:
    assert libraries.cuda_library(name) == expected


def test_parts_of_cudnn() -> None:
    assert libraries.cudnn_part("libcudnn_engines_precompiled.so.9.1.0") == ("cudnn_engines_precompiled", "9.1.0")
    assert libraries.cudnn_part("libcudnn.so.9") is None


@pytest.mark.parametrize(
    ("path", "version"),
    [
        ("/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04", "580.159.04"),
        ("/usr/lib/x86_64-linux-gnu/libcuda.so.1", None),
        ("/usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1.1", None),
        ("/a.so.550.54/b", None),
    ],
)
def test_driver_version_in_a_path(path: str, version: str | None) -> None:
    assert libraries.driver_version(path) == version


def test_toolkit_versions() -> None:
    assert toolkit.version_json('{"cuda": {"name": "CUDA SDK", "version": "12.4.1"}}') == "12.4.1"
    assert toolkit.version_json('{"cuda": {"version": 12}}') is None
    assert toolkit.version_json("[1]") is None
    assert toolkit.version_txt("CUDA Version 10.2.89\n") == "10.2.89"
    assert toolkit.nvcc_release(recorded("nvcc-13.0.txt")) == "13.0"
    assert toolkit.folder_version("/usr/local/cuda-12.4/") == "12.4"
    assert toolkit.folder_version("/usr/local/cuda") is None


def test_container_toolkit_version() -> None:
    assert toolkit.container_toolkit_version("NVIDIA Container Toolkit CLI version 1.17.8\ncommit: abc\n") == "1.17.8"
    assert toolkit.container_toolkit_version("version 1.18.0-rc.2") == "1.18.0-rc.2"
    assert toolkit.container_toolkit_version("command not found") is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nvidia_cublas_cu12-12.4.5.8.dist-info", ("nvidia-cublas-cu12", "12.4.5.8")),
        ("torch-2.6.0+cu124.dist-info", ("torch", "2.6.0+cu124")),
        ("PyYAML-6.0-py3.10.egg-info", ("pyyaml", "6.0")),
        ("zope.interface-5.0.dist-info", ("zope-interface", "5.0")),
        ("torch.dist-info", None),
        ("torch", None),
        ("-1.dist-info", None),
    ],
)
def test_dist_info(name: str, expected: tuple[str, str] | None) -> None:
    assert metadata.dist_info(name) == expected


def test_conda_record() -> None:
    name = "pytorch-2.3.0-py3.11_cuda12.1_cudnn8.9.2_0.json"
    assert metadata.conda_record(name) == ("pytorch", "2.3.0")
    assert metadata.conda_record("cuda-cudart-12.1.105-0.json") == ("cuda-cudart", "12.1.105")
    assert metadata.conda_record("history") is None


def test_requirements_stop_at_the_description() -> None:
    text = "Name: torch\nRequires-Dist: filelock\nrequires-dist: triton==3.2.0\n\nRequires-Dist: not-one\n"
    assert metadata.requirements(text) == ("filelock", "triton==3.2.0")


def test_torch_version() -> None:
    cuda = torch_version(recorded("torch-2.6.0-cu124.version.py.txt"))
    assert (cuda["__version__"], cuda["cuda"], cuda["hip"]) == ("2.6.0+cu124", "12.4", None)
    cpu = torch_version(recorded("torch-2.13.0-cpu.version.py.txt"))
    assert (cpu["__version__"], cpu["cuda"]) == ("2.13.0+cpu", None)
    assert torch_version("__version__ = '1.4.0'\ncuda = '10.1'\n") == {"__version__": "1.4.0", "cuda": "10.1"}


def test_torch_version_is_not_executed() -> None:
    assert torch_version("__version__ = '1'\nraise SystemExit\ncuda = open('/etc/passwd').read()\n") == {
        "__version__": "1"
    }
    assert torch_version("not python at all !!") == {}


def test_architectures() -> None:
    assert torch_arch.architectures("sm_50 sm_90 sm_100a sm_120 compute_120 junk") == (
        ("5.0", "9.0", "10.0a", "12.0"),
        ("12.0",),
    )


@pytest.mark.parametrize(("number", "text"), [(90100, "9.1.0"), (91900, "9.19.0"), (8902, "8.9.2"), (0, None)])
def test_cudnn_version(number: int, text: str | None) -> None:
    assert torch_arch.cudnn_version(number) == text


@pytest.mark.parametrize(("number", "text"), [(22105, "2.21.5"), (2708, "2.7.8"), (-1, None)])
def test_nccl_version(number: int, text: str | None) -> None:
    assert torch_arch.nccl_version(number) == text
