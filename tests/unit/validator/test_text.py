"""What other programs print becomes harmless, whatever it is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from envsmith.validator import text


@given(st.binary(max_size=3000))
def test_last_lines_are_always_bounded_and_printable(output: bytes) -> None:
    lines = text.last_lines(output)
    assert len(lines) <= text.LINES_MAX
    for line in lines:
        assert 0 < len(line) <= text.LINE_LENGTH_MAX
        assert "\x1b" not in line
        assert "\n" not in line
        line.encode("utf-8")


def test_colours_titles_and_progress_bars_go() -> None:
    output = b"\x1b]0;title\x07\x1b[1;31mNCCL WARN\x1b[0m bad\r\n 10%\r 50%\r100% done\nlast \xe2\x80\xae x\x00\n\n"
    assert text.last_lines(output) == ("NCCL WARN bad", "100% done", "last  x")


def test_the_end_is_kept() -> None:
    lines = text.last_lines(b"\n".join(str(n).encode() for n in range(1000)))
    assert lines[-1] == "999"
    assert len(lines) == text.LINES_MAX


def test_a_message_is_one_bounded_paragraph() -> None:
    assert text.one_message("CUDA error:\n\tout of memory\x1b[0m") == "CUDA error: out of memory"
    assert len(text.one_message("word " * 10_000)) == text.MESSAGE_LENGTH_MAX
