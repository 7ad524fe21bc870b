"""Dataclass -> plain JSON value. One direction only: decoding is the host's work."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, is_dataclass
from typing import Any


def to_plain(value: Any) -> Any:
    """Turn dataclasses and tuples into dictionaries and lists, keeping field order."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): to_plain(item) for key, item in value.items()}
    return value


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces, so that equal values have equal digests."""
    return json.dumps(to_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest(value: Any) -> str:
    """Return "sha256:<hex>" of the canonical JSON of a value."""
    return "sha256:" + hashlib.sha256(canonical_json(value).encode("ascii")).hexdigest()
