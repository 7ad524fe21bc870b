"""A DataLoader whose worker processes hand batches over through shared memory (/dev/shm).

What it proves: worker processes can be forked, their tensors arrive through /dev/shm with every value right, each
sample once, and all workers are gone afterwards. Where there is a GPU, batches are pinned on the way and copied to
it. About 10 MB are under way at a time: a small /dev/shm is enough for that, and whether it is for a real batch is
left to the rule that looks at its size.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

from envsmith.validator.check import CheckContext, CheckFailed, CheckOutcome, CheckTimedOut, check
from envsmith.validator.devices import Device
from envsmith.validator.occupied import occupied_is_no_fault
from envsmith.validator.sweep import children
from envsmith.wire.results import Metric

_WORKERS_MAX = 3
_BATCH = 32
_BATCHES = 12
_IMAGE = (3, 64, 64)
# Longer than any batch takes on a busy machine; a worker that hangs is named before the check's own limit.
_BATCH_LIMIT_S = 40.0

# A broken connection is seen before the death behind it.
_DEATH_S, _POLL_S = 2.0, 0.01
_SHM_FULL = re.compile(r"[Bb]us error|shared memory|No space left")

# A socket's path has at most 107 bytes (sun_path of unix(7)); multiprocessing adds "/pymp-xxxxxxxx/listener-xxxxxxxx".
_SOCKET_FOLDER_MAX = 107 - 32
_SHM = "/dev/shm"  # noqa: S108 - looked at, not written to


class Samples:
    """A dataset of random samples that anybody can make again from the seed and a sample's number."""

    def __init__(self, torch: Any, seed: int, count: int) -> None:
        self._torch, self._seed, self._count = torch, seed, count

    def __len__(self) -> int:
        """How many there are."""
        return self._count

    def __getitem__(self, index: int) -> dict[str, Any]:
        """One of them, with the id of the process that made it."""
        image, label = self.make(index)
        return {"index": index, "image": image, "label": label, "process": os.getpid()}

    def make(self, index: int) -> tuple[Any, Any]:
        """Image (float32) and label (int64) of a sample."""
        generator = self._torch.Generator().manual_seed(self._seed + index)
        image = self._torch.randn(_IMAGE, generator=generator)
        return image, self._torch.randint(-(2**62), 2**62, (), generator=generator)


@check(
    id="data-loader", title="DataLoader workers through shared memory", limit_s=90, needs_torch=True,
    requires=("torch-import",),
)  # fmt: skip
def data_loader(context: CheckContext) -> CheckOutcome:
    """Load, pin, copy and compare every batch."""
    import torch

    torch.set_num_threads(1)  # the workers are forked from here: no pool of threads may exist then
    _shorten_socket_paths()
    device = _device_to_use(torch, context)
    samples = Samples(torch, int.from_bytes(os.urandom(6), "little"), _BATCH * _BATCHES)
    with occupied_is_no_fault(device):
        workers = load_all(torch, samples, None if device is None else torch.device("cuda", 0))
    require_gone(workers)
    shm_size, shm_free = _shm_bytes()
    metrics = (
        Metric("samples", len(samples)),
        Metric("workers", len(workers)),
        Metric("shm_size_bytes", shm_size),
        Metric("shm_free_bytes", shm_free),
    )
    way = f"{_SHM} and pinned memory to {device.label}" if device is not None else _SHM
    return CheckOutcome(f"{len(samples)} samples of {len(workers)} workers right, through {way}", metrics)


def load_all(torch: Any, samples: Any, place: Any) -> frozenset[int]:
    """Go through the loader and compare every value; return the ids of the worker processes.

    place: a GPU to copy to through pinned memory, or None. Raises CheckFailed, and what the loader raises that no
    worker's death explains.
    """
    loader = torch.utils.data.DataLoader(
        samples, batch_size=_BATCH, shuffle=True, num_workers=min(_WORKERS_MAX, max(2, len(os.sched_getaffinity(0)))),
        pin_memory=place is not None, timeout=_BATCH_LIMIT_S, multiprocessing_context="fork",
    )  # fmt: skip
    started = time.time()
    seen: list[int] = []
    workers: set[int] = set()
    batches = iter(loader)
    try:
        for batch in batches:
            seen += batch["index"].tolist()
            workers.update(batch["process"].tolist())
            compare_batch(torch, samples, batch, place)
    except (RuntimeError, OSError, EOFError) as error:
        explain(error, [worker.exitcode for worker in _ended(batches)])
        raise
    finally:
        _remove_files({worker.pid for worker in getattr(batches, "_workers", ())}, started)
    if sorted(seen) != list(range(len(samples))):
        raise CheckFailed(
            f"of {len(samples)} samples {len(set(seen))} came, {len(seen) - len(set(seen))} of them again"
        )
    if os.getpid() in workers:
        raise CheckFailed("samples were made in the process that asked for them, not by workers")
    return frozenset(workers)


