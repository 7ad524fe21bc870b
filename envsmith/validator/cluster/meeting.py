"""Where the processes of a launch meet: values under names in torch's TCPStore, and who is still alive.

Nothing here waits without a limit or without looking whether the other still lives. Each process has a heart, a
process of its own that counts up a number of the store each second; when a rank's number stands still, it is dead.
Of the store only set, get and add are used, as they are the same in every torch from 2.0 on; add(key, 0) reads a
number without waiting for it.
"""

from __future__ import annotations

import json
import time
from typing import Any, Callable, Iterable

from envsmith.validator.text import one_message

BEAT_S = 1.0
# A heart of a machine with far too much to do still beats now and then.
DEAD_AFTER_S = 30.0
_POLL_S = 0.1
_LOOK_S = 2.0


class ClusterProblem(Exception):  # noqa: N818 - an outcome
    """Why the processes could not work together; one line."""


class RankGone(ClusterProblem):
    """Rank 0 has died, or its store has."""


class Meeting:
    """One rank's side of the meeting. store: set, get and add as torch's stores have them. prefix: of all keys."""

    def __init__(self, store: Any, rank: int, world: int, prefix: str, dead_after_s: float = DEAD_AFTER_S) -> None:
        self._store = store
        self._rank = rank
        self._world = world
        self._prefix = prefix
        self._dead_after_s = dead_after_s
        self._beats: dict[int, tuple[int, float]] = {}

    def beat(self) -> None:
        """Count up this rank's number."""
        self._store.add(self._key("beat", self._rank), 1)

    def post(self, name: str, value: object) -> None:
        """Lay down this rank's value. Raises ClusterProblem when another process has done so as the same rank."""
        data = json.dumps(value, allow_nan=False)
        if self._add(self._key(name, self._rank, "posts"), 1) > 1:
            raise ClusterProblem(f"two processes say that they are rank {self._rank}")
        self._call(lambda: self._store.set(self._key(name, self._rank), data))
        self._add(self._key(name, self._rank, "there"), 1)
        self._add(self._key(name, "count"), 1)

    def gather(self, name: str, limit_s: float, *, watch: bool) -> tuple[dict[int, Any], dict[int, str]]:
        """For rank 0: the values of all ranks, and of those whose value did not come, why: "missing" or "died".

        watch: the ranks have arrived, and whose heart stands still is not waited for.
        """
        deadline = time.monotonic() + limit_s
        dead: set[int] = set()
        look_at = time.monotonic() + _LOOK_S
        while self._add(self._key(name, "count"), 0) < self._world - len(dead):
            if time.monotonic() > deadline:
                break
            if watch and time.monotonic() > look_at:
                dead = {rank for rank in self._not_there(name, range(self._world)) if not self.lives(rank)}
                look_at = time.monotonic() + _LOOK_S
            time.sleep(_POLL_S)
        absent = self._not_there(name, range(self._world))
        values = {rank: self._read(name, rank) for rank in range(self._world) if rank not in absent}
        return values, {rank: "died" if rank in dead else "missing" for rank in absent}

    def read(self, name: str, limit_s: float | None) -> Any:
        """The value of rank 0, waited for as long as its heart beats, and not longer than limit_s.

        Raises ClusterProblem when it does not come.
        """
        deadline = None if limit_s is None else time.monotonic() + limit_s
        look_at = time.monotonic() + _LOOK_S
        while self._not_there(name, (0,)):
            now = time.monotonic()
            if deadline is not None and now > deadline:
                raise ClusterProblem(f"rank 0 gave no {name} within {limit_s:g} s")
            if now > look_at:
                look_at = now + _LOOK_S
                if not self.lives(0):
                    raise RankGone(f"rank 0 died before it gave a {name}")
            time.sleep(_POLL_S)
        return self._read(name, 0)

    def lives(self, rank: int) -> bool:
        """Whether the rank's heart has beaten lately, as far as this process has watched it."""
        count, now = self._add(self._key("beat", rank), 0), time.monotonic()
        before, since = self._beats.get(rank, (-1, now))
        if count != before:
            self._beats[rank] = (count, now)
            return True
        return now - since < self._dead_after_s

    def _not_there(self, name: str, ranks: Iterable[int]) -> list[int]:
        return [rank for rank in ranks if not self._add(self._key(name, rank, "there"), 0)]

    def _read(self, name: str, rank: int) -> Any:
        data = self._call(lambda: self._store.get(self._key(name, rank)))
        return json.loads(data.decode() if isinstance(data, bytes) else data)

    def _add(self, key: str, amount: int) -> int:
        return int(self._call(lambda: self._store.add(key, amount)))

    def _call(self, request: Callable[[], Any]) -> Any:
        try:
            return request()
        except RuntimeError as error:  # torch's errors of connections are
            raise RankGone(f"the store of rank 0 is gone: {first_line(error)}") from error

    def _key(self, *parts: object) -> str:
        return "/".join((self._prefix, *map(str, parts)))


def first_line(error: BaseException) -> str:
    """What an error of torch says, without its C++ stack."""
    text = str(error).strip()
    return one_message(text.splitlines()[0]) if text else type(error).__name__
