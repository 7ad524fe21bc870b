"""torch's numbers: the architectures in a wheel, and library versions packed into integers."""

from __future__ import annotations

import re

_ARCH = re.compile(r"(sm|compute)_(\d{1,3})(\d)([af]?)")


def architectures(flags: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(machine code, PTX) of `torch._C._cuda_getArchFlags()`.

    "sm_90 sm_100a compute_120" gives ("9.0", "10.0a") and ("12.0",).
    """
    code: list[str] = []
    ptx: list[str] = []
    for word in flags.split():
        found = _ARCH.fullmatch(word)
        if found:
            (code if found.group(1) == "sm" else ptx).append(f"{found.group(2)}.{found.group(3)}{found.group(4)}")
    return tuple(code), tuple(ptx)


def cudnn_version(number: int) -> str | None:
    """The number of a cuDNN as text: 90100 -> "9.1.0", and before cuDNN 9, 8902 -> "8.9.2"."""
    if number <= 0:
        return None
    major = 10000 if number >= 90000 else 1000
    return f"{number // major}.{number % major // 100}.{number % 100}"


def nccl_version(number: int) -> str | None:
    """The number of an NCCL as text: 22105 -> "2.21.5", and before 2.9, 2708 -> "2.7.8"."""
    if number <= 0:
        return None
    major = 10000 if number >= 10000 else 1000
    return f"{number // major}.{number % major // 100}.{number % 100}"
