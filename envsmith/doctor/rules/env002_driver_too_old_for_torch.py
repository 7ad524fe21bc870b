"""The driver is too old for the CUDA that torch was built for.

## What it checks

The CUDA that the wheel was built for against the driver. A wheel runs natively on a driver that offers its
CUDA, by minor-version compatibility on any driver at or above the floor of the same CUDA major (machine code
only: such a driver cannot compile the wheel's newer PTX), and by forward compatibility with a cuda-compat
package on data-centre GPUs and listed driver branches. A cuda-compat library that is really loaded counts.

## Why it matters

Every CUDA call fails with "CUDA driver version is insufficient for CUDA runtime version" or "The NVIDIA driver
on your system is too old". The CUDA toolkit on the machine has no part in it: the driver alone decides.

## How to fix

Install a newer driver branch on the host, or the newest torch build that this driver runs. A container shares
the driver of its host and cannot bring its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsmith.doctor import advice
from envsmith.doctor.advice import Site
from envsmith.doctor.rule import CannotTell, Problem, rule
from envsmith.model import fit
from envsmith.model.findings import Evidence, Fix, Severity
from envsmith.wire.facts import DriverFacts, TorchFacts


@rule(id="ENV002", name="driver-too-old-for-torch", severity=Severity.ERROR, since="0.1")
def driver_too_old_for_torch(torch: TorchFacts, driver: DriverFacts, site: Site) -> Iterator[Problem]:
    """Yield a problem if no mechanism lets this driver run the wheel."""
    if torch.wheel_cuda is None:
        return
    version = advice.driver_version(driver)
    if version is None:
        raise CannotTell("the driver's version is not known")
    if fit.how_driver_runs(site.matrix, torch.wheel_cuda, version, driver.driver_cuda) is not None:
        return
    offers = f", which offers CUDA {driver.driver_cuda}," if driver.driver_cuda else ""
    yield Problem(
        f"Driver {version}{offers} is too old for torch {torch.version}, built for CUDA {torch.wheel_cuda}",
        (
            Evidence("driver.kernel_module_version", version, _floors(site, torch.wheel_cuda)),
            Evidence("torch.wheel_cuda", torch.wheel_cuda, f"at most {driver.driver_cuda or 'what the driver offers'}"),
        ),
        _ways_out(site, torch.wheel_cuda),
    )


def _floors(site: Site, wheel_cuda: str) -> str:
    """The lowest drivers that run the CUDA, by each mechanism that needs no package."""
    lowest = fit.minor_version_floor(site.matrix, wheel_cuda)
    native = fit.native_floor(site.matrix, wheel_cuda)
    if lowest is None or native is None or lowest == native:
        return f"{lowest or native or 'a newer one'} or later"
    return f"{lowest} or later; natively {native} or later"


def _ways_out(site: Site, wheel_cuda: str) -> tuple[Fix, ...]:
    """A newer driver where one can be installed, the newest torch that runs here, forward compatibility."""
    driver = advice.newer_driver(site, wheel_cuda)
    builds = advice.builds_for(site)
    keep = "Keep the driver and take the newest torch that it runs"
    torch = [advice.install(builds[0], site, keep)] if builds else []
    compat = advice.compat_package(site, wheel_cuda)
    ways = [*torch, driver] if site.host.container else [driver, *torch]
    return (*ways, *([compat] if compat else []))
