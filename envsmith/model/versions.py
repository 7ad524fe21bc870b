"""Thin helpers over `packaging.version`: every version comparison in envsmith goes through them."""

from __future__ import annotations

from functools import lru_cache

from packaging.version import InvalidVersion, Version


@lru_cache(maxsize=4096)
def parse(text: str) -> Version:
    """Parse a version; raises packaging's InvalidVersion. Driver versions ("535.104.05") work too."""
    return Version(text)


def is_version(text: str) -> bool:
    """Tell whether `parse` would accept the text."""
    try:
        parse(text)
    except InvalidVersion:
        return False
    return True


@lru_cache(maxsize=4096)
def major(text: str) -> int:
    """Major number: 12 for "12.4.1"."""
    return parse(text).release[0]


@lru_cache(maxsize=4096)
def minor_of(text: str) -> str:
    """The first two numbers as text: "12.4" for "12.4.1"."""
    release = (*parse(text).release, 0)
    return f"{release[0]}.{release[1]}"


@lru_cache(maxsize=4096)
def has_prefix(version: str, prefix: str) -> bool:
    """Whether `version` begins with the numbers of `prefix`: 2.6.0 has prefix 2.6, 2.60.0 has not."""
    wanted = parse(prefix).release
    return parse(version).release[: len(wanted)] == wanted


def public(text: str) -> str:
    """The version without its local part: "2.6.0" for "2.6.0+cu124"."""
    return parse(text).public
