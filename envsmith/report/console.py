"""Text for people: a rich console without markup, and text from elsewhere made harmless before it is shown."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from envsmith.engine.text import printable

# The names of styles are rich's. One word one colour in everything that envsmith prints.
STYLES = {
    "pass": "green",
    "found": "red",
    "fail": "bold red",
    "crash": "bold red",
    "timeout": "bold red",
    "skip": "yellow",
    "ERROR": "bold red",
    "WARNING": "yellow",
    "INFO": "cyan",
}


def console(*, stderr: bool = False) -> Console:
    """A console for stdout or stderr. Colour only on a terminal and without NO_COLOR, both as rich sees them."""
    return Console(stderr=stderr, markup=False, highlight=False, emoji=False)


def clean(text: str) -> str:
    """One line of somebody else's text without anything that moves the cursor or hides."""
    return printable(" ".join(text.splitlines()))


def indented(text: Text | str, columns: int) -> Padding:
    """A paragraph that keeps its indent when it wraps."""
    return Padding(text if isinstance(text, Text) else Text(text), (0, 0, 0, columns), expand=False)


def command_line(target: Console, command: str, columns: int) -> None:
    """Print a command so that it can be copied whole: it is never broken by us, however long it is."""
    target.print(Text.assemble(" " * columns, ("$ ", "dim"), (clean(command), "bold")), soft_wrap=True)
