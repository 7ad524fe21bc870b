"""From what probes of a broken all-reduce gave to its cause: which one to run next, and the finding. Pure functions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Mapping, Sequence

PASSED = "passed"
FAILED = "failed"
HUNG = "hung"
# It did not come as far as NCCL in its time: nothing is known.
UNSURE = "unsure"

P2P_OFF = {"NCCL_P2P_DISABLE": "1"}
SHM_OFF = {"NCCL_SHM_DISABLE": "1"}
SOCKETS_ONLY = {**P2P_OFF, **SHM_OFF}
LOOPBACK = {**SOCKETS_ONLY, "NCCL_SOCKET_IFNAME": "lo"}

# Each setting that is tried alone costs some seconds.
_SINGLE_SETTINGS_MAX = 5
_SHM_SMALL_BYTES = 64 << 20

_REPAIR_P2P = (
    "Look at PCIe ACS and the IOMMU (ACS off, iommu=pt), with NVSwitch at nvidia-fabricmanager, with bridges at "
    "`nvidia-smi nvlink -s`; NCCL_P2P_DISABLE=1 works around it, slower"
)
_REPAIR_SHM = "Give the container more (docker run --shm-size=1g, or --ipc=host)"


@dataclass(frozen=True)
class Probe:
    """One short all-reduce with something changed. teams: groups of GPUs, by index, each on its own side by side."""

    settings: Mapping[str, str | None]
    teams: tuple[tuple[int, ...], ...]

    def __str__(self) -> str:
        changed = [f"{name} unset" if value is None else f"{name}={value}" for name, value in self.settings.items()]
        return " ".join(changed) or "nothing changed"


@dataclass(frozen=True)
class Outcome:
    """What one team of a probe gave. small_passed: the message of a few bytes had gone through."""

    probe: Probe
    team: tuple[int, ...]
    status: str
    detail: str = ""
    small_passed: bool = False


@dataclass(frozen=True)
class Situation:
    """What is known before any probe.

    settings: the user's NCCL variables. interface_problem: why NCCL_SOCKET_IFNAME cannot be obeyed, else None.
    shm_bytes: size of /dev/shm, None when there is none. behind: what the flight recorder says of the ranks.
    """

    gpu_count: int
    settings: Mapping[str, str] = field(default_factory=dict)
    interface_problem: str | None = None
    shm_bytes: int | None = None
    behind: str = ""


def next_probe(situation: Situation, outcomes: Sequence[Outcome]) -> Probe | None:
    """The probe that tells most now, None when there is nothing more to find out."""
    everybody = (tuple(range(situation.gpu_count)),)
    for settings in _ladder(situation):
        status = _status(_of_all(situation, outcomes), settings)
        if status is None:
            return Probe(settings, everybody)
        if status == PASSED:
            if settings == P2P_OFF:
                return _next_pairs(situation, outcomes)
            return _next_single(situation, outcomes, everybody) if settings and None in settings.values() else None
    return _next_pairs(situation, outcomes)


def _ladder(situation: Situation) -> list[Mapping[str, str | None]]:
    """What is changed for all GPUs together, one after the other until it passes."""
    ladder: list[Mapping[str, str | None]] = [{}]
    if situation.settings:
        ladder.append(dict.fromkeys(situation.settings))
    if situation.gpu_count > 1:
        ladder += [P2P_OFF, SHM_OFF, SOCKETS_ONLY, LOOPBACK]
    return ladder


def _of_all(situation: Situation, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes of probes with all GPUs in one team."""
    return [outcome for outcome in outcomes if len(outcome.team) == situation.gpu_count]


def _status(outcomes: Sequence[Outcome], settings: Mapping[str, str | None]) -> str | None:
    """How the first probe with exactly these settings ended, None if there was none."""
    return next((outcome.status for outcome in outcomes if outcome.probe.settings == settings), None)


def _next_single(
    situation: Situation, outcomes: Sequence[Outcome], everybody: tuple[tuple[int, ...], ...]
) -> Probe | None:
    """Without the user's settings it passes: which of them is it?"""
    if len(situation.settings) == 1:
        return None
    for name in list(situation.settings)[:_SINGLE_SETTINGS_MAX]:
        status = _status(outcomes, {name: None})
        if status is None:
            return Probe({name: None}, everybody)
        if status == PASSED:
            return None
    return None


def _next_pairs(situation: Situation, outcomes: Sequence[Outcome]) -> Probe | None:
    """Pairs, with nothing changed, of three GPUs or more."""
    if situation.gpu_count < 3:
        return None
    tried = {outcome.team for outcome in outcomes if len(outcome.team) == 2}
    for teams in pair_rounds(situation.gpu_count):
        if not tried.issuperset(teams):
            return Probe({}, teams)
    return None


def pair_rounds(count: int) -> list[tuple[tuple[int, int], ...]]:
    """All pairs of `count` GPUs, in rounds in which each GPU is in one pair at most: 7 rounds for 8 GPUs.

    The circle method: one stays, the others move on by one place a round.
    """
    places: list[int] = list(range(count + count % 2))  # with an odd number, who meets the last one rests
    rounds = []
    for _ in range(len(places) - 1):
        half = len(places) // 2
        met = [tuple(sorted((places[i], places[-1 - i]))) for i in range(half)]
        rounds.append(tuple(sorted((a, b) for a, b in met if b < count)))
        places = [places[0], places[-1], *places[1:-1]]
    return rounds


