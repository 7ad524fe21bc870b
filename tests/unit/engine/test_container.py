"""The output of a container: Docker's frames become lines, however they are cut."""

from __future__ import annotations

import io
from collections import deque
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from envsmith.engine import container


@dataclass
class Response:
    raw: io.BytesIO


def frame(stream: int, piece: bytes) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(piece).to_bytes(4, "big") + piece


def read(data: bytes) -> tuple[list[str], list[str]]:
    lines: list[str] = []
    log: deque[str] = deque(maxlen=40)
    container._read(container._frames(Response(io.BytesIO(data))), lines.append, log)
    return lines, list(log)


def test_both_streams_are_told_apart_and_cut_into_lines() -> None:
    data = frame(1, b"on") + frame(2, b"\x1b[31merr\nlast") + frame(1, b"e\ntwo\xe2\x80\xa8") + frame(1, b"x\n\nend")
    assert read(data) == (["one", "two\u2028x", "", "end"], ["err", "last"])


def test_only_the_end_of_stderr_is_kept() -> None:
    assert read(b"".join(frame(2, b"line %d\n" % number) for number in range(100)))[1][0] == "line 60"


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=20), max_size=10))
def test_however_the_output_is_cut_the_lines_are_the_same(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    expected = whole.decode("utf-8", "replace").split("\n")
    lines, _ = read(b"".join(frame(1, piece) for piece in pieces))
    assert lines == (expected if expected[-1] else expected[:-1])


@given(st.binary(max_size=60))
def test_a_stream_that_breaks_off_ends(data: bytes) -> None:
    read(data)
