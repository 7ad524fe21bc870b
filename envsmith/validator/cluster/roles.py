"""Who does what: each GPU belongs to one process of the launch; a host without GPUs is checked by one of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, Sequence

NCCL = "nccl"
GLOO = "gloo"


@dataclass(frozen=True)
class Role:
    """What one process of the launch does. owned: positions, among the GPUs that it sees, of those that are its.

    checks: it runs the checks of one machine, on these GPUs; else another process of its host does.
    first: its first rank of the collective. ranks: how many it has there.
    """

    owned: tuple[int, ...]
    checks: bool
    first: int
    ranks: int


@dataclass(frozen=True)
class Seen:
    """What one process says of itself when it arrives. node: number of its host in the launch.

    gpus: identifiers of the GPUs that it sees, in their order. nccl: whether torch can run NCCL on them.
    """

    node: int
    gpus: tuple[str, ...]
    nccl: bool


def backend(arrived: Mapping[int, Seen]) -> str:
    """NCCL, one rank a GPU, where every process that sees GPUs can; else gloo, one rank a process."""
    with_gpus = [seen for seen in arrived.values() if seen.gpus]
    return NCCL if with_gpus and all(seen.nccl for seen in with_gpus) else GLOO


def assign(arrived: Mapping[int, Seen]) -> dict[int, Role]:
    """The role of each rank. A GPU belongs to the lowest rank that sees it.

    So where all processes of a host see all its GPUs, the first has them all and the others wait for it; where each
    was given its own, each checks that.
    """
    owners: dict[str, int] = {}
    for rank in sorted(arrived):
        for gpu in arrived[rank].gpus:
            owners.setdefault(gpu, rank)
    with_gpus = {seen.node for seen in arrived.values() if seen.gpus}
    first_of_node: dict[int, int] = {}
    for rank in sorted(arrived):
        first_of_node.setdefault(arrived[rank].node, rank)
    kind = backend(arrived)
    roles: dict[int, Role] = {}
    first = 0
    for rank in sorted(arrived):
        seen = arrived[rank]
        owned = tuple(i for i, gpu in enumerate(seen.gpus) if owners[gpu] == rank)
        ranks = len(owned) if kind == NCCL else 1
        checks = bool(owned) or (seen.node not in with_gpus and first_of_node[seen.node] == rank)
        roles[rank] = Role(owned, checks, first, ranks)
        first += ranks
    return roles


def rounds(ranks: int) -> Sequence[Sequence[tuple[int, int]]]:
    """The links of a ring of ranks, in rounds in which no rank has two: for three 0-1, then 1-2, then 2-0."""
    if ranks < 2:
        return ()
    if ranks == 2:
        return (((0, 1),),)
    ring = [(rank, (rank + 1) % ranks) for rank in range(ranks)]
    even = ranks - ranks % 2
    parts = (ring[0:even:2], ring[1:even:2], ring[even:])
    return tuple(tuple(part) for part in parts if part)
