"""Bit patterns in a GPU's memory: written, read back and compared on the GPU, exactly, with little memory besides.

Memory is cut into blocks. A pattern is one block of words, the base, and a 64-bit key for each block: the words of
a block are the base exclusive-or its key, so that no two blocks are alike. Reading back, block ^ base must be the key
all over: its least and its greatest word are, or some word is wrong.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

WORD_BYTES = 8
# A kernel over it takes tens of microseconds on the fastest GPUs, more than it takes to start one.
BLOCK_BYTES = 64 << 20

INVERTED = " inverted"
PATTERNS = tuple(name + inverted for name in ("random", "address", "walking bit") for inverted in ("", INVERTED))

_TOLD_WORDS = 4
_WORD_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Fault:
    """Wrong words of one block. count is 0 when they were right at a second reading; the addresses are the block's."""

    pattern: str
    count: int
    first_address: int
    last_address: int
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pattern:
    """A name of PATTERNS, and the key of each block, a signed 64-bit integer."""

    name: str
    keys: tuple[int, ...]


class Memory:
    """Memory under test: flat int64 tensors of whole blocks, and two blocks besides, for the base and for comparing.

    Raises torch's error when those two are not to be had.
    """

    def __init__(self, torch: Any, place: Any, block_words: int = BLOCK_BYTES // WORD_BYTES) -> None:
        self._torch = torch
        self._base = torch.empty(block_words, dtype=torch.int64, device=place)
        self._compared = torch.empty_like(self._base)
        self._blocks: list[Any] = []
        self._keys: tuple[int, ...] = ()

    def add(self, chunk: Any) -> None:
        """Test this tensor as well; what does not fill a block is left out."""
        words = self._base.numel()
        self._blocks += [chunk[start : start + words] for start in range(0, chunk.numel() - words + 1, words)]

    @property
    def size_bytes(self) -> int:
        """All that is tested."""
        return len(self._blocks) * int(self._base.numel()) * WORD_BYTES

    def prepare(self, name: str, turn: int) -> Pattern:
        """Make a pattern, with fresh random bits. An inverted one is that of the pattern prepared before it.

        turn: a bit walks on by one place each turn.
        """
        torch, base = self._torch, self._base
        keys = [_signed(random.getrandbits(64)) for _ in self._blocks]
        if name.endswith(INVERTED):
            keys = [~key for key in self._keys]
        elif name == "random":
            base.random_(-(2**63), None)
        elif name == "address":
            torch.arange(base.numel(), out=base)
            keys = [_signed(keys[0] ^ (number * base.numel())) for number in range(len(self._blocks))]
        else:
            torch.arange(turn, turn + base.numel(), out=base)
            torch.bitwise_left_shift(torch.ones_like(base), base.remainder_(64), out=base)
            keys = [0] * len(keys)
        self._keys = tuple(keys)
        return Pattern(name, self._keys)

    def write(self, pattern: Pattern) -> None:
        """Write it everywhere."""
        for block, key in zip(self._blocks, pattern.keys):
            self._torch.bitwise_xor(self._base, key, out=block)

    def verify(self, pattern: Pattern) -> list[Fault]:
        """Read it everywhere; return what is wrong, by block."""
        torch = self._torch
        extremes = torch.empty(len(self._blocks), 2, dtype=torch.int64, device=self._base.device)
        for block, (least, greatest) in zip(self._blocks, extremes):
            torch.bitwise_xor(block, self._base, out=self._compared)
            torch.aminmax(self._compared, out=(least, greatest))
        keys = torch.tensor(pattern.keys, dtype=torch.int64)
        bad = (extremes.cpu() != keys[:, None]).any(1).nonzero().flatten().tolist()
        return [self._read_again(pattern, number) for number in bad]

    def _read_again(self, pattern: Pattern, number: int) -> Fault:
        """Find the wrong words of a block that did not hold the pattern."""
        block, key = self._blocks[number], pattern.keys[number]
        wrong = (self._torch.bitwise_xor(block, self._base) != key).nonzero().flatten()
        start = int(block.data_ptr())
        if not wrong.numel():
            return Fault(pattern.name, 0, start, start + (block.numel() - 1) * WORD_BYTES)
        ends = [start + int(wrong[i]) * WORD_BYTES for i in (0, -1)]
        words = tuple(self._describe(block, int(i), key) for i in wrong[:_TOLD_WORDS])
        return Fault(pattern.name, int(wrong.numel()), ends[0], ends[1], words)

    def _describe(self, block: Any, index: int, key: int) -> str:
        got, expected = int(block[index]), int(self._base[index]) ^ key
        address = int(block.data_ptr()) + index * WORD_BYTES
        return f"at {address:#x} {hex_word(got)}, expected {hex_word(expected)}"


def hex_word(value: int) -> str:
    """A signed 64-bit word as its 16 hexadecimal digits, "0xffffffffffffffff" for -1."""
    return f"{value & _WORD_MASK:#018x}"


def _signed(value: int) -> int:
    """The signed 64-bit integer with these bits."""
    value &= _WORD_MASK
    return value - (1 << 64) if value >> 63 else value
