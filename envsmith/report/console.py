"""Text for people: a rich console without markup, and text from elsewhere made harmless before it is shown."""

from __future__ import annotations

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
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


def indented(content: RenderableType, columns: int) -> Padding:
    """A paragraph, or a table, that keeps its indent when it wraps."""
    return Padding(Text(content) if isinstance(content, str) else content, (0, 0, 0, columns), expand=False)


def hanging(label: Text | str, text: Text | str, columns: int = 0) -> Padding:
    """A label and a paragraph beside it that wraps under itself, not under the label."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(label, text)
    return indented(grid, columns)


def command_line(target: Console, command: str, columns: int) -> None:
    """Print a command so that it can be copied whole: it is never broken by us, however long it is."""
    target.print(Text.assemble(" " * columns, ("$ ", "dim"), (clean(command), "bold")), soft_wrap=True)
