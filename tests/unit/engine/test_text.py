"""Texts of others: nothing in them moves the cursor, hides, or shows a password."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsmith.engine.text import mask_url, printable, secrets_in


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("plain \t text", "plain \t text"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;unterminated", ""),
        ("10%\r50%\r100%\r", "100%"),
        ("bell\a back\b \x9b31m", "bell back 31m"),
        ("a\u202egnp.exe\u2066", "agnp.exe"),
        ("\x1b", ""),
    ],
)
def test_only_text_is_left(line: str, shown: str) -> None:
    assert printable(line) == shown


@given(st.text())
def test_no_control_or_lone_surrogate_is_left(line: str) -> None:
    left = printable(line)
    assert not [c for c in left if unicodedata.category(c) in {"Cc", "Cs", "Zl", "Zp"} and c != "\t"]


def test_a_long_line_is_cut() -> None:
    assert len(printable("x" * 10_000)) == 2004


@pytest.mark.parametrize(
    ("url", "secrets"),
    [
        ("https://user:p%40ss@host/simple", {"p%40ss", "p@ss"}),
        ("https://token@host/simple", {"token"}),
        ("https://host/simple", set()),
        ("https://token:@host/simple", {"token"}),
    ],
)
def test_what_is_secret_in_a_url(url: str, secrets: set[str]) -> None:
    assert set(secrets_in(url)) == secrets


def test_a_url_that_cannot_be_read_is_secret_as_a_whole() -> None:
    assert mask_url("https://user:pw@[bad/simple") == "****"


def test_a_masked_url_keeps_its_user_and_host() -> None:
    assert mask_url("https://user:p%40ss@host/simple") == "https://user:****@host/simple"
