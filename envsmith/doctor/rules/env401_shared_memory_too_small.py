"""Shared memory (`/dev/shm`) is too small for data loader workers and NCCL.

## What it checks

The size of `/dev/shm`, and what is free of it, against 64 MiB: the size that Docker, Podman and Kubernetes give a
container that asks for none.

## Why it matters

PyTorch's data loader workers hand tensors over in shared memory and NCCL keeps its buffers there. When it is
full, workers die with "Bus error", the loader hangs, or NCCL says "No space left on device". That message is about
`/dev/shm` and not about the disk.

## How to fix

Start the container with `--shm-size` (or `--ipc=host`); in Kubernetes mount an `emptyDir` with `medium: Memory` at
`/dev/shm`. If it is full of files that dead processes left behind, remove them.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsmith.doctor.rule import CannotTell, Problem, rule
from envsmith.model.findings import Evidence, Fix, Severity
from envsmith.wire.facts import HostFacts, LimitFacts, TorchFacts

MIB = 1024**2
SHM = "/dev/shm"  # noqa: S108 - the place itself
DEFAULT_OF_CONTAINERS_BYTES = 64 * MIB
_KUBERNETES = f'Mount a volume "emptyDir": {{"medium": "Memory"}} at {SHM} in the pod.'


@rule(id="ENV401", name="shared-memory-too-small", severity=Severity.WARNING, since="0.1")
def shared_memory_too_small(limits: LimitFacts, host: HostFacts, torch: TorchFacts) -> Iterator[Problem]:
    """Yield a problem if /dev/shm has the size of a container that did not ask, or is nearly full."""
    del torch  # asked for so that the rule applies only where torch is
    size, free = limits.shm_size_bytes, limits.shm_free_bytes
    if size is None:
        raise CannotTell("limits.shm_size_bytes: not known")
    if size <= DEFAULT_OF_CONTAINERS_BYTES:
        evidence = Evidence("limits.shm_size_bytes", f"{size / MIB:.0f} MiB", "1 GiB or more")
        yield Problem(f"{SHM} holds only {size / MIB:.0f} MiB", (evidence,), _enlarge(host))
    elif free is not None and free < DEFAULT_OF_CONTAINERS_BYTES:
        evidence = Evidence("limits.shm_free_bytes", f"{free / MIB:.0f} MiB of {size / MIB:.0f} MiB", "1 GiB or more")
        look = Fix("Remove what dead processes left there; the command shows it, oldest last.", (f"ls -lt {SHM}",))
        yield Problem(f"{SHM} is nearly full: {free / MIB:.0f} MiB free", (evidence,), (look, *_enlarge(host)))


def _enlarge(host: HostFacts) -> tuple[Fix, ...]:
    if host.container == "kubernetes":
        return (Fix(_KUBERNETES),)
    if host.container:
        return (Fix("Start the container with --shm-size=8g, or with --ipc=host to share the host's."),)
    return (Fix("Enlarge it until the next start.", (f"sudo mount -o remount,size=50% {SHM}",), needs_root=True),)
