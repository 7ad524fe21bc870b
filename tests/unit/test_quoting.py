"""Quoted text comes back unchanged: from a real /bin/sh, and from a model of BuildKit's string lexer.

The same strings go through a real `docker buildx build` in tests/docker/test_quoting.py.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsmith import quoting
from envsmith.errors import UsageError

HOSTILE = (
    "",
    " ",
    "-n",
    "~",
    "#",
    "$(id)",
    "`id`",
    "${HOME}",
    "$",
    "\\",
    "\\\\",
    "a\\",
    "'",
    '"',
    "'\"'\"'",
    "a'b\"c\\d$e`f",
    "{{ 7*7 }}",
    "{% raw %}",
    "# syntax=evil/frontend",
    "<<EOF",
    "a;b&c|d>e<f",
    "\t\x01\x1b[31m\x7f\r",
    "naïve 漢字 🔥 \u2028\u00a0\ufeff",
    "*?[a-z]",
    "!!",
)
# what an argument can hold: no NUL, and no lone surrogate, which has no encoding
ARGUMENTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)
SHELL_SYNTAX = st.text("ab \t\n'\"\\$`{}()#;&|<>*?[]!~=-", max_size=20)


def words_seen_by_sh(command: str) -> list[str]:
    """Run a command line whose program prints its arguments, each ended by a NUL."""
    finished = subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=True)
    return finished.stdout.decode().split("\0")[:-1]


def read_dockerfile_string(quoted: str) -> str:
    """Lex one double-quoted word as BuildKit's frontend/dockerfile/shell/lex.go does, with no variable set."""
    assert quoted[0] == '"'
    assert "\n" not in quoted, "the parser cuts lines before it looks at quotes"
    out, position = "", 1
    while quoted[position] != '"':
        character = quoted[position]
        if character == "\\" and quoted[position + 1] in '"$\\':
            position += 1
            character = quoted[position]
        elif character == "$":
            pytest.fail(f"{quoted!r} would be expanded")
        out += character
        position += 1
    assert position == len(quoted) - 1, f"{quoted!r} goes on after its closing quote"
    return out


@given(st.lists(st.one_of(ARGUMENTS, SHELL_SYNTAX, st.sampled_from(HOSTILE)), min_size=1, max_size=20))
def test_shell_words_come_back_from_a_real_shell(words: list[str]) -> None:
    command = "printf '%s\\0' " + " ".join(map(quoting.shell_word, words))
    assert words_seen_by_sh(command) == words


@given(st.lists(st.one_of(ARGUMENTS, SHELL_SYNTAX), max_size=10))
def test_a_shell_command_runs_just_its_arguments(arguments: list[str]) -> None:
    printer = r"import sys; sys.stdout.buffer.write(b''.join(a.encode() + b'\0' for a in sys.argv[1:]))"
    command = quoting.shell_command([sys.executable, "-Ic", printer, *arguments])
    assert words_seen_by_sh(command) == arguments


@pytest.mark.parametrize("name", ["A=b", "if", "in", "while", "#x", "~"])
def test_the_first_word_of_a_command_is_never_syntax(name: str) -> None:
    finished = subprocess.run(
        ["/bin/sh", "-c", quoting.shell_command([name, "x"])], capture_output=True, text=True, check=False
    )
    assert finished.returncode == 127, finished
    assert "not found" in finished.stderr
    assert name in finished.stderr


def test_plain_words_stay_readable() -> None:
    assert quoting.shell_command(["envsmith", "build", "--torch", "2.6"]) == "envsmith build --torch 2.6"
    assert quoting.shell_command(["a b", "--with=x"]) == "'a b' --with=x"


@given(st.one_of(ARGUMENTS, SHELL_SYNTAX, st.sampled_from(HOSTILE)))
def test_dockerfile_strings_come_back_or_are_refused(text: str) -> None:
    if "\n" in text:
        with pytest.raises(UsageError, match="line break"):
            quoting.dockerfile_string(text)
    else:
        assert read_dockerfile_string(quoting.dockerfile_string(text)) == text


@given(st.lists(st.one_of(ARGUMENTS, SHELL_SYNTAX).filter(lambda t: "\n" not in t), min_size=1, max_size=10))
def test_run_words_are_shell_words_on_one_line(words: list[str]) -> None:
    quoted = [quoting.run_word(word) for word in words]
    assert not any("\n" in word for word in quoted)
    assert words_seen_by_sh("printf '%s\\0' " + " ".join(quoted)) == words


@pytest.mark.parametrize("quote", [quoting.dockerfile_string, quoting.run_word])
@pytest.mark.parametrize(
    ("text", "reason"), [("a\nRUN id", "line break"), ("a\0b", "NUL"), ("\ud800", "not valid Unicode")]
)
def test_what_a_dockerfile_cannot_hold_is_refused(quote: object, text: str, reason: str) -> None:
    assert callable(quote)
    with pytest.raises(UsageError, match=reason):
        quote(text)


def test_shell_word_refuses_nul() -> None:
    with pytest.raises(UsageError, match="NUL"):
        quoting.shell_word("a\0b")


def test_an_empty_command_is_refused() -> None:
    with pytest.raises(UsageError, match="empty command"):
        quoting.shell_command([])


@pytest.mark.parametrize("name", ["io.envsmith.plan-digest", "org.opencontainers.image.title", "a", "com.example/x_y"])
def test_label_names_pass(name: str) -> None:
    assert quoting.label_name(name) == name


@pytest.mark.parametrize("name", ["", "a=b", "a b", 'a"', "$x", "-a", "a.", "a\n", "ä"])
def test_label_names_that_would_be_syntax_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="not a label name"):
        quoting.label_name(name)


@pytest.mark.parametrize(
    "name", ["debian:bookworm-slim", "nvidia/cuda:12.4.1-devel-ubuntu22.04", "r.io:5000/a/b@sha256:0f"]
)
def test_image_names_pass(name: str) -> None:
    assert quoting.image_name(name) == name


@pytest.mark.parametrize("name", ["", "a b", "a AS b", "$x", "--platform=x", "a\nRUN id", "#a", "a;id"])
def test_image_names_that_would_be_syntax_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="not an image name"):
        quoting.image_name(name)
