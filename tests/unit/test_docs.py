"""What the documents say is there, is there: paths, links, commands and options."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from envsmith import __version__
from envsmith.cli.main import app
from tests.source_tree import ROOT

DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
TOP_FOLDERS = (".ci/", ".github/", "benchmarks/", "docs/", "envsmith/", "matrix/", "templates/", "tests/", "tools/")

BUILD_COMMAND = (
    "python3 -m venv .venv && .venv/bin/pip install -q . && .venv/bin/envsmith build --torch 2.6 --cuda 12.1"
)
TEST_COMMAND = (
    "python3 -m venv .venv && .venv/bin/pip install -q -U 'pip>=25.1'"
    " && .venv/bin/pip install -q -e . --group test && .venv/bin/pytest"
)


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def code_blocks(text: str) -> list[str]:
    """Contents of the fenced blocks."""
    return re.findall(r"^```[^\n]*\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def prose(text: str) -> str:
    """The text without fenced blocks."""
    return re.sub(r"^```[^\n]*\n.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def named_paths(text: str) -> list[str]:
    """Paths of the checkout named in `code` spans; those with a placeholder (<name>) are patterns."""
    spans = re.findall(r"`([^`\n]+)`", prose(text))
    return [re.sub(r"<[^>]+>", "*", span) for span in spans if span.startswith(TOP_FOLDERS) and " " not in span]


def missing_paths(text: str) -> list[str]:
    return [path for path in named_paths(text) if not any(ROOT.glob(path.rstrip("/")))]


def anchors(path: Path) -> set[str]:
    """Anchors as GitHub makes them from headings."""
    headings = re.findall(r"^#+ +(.+)$", prose(path.read_text(encoding="utf-8")), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(document: Path) -> list[str]:
    """Relative links of a document whose file or anchor does not exist."""
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(document.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        path = (document.parent / file).resolve() if file else document
        if not path.exists() or (anchor and anchor not in anchors(path)):
            broken.append(target)
    return broken


def commands_in(text: str) -> list[list[str]]:
    """Command lines of envsmith in fenced blocks, as words after `envsmith`; output lines are not commands."""
    found = []
    for line in "\n".join(code_blocks(text)).replace("\\\n", " ").splitlines():
        match = re.match(r"(?:.*&& )?(?:\$ )?(?:\.venv/bin/)?envsmith (?!.*: )(.+)$", line)
        if match:
            found.append(shlex.split(match[1], comments=True))
    return found


def unknown_words(words: list[str]) -> list[str]:
    """Subcommands and options of a command line that the program does not have."""
    command: click.Command = app
    rest = list(words)
    while rest and isinstance(command, click.Group) and not rest[0].startswith("-"):
        found = command.get_command(click.Context(command), rest[0])
        if found is None:
            return [rest[0]]
        command = found
        rest.pop(0)
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    typed = {word.partition("=")[0] for word in rest if word.startswith("-")}
    return sorted(typed - options - {"-h", "--help"})


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_links_resolve(document: Path) -> None:
    assert broken_links(document) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_named_paths_exist(document: Path) -> None:
    assert missing_paths(document.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_commands_and_options_exist(document: Path) -> None:
    lines = commands_in(document.read_text(encoding="utf-8"))
    assert {" ".join(words): unknown_words(words) for words in lines if unknown_words(words)} == {}


def test_the_readme_opens_with_the_two_commands() -> None:
    first, second = code_blocks((ROOT / "README.md").read_text(encoding="utf-8"))[:2]
    assert (first, second) == (BUILD_COMMAND + "\n", TEST_COMMAND + "\n")


def test_the_changelog_knows_this_version() -> None:
    assert re.search(
        rf"^## \[{re.escape(__version__)}\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )


def test_stale_names_are_caught() -> None:
    assert missing_paths("see `envsmith/no_such.py`, `docs/` and `matrix/<kind>.json`") == ["envsmith/no_such.py"]
    assert unknown_words(["paln", "--torch", "2.6"]) == ["paln"]
    assert unknown_words(["plan", "--toorch", "2.6"]) == ["--toorch"]
    assert commands_in("```\n$ envsmith plan --torch 2.6\nenvsmith: error: no\n```") == [["plan", "--torch", "2.6"]]
