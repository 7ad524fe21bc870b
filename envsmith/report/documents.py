"""JSON documents on stdout: one a command, with `schema` and `kind` first."""

from __future__ import annotations

import json

from envsmith.wire.encode import to_plain


def document(value: object) -> str:
    """The JSON document of a dataclass that has the fields `schema` and `kind`."""
    plain = to_plain(value)
    first = {name: plain[name] for name in ("schema", "kind")}
    return json.dumps({**first, **plain}, indent=2, allow_nan=False)


def print_json(value: object) -> None:
    """Print the one JSON document of a command."""
    print(document(value))
