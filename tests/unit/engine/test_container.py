"""The output of a container: Docker's frames become lines, however they are cut."""

from __future__ import annotations

import io
import signal
from collections import deque
from dataclasses import dataclass

import pytest
from docker.errors import APIError
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


class Made:
    """A container that is interrupted while it is removed."""

    def __init__(self, interrupt: signal.Signals | None) -> None:
        self.interrupt = interrupt
        self.removed = False

    def remove(self, *, force: bool, v: bool) -> None:
        assert force
        assert v
        if self.interrupt is not None:
            signal.raise_signal(self.interrupt)
        self.removed = True

    def wait(self, **_: object) -> None:
        raise APIError("404")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_while_a_container_is_made_waits_and_then_removes_it(number: signal.Signals) -> None:
    made = Made(None)

    def create() -> Made:
        signal.raise_signal(number)
        return made

    with pytest.raises(KeyboardInterrupt), container.short_lived(create):
        pytest.fail("the block was entered")
    assert made.removed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_while_a_container_is_removed_waits_for_that(number: signal.Signals) -> None:
    made = Made(number)
    with pytest.raises(KeyboardInterrupt), container.short_lived(lambda: made):
        pass
    assert made.removed


def test_a_container_that_could_not_be_made_is_not_removed() -> None:
    def create() -> Made:
        raise APIError("no such image")

    with pytest.raises(APIError), container.short_lived(create):
        pytest.fail("the block was entered")
