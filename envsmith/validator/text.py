"""Make text that other programs wrote safe to show and to store."""

from __future__ import annotations

import re
import unicodedata

# a crash in torch brings a deep stack, and what matters stands above it
LINES_MAX = 60
LINE_LENGTH_MAX = 500
MESSAGE_LENGTH_MAX = 1000

_ESCAPE_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?")


def plain(text: str) -> str:
    """Drop terminal escape sequences and every control, format (bidirectional marks) or unpaired character."""
    without = _ESCAPE_SEQUENCE.sub("", text).replace("\t", " ")
    return "".join(c for c in without if c == "\n" or unicodedata.category(c) not in ("Cc", "Cf", "Cs"))


def last_lines(output: bytes) -> tuple[str, ...]:
    """The last lines of a program's output that hold anything, each cut to a bearable length."""
    # a carriage return starts the line anew, as progress bars do
    lines = (plain(line.rpartition("\r")[2]).rstrip() for line in _lines(output))
    return tuple(line[:LINE_LENGTH_MAX] for line in lines if line)[-LINES_MAX:]


def _lines(output: bytes) -> list[str]:
    return [line.rstrip("\r") for line in output.decode("utf-8", "replace").split("\n")]


def one_message(text: str) -> str:
    """Text of an exception as one bounded paragraph."""
    return " ".join(plain(text).split())[:MESSAGE_LENGTH_MAX]
