"""The NVIDIA driver is missing, or one half of it is.

## What it checks

The driver is a kernel module and user-mode libraries, of which CUDA needs `libcuda.so.1`. The rule asks
whether the module is loaded and whether the dynamic loader finds a real `libcuda.so.1` (a toolkit's stub
is none), and whether the PCI bus shows an NVIDIA GPU at all.

## Why it matters

Without both halves no CUDA program can see a GPU, whatever else is installed. A CUDA toolkit or a torch
wheel does not bring a driver. A machine without an NVIDIA GPU needs none, so there this is only told, as in a
container that is not meant for a GPU.

## How to fix

On the host: install the driver, or, where a kernel update left its module behind, build the module for the
running kernel. Under WSL the driver is the one of Windows: install it there and never inside WSL. In a
container both halves come from the host.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsmith.doctor import advice
from envsmith.doctor.rule import CannotTell, Problem, rule
from envsmith.model.findings import Evidence, Fix, Severity
from envsmith.wire.facts import DriverFacts, EnvVar, HostFacts, PciDevice, TorchFacts


@rule(id="ENV001", name="no-nvidia-driver", severity=Severity.ERROR, since="0.1", because_of=("ENV301",))
def no_nvidia_driver(
    driver: DriverFacts | None,
    host: HostFacts,
    nvidia_pci_devices: tuple[PciDevice, ...] | None = None,
    torch: TorchFacts | None = None,
    env: tuple[EnvVar, ...] | None = None,
) -> Iterator[Problem]:
    """Yield what is missing of the driver."""
    module = driver.kernel_module_version if driver else None
    libcuda = driver.libcuda if driver and driver.libcuda and driver.libcuda.origin != "stub" else None
    if libcuda and (module or host.wsl):
        return
    if "tegra" in host.kernel:
        raise CannotTell("on a Jetson the driver is part of the system image")
    evidence = (
        Evidence("driver.kernel_module_version", module or "none", "a loaded nvidia module"),
        Evidence("driver.libcuda", libcuda.path if libcuda else "none", "the driver's libcuda.so.1"),
    )
    for_cpu = host.container and not advice.gpu_is_wanted(torch, env)
    severity = Severity.INFO if for_cpu else Severity.ERROR
    if host.wsl:
        fix = Fix("Install NVIDIA's driver on Windows and use WSL 2; install no Linux driver inside WSL.")
        yield Problem("WSL shows no GPU driver", evidence, (fix,), Severity.INFO)
    elif module:
        missing = f"The driver's libcuda.so.1 is missing, though its module {module} is loaded"
        yield Problem(missing, evidence, _libs(host), severity)
    elif nvidia_pci_devices:
        gpu = Evidence("nvidia_pci_devices[0].device", nvidia_pci_devices[0].device, "driven by the nvidia module")
        not_loaded = "There is an NVIDIA GPU, and its driver is not loaded"
        yield Problem(not_loaded, (*evidence, gpu), _module(host, bool(libcuda)), severity)
    else:
        absent = "no NVIDIA GPU" if nvidia_pci_devices is not None else "no sign of an NVIDIA GPU"
        nothing = f"No NVIDIA driver and {absent} here; torch can only use the CPU"
        yield Problem(nothing, evidence, severity=Severity.INFO)


def _libs(host: HostFacts) -> tuple[Fix, ...]:
    """The module is there, the libraries are not."""
    if host.container:
        return (Fix("Start the container with a GPU; its runtime then brings the host's driver libraries in."),)
    commands = ("sudo ldconfig", "ldconfig -p | grep libcuda.so.1")
    return (Fix("Install the driver's user-mode libraries of the same version, then ask again.", commands, True),)


def _module(host: HostFacts, has_libraries: bool) -> tuple[Fix, ...]:
    """A GPU is there, its module is not."""
    if host.container:
        return (Fix("Load or install the driver on the host; nothing inside the container can.", (), True),)
    if has_libraries:
        text = (
            "Load the module. If that fails, it was not built for this kernel: reinstall the driver with its headers."
        )
        return (Fix(text, ("sudo modprobe nvidia", "uname -r; dkms status"), needs_root=True),)
    commands = ("sudo ubuntu-drivers install",) if host.os_id == "ubuntu" else ()
    return (Fix("Install NVIDIA's driver for this GPU, then reboot.", commands, needs_root=True, needs_reboot=True),)
