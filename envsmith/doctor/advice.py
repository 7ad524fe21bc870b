"""Ways out that fit a machine: the torch build or the driver branch that works there, as commands.

Rules say what is wrong; what would be right is looked up here, in the matrix, for the same machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from envsmith import quoting
from envsmith.model import fit, versions
from envsmith.model.findings import Fix
from envsmith.model.matrix import DriverBranch, Matrix, TorchBuild
from envsmith.wire.facts import DriverFacts, EnvVar, GpuFacts, HostFacts, PackageFacts, PythonFacts, TorchFacts

TORCH_INDEX = "https://download.pytorch.org"
_NO_DEVICES = ("", "none", "void")
_OFFERED = ("stable", "experimental", "legacy")
_PLATFORMS = {"x86_64": "linux/amd64", "aarch64": "linux/arm64"}


@dataclass(frozen=True)
class Site:
    """What an advice must fit. None = unknown there, and then no obstacle."""

    matrix: Matrix
    host: HostFacts
    driver: DriverFacts | None
    gpus: tuple[GpuFacts, ...] | None
    python: PythonFacts | None
    packages: tuple[PackageFacts, ...] | None

    @property
    def capabilities(self) -> tuple[str, ...]:
        """Compute capabilities of the GPUs here, those that are known, each once."""
        known = (gpu.compute_capability for gpu in self.gpus or ())
        return tuple(dict.fromkeys(capability for capability in known if capability is not None))


def gpu_is_wanted(torch: TorchFacts | None, env: tuple[EnvVar, ...] | None) -> bool:
    """Whether an environment is meant for a GPU: a CUDA build of torch, or an image that asks for GPUs."""
    asked = next((variable.value for variable in env or () if variable.name == "NVIDIA_VISIBLE_DEVICES"), "")
    return (torch is not None and torch.wheel_cuda is not None) or asked not in _NO_DEVICES


def driver_version(driver: DriverFacts) -> str | None:
    """The kernel module's version, which forward compatibility and floors are about; else the libraries'."""
    return driver.kernel_module_version or driver.library_version


def build_of(site: Site, torch: TorchFacts) -> TorchBuild | None:
    """The row of the torch that is installed; None for source, vendor and nightly builds, and no CUDA."""
    if torch.wheel_cuda is None or not versions.is_version(torch.version):
        return None
    release = versions.public(torch.version)
    variant = "cu" + versions.minor_of(torch.wheel_cuda).replace(".", "")
    local = versions.parse(torch.version).local
    if local not in {None, variant}:
        return None
    platform = _PLATFORMS.get(site.host.machine)
    rows = (r for r in site.matrix.torch_builds if (r.torch, r.variant, r.platform) == (release, variant, platform))
    return next(rows, None)


def runs_here(build: TorchBuild, site: Site) -> bool:
    """Whether a CUDA build has code for every GPU here and this driver runs it without a package more."""
    if build.wheel_cuda is None or build.compute_capabilities is None:
        return False
    version = driver_version(site.driver) if site.driver else None
    how: str | None = fit.NATIVE
    if site.driver and version:
        how = fit.how_driver_runs(site.matrix, build.wheel_cuda, version, site.driver.driver_cuda)
    codes = [fit.code_for(gpu, build.compute_capabilities, build.ptx or ()) for gpu in site.capabilities]
    if how is None or None in codes:
        return False
    return how == fit.NATIVE or all(code is not None and code.how == fit.MACHINE_CODE for code in codes)


def builds_for(site: Site) -> list[TorchBuild]:
    """CUDA builds for this platform and Python that run here: newest release first, then the better kept variant."""
    platform = _PLATFORMS.get(site.host.machine)
    tag = _python_tag(site.python)
    fitting = [
        build
        for build in site.matrix.torch_builds
        if build.status in _OFFERED
        and build.platform == platform
        and (tag is None or tag in build.python_tags)
        and runs_here(build, site)
    ]
    return _newest_first(fitting)


def nearest(builds: Iterable[TorchBuild], torch: str) -> TorchBuild | None:
    """Return the build that changes least: the same release, else the first later one, else the last earlier one."""
    newest_first = _newest_first(builds)
    now = versions.parse(versions.public(torch))
    same = [build for build in newest_first if versions.parse(build.torch) == now]
    later = [build for build in newest_first if versions.parse(build.torch) > now]
    if same or not later:
        return next(iter(same or newest_first), None)
    first = later[-1].torch
    return next(build for build in later if build.torch == first)


def install(build: TorchBuild, site: Site, why: str) -> Fix:
    """Replace torch by `build`: with pip or uv on a host; in a container by a new image.

    why: what makes this the build to take, the first half of the sentence that people read.
    """
    wheel = f"{build.torch}+{build.variant}"
    if site.host.container and build.wheel_cuda:
        argv = ["envsmith", "build", "--torch", build.torch, "--cuda", build.wheel_cuda]
        argv += [word for capability in site.capabilities for word in ("--gpu", capability)]
        return Fix(f"{why}: torch {wheel}. Build the image anew with it.", (quoting.shell_command(argv),))
    python = site.python.executable if site.python else "python3"
    has_pip = site.packages is None or any(package.name == "pip" for package in site.packages)
    argv = [python, "-m", "pip", "install"] if has_pip else ["uv", "pip", "install", "--python", python]
    # the same version number without its local part would count as installed already
    argv += [
        "--force-reinstall",
        f"torch=={wheel}",
        *_partners(build, site),
        "--index-url",
        f"{TORCH_INDEX}{build.index_path}",
    ]
    return Fix(f"{why}: torch {wheel}.", (quoting.shell_command(argv),))


def _partners(build: TorchBuild, site: Site) -> list[str]:
    """The releases of torchvision and torchaudio that belong to `build`, of those that are installed here."""
    installed = {package.name for package in site.packages or ()}
    released = (("torchvision", build.torchvision), ("torchaudio", build.torchaudio))
    return [f"{name}=={partners[-1]}" for name, partners in released if partners and name in installed]


def newer_driver(site: Site, wheel_cuda: str) -> Fix:
    """Name a driver branch that runs `wheel_cuda` natively on the GPUs here, and the command where it is known."""
    where = " on the host: a container cannot bring its own" if site.host.container else ""
    if site.host.wsl:
        return Fix(f"Update NVIDIA's driver on Windows to one that offers CUDA {wheel_cuda}; WSL takes it from there.")
    branch = _branch_for(site, wheel_cuda)
    if branch is None:
        floor = fit.native_floor(site.matrix, wheel_cuda)
        return Fix(f"Install NVIDIA driver {floor or f'for CUDA {wheel_cuda}'} or later{where}.", (), True, True)
    commands: tuple[str, ...] = ()
    if site.host.os_id == "ubuntu" and not site.host.container:
        flavour = "-open" if site.driver and site.driver.kernel_module_flavour == "open" else ""
        commands = (f"sudo apt-get install -y nvidia-driver-{branch.branch}{flavour}",)
    text = f"Install NVIDIA driver branch {branch.branch} or later (CUDA {branch.driver_cuda}){where}, then reboot."
    return Fix(text, commands, needs_root=True, needs_reboot=True)


def compat_package(site: Site, wheel_cuda: str) -> Fix | None:
    """Forward compatibility, where NVIDIA allows it: listed branches, and no GPU here that is shut out."""
    version = driver_version(site.driver) if site.driver else None
    row = fit.forward_compat(site.matrix, wheel_cuda, version) if version else None
    products = [fit.product_named(site.matrix, gpu.name) for gpu in site.gpus or ()]
    if row is None or not products or not all(product and product.forward_compat for product in products):
        return None
    argv = ["envsmith", "build", "--cuda", versions.minor_of(wheel_cuda), "--driver", version or ""]
    return Fix(
        f"Keep the driver and use forward compatibility, which NVIDIA allows for these data-centre GPUs on this "
        f"branch: an image that carries {row.package}.",
        (quoting.shell_command([*argv, *(word for gpu in site.capabilities for word in ("--gpu", gpu))]),),
    )


def _branch_for(site: Site, wheel_cuda: str) -> DriverBranch | None:
    """The lowest supported branch that offers the CUDA, long-term ones first, and still drives every GPU here."""
    products = [fit.product_named(site.matrix, gpu.name) for gpu in site.gpus or ()]
    last = min((p.last_driver_branch for p in products if p and p.last_driver_branch), default=None)
    needed = versions.parse(versions.minor_of(wheel_cuda))
    rows = [
        row
        for row in site.matrix.driver_branches
        if row.status == "supported"
        and row.driver_cuda is not None
        and versions.parse(row.driver_cuda) >= needed
        and (last is None or row.branch <= last)
    ]
    return min(rows, key=lambda row: (not row.long_term, row.branch), default=None)


def _python_tag(python: PythonFacts | None) -> str | None:
    if python is None:
        return None
    major, minor = python.version.split(".")[:2]
    return f"cp{major}{minor}" + ("t" if python.free_threaded else "")


def _newest_first(builds: Iterable[TorchBuild]) -> list[TorchBuild]:
    """By release, then stable variants before experimental ones, then by CUDA."""
    return sorted(
        builds,
        key=lambda build: (
            versions.parse(build.torch),
            build.status == "stable",
            versions.parse(build.wheel_cuda or "0"),
        ),
        reverse=True,
    )
