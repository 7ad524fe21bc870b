"""The NVIDIA driver: its kernel module, its user-mode libraries and the libcuda that the loader takes."""

from __future__ import annotations

from typing import Mapping

from envsmith.probe.driver_answers import NO_SUCH_FILE, DriverAnswers
from envsmith.probe.host import is_wsl
from envsmith.probe.libcuda import classify, other_copies
from envsmith.probe.look import FAILED, TIMEOUT, UNSUPPORTED, Look, collector
from envsmith.probe.parse.libraries import driver_version
from envsmith.probe.parse.proc import kernel_module
from envsmith.wire.facts import DriverFacts, LibcudaFacts


@collector("driver")
def driver_facts(look: Look, environ: Mapping[str, str], answers: DriverAnswers) -> DriverFacts | None:
    """Return None if there is neither a kernel module nor any user-mode library of the driver."""
    if answers.trouble and answers.is_list_complete:  # what is asked after the GPUs is cuInit
        look.gap("driver.cuda_error", TIMEOUT if answers.timed_out else FAILED, f"cuInit: {answers.trouble}")
    module_version, flavour = _kernel_module(look)
    libcuda = _libcuda(look, answers)
    others = other_copies(look, environ, libcuda)
    library_version = _library_version(answers, libcuda)
    if not any((module_version, libcuda, library_version, answers.nvml_path)) and not _has_driver_copy(others):
        return None
    if module_version is None:
        module_version = _module_version_otherwise(look, answers)
    return DriverFacts(
        kernel_module_version=module_version,
        library_version=library_version,
        driver_cuda=answers.libcuda_cuda_version or answers.nvml_cuda_version,
        kernel_module_flavour=flavour,
        libcuda=libcuda,
        other_libcudas=others,
        nvml_error=answers.nvml_error,
        cuda_error=answers.cuda_error,
    )


def _kernel_module(look: Look) -> tuple[str | None, str | None]:
    text = look.text_or_none("/proc/driver/nvidia/version", "driver.kernel_module_version")
    version, flavour = kernel_module(text) if text is not None else (None, None)
    if version is None:
        version = (look.text_or_none("/sys/module/nvidia/version") or "").strip() or None
    return version, flavour


def _module_version_otherwise(look: Look, answers: DriverAnswers) -> str | None:
    """A driver is there, but /proc and /sys do not show its module, as under gVisor and WSL."""
    if is_wsl(look):
        look.gap("driver.kernel_module_version", UNSUPPORTED, "under WSL the kernel module is Windows's")
        return None
    # NVML answers with the module's version, and refuses to work with a module of another version than its own
    return answers.nvml_driver_version


def _libcuda(look: Look, answers: DriverAnswers) -> LibcudaFacts | None:
    if answers.libcuda_path is not None:
        return classify(look, answers.libcuda_path, answers.libcuda_code)
    error = answers.libcuda_error
    if error is None and answers.trouble:
        look.gap("driver.libcuda", TIMEOUT if answers.timed_out else FAILED, f"asking the driver: {answers.trouble}")
    elif error is not None and NO_SUCH_FILE not in error:
        look.gap("driver.libcuda", FAILED, error)
    return None


def _library_version(answers: DriverAnswers, libcuda: LibcudaFacts | None) -> str | None:
    """The version of the driver's user-mode libraries; cuda-compat's libcuda is not one of them."""
    if answers.nvml_path is not None:
        version = driver_version(answers.nvml_path)
        if version is not None:
            return version
    if libcuda is not None and libcuda.origin == "driver" and libcuda.version is not None:
        return libcuda.version
    return answers.nvml_driver_version


def _has_driver_copy(copies: tuple[LibcudaFacts, ...]) -> bool:
    return any(copy.origin == "driver" for copy in copies)
