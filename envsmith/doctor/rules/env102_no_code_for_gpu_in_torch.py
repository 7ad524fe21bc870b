"""The torch build holds no code for this GPU.

## What it checks

The compute capability of every GPU against the machine code and the PTX in the wheel: what torch itself
reported after its import, else the row of this build in the matrix. Machine code serves later minors of the same
major (code for 8.0 runs on 8.6 and 8.9), PTX serves every later capability once the driver has compiled it.

## Why it matters

The first kernel fails with "no kernel image is available for execution on the device", although
`torch.cuda.is_available()` is True. The variant decides as much as the release: torch 2.8.0+cu126 has code for
GPUs of 2016 that 2.8.0+cu128 has not. A newer driver or a CUDA toolkit beside the same torch changes nothing.

## How to fix

Install the named build: the other variant of the same release if it has the code, else the nearest release.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from envsmith.doctor import advice
from envsmith.doctor.advice import Site
from envsmith.doctor.rule import CannotTell, Problem, rule
from envsmith.model import fit, versions
from envsmith.model.findings import Evidence, Fix, Severity
from envsmith.wire.facts import GpuFacts, TorchFacts, TorchRuntimeFacts

_PTX_FOR_ANY_GPU = ("0.0",)


@rule(id="ENV102", name="no-code-for-gpu-in-torch", severity=Severity.ERROR, since="0.1")
def no_code_for_gpu_in_torch(
    torch: TorchFacts,
    gpus: tuple[GpuFacts, ...],
    site: Site,
    torch_runtime: TorchRuntimeFacts | None = None,
) -> Iterator[Problem]:
    """Yield one problem for each kind of GPU that the wheel does not serve."""
    if torch.wheel_cuda is None or not gpus:
        return
    binary, ptx, sure = _code_in(torch, torch_runtime, site)
    lacking = [capability for capability in site.capabilities if fit.code_for(capability, binary, ptx) is None]
    for capability in lacking:
        gpu = next(gpu for gpu in gpus if gpu.compute_capability == capability)
        yield Problem(
            f"torch {torch.version} has no code for {gpu.name} (compute capability {capability})",
            (
                Evidence(f"gpus[{gpu.index}].compute_capability", capability, "one that the wheel has code for"),
                Evidence("torch_runtime.compute_capabilities", ", ".join(binary), f"one that runs on {capability}"),
            ),
            _ways_out(site, torch.version, capability),
        )
    served_by_ptx_only = [c for c in site.capabilities if fit.code_for(c, binary, ()) is None]
    if not sure and served_by_ptx_only and not lacking:
        raise CannotTell(f"no row of the matrix says for which capabilities torch {torch.version} has PTX")


def _code_in(
    torch: TorchFacts, runtime: TorchRuntimeFacts | None, site: Site
) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """Machine code and PTX in the wheel, as it says itself or as its row does, and whether the PTX is sure.

    Where nobody has looked for PTX it is all that the wheel's toolkit can make: what is not even in that, is not
    in the wheel.
    """
    if runtime is not None and runtime.compute_capabilities:
        return runtime.compute_capabilities, runtime.ptx, True
    row = advice.build_of(site, torch)
    if row is None or row.compute_capabilities is None:
        raise CannotTell(f"no row of the matrix says what torch {torch.version} has code for")
    if row.ptx is not None:
        return row.compute_capabilities, row.ptx, True
    cuda = versions.minor_of(row.wheel_cuda or "")
    possible = (arch.compute_capabilities for arch in site.matrix.toolkit_archs if arch.cuda_minor == cuda)
    return row.compute_capabilities, next(possible, _PTX_FOR_ANY_GPU), False


def _ways_out(site: Site, torch: str, capability: str) -> tuple[Fix, ...]:
    """The nearest build with code for all GPUs; with a newer driver if this one runs none of them."""
    builds = advice.builds_for(site)
    if builds:
        build = advice.nearest(builds, torch)
        return (advice.install(build, site, f"Install the nearest build with code for {capability}"),) if build else ()
    build = advice.nearest(advice.builds_for(replace(site, driver=None)), torch)
    if build is None or build.wheel_cuda is None:
        since = min((row.torch for row in site.matrix.torch_builds), key=versions.parse, default="")
        return (Fix(f"No torch build from {since} on for this platform and Python has code for {capability}."),)
    driver = advice.newer_driver(site, build.wheel_cuda)
    torch_fix = advice.install(build, site, f"Then install the nearest build with code for {capability}")
    return (replace(driver, text=f"{driver.text} {torch_fix.text}", commands=driver.commands + torch_fix.commands),)
