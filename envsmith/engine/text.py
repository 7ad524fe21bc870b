"""Text from an engine, a build or a container, made fit for a terminal: nothing in it moves the cursor or hides."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote, urlsplit

MASK = "****"
# CSI, OSC (ended by BEL or ST) and the two-character escapes, in this order.
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]?")
# C0 and C1 controls, line and paragraph separators, lone surrogates, and the characters that reorder text.
_UNPRINTABLE = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_LINE_MAX = 2000


def printable(line: str, secrets: Iterable[str] = ()) -> str:
    """One line without control or escape characters, with every secret replaced by ****.

    Of a line that overwrote itself with carriage returns the last state is kept. Lines are cut at 2000 characters.
    """
    states = [state for state in line.split("\r") if state.strip()]
    text = _UNPRINTABLE.sub("", _ESCAPES.sub("", states[-1] if states else ""))
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text if len(text) <= _LINE_MAX else text[:_LINE_MAX] + " ..."


def secrets_in(url: str) -> tuple[str, ...]:
    """What must never be shown of a URL: the password, raw and decoded; or a user name without one, which is a token.

    Some indexes write the latter as "https://TOKEN:@host".
    Longest first, so that replacing one never leaves a piece of another. A URL without credentials has none.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return (url,)
    raw = parts.password or parts.username
    if not raw:
        return ()
    return tuple(sorted({raw, unquote(raw)}, key=len, reverse=True))


def mask_url(url: str) -> str:
    """The URL with its password or token masked."""
    return printable(url, secrets_in(url))
