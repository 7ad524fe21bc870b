"""What was asked of a run of checks: the options of the bundle's `check`, and what they come to."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING, Mapping

from envsmith.validator.cluster.launch import LaunchError, Place, read_place, require_timeout
from envsmith.validator.selection import SelectionError, choose, stress_seconds, words
from envsmith.wire.results import LEVELS, STANDARD, Expectation

if TYPE_CHECKING:
    from envsmith.validator.check import Check


class AskedError(Exception):
    """What was asked for makes no sense."""


@dataclass(frozen=True)
class Asked:
    """What was asked for. gpus: words that name devices; none for all.

    place: of this process in a launch of several, None where it is alone. wait_s: how long it waits for the others.
    """

    checks: tuple[Check, ...]
    level: str
    stress_s: float
    gpus: tuple[str, ...]
    expectation: Expectation | None
    require_gpu: bool
    place: Place | None
    wait_s: float

    @property
    def is_follower(self) -> bool:
        """Whether another process of the launch reports."""
        return self.place is not None and self.place.rank != 0


def add_options(check: argparse.ArgumentParser) -> None:
    """Give `check` its options."""
    check.add_argument("--list", action="store_true", help="list the checks and exit")
    check.add_argument("--only", action="append", default=[], metavar="ID", help="run only this check (repeatable)")
    check.add_argument("--skip", action="append", default=[], metavar="ID", help="leave out this check (repeatable)")
    check.add_argument("--level", choices=LEVELS, default=STANDARD, help="how much is run; default: standard")
    check.add_argument("--seconds", type=float, metavar="N", help="how long a check of level stress works; default: 60")
    check.add_argument(
        "--gpus", action="append", default=[], metavar="WHICH", help="run on these: indexes or UUIDs, with commas"
    )
    check.add_argument("--expect", metavar="JSON", help="what the environment should hold, as JSON")
    check.add_argument("--require-gpu", action="store_true", help="fail unless every check passed on a GPU")
    check.add_argument("--no-cluster", action="store_true", help="under torchrun, srun or a Job: this machine alone")
    check.add_argument("--cluster-timeout", type=float, metavar="N", help="how long to wait for nodes; default: 300")


def read_options(options: argparse.Namespace, env: Mapping[str, str]) -> Asked:
    """Raises AskedError."""
    from envsmith.validator.expectation import read_expectation

    try:
        checks = choose(words(options.only), words(options.skip), options.level)
        stress_s = stress_seconds(options.seconds, options.level)
    except SelectionError as error:
        raise AskedError(f"{error}: {error.hint}") from None
    try:
        expectation = read_expectation(options.expect) if options.expect is not None else None
    except ValueError as error:
        raise AskedError(f"--expect: {error}") from None
    gpus = words(options.gpus)
    if options.gpus and not gpus:
        raise AskedError("--gpus names none: give indexes or UUIDs, with commas")
    try:
        wait_s = require_timeout(options.cluster_timeout)
        place = None if options.no_cluster else read_place(env)
    except LaunchError as error:
        raise AskedError(str(error)) from None
    return Asked(checks, options.level, stress_s, gpus, expectation, options.require_gpu, place, wait_s)
