"""A snapshot in a few lines of plain text, for images that have nothing but Python."""

from __future__ import annotations

from envsmith.wire.facts import Snapshot

_GIB = 1 << 30


def fact_lines(snapshot: Snapshot) -> list[tuple[str, str]]:
    """The facts that most problems turn on, as (name, text); what is unknown is left out."""
    lines = []
    host, python, torch, driver, limits = (
        snapshot.host, snapshot.python, snapshot.torch, snapshot.driver, snapshot.limits,
    )  # fmt: skip
    if host is not None:
        where = f"in a container ({host.container})" if host.container else "not in a container"
        lines.append(("system", f"{host.os_name or 'unknown'}, {host.machine}, glibc {host.glibc or 'none'}, {where}"))
    if limits is not None and limits.shm_size_bytes is not None:
        lines.append(("shm", f"{limits.shm_size_bytes / _GIB:.2f} GiB in /dev/shm"))
    if python is not None:
        lines.append(("python", f"{python.version}, {python.executable} ({python.environment})"))
    if torch is not None:
        lines.append(("torch", f"{torch.version}, built for CUDA {torch.wheel_cuda or 'none'}, {torch.location}"))
    elif not any(gap.fact == "torch" for gap in snapshot.gaps):
        lines.append(("torch", "not installed"))
    if driver is not None:
        version = driver.kernel_module_version or driver.library_version
        lines.append(("driver", f"{version or 'none'}, CUDA {driver.driver_cuda or 'none'}"))
    for gpu in snapshot.gpus or ():
        memory = f", {gpu.memory_total_bytes / _GIB:.1f} GiB" if gpu.memory_total_bytes else ""
        lines.append((f"gpu {gpu.index}", f"{gpu.name} ({gpu.compute_capability or 'capability unknown'}){memory}"))
    if snapshot.gpus == ():
        lines.append(("gpu", "none"))
    return lines
