"""A rank's place among the others, and its way into the process group."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Iterator, Mapping

from envsmith.validator.nccl.settings import debug_settings
from envsmith.validator.nccl.witness import arm
from envsmith.validator.ranks import Stage

# torch ends a process whose collective takes longer. The ranks are ended from outside long before.
_TORCH_TIMEOUT = timedelta(minutes=10)


@dataclass(frozen=True)
class Seat:
    """One rank of one group.

    gpu: its CUDA index in this process. name: tells the groups of one run apart. folder: where the ranks leave what
    they tell. settings: variables of the environment to change first, None to do without.
    """

    rank: int
    world: int
    gpu: int
    folder: Path
    name: str = "all"
    settings: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def log_file(self) -> Path:
        """Where NCCL writes what it does."""
        return self.folder / f"nccl-{self.name}-{self.rank}.log"


@contextlib.contextmanager
def seated(torch: Any, seat: Seat, stage: Stage, witness: int | None = None) -> Iterator[Any]:
    """Join the group, in a process that has not touched CUDA yet; yield the rank's torch.device.

    witness: the number by which this process answers when it hangs, None not to.
    """
    for name, value in seat.settings.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    os.environ.update(debug_settings(os.environ, str(seat.log_file)))
    if witness is not None:
        arm(torch, witness, seat.folder, os.environ)
    torch.set_num_threads(1)
    stage("making its CUDA context")
    place = torch.device("cuda", seat.gpu)
    torch.cuda.set_device(place)
    torch.zeros(1, device=place)
    stage("meeting the other ranks")
    join(torch, seat, "nccl")
    yield place
    torch.cuda.synchronize()
    stage("leaving the group")
    torch.distributed.destroy_process_group()


def join(torch: Any, seat: Seat, backend: str) -> None:
    """Meet the other ranks of the group through a file in the common folder."""
    torch.distributed.init_process_group(
        backend,
        init_method=f"file://{seat.folder}/{seat.name}.meeting",
        rank=seat.rank,
        world_size=seat.world,
        timeout=_TORCH_TIMEOUT,
    )
