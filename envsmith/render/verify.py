"""Runs inside an image at the end of its build: is what was installed what the plan says?

Standard library and torch only, Python 3.8 and later; needs no GPU. It is copied into the build context by
itself, so it imports nothing of envsmith.

    python verify.py EXPECT.json

Exit status 1, and a line on stderr for each thing that differs.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from typing import Any


def cudnn_version(number: int | None) -> str | None:
    """Read cuDNN's version number: 8902 is 8.9.2, and from cuDNN 9 on 90100 is 9.1.0."""
    if number is None:
        return None
    major = 10000 if number >= 90000 else 1000
    return f"{number // major}.{number % major // 100}.{number % 100}"


def capabilities(flags: str | None) -> list[str]:
    """Read torch's architecture flags, "sm_80 sm_90a compute_90": the machine code as "8.0", "9.0a"."""
    return ["{}.{}".format(*digits) for digits in re.findall(r"\bsm_(\d+)(\d[a-z]?)\b", flags or "")]


def found(companions: list[str]) -> dict[str, Any]:
    """Import torch and its companions and return what they report, under the names of EXPECT.json."""
    import torch

    has_cuda = torch.version.cuda is not None
    return {
        "python": "{}.{}{}".format(*sys.version_info[:2], _free_threaded()),
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "cudnn": cudnn_version(torch.backends.cudnn.version()) if has_cuda else None,
        "nccl": _nccl_version(torch) if has_cuda else None,
        "triton": _reported("triton"),
        # get_arch_list() says nothing without a GPU, and this is what it asks
        "compute_capabilities": capabilities(torch._C._cuda_getArchFlags()) if has_cuda else [],
        "companions": {name: _reported(name) for name in companions},
    }


def _nccl_version(torch: Any) -> str | None:
    """NCCL's version, or None where torch was built without NCCL."""
    try:
        return ".".join(str(part) for part in torch.cuda.nccl.version())
    except AttributeError:
        return None


def _free_threaded() -> str:
    import sysconfig

    return "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""


def _reported(name: str) -> str | None:
    """Import a module and return its __version__; an import error is an answer too, and a difference."""
    try:
        return str(importlib.import_module(name).__version__)
    except Exception as error:  # noqa: BLE001 - anything a broken extension raises
        return f"{type(error).__name__}: {error}"


def _release(version: str, numbers: int) -> tuple[str, ...]:
    return tuple(version.partition("+")[0].split(".")[:numbers])


def _same(name: str, expected: Any, actual: Any) -> bool:
    if actual is None:
        return False
    if name == "torch":
        # some builds do not say their variant; torch.version.cuda, compared beside this, tells it
        return actual in (expected, expected.partition("+")[0])
    if name == "compute_capabilities":
        return set(expected) <= set(actual)
    if name == "python":
        return bool(expected == actual)
    # the wheel of cuDNN 9.1.0.70 reports 9.1.0; torch itself leaves the last number of triton open ("~=3.9.0")
    numbers = min(2 if name == "triton" else 3, expected.count(".") + 1)
    return _release(expected, numbers) == _release(actual, numbers)


def differences(expected: dict[str, Any], actual: dict[str, Any]) -> list[str]:
    """Return a sentence for each expectation that is not met; None is expected of nothing."""
    flat_expected = {**expected, **expected["companions"]}
    flat_actual = {**actual, **actual["companions"]}
    return [
        f"{name}: expected {_shown(value)}, found {_shown(flat_actual[name])}"
        for name, value in flat_expected.items()
        if name != "companions" and value is not None and not _same(name, value, flat_actual[name])
    ]


def _shown(value: Any) -> str:
    return " ".join(value) if isinstance(value, list) else str(value)


def main(path: str) -> int:
    """Compare, tell, and return the exit status."""
    with open(path, encoding="utf-8") as file:
        expected = json.load(file)
    actual = found(sorted(expected["companions"]))
    wrong = differences(expected, actual)
    for line in wrong:
        sys.stderr.write(f"envsmith-verify: {line}\n")
    if not wrong:
        sys.stderr.write(
            "envsmith-verify: torch {torch}, CUDA {cuda}, cuDNN {cudnn}, NCCL {nccl}: as planned\n".format(**actual)
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
