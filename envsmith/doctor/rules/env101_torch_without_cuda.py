"""torch is a CPU build on a machine that has an NVIDIA GPU.

## What it checks

Whether `torch.version.cuda` is empty (and the build is none for ROCm) although a GPU is there: shown by the
driver, or, outside containers, by the PCI bus. An image that asks for GPUs through `NVIDIA_VISIBLE_DEVICES` and
holds a CPU build is told as a warning. A CPU build on a machine, or in a container, without a GPU is right.

## Why it matters

`torch.cuda.is_available()` is False and everything runs on the CPU, often without a word. The usual cause is an
index that serves CPU wheels, or a CPU build that already satisfied `pip install torch`, which has the same version
number. Neither the driver nor a CUDA toolkit is at fault.

## How to fix

Install the CUDA build of the same release from the index of its variant, with `--force-reinstall`.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsmith.doctor import advice
from envsmith.doctor.advice import Site
from envsmith.doctor.rule import Problem, rule
from envsmith.model.findings import Evidence, Fix, Severity
from envsmith.wire.facts import EnvVar, PciDevice, TorchFacts


@rule(id="ENV101", name="torch-without-cuda", severity=Severity.ERROR, since="0.1")
def torch_without_cuda(
    torch: TorchFacts,
    site: Site,
    nvidia_pci_devices: tuple[PciDevice, ...] | None = None,
    env: tuple[EnvVar, ...] | None = None,
) -> Iterator[Problem]:
    """Yield a problem if the build has no CUDA and a GPU is there, or asked for."""
    if torch.wheel_cuda is not None or torch.hip is not None:
        return
    # a container sees the host's bus, which says nothing of what the container is for
    on_bus = nvidia_pci_devices if nvidia_pci_devices and not site.host.container else ()
    seen = site.gpus[0].name if site.gpus else on_bus[0].device if on_bus else None
    if seen is None and not (site.host.container and advice.gpu_is_wanted(torch, env)):
        return
    expected = f"a CUDA build, since there is {seen}" if seen else "a CUDA build, since the image asks for GPUs"
    yield Problem(
        f"torch {torch.version} is a CPU build, and "
        + ("there is an NVIDIA GPU" if seen else "the image is meant for GPUs"),
        (Evidence("torch.wheel_cuda", "none", expected),),
        _cuda_build(site, torch.version),
        Severity.ERROR if seen else Severity.WARNING,
    )


def _cuda_build(site: Site, torch: str) -> tuple[Fix, ...]:
    if "tegra" in site.host.kernel:
        return (
            Fix("Install NVIDIA's own torch wheel for this JetPack and its Python; the general indexes have none."),
        )
    build = advice.nearest(advice.builds_for(site), torch)
    return (advice.install(build, site, "Install the CUDA build that runs here"),) if build else ()
