"""/etc/os-release: shell-like assignments, see os-release(5)."""

from __future__ import annotations


def os_release(text: str) -> dict[str, str]:
    """Return the assignments with their quotes and escapes resolved; lines that are none are passed over."""
    values = {}
    for line in text.splitlines():
        name, equals, raw = line.strip().partition("=")
        if not equals or not name.replace("_", "").isalnum() or name.startswith("#"):
            continue
        values[name] = _unquote(raw.strip())
    return values


def _unquote(raw: str) -> str:
    if len(raw) >= 2 and raw[0] == raw[-1] and raw[0] in "\"'":
        inner = raw[1:-1]
        if raw[0] == "'":
            return inner
        for escaped in ('\\"', "\\$", "\\`", "\\\\"):
            inner = inner.replace(escaped, escaped[1])
        return inner
    return raw