def conclude(situation: Situation, outcomes: Sequence[Outcome]) -> str:
    """The finding in one sentence or two: what is broken, and how to mend it."""
    passed = [outcome.probe.settings for outcome in _of_all(situation, outcomes) if outcome.status == PASSED]
    if {} in passed:
        again = "with nothing changed, the same GPUs pass an all-reduce in new processes: NCCL and the links work"
        return f"{situation.behind or 'it does not fail every time'}; {again}"
    unset = [list(settings) for settings in passed if None in settings.values()]
    if unset:
        return _blame_settings(situation, min(unset, key=len))
    size = _size_words(_of_all(situation, outcomes))
    if P2P_OFF in passed:
        who = _who_has_no_p2p(situation, outcomes)
        return f"{who}: the all-reduce passes with NCCL_P2P_DISABLE=1{size}. {_REPAIR_P2P}"
    if SHM_OFF in passed or SOCKETS_ONLY in passed:
        which = "shared memory" if SHM_OFF in passed else "neither P2P nor shared memory"
        verb = "does not work" if SHM_OFF in passed else "works"
        how = " ".join(f"{name}=1" for name in (SHM_OFF if SHM_OFF in passed else SOCKETS_ONLY))
        return f"{which} {verb}: the all-reduce passes with {how}{size}. {_shm_words(situation)}"
    if LOOPBACK in passed:
        return (
            "the network interface that NCCL takes by itself does not carry it: the all-reduce passes with "
            "NCCL_SOCKET_IFNAME=lo (and P2P and shared memory off). Look at the firewall, or name another interface"
        )
    return _all_failed(situation, outcomes, size)


def _blame_settings(situation: Situation, names: list[str]) -> str:
    if names == ["NCCL_SOCKET_IFNAME"] and situation.interface_problem:
        return f"{situation.interface_problem}. Name one of these, or unset it: without it the all-reduce passes"
    told = ", ".join(f"{name}={situation.settings[name]}" for name in names)
    more = situation.interface_problem if "NCCL_SOCKET_IFNAME" in names else None
    return f"{told} breaks it: without {'it' if len(names) == 1 else 'them'} the all-reduce passes" + (
        f" ({more})" if more else ""
    )


def _who_has_no_p2p(situation: Situation, outcomes: Sequence[Outcome]) -> str:
    if situation.gpu_count == 2:
        return "P2P between cuda:0 and cuda:1 does not work"
    tried = [outcome for outcome in outcomes if len(outcome.team) == 2]
    broken = [outcome.team for outcome in tried if outcome.status in (FAILED, HUNG)]
    if not broken:
        return "P2P among all GPUs does not work" + (", though each pair that was tried passes" if tried else "")
    common = set(broken[0]).intersection(*map(set, broken))
    if len(broken) > 1 and len(common) == 1:
        culprit = next(iter(common))
        others = ", ".join(f"cuda:{gpu}" for pair in broken for gpu in pair if gpu != culprit)
        return f"P2P of cuda:{culprit} does not work (with {others})"
    return f"P2P between {', '.join(f'cuda:{a} and cuda:{b}' for a, b in broken)} does not work"


def _size_words(outcomes: Sequence[Outcome]) -> str:
    """Whether, with nothing changed, only large messages are the problem."""
    unchanged = [outcome for outcome in outcomes if not outcome.probe.settings and outcome.status in (FAILED, HUNG)]
    only_large = any(outcome.small_passed for outcome in unchanged)
    return " (with nothing changed, small messages pass and large ones do not)" if only_large else ""


def _shm_words(situation: Situation) -> str:
    if situation.shm_bytes is None:
        return "There is no /dev/shm here. Mount one, or run the container with --ipc=host"
    only = " only" if situation.shm_bytes <= _SHM_SMALL_BYTES else ""
    return f"The size of /dev/shm is{only} {situation.shm_bytes >> 20} MiB. {_REPAIR_SHM}"


def _all_failed(situation: Situation, outcomes: Sequence[Outcome], size: str) -> str:
    good = {gpu for outcome in outcomes if len(outcome.team) == 2 and outcome.status == PASSED for gpu in outcome.team}
    bad = [f"cuda:{gpu}" for gpu in range(situation.gpu_count) if gpu not in good]
    if good and bad:
        return f"every group with {', '.join(bad)} fails, and pairs of the others pass: leave it out, and look at it"
    known = [outcome for outcome in outcomes if outcome.status != UNSURE]
    if not known:
        return situation.behind or "no probe came as far as NCCL in its time"
    tried = list(dict.fromkeys(str(outcome.probe) for outcome in known))
    words = [f"no all-reduce passes, whatever is changed ({'; '.join(tried)}){size}", situation.interface_problem]
    return "; ".join([*filter(None, [situation.behind, *words])])


# What NCCL's own words settle, whatever probes would give.
_KNOWN = (
    (r"Mismatched NCCL version detected.*", "the ranks use different versions of NCCL: {0}"),
    (r"Duplicate GPU detected.*", "two ranks were given the same GPU: {0}"),
    (r"CUDA driver version is insufficient", "the driver is too old for this NCCL: {0}. Update the driver"),
    (r"(?:CUDA out of memory|Cuda failure.*out of memory)", "a GPU has no memory left for it, others use it: {0}"),
    (r".*/dev/shm.*No space left on device.*", "too little room in /dev/shm: {0}. " + _REPAIR_SHM),
    (r".*failed to extend /dev/shm.*", "too little room in /dev/shm: {0}. " + _REPAIR_SHM),
)


def known_cause(words: Sequence[str]) -> str | None:
    """The cause that NCCL's warnings or torch's error name outright, None when they name none."""
    for pattern, finding in _KNOWN:
        for line in words:
            match = re.search(pattern, line)
            if match:
                return finding.format(match.group(0).strip().rstrip("."))
    return None
