"""Which ranks are slower than the others: judged by their own clocks, so that waiting for another counts for nobody.

A collective takes all of its ranks as long as the slowest one needs, so its time names nobody. What is compared is the
time that each rank takes for the same piece of work alone, and the time of a message to its neighbour and back.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Mapping, Sequence

# Healthy GPUs of one model are within some 5 % of each other, those of a hot and a cool place within 15 %.
WORK_RATIO = 1.3
# Cables, switches and sockets make links of one kind differ, up to twice; through sockets on busy CPUs 2.4 was seen.
LINK_RATIO = 3.0
# 1.4826 * MAD estimates the standard deviation of normal noise without minding outliers.
_NOISE = 5 * 1.4826
# Nothing is said of less: a timer's and a scheduler's grain.
_GRAIN_S = 100e-6
_LINKS_MIN = 3


@dataclass(frozen=True)
class Times:
    """Seconds of one rank of the collective. kind: what it ran on; only ranks of one kind are compared.

    work_s: the same work, repeated. link_s: a message to the next rank of the ring and back, repeated.
    """

    kind: str
    node: int
    work_s: Sequence[float]
    link_s: Sequence[float] = ()


def spread(values: Sequence[float]) -> float:
    """Median absolute deviation."""
    middle = median(values)
    return median(abs(value - middle) for value in values)


def slow_ranks(times: Mapping[int, Times]) -> dict[int, float]:
    """Rank -> how many times as long as the others of its kind it takes for the same work.

    Either its median is beyond the noise of the rounds, or even its quickest round is too slow: a processor with a
    quota is slow in all rounds, and unsteady.
    """
    found = {}
    middles = {rank: median(one.work_s) for rank, one in times.items() if one.work_s}
    for rank, mine in middles.items():
        others = [other for other in middles if other != rank and times[other].kind == times[rank].kind]
        if not others:
            continue
        usual = median(middles[other] for other in others)
        noise = max(spread(times[rank].work_s), median(spread(times[other].work_s) for other in others))
        quickest = min(times[rank].work_s)
        beyond_noise = mine > WORK_RATIO * usual and mine - usual > _NOISE * noise
        if (beyond_noise or quickest > WORK_RATIO * usual) and mine - usual > _GRAIN_S:
            found[rank] = mine / usual
    return found


def slow_links(times: Mapping[int, Times]) -> dict[tuple[int, int], float]:
    """(rank, next rank) -> how many times as long as the better links of its kind, within a host or between hosts."""
    ranks = sorted(times)
    kinds: dict[bool, dict[tuple[int, int], Sequence[float]]] = {True: {}, False: {}}
    for rank in ranks:
        after = (rank + 1) % len(ranks)
        if times[rank].link_s and after in times:
            kinds[times[rank].node == times[after].node][rank, after] = times[rank].link_s
    found = {}
    for links in kinds.values():
        if len(links) < _LINKS_MIN:
            continue
        # the quickest round: a slow link slows all of them, a busy processor only some
        quickest = {link: min(seconds) for link, seconds in links.items()}
        # the lower quartile: one slow rank of three makes two of three links slow
        usual = sorted(quickest.values())[(len(links) - 1) // 4]
        for link, seconds in quickest.items():
            if seconds > LINK_RATIO * usual and seconds - usual > _GRAIN_S:
                found[link] = seconds / usual
    return found


def blame(links: Mapping[tuple[int, int], float]) -> tuple[dict[int, float], dict[tuple[int, int], float]]:
    """Ranks with both links slow, and the slow links that no such rank explains."""
    ends: dict[int, list[float]] = {}
    for link, ratio in links.items():
        for rank in link:
            ends.setdefault(rank, []).append(ratio)
    ranks = {rank: min(ratios) for rank, ratios in ends.items() if len(ratios) == 2}
    return ranks, {link: ratio for link, ratio in links.items() if not set(link) & set(ranks)}
