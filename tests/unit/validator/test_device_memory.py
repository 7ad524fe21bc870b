"""What of the memory test needs no GPU: how much it takes, in which pieces, and what it says of faults."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsmith.validator.checks.device_memory import describe_faults, left_bytes, run_passes, take_memory
from envsmith.validator.checks.memory_patterns import BLOCK_BYTES, PATTERNS, Fault, Pattern, hex_word

GIB = 1 << 30


@given(st.integers(1 << 20, 1 << 42))
def test_nine_tenths_or_more_are_tested_and_some_is_left(free_bytes: int) -> None:
    left = left_bytes(free_bytes)
    assert 0.05 * free_bytes - 1 <= left <= 0.1 * free_bytes
    if 10 * GIB <= free_bytes <= 20 * GIB:
        assert left == GIB


class Allocator:
    """A torch whose GPU has free memory in pieces of these sizes; an allocation is its size in bytes."""

    int64 = "int64"

    def __init__(self, *pieces_bytes: int, error: str = "CUDA out of memory.") -> None:
        self.pieces = list(pieces_bytes)
        self.error = error

    def empty(self, words: int, dtype: str, device: object) -> int:
        size_bytes = words * 8
        for index, piece in enumerate(self.pieces):
            if size_bytes <= piece:
                self.pieces[index] -= size_bytes
                return size_bytes
        raise RuntimeError(self.error)


@given(st.lists(st.integers(0, 5 * GIB), max_size=6), st.integers(0, 12 * GIB))
def test_all_whole_blocks_of_fragmented_memory_are_taken(pieces: list[int], wanted: int) -> None:
    blocks = sum(piece // BLOCK_BYTES for piece in pieces)
    allocator = Allocator(*pieces)
    if not blocks:
        with pytest.raises(RuntimeError, match="out of memory"):
            take_memory(allocator, "place", wanted)
        return
    chunks = take_memory(allocator, "place", wanted)
    assert all(chunk % BLOCK_BYTES == 0 and BLOCK_BYTES <= chunk <= GIB for chunk in chunks)
    assert sum(chunks) == max(1, min(blocks, wanted // BLOCK_BYTES)) * BLOCK_BYTES


def test_another_error_than_out_of_memory_is_not_taken_for_it() -> None:
    with pytest.raises(RuntimeError, match="illegal"):
        take_memory(Allocator(0, error="an illegal memory access"), "place", GIB)


class Recorder:
    """A memory that holds every pattern but the one numbered `bad_pass`."""

    def __init__(self, bad_pass: int | None = None) -> None:
        self.log: list[tuple[str, str, int]] = []
        self.bad_pass = bad_pass

    def prepare(self, name: str, turn: int) -> Pattern:
        self.turn = turn
        return Pattern(name, ())

    def write(self, pattern: Pattern) -> None:
        self.log.append(("write", pattern.name, self.turn))

    def verify(self, pattern: Pattern) -> list[Fault]:
        self.log.append(("verify", pattern.name, self.turn))
        return [Fault(pattern.name, 1, 8, 8)] if len(self.log) // 2 - 1 == self.bad_pass else []


def test_every_pattern_has_its_pass_even_when_the_time_is_over() -> None:
    memory = Recorder()
    assert run_passes(memory, 0.0) == (len(PATTERNS), [])  # type: ignore[arg-type]
    assert memory.log == [(step, name, 0) for name in PATTERNS for step in ("write", "verify")]


def test_the_first_pattern_that_does_not_hold_ends_the_test() -> None:
    memory = Recorder(bad_pass=7)
    passes, faults = run_passes(memory, 60.0)  # type: ignore[arg-type]
    assert (passes, faults) == (8, [Fault(PATTERNS[1], 1, 8, 8)])
    assert memory.log[-1] == ("verify", PATTERNS[1], 1)


def test_faults_are_told_with_range_count_and_the_first_words() -> None:
    faults = [
        Fault("address", 2, 0x1008, 0x1010, ("at 0x1008 0x1, expected 0x0", "at 0x1010 0x2, expected 0x0")),
        Fault("address", 0, 0x2000, 0x2FF8),
        Fault("address", 5, 0x3000, 0x3020, ("a", "b", "c")),
    ]
    assert describe_faults(faults) == (
        "7 64-bit words are wrong with pattern 'address', at addresses 0x1008 to 0x3020; "
        "1 of 3 bad blocks were right when read again; "
        "at 0x1008 0x1, expected 0x0; at 0x1010 0x2, expected 0x0; a; b"
    )
    assert describe_faults(faults[1:2]).startswith("words were wrong once with pattern 'address', at addresses 0x2000")


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0x0000000000000000"), (-1, "0xffffffffffffffff"), (-(2**63), "0x8000000000000000")]
)
def test_words_are_shown_as_their_bits(value: int, text: str) -> None:
    assert hex_word(value) == text
