"""The matrix is read once: every command reads it, and would take half of these tests' time with it."""

from __future__ import annotations

import pytest

from envsmith.compat import load

MATRIX = load.load_matrix()


@pytest.fixture(autouse=True)
def _matrix_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "load_matrix", lambda: MATRIX)
