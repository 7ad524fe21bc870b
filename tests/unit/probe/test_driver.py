"""The driver: kernel module, libraries, the libcuda that is taken and those that are not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from envsmith.probe.driver import driver_facts
from envsmith.probe.driver_answers import DriverAnswers
from envsmith.probe.gpus import gpu_facts
from envsmith.probe.libcuda import classify, other_copies
from envsmith.wire.facts import GpuFacts, LibcudaFacts
from tests.unit.probe.trees import BARE_HOST, MIB, gaps, ld_cache, plant, recorded

LIB = "/usr/lib/x86_64-linux-gnu"
DRIVER = f"{LIB}/libcuda.so.580.159.04"
COMPAT = "/usr/local/cuda-13.0/compat/libcuda.so.580.95.05"
STUB = "/usr/local/cuda-13.0/lib64/stubs/libcuda.so"
NO_SUCH = "libcuda.so.1: cannot open shared object file: No such file or directory"
NO_NVML = "libnvidia-ml.so.1: cannot open shared object file: No such file or directory"
NO_DRIVER = DriverAnswers(libcuda_error=NO_SUCH, nvml_error=NO_NVML, nvml_absent=True)
H200 = GpuFacts(0, "NVIDIA H200", "GPU-x", "9.0", 1, 0, False, False, True, 0, 0, "nvml")
GOOD = DriverAnswers(
    libcuda_path=DRIVER,
    libcuda_code=0,
    libcuda_cuda_version="13.0",
    nvml_path=f"{LIB}/libnvidia-ml.so.580.159.04",
    nvml_driver_version="580.159.04",
    nvml_cuda_version="13.0",
    gpus=(H200,),
    is_list_complete=True,
)
MODULE = {"/proc/driver/nvidia/version": recorded("nvidia-open-580.159.04.proc-version.txt")}


def test_a_good_machine(tmp_path: Path) -> None:
    look = plant(tmp_path, {**BARE_HOST, **MODULE}, sizes={DRIVER: 90 * MIB})
    driver = driver_facts(look, {}, GOOD)
    assert driver is not None
    assert (driver.kernel_module_version, driver.kernel_module_flavour) == ("580.159.04", "open")
    assert (driver.library_version, driver.driver_cuda) == ("580.159.04", "13.0")
    assert driver.libcuda == LibcudaFacts(DRIVER, "580.159.04", "driver")
    assert gpu_facts(look, GOOD) == (H200,)
    assert look.gaps == []


def test_a_machine_without_a_driver(tmp_path: Path) -> None:
    look = plant(tmp_path, BARE_HOST)
    assert driver_facts(look, {}, NO_DRIVER) is None
    assert gpu_facts(look, NO_DRIVER) is None
    assert gaps(look) == {"gpus": "absent"}


def test_a_container_that_was_started_without_its_gpu(tmp_path: Path) -> None:
    """The host's kernel module shows through /proc, and none of the driver's libraries is there."""
    look = plant(tmp_path, {**BARE_HOST, **MODULE, "/.dockerenv": ""})
    driver = driver_facts(look, {}, NO_DRIVER)
    assert driver is not None
    assert driver.kernel_module_version == "580.159.04"
    assert (driver.libcuda, driver.library_version, driver.driver_cuda) == (None, None, None)


def test_compat_is_taken(tmp_path: Path) -> None:
    look = plant(tmp_path, {**BARE_HOST, **MODULE}, sizes={DRIVER: 90 * MIB, COMPAT: 90 * MIB, STUB: 70368})
    answers = replace(GOOD, libcuda_path=COMPAT, cuda_error="803 CUDA_ERROR_SYSTEM_DRIVER_MISMATCH")
    driver = driver_facts(look, {}, answers)
    assert driver is not None
    assert driver.libcuda == LibcudaFacts(COMPAT, "580.95.05", "compat")
    assert driver.library_version == "580.159.04"  # compat's libcuda is not one of the driver's libraries
    assert driver.cuda_error == "803 CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"
    assert {copy.origin for copy in driver.other_libcudas} == {"stub"}


def test_a_stub_is_taken(tmp_path: Path) -> None:
    look = plant(tmp_path, {**BARE_HOST, **MODULE}, sizes={STUB: 70368})
    answers = replace(GOOD, libcuda_path=STUB, libcuda_code=34, libcuda_cuda_version=None)
    driver = driver_facts(look, {}, answers)
    assert driver is not None
    assert driver.libcuda is not None
    assert driver.libcuda.origin == "stub"
    assert driver.driver_cuda == "13.0"  # NVML's word is left


@pytest.mark.parametrize(
    ("path", "size", "code", "origin"),
    [
        (DRIVER, 90 * MIB, 0, "driver"),
        (DRIVER, 0, None, "unknown"),  # committed from a GPU container: an empty file
        (f"{LIB}/libcuda.so.1", 90 * MIB, 0, "unknown"),  # no version in its name
        ("/opt/libs/libcuda.so.1", 160_000, None, "stub"),  # a copy of a stub
        ("/opt/libs/libcuda.so.1", 90 * MIB, 34, "stub"),
        ("/opt/conda/cuda-compat/libcuda.so.550.54.15", 90 * MIB, 0, "compat"),
        ("/usr/lib/wsl/lib/libcuda.so.1", 160_000, 0, "driver"),
        ("/usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1.1", 20 * MIB, 0, "driver"),
        ("/srv/stubs-of-mine/libcuda.so.580.159.04", 90 * MIB, 0, "driver"),
    ],
)
def test_origins(tmp_path: Path, path: str, size: int, code: int | None, origin: str) -> None:
    assert classify(plant(tmp_path, {}, sizes={path: size}), path, code).origin == origin


def test_links_are_followed_to_the_file(tmp_path: Path) -> None:
    links = {"/usr/local/cuda": "cuda-13.0", "/usr/local/cuda-13.0/compat/libcuda.so.1": "libcuda.so.580.95.05"}
    look = plant(tmp_path, {}, links=links, sizes={COMPAT: 90 * MIB})
    assert classify(look, "/usr/local/cuda/compat/libcuda.so.1") == LibcudaFacts(COMPAT, "580.95.05", "compat")


def test_copies_in_the_cache_and_in_ld_library_path(tmp_path: Path) -> None:
    other = "/opt/old/libcuda.so.1"
    cache = ld_cache([("libcuda.so.1", DRIVER), ("libcuda.so.1", "/gone/libcuda.so.1")])
    look = plant(tmp_path, {"/etc/ld.so.cache": cache}, sizes={DRIVER: 90 * MIB, other: 90 * MIB})
    taken = classify(look, DRIVER)
    assert other_copies(look, {"LD_LIBRARY_PATH": "/opt/old:relative:"}, taken) == (
        LibcudaFacts(other, None, "unknown"),
    )
    assert {copy.path for copy in other_copies(look, {}, None)} == {DRIVER}


def test_a_library_and_a_module_that_differ(tmp_path: Path) -> None:
    """NVML refuses; its file name still tells which version the libraries are."""
    look = plant(tmp_path, {**BARE_HOST, "/sys/module/nvidia/version": "535.54.03\n"}, sizes={DRIVER: 90 * MIB})
    answers = DriverAnswers(
        libcuda_path=DRIVER,
        libcuda_cuda_version="13.0",
        nvml_path=f"{LIB}/libnvidia-ml.so.580.159.04",
        nvml_error="Driver/library version mismatch (18)",
        cuda_error="803 CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    )
    driver = driver_facts(look, {}, answers)
    assert driver is not None
    assert (driver.kernel_module_version, driver.library_version) == ("535.54.03", "580.159.04")
    assert driver.kernel_module_flavour is None
    assert gpu_facts(look, answers) is None
    (gap,) = look.gaps
    assert (gap.fact, gap.reason) == ("gpus", "failed")
    assert gap.detail == ("NVML: Driver/library version mismatch (18); CUDA: 803 CUDA_ERROR_SYSTEM_DRIVER_MISMATCH")


def test_wsl(tmp_path: Path) -> None:
    path = "/usr/lib/wsl/lib/libcuda.so.1"
    files = {**BARE_HOST, "/proc/sys/kernel/osrelease": "5.15.167.4-microsoft-standard-WSL2\n"}
    look = plant(tmp_path, files, sizes={path: 160_000})
    answers = replace(GOOD, libcuda_path=path, nvml_path="/usr/lib/wsl/lib/libnvidia-ml.so.1")
    driver = driver_facts(look, {}, answers)
    assert driver is not None
    assert driver.kernel_module_version is None
    assert driver.library_version == "580.159.04"  # by NVML, since no file name has it
    assert gaps(look) == {"driver.kernel_module_version": "unsupported"}


def test_a_sandboxed_kernel_that_hides_the_module(tmp_path: Path) -> None:
    """gVisor passes the GPU through and shows neither /proc/driver nor /sys/module."""
    look = plant(tmp_path, {**BARE_HOST, "/proc/sys/kernel/osrelease": "4.4.0\n"}, sizes={DRIVER: 90 * MIB})
    driver = driver_facts(look, {}, GOOD)
    assert driver is not None
    assert driver.kernel_module_version == "580.159.04"
    assert look.gaps == []


def test_a_libcuda_that_does_not_load(tmp_path: Path) -> None:
    look = plant(tmp_path, {**BARE_HOST, **MODULE})
    answers = replace(NO_DRIVER, libcuda_error="/usr/lib/libcuda.so.1: file too short")
    driver = driver_facts(look, {}, answers)
    assert driver is not None
    assert driver.libcuda is None
    gpu_facts(look, answers)
    assert gaps(look) == {"driver.libcuda": "failed", "gpus": "failed"}


def test_a_driver_that_hangs(tmp_path: Path) -> None:
    look = plant(tmp_path, {**BARE_HOST, **MODULE})
    answers = DriverAnswers(trouble="no answer within the time limit", timed_out=True)
    assert driver_facts(look, {}, answers) is not None
    assert gpu_facts(look, answers) is None
    assert gaps(look) == {"driver.libcuda": "timeout", "gpus": "timeout"}


def test_a_hang_after_libcuda_answered_leaves_libcuda_known(tmp_path: Path) -> None:
    look = plant(tmp_path, {**BARE_HOST, **MODULE}, sizes={DRIVER: 90 * MIB})
    answers = DriverAnswers(libcuda_path=DRIVER, libcuda_code=0, trouble="no answer in time", timed_out=True)
    driver = driver_facts(look, {}, answers)
    assert driver is not None
    assert driver.libcuda is not None
    gpu_facts(look, answers)
    assert gaps(look) == {"gpus": "timeout"}


def test_a_hang_at_the_second_gpu_leaves_the_first(tmp_path: Path) -> None:
    look = plant(tmp_path, {})
    assert gpu_facts(look, DriverAnswers(gpus=(H200,), trouble="no answer in time", timed_out=True)) == (H200,)
    assert gaps(look) == {"gpus[1]": "timeout"}


def test_a_gpu_that_fell_off_the_bus_is_told(tmp_path: Path) -> None:
    look = plant(tmp_path, {})
    assert gpu_facts(
        look, DriverAnswers(gpus=(H200,), is_list_complete=True, lost_gpus=((1, "GPU is lost (15)"),))
    ) == (H200,)
    (gap,) = look.gaps
    assert (gap.fact, gap.reason, gap.detail) == ("gpus[1]", "failed", "GPU is lost (15)")


def test_a_hang_of_cuinit_leaves_nvmls_list(tmp_path: Path) -> None:
    look = plant(tmp_path, {**BARE_HOST, **MODULE}, sizes={COMPAT: 90 * MIB})
    answers = replace(GOOD, libcuda_path=COMPAT, trouble="ended by SIGSEGV")
    assert driver_facts(look, {}, answers) is not None
    assert gpu_facts(look, answers) == (H200,)
    assert gaps(look) == {"driver.cuda_error": "failed"}
