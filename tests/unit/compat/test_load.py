"""The loader: what it accepts, and how it refuses everything else."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsmith import resources
from envsmith.compat.load import TABLES, Table, check_rows, load_matrix, read_rows
from envsmith.errors import DataError
from envsmith.model.matrix import Matrix
from envsmith.wire.encode import digest

MATRIX = resources.data_dir("matrix")
BY_STEM = {table.stem: table for table in TABLES}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    folder = tmp_path / "matrix"
    shutil.copytree(MATRIX, folder)
    return folder


def edit(folder: Path, stem: str, change: Any) -> None:
    path = folder / f"{stem}.json"
    document = json.loads(path.read_text("utf-8"))
    change(document)
    path.write_text(json.dumps(document), "utf-8")


def refusal(folder: Path) -> DataError:
    with pytest.raises(DataError) as caught:
        load_matrix(folder)
    assert "reinstall envsmith-gpu" in caught.value.hint
    return caught.value


def test_every_table_is_read_into_its_field() -> None:
    matrix = load_matrix()
    assert {table.field for table in TABLES} | {"digest"} == {field.name for field in fields(Matrix)}
    for table in TABLES:
        found = getattr(matrix, table.field)
        assert len(found) == len(json.loads((MATRIX / f"{table.stem}.json").read_text("utf-8"))["rows"])
        assert {type(row) for row in found} == {table.row}


def test_no_file_in_the_folder_is_left_unread() -> None:
    assert {path.name for path in MATRIX.glob("*.json")} == {f"{table.stem}.json" for table in TABLES}


def test_loading_is_quick_enough_for_a_command_line() -> None:
    def once() -> float:
        start = time.process_time()
        load_matrix()
        return time.process_time() - start

    assert min(once() for _ in range(5)) < 0.06


def test_digest_is_that_of_the_canonical_json_of_all_rows() -> None:
    plain = {table.stem: json.loads((MATRIX / f"{table.stem}.json").read_text("utf-8"))["rows"] for table in TABLES}
    assert load_matrix().digest == digest(plain)


def test_digest_ignores_layout_and_sees_every_value(copy: Path) -> None:
    before = load_matrix(copy).digest
    edit(copy, "torch", lambda document: None)  # written again, all in one line
    assert load_matrix(copy).digest == before
    edit(copy, "gpus", lambda document: document["rows"][-1].update(note="another word"))
    assert load_matrix(copy).digest != before


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.stem)
def test_a_missing_file_is_named(copy: Path, table: Table) -> None:
    (copy / f"{table.stem}.json").unlink()
    assert f"{table.stem}.json cannot be read: No such file" in refusal(copy).message


@pytest.mark.parametrize("text", ["", "{", "[" * 5000, "\x00", '{"schema": NaN}', "{'schema': 1}", "\ud800"])
def test_what_is_not_json_is_refused(copy: Path, text: str) -> None:
    (copy / "torch.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    assert "torch.json is not JSON" in refusal(copy).message


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda document: document.update(schema=2), "schema 2 is unknown, expected 1"),
        (lambda document: document.update(schema="1"), "schema '1' is unknown"),
        (lambda document: document.update(kind="gpus"), "kind 'gpus', expected 'torch'"),
        (lambda document: document.update(rows=[]), "at least one row"),
        (lambda document: document.update(rows={}), "at least one row"),
        (lambda document: document.update(extra=1), "schema, kind and rows"),
        (lambda document: document.pop("kind"), "schema, kind and rows"),
    ],
)
def test_a_wrong_envelope_is_refused(copy: Path, change: Any, says: str) -> None:
    edit(copy, "torch", change)
    message = refusal(copy).message
    assert "torch.json" in message
    assert says in message


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"colour": "red"}, "unknown keys ['colour'], missing keys []"),
        ({"torch": 2.6}, "Expected `str`, got `float`"),
        ({"pypi_default": 1}, "Expected `bool`, got `int`"),
        ({"cxx11_abi": True}, "Expected `int | null`, got `bool`"),
        ({"python_tags": "cp311"}, "Expected `array`, got `str`"),
        ({"python_tags": ["py311"]}, "python_tags is 'py311', expected a tag such as \"cp311\""),
        ({"torch": "2.6.x"}, "torch is '2.6.x', expected a version"),
        ({"torch": "2.6.0\n"}, "expected a version"),
        ({"wheel_cuda": "12"}, "wheel_cuda is '12', expected a CUDA version"),
        ({"compute_capabilities": ["sm_90"]}, "compute_capabilities is 'sm_90', expected a capability"),
        ({"confidence": "sure"}, "confidence is 'sure', expected one of measured, metadata, documented, inferred"),
        ({"status": "supported"}, "status is 'supported', expected one of stable"),
        ({"platform": "linux/x86_64"}, "platform is 'linux/x86_64', expected one of linux/amd64"),
        ({"checked": "30.11.2026"}, "checked is '30.11.2026', expected a date"),
        ({"source": ""}, "source is '', expected the name of a public source"),
        ({"variant": "CU124"}, "variant is 'CU124'"),
    ],
)
def test_a_wrong_row_is_named_with_what_was_expected(copy: Path, change: dict[str, Any], says: str) -> None:
    edit(copy, "torch", lambda document: document["rows"][16].update(change))
    message = refusal(copy).message
    assert "torch.json, row 17: " in message
    assert says in message


def test_a_missing_field_is_named(copy: Path) -> None:
    edit(copy, "gpus", lambda document: document["rows"][4].pop("memory_gb"))
    assert "gpus.json, row 5: unknown keys [], missing keys ['memory_gb']" in refusal(copy).message


def test_a_row_that_is_no_object_is_named(copy: Path) -> None:
    edit(copy, "gpus", lambda document: document["rows"].insert(2, ["GeForce"]))
    assert "gpus.json, row 3: expected an object" in refusal(copy).message


def test_a_driver_branch_knows_other_states_than_a_torch_build(copy: Path) -> None:
    edit(copy, "driver_branches", lambda document: document["rows"][0].update(status="stable"))
    assert "status is 'stable', expected one of supported, eol, unknown" in refusal(copy).message


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.stem)
def test_two_rows_of_one_key_are_refused(copy: Path, table: Table) -> None:
    def again(document: dict[str, Any]) -> None:
        document["rows"].append({**document["rows"][0], "note": "the same once more"})

    edit(copy, table.stem, again)
    message = refusal(copy).message
    assert f"{table.stem}.json, row" in message
    assert "are those of row 1" in message


def rows_or_message(attempt: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...] | str:
    """The rows, or the message of a DataError; any other exception is what the test is looking for."""
    try:
        return attempt()
    except DataError as error:
        return error.message


@given(data=st.data())
def test_damaged_bytes_give_a_matrix_or_one_data_error(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    table = data.draw(st.sampled_from([BY_STEM[stem] for stem in ("operating_systems", "known_bad", "forward_compat")]))
    content = bytearray((MATRIX / f"{table.stem}.json").read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content)))
        content[start : start + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    path = tmp_path_factory.getbasetemp() / f"{table.stem}.json"
    path.write_bytes(content)
    outcome = rows_or_message(lambda: check_rows(read_rows(path, table), table))
    assert table.stem in outcome if isinstance(outcome, str) else outcome


@given(
    value=st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=4), data=st.data()
)
def test_any_value_in_any_field_gives_a_row_or_one_data_error(value: Any, data: Any) -> None:
    table = data.draw(st.sampled_from(TABLES))
    rows = json.loads((MATRIX / f"{table.stem}.json").read_text("utf-8"))["rows"][:2]
    rows[0][data.draw(st.sampled_from(sorted(rows[0])))] = value
    outcome = rows_or_message(lambda: check_rows(rows, table))
    assert f"{table.stem}.json, row" in outcome if isinstance(outcome, str) else len(outcome) == len(rows)
