"""tools/format_matrix.py: one form, and no row is ever lost."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from envsmith import resources
from envsmith.compat.load import TABLES, load_matrix
from envsmith.errors import DataError

MATRIX = resources.data_dir("matrix")
TOOL = Path(__file__).parents[3] / "tools" / "format_matrix.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("format_matrix", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    folder = tmp_path / "matrix"
    shutil.copytree(MATRIX, folder)
    return folder


def lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines()


def test_the_matrix_is_in_form(tool: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main(["--check"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.stem)
def test_a_row_is_a_line(table: Any) -> None:
    text = lines(MATRIX / f"{table.stem}.json")
    rows = json.loads("\n".join(text))["rows"]
    assert [json.loads(line.rstrip(",")) for line in text[1:-1]] == rows


def test_what_is_out_of_form_is_found_and_put_right(
    tool: ModuleType, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for table in TABLES:
        path = copy / f"{table.stem}.json"
        document = json.loads(path.read_text("utf-8"))
        rows = [dict(reversed(row.items())) for row in reversed(document["rows"])]
        path.write_text(json.dumps({**document, "rows": rows}, indent=1), "utf-8")
    digest = load_matrix(copy).digest
    assert tool.main(["--check", str(copy)]) == 1
    assert capsys.readouterr().out.count("not in form") == len(TABLES)
    assert load_matrix(copy).digest == digest  # --check changed nothing
    assert tool.main([str(copy)]) == 0
    assert tool.main(["--check", str(copy)]) == 0
    for table in TABLES:
        assert lines(copy / f"{table.stem}.json") == lines(MATRIX / f"{table.stem}.json")
    assert sorted(path.suffix for path in copy.iterdir() if path.suffix != ".json") == [".md"]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"os": "debian12"', '"os": "debian11"', "are those of row 1"),
        ('"os": "debian12", ', "", "missing keys ['os']"),
        ('"os": "debian12"', '"os": "debian12", "os": "debian12"', "a key stands twice in one object"),
        ('"schema": 1', '"schema": 7', "schema 7 is unknown"),
        ("]}", "", "is not JSON"),
    ],
)
def test_a_broken_file_is_left_as_it_is(
    tool: ModuleType, copy: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, says: str
) -> None:
    path = copy / "operating_systems.json"
    broken = path.read_text("utf-8").replace(old, new, 1)
    path.write_text(broken, "utf-8")
    assert tool.main([str(copy)]) == 2
    assert says in capsys.readouterr().err
    assert path.read_text("utf-8") == broken


def test_a_lost_row_is_noticed(tool: ModuleType, copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = copy / "operating_systems.json"
    before = path.read_text("utf-8")
    monkeypatch.setattr(tool, "natural", lambda text: ())
    monkeypatch.setattr(
        tool, "sorted", lambda rows, key=None: sorted(rows, key=key)[1:] if key else sorted(rows), raising=False
    )
    with pytest.raises(DataError, match="would lose or change rows"):
        tool.formatted(path, next(table for table in TABLES if table.stem == "operating_systems"))
    assert path.read_text("utf-8") == before


def test_numbers_in_keys_are_compared_as_numbers(tool: ModuleType) -> None:
    versions = ["2.10.0", "2.9.1", "10.0", "9.0", "2.9.1.1"]
    assert sorted(versions, key=tool.natural) == ["2.9.1", "2.9.1.1", "2.10.0", "9.0", "10.0"]
    words = ["ubuntu24.04", "cu130", "cpu", "cu128", "ubuntu22.04", "debian12"]
    assert sorted(words, key=tool.natural) == ["cpu", "cu128", "cu130", "debian12", "ubuntu22.04", "ubuntu24.04"]
