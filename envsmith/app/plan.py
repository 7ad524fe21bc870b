"""Use case: make a plan, with this host's driver and GPUs as a preference where none were named."""

from __future__ import annotations

import platform as machine
from dataclasses import dataclass, replace
from pathlib import Path

from envsmith.compat.candidates import CPU
from envsmith.compat.resolve import resolve
from envsmith.model import fit, versions
from envsmith.model.matrix import Matrix
from envsmith.model.plan import Note, Plan, Refusal
from envsmith.model.request import BuildRequest, GpuWish

_HOST = "host"
_DRIVER_FILE = "/proc/driver/nvidia/version"
_GPU_FOLDER = "/proc/driver/nvidia/gpus"
_MACHINES = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}


@dataclass(frozen=True)
class HostGpus:
    """What this host has. driver: version of the loaded kernel module. models: as the module names them."""

    driver: str | None = None
    models: tuple[str, ...] = ()


def make_plan(request: BuildRequest, matrix: Matrix, host: HostGpus | None = None) -> Plan | Refusal:
    """Resolve a request. host: None = look.

    A host's driver and GPUs only shape what was left open: if the request cannot be met because of them, they are left
    out of the plan, which then says so.
    """
    preferred = _with_host(request, matrix, host_gpus() if host is None else host)
    if preferred == request:
        return resolve(request, matrix)
    answer = resolve(preferred, matrix)
    if isinstance(answer, Plan):
        return _noted(
            answer, Note("host-considered", f"{_names(preferred, request)} of this host was taken into account")
        )
    plain = resolve(request, matrix)
    if isinstance(plain, Refusal):
        return plain
    reasons = "; ".join(conflict.reason for conflict in answer.conflicts if conflict.subject in ("--driver", "--gpu"))
    text = f"this plan will not run on this host: {_names(preferred, request)} does not fit the request ({reasons})"
    return _noted(plain, Note("host-does-not-fit", text))


def host_gpus() -> HostGpus:
    """Read the driver's version and the GPUs' names from /proc, in a few milliseconds and without NVML."""
    if not Path(_DRIVER_FILE).exists():
        return HostGpus()  # most machines that plan: they need not wait for the import of the probe
    from envsmith.probe.look import Look
    from envsmith.probe.parse.proc import kernel_module

    look = Look()
    text = look.text_or_none(_DRIVER_FILE)
    version = kernel_module(text)[0] if text is not None else None
    if version is None or not versions.is_version(version):
        return HostGpus()
    models = (_model(look.text_or_none(f"{_GPU_FOLDER}/{name}/information")) for name in look.names(_GPU_FOLDER))
    return HostGpus(version, tuple(dict.fromkeys(model for model in models if model)))


def _model(information: str | None) -> str | None:
    for line in (information or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "Model":
            return value.strip()
    return None


def _with_host(request: BuildRequest, matrix: Matrix, host: HostGpus) -> BuildRequest:
    """The request on this host. A driver that was named means another machine, and so does another platform."""
    elsewhere = machine.machine() != _MACHINES.get(request.platform)
    if host.driver is None or request.driver is not None or request.cuda == CPU or elsewhere:
        return request
    found = [(model, fit.product_named(matrix, model)) for model in host.models]
    wishes = tuple(
        GpuWish(model, row.compute_capability, row.product, row.forward_compat) for model, row in found if row
    )
    return replace(request, driver=host.driver, driver_source=_HOST, gpus=request.gpus or wishes)


def _names(preferred: BuildRequest, request: BuildRequest) -> str:
    gpus = [] if request.gpus else [gpu.name for gpu in preferred.gpus]
    return " with ".join([f"driver {preferred.driver}", *([", ".join(gpus)] if gpus else [])])


def _noted(plan: Plan, note: Note) -> Plan:
    return replace(plan, notes=(note, *plan.notes))
