"""Text into shell commands and Dockerfiles, as data and never as syntax.

Every value that somebody else chose (a tag, a label, a package name, a path) goes through one of these
functions on its way into a command line that a person is shown or a Dockerfile that BuildKit reads.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from envsmith.errors import UsageError

# as the first word of a command: an assignment, or a reserved word (POSIX.1-2024 XCU 2.4, and those of bash)
_SYNTAX_WHEN_FIRST = re.compile(
    r".*=.*|case|coproc|do|done|elif|else|esac|fi|for|function|if|in|namespace|select|then|time|until|while"
)
_LABEL_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?")
_IMAGE_NAME = re.compile(r"[a-z0-9](?:[A-Za-z0-9._/:@-]*[A-Za-z0-9])?")


def shell_word(text: str) -> str:
    """Return `text` as one word of a POSIX shell command, whatever it holds, line breaks too.

    Raises UsageError for a NUL, which no argument of a process can hold.
    """
    if "\0" in text:
        raise UsageError(f"{text!r} holds a NUL character, which no command argument can hold")
    return shlex.quote(text)


def shell_command(argv: Sequence[str]) -> str:
    """Return an argument list as a POSIX shell command that runs just that.

    Raises UsageError for an empty list or a NUL.
    """
    if not argv:
        raise UsageError("an empty command cannot be run")
    name, *arguments = argv
    first = shell_word(name)
    if first == name and _SYNTAX_WHEN_FIRST.fullmatch(name):
        first = f"'{name}'"
    return " ".join([first, *map(shell_word, arguments)])


def dockerfile_string(text: str) -> str:
    """Return `text` as a double-quoted Dockerfile string (LABEL, ENV, ARG), with nothing left to expand.

    BuildKit takes a backslash in double quotes away only before `"`, `$` and a backslash.
    Raises UsageError for what a Dockerfile string cannot hold: a line break (the syntax has no escape for
    one), a NUL and a lone surrogate.
    """
    _refuse_unwritable(text)
    return '"' + re.sub(r'([\\"$])', r"\\\1", text) + '"'


def run_word(text: str) -> str:
    """Return `text` as one shell word of a Dockerfile RUN instruction.

    BuildKit cuts instructions at line breaks before the shell sees any quote, so, other than in
    `shell_word`, a line break raises UsageError; so do a NUL and a lone surrogate.
    """
    _refuse_unwritable(text)
    return shell_word(text)


def label_name(text: str) -> str:
    """Return `text` if it can be an image label's name: letters, digits, `.`, `_`, `/` and `-`.

    Quotes would not help: BuildKit cuts name from value at the first `=`, quoted or not.
    Raises UsageError.
    """
    return _matching(_LABEL_NAME, text, "a label name (letters, digits, '.', '_', '/' and '-')")


def image_name(text: str) -> str:
    """Return `text` if it can stand in FROM, which has no quotes: `[host/]name[:tag][@digest]`.

    Raises UsageError.
    """
    return _matching(_IMAGE_NAME, text, "an image name ([host/]name[:tag][@digest])")


def _matching(pattern: re.Pattern[str], text: str, expected: str) -> str:
    if not pattern.fullmatch(text):
        raise UsageError(f"{text!r} is not {expected}")
    return text


def _refuse_unwritable(text: str) -> None:
    """Raise UsageError for characters that no Dockerfile string can hold."""
    if "\n" in text:
        raise UsageError(f"{text!r} holds a line break, which a Dockerfile string cannot hold", "write it on one line")
    if "\0" in text:
        raise UsageError(f"{text!r} holds a NUL character, which a Dockerfile string cannot hold")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise UsageError(f"{text!r} is not valid Unicode text")
