"""Which checks a run is made of, by its level and by name. The catalogue is imported when it is asked for only."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Sequence

from envsmith.validator.text import one_message
from envsmith.wire.results import LEVELS, STANDARD, STRESS

if TYPE_CHECKING:
    from envsmith.validator.check import Check

# How long each check of level stress is to work: long enough to warm a GPU up, at most a day.
STRESS_S_DEFAULT = 60.0
STRESS_S_MIN, STRESS_S_MAX = 1.0, 86_400.0


class SelectionError(Exception):
    """What was asked for cannot be run. hint: what to do about it."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def words(values: Sequence[str]) -> tuple[str, ...]:
    """The names in values that may hold several each, with commas between."""
    return tuple(word.strip() for value in values for word in value.split(",") if word.strip())


def of_level(level: str) -> tuple[Check, ...]:
    """All checks that a level runs, in their order."""
    from envsmith.validator.catalogue import ALL

    return tuple(check for check in ALL if LEVELS.index(check.level) <= LEVELS.index(level))


def choose(only: Sequence[str], skip: Sequence[str], level: str = STANDARD) -> tuple[Check, ...]:
    """The checks to run, in their order: those of `only`, whatever their level, else those of the level.

    Raises SelectionError for an unknown id, or when none is left.
    """
    from envsmith.validator.catalogue import ALL

    known = [check.id for check in ALL]
    for name in (*only, *skip):
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else "see --list"
            raise SelectionError(f"there is no check {one_message(name)!r}", hint)
    wanted = tuple(check for check in ALL if check.id in only) if only else of_level(level)
    chosen = tuple(check for check in wanted if check.id not in skip)
    if not chosen:
        raise SelectionError("--only and --skip leave no check to run", "see --list")
    return chosen


def stress_seconds(seconds: float | None, level: str) -> float:
    """How long a check of level stress is to work. Raises SelectionError where the figure means nothing."""
    if seconds is None:
        return STRESS_S_DEFAULT
    if level != STRESS:
        raise SelectionError("--seconds is about checks of level stress", "add --level stress")
    if not STRESS_S_MIN <= seconds <= STRESS_S_MAX:
        raise SelectionError(
            f"--seconds {seconds:g} is out of bounds", f"give a number from {STRESS_S_MIN:g} to {STRESS_S_MAX:g}"
        )
    return seconds


def listing() -> list[dict[str, object]]:
    """What `check --list` says of each check, for programs."""
    from envsmith.validator.catalogue import ALL

    names = ("id", "title", "level", "limit_s", "needs_gpu", "needs_torch", "per_gpu", "optional", "requires")
    return [{name: getattr(check, name) for name in names} for check in ALL]


def listing_lines() -> list[str]:
    """The same for people, one line a check."""
    from envsmith.validator.catalogue import ALL

    return [
        f"{check.id:24} {check.level:8} {check.limit_s:4g} s  {check.title}"
        + (" [once a GPU]" if check.per_gpu else " [GPU]" if check.needs_gpu else "")
        for check in ALL
    ]
