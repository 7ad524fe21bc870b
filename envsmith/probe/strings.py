"""All strings of a snapshot at once: reading them, changing them, making them printable."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass, replace
from typing import Any, Callable, Iterator

# control characters, lone surrogates, and marks that change the direction of text on a terminal
_UNPRINTABLE = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\ud800-\\udfff\\u202a-\\u202e\\u2066-\\u2069]")


def printable(text: str) -> str:
    """Text that any JSON reader and any terminal takes: what is not printable, tab or newline becomes U+FFFD."""
    if text.isprintable():
        return text
    return _UNPRINTABLE.sub("\ufffd", text)


def texts(value: Any) -> Iterator[str]:
    """Every string in a tree of dataclasses and tuples."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from texts(item)
    elif is_dataclass(value):
        for field in fields(value):
            yield from texts(getattr(value, field.name))


def mapped(value: Any, change: Callable[[str], str]) -> Any:
    """The same tree with every string changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, tuple):
        return tuple(mapped(item, change) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: mapped(getattr(value, field.name), change) for field in fields(value)})
    return value
