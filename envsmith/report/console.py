"""Text for people: paragraphs with hanging indents on a rich console, and others' text made harmless first."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from envsmith.engine.text import printable
from envsmith.model.certificate import CERTIFIED, FAILED

# One word one colour in everything that a check or a certificate says. The names of styles are rich's.
STYLES = {
    "pass": "green",
    "fail": "bold red",
    "crash": "bold red",
    "timeout": "bold red",
    "skip": "yellow",
    "good": "green",
    "low": "bold red",
    "inconclusive": "yellow",
    "ERROR": "bold red",
    "WARNING": "yellow",
    "INFO": "cyan",
}
_VERDICT_STYLES = {CERTIFIED: "bold green", FAILED: "bold red"}
_NARROWEST_COLUMNS = 20


def verdict_style(status: str) -> str:
    """The style of a verdict, whatever it is: what is neither good nor bad is yellow."""
    return _VERDICT_STYLES.get(status, "bold yellow")


def clean(text: str) -> str:
    """One line of somebody else's text without anything that moves the cursor or hides."""
    return printable(" ".join(text.splitlines()))


class Page:
    """A stream of paragraphs to stdout or stderr. Lines have no trailing spaces; commands are never broken.

    Colour only on a terminal and without NO_COLOR, both as rich sees them; nothing is read as markup.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        self.console = Console(stderr=stderr, markup=False, highlight=False, emoji=False)

    def title(self, text: str) -> None:
        """A heading."""
        self._line(Text(text, "bold underline"))

    def blank(self) -> None:
        """An empty line."""
        self.console.print()

    def line(self, text: Text | str, indent: int = 0) -> None:
        """One line that is not wrapped by us, so that what it holds can be copied."""
        self._line(Text.assemble(" " * indent, text))

    def command(self, command: str, indent: int = 0) -> None:
        """A command to copy, on one line however long it is."""
        self.line(Text.assemble(("$ ", "dim"), (clean(command), "bold")), indent)

    def paragraph(self, text: Text | str, indent: int = 0) -> None:
        """Text that wraps and keeps its indent."""
        self.hanging("", text, indent)

    def hanging(self, label: Text | str, text: Text | str, indent: int = 0) -> None:
        """A label and text beside it, which wraps under itself and not under the label."""
        label = Text(label) if isinstance(label, str) else label
        text = Text(text) if isinstance(text, str) else text
        gap = indent + label.cell_len + (1 if label else 0)
        width = max(_NARROWEST_COLUMNS, self.console.width - gap)
        for number, wrapped in enumerate(text.wrap(self.console, width, overflow="fold")):
            wrapped.rstrip()
            before = Text.assemble(" " * indent, label, " " if label else "") if number == 0 else Text(" " * gap)
            self._line(Text.assemble(before, wrapped))

    def _line(self, text: Text) -> None:
        text.rstrip()
        self.console.print(text, soft_wrap=True)
