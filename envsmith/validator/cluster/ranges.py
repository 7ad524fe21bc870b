"""Rank numbers for people: "0-2,5"."""

from __future__ import annotations

from typing import Iterable, Mapping

_PARTS_MAX = 20


def ranges(numbers: Iterable[int]) -> str:
    """Return "0-2,5" for 0, 1, 2 and 5; of very many parts the first ones."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    words = [str(low) if low == high else f"{low}-{high}" for low, high in parts]
    return ",".join(words[:_PARTS_MAX]) + (",..." if len(words) > _PARTS_MAX else "")


def name_ranks(ranks: Iterable[int], hosts: Mapping[int, str]) -> str:
    """Return "rank 3 (gpu02)" of one whose host is known, "ranks 4-7,9" of several."""
    listed = sorted(ranks)
    if len(listed) == 1:
        return f"rank {listed[0]}" + (f" ({hosts[listed[0]]})" if listed[0] in hosts else "")
    return f"ranks {ranges(listed)}"
