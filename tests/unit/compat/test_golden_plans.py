"""Whole plans and refusals, kept as files: a change of the resolver or the matrix shows what it does to them.

`UPDATE_GOLDEN=1 pytest tests/unit/compat/test_golden_plans.py` writes them anew; read the difference before committing.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

from envsmith.cli.request import Typed, build_request
from envsmith.compat.load import load_matrix
from envsmith.compat.resolve import resolve
from envsmith.report.documents import document

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "plans"
MATRIX = load_matrix()
CASES = {
    "torch-2.6-cuda-12.1": Typed(torch="2.6", cuda="12.1"),
    "torch-2.6-cuda-12.1-exact": Typed(torch="2.6", cuda="12.1", exact=True),
    "torch-2.6-cuda-12.1-devel": Typed(torch="2.6", cuda="12.1", variant="devel"),
    "torch-2.6-rtx-5090": Typed(torch="2.6", gpus=("RTX 5090",)),
    "torch-2.6-python-3.14": Typed(torch="2.6", python="3.14"),
    "torch-2.6-cuda-12.1-a100-driver-470": Typed(torch="2.6", cuda="12.1", gpus=("A100",), driver="470.256.02"),
    "torch-2.6-cuda-12.1-rtx-3090-driver-470": Typed(torch="2.6", cuda="12.1", gpus=("RTX 3090",), driver="470.256.02"),
    "newest-h200-driver-580": Typed(gpus=("H200",), driver="580.65.06"),
    "v100-and-rtx-5090": Typed(gpus=("V100", "RTX 5090")),
    "torch-2.3-arm64": Typed(torch="2.3", platform="linux/arm64"),
    "torch-2.2-with-torchvision": Typed(torch="2.2", companions="torchvision"),
    "torch-2.8-free-threaded": Typed(torch="2.8", python="3.13t"),
    "torch-2.6-cpu": Typed(torch="2.6", cuda="cpu"),
    "devel-on-debian": Typed(torch="2.6", variant="devel", os="debian12"),
}


def _text(name: str) -> str:
    typed = CASES[name]
    if typed.platform is None:
        typed = Typed(**{**vars(typed), "platform": "linux/amd64"})
    # the matrix's digest and envsmith's version change with every row and release: they say nothing about the plan
    text = document(resolve(build_request(typed, MATRIX), MATRIX))
    return re.sub(r"envsmith-gpu [0-9][^\"]*", "envsmith-gpu X", text.replace(MATRIX.digest, "sha256:MATRIX")) + "\n"


@pytest.mark.parametrize("name", sorted(CASES))
def test_plan(name: str) -> None:
    path = GOLDEN / f"{name}.json"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(_text(name), encoding="utf-8")
    assert _text(name) == path.read_text(encoding="utf-8"), f"set UPDATE_GOLDEN=1 to accept {shlex.quote(path.name)}"


def test_no_file_without_a_case() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(CASES)
