"""A pynvml that answers what a test tells it."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest


class NVMLError(Exception):
    """What NVML raises for all that it does not tell."""


def install(monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Put the module in place; an answer that is an exception is raised. Returns the questions, as they come."""
    asked: list[tuple[Any, ...]] = []
    module = ModuleType("pynvml")
    module.NVMLError = NVMLError  # type: ignore[attr-defined]

    def answer(name: str) -> Any:
        def ask(*arguments: Any) -> Any:
            asked.append((name, *arguments))
            value = answers[name]
            if isinstance(value, Exception):
                raise value
            return value

        return ask

    for name in answers:
        setattr(module, name, answer(name))
    if "nvmlInit" not in answers:
        module.nvmlInit = lambda: None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pynvml", module)
    return asked