def _ended(batches: Any) -> list[Any]:
    """The workers of a loader's iterator that have ended badly; waits a moment for one that is about to."""
    deadline = time.monotonic() + _DEATH_S
    while True:
        ended = [worker for worker in getattr(batches, "_workers", ()) if worker.exitcode]
        if ended or time.monotonic() > deadline:
            return ended
        time.sleep(_POLL_S)


def _remove_files(workers: set[int], since: float) -> None:
    """Remove what torch leaves in /dev/shm when it could not make it as large as it should be.

    since: time.time() from which on; older files of the same process ids are those of another container.
    """
    for path in (path for worker in workers for path in Path(_SHM).glob(f"torch_{worker}_*")):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime >= since - 1:
                path.unlink()


def compare_batch(torch: Any, samples: Any, batch: dict[str, Any], place: Any) -> None:
    """Compare a batch as it arrived, and after its way to the GPU and back. Raises CheckFailed."""
    made = [samples.make(index) for index in batch["index"].tolist()]
    for name, column in (("image", 0), ("label", 1)):
        expected = torch.stack([sample[column] for sample in made])
        got = batch[name]
        _require_equal(torch, got, expected, f"{name}s came wrong from a worker")
        if place is not None:
            if not got.is_pinned():
                raise CheckFailed("the loader was told to pin its batches, and did not")
            _require_equal(torch, got.to(place, non_blocking=True).cpu(), expected, f"{name}s came wrong from {place}")


def _require_equal(torch: Any, got: Any, expected: Any, problem: str) -> None:
    if got.dtype != expected.dtype or not torch.equal(got, expected):
        wrong = int((got != expected).sum()) if got.shape == expected.shape else expected.numel()
        raise CheckFailed(f"{wrong} of {expected.numel()} values of a batch's {problem}")


def explain(error: Exception, exit_codes: list[int]) -> None:
    """Raise CheckFailed or CheckTimedOut for an error of the loader, if it is one of the workers.

    exit_codes: of the workers that died, as multiprocessing has them: -7 for signal 7.
    """
    text = " ".join(str(error).split())
    if any(code == -signal.SIGBUS for code in exit_codes) or _SHM_FULL.search(text):
        size, free = _shm_bytes()
        how = _describe_deaths(exit_codes) if exit_codes else str(error).strip().splitlines()[-1]
        raise CheckFailed(
            f"{how}: often a full {_SHM}, which has {size >> 20} MiB ({free >> 20} MiB free now); "
            "give the container more with --shm-size=8g, or the host's with --ipc=host"
        ) from error
    if exit_codes:
        raise CheckFailed(_describe_deaths(exit_codes)) from error
    if "timed out" in text:
        raise CheckTimedOut(f"no worker gave a batch within {_BATCH_LIMIT_S:g} s") from error


def _describe_deaths(exit_codes: list[int]) -> str:
    hows = sorted({f"died of {_name(-code)}" if code < 0 else f"exited with status {code}" for code in exit_codes})
    return f"{len(exit_codes)} worker(s) of the DataLoader {' and '.join(hows)}"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def require_gone(workers: frozenset[int]) -> None:
    """Raise CheckFailed if a worker is still there once the loader has ended."""
    left = sorted(workers & children())
    if left:
        raise CheckFailed(f"workers did not end with the loader: process {', '.join(map(str, left))}")


def _device_to_use(torch: Any, context: CheckContext) -> Device | None:
    """The first GPU, where there is one that torch can use beside other processes."""
    usable = [device for device in context.devices[:1] if not device.exclusive]
    return usable[0] if usable and torch.version.cuda is not None and torch.cuda.is_available() else None


def _shm_bytes() -> tuple[int, int]:
    """Size of /dev/shm and what is free of it; zeros where there is none."""
    try:
        status = os.statvfs(_SHM)
    except OSError:
        return 0, 0
    return status.f_frsize * status.f_blocks, status.f_frsize * status.f_bavail


def _shorten_socket_paths() -> None:
    """Workers pass descriptors through sockets in the temporary folder, whose path may be too long for one.

    The folder is this process's working folder, and that of the workers: it has a short name as well.
    """
    if len(os.fsencode(tempfile.gettempdir())) > _SOCKET_FOLDER_MAX:
        tempfile.tempdir = "/proc/self/cwd"
