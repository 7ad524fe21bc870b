"""How CUDA libraries say their versions, and which of two versions count as the same."""

from __future__ import annotations

import re


def cudnn_version(number: int) -> str:
    """9.x: major * 10000 + minor * 100 + patch; 8.x and older: major * 1000 + minor * 100 + patch."""
    major = 10_000 if number >= 90_000 else 1000
    return f"{number // major}.{number % major // 100}.{number % 100}"


def nccl_version(number: int) -> str:
    """From 2.9: major * 10000 + minor * 100 + patch; before: major * 1000 + minor * 100 + patch."""
    major = 10_000 if number >= 10_000 else 1000
    return f"{number // major}.{number % major // 100}.{number % 100}"


def cuda_version(number: int) -> str:
    """13000 -> "13.0"."""
    return f"{number // 1000}.{number % 1000 // 10}"


def agree(a: str, b: str) -> bool:
    """Whether two versions are the same as far as both go: "9.1.0" and "9.1.0.70" agree, "12.4" and "12.40" do not."""
    left, right = (re.findall(r"\d+", version) for version in (a, b))
    shared = min(len(left), len(right))
    return shared > 0 and [int(n) for n in left[:shared]] == [int(n) for n in right[:shared]]


def release(torch_version: str) -> tuple[int, int]:
    """Major and minor number: "2.5.0a0+872d972e41.nv24.08" -> (2, 5).

    torch's own comparison of versions is not asked: before 2.2 it needs pkg_resources, which setuptools 82 dropped.
    """
    numbers = re.match(r"(\d+)\.(\d+)", torch_version)
    return (int(numbers.group(1)), int(numbers.group(2))) if numbers else (0, 0)


def capability(flag: str) -> str | None:
    """Machine code of a build flag as a compute capability: "sm_90" or "sm_90a" -> "9.0"; None for PTX."""
    match = re.match(r"sm_(\d+)(\d)[a-z]?$", flag)
    return f"{match.group(1)}.{match.group(2)}" if match else None
