"""Whatever a file holds, decoding it ends in a value or in one clear error."""

from __future__ import annotations

import pytest

from envsmith.errors import UsageError
from envsmith.model.decode import decode
from envsmith.wire.facts import Snapshot

START = b'{"tool": "a", "collected_at": "b", "gaps": '


def test_unknown_fields_are_passed_over() -> None:
    assert decode(START + b'[], "later": [1]}', Snapshot, "snapshot x").tool == "a"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        START + b"1e999}",
        START + b"[1]}",
        START + b'[], "schema": ' + b"9" * 10_000 + b"}",
        START + b'[], "later": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"tool": "\\ud800", "collected_at": "b"}',
    ],
)
def test_what_is_no_snapshot_is_one_clear_error(data: bytes) -> None:
    with pytest.raises(UsageError, match=r"^snapshot x is not usable: "):
        decode(data, Snapshot, "snapshot x")
