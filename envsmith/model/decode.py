"""JSON bytes -> frozen dataclasses, with one clear error that names the file and the field."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from envsmith.errors import UsageError

T = TypeVar("T")


def decode(data: bytes | str, kind: type[T], what: str) -> T:
    """Decode JSON into `kind`.

    `what` names the input in errors, for example "snapshot machine.json".
    Raises UsageError when it is not JSON, nested too deeply, or a field is missing or of the wrong type.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{what} is not usable: {error}") from error
