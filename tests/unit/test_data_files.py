"""`matrix/` and `templates/` hold data and templates: no code, so that they can be read and reviewed as such."""

from __future__ import annotations

import pytest

from tests.source_tree import ROOT

SUFFIXES = {"matrix": {".json", ".md"}, "templates": {".j2", ".json", ".md"}}


@pytest.mark.parametrize("folder", sorted(SUFFIXES))
def test_only_data_lies_in_the_data_folders(folder: str) -> None:
    files = [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    assert files
    assert [path.name for path in files if path.suffix not in SUFFIXES[folder]] == []
    assert [path.name for path in files if path.stat().st_mode & 0o111] == []
