"""Which checks a run is made of: by level, by name, and what is refused."""

from __future__ import annotations

import pytest

from envsmith.validator import catalogue
from envsmith.validator.selection import SelectionError, choose, listing, of_level, stress_seconds, words
from tests.unit.validator import toys


@pytest.fixture(autouse=True)
def _toys(monkeypatch: pytest.MonkeyPatch) -> None:
    levels = {"import": "quick", "kernel": "quick", "rates": "standard", "memory": "stress"}
    checks = tuple(toys.toy(name, toys.passes, level=level) for name, level in levels.items())
    monkeypatch.setattr(catalogue, "ALL", checks)


def chosen(only: str = "", skip: str = "", level: str = "standard") -> list[str]:
    return [check.id for check in choose(words([only]), words([skip]), level)]


def test_each_level_runs_what_the_one_before_it_does_and_more() -> None:
    assert [check.id for check in of_level("quick")] == ["import", "kernel"]
    assert [check.id for check in of_level("standard")] == ["import", "kernel", "rates"]
    assert [check.id for check in of_level("stress")] == ["import", "kernel", "rates", "memory"]
    assert chosen() == ["import", "kernel", "rates"]


def test_names_choose_in_the_order_of_the_catalogue_and_whatever_the_level() -> None:
    assert chosen("memory, import", level="quick") == ["import", "memory"]
    assert chosen(skip="rates") == ["import", "kernel"]
    assert chosen("rates,kernel", "kernel") == ["rates"]


@pytest.mark.parametrize(
    ("only", "skip", "message", "hint"),
    [
        ("kernle", "", "there is no check 'kernle'", "did you mean 'kernel'?"),
        ("", "\x1b[31mzz", "there is no check 'zz'", "see --list"),
        ("kernel", "kernel", "--only and --skip leave no check to run", "see --list"),
        ("", "import,kernel,rates", "--only and --skip leave no check to run", "see --list"),
    ],
)
def test_a_bad_choice_is_refused(only: str, skip: str, message: str, hint: str) -> None:
    with pytest.raises(SelectionError) as caught:
        chosen(only, skip)
    assert (str(caught.value), caught.value.hint) == (message, hint)


def test_seconds_are_for_stress_and_within_bounds() -> None:
    assert stress_seconds(None, "standard") == 60
    assert stress_seconds(5, "stress") == 5
    with pytest.raises(SelectionError, match="--seconds is about checks of level stress"):
        stress_seconds(5, "standard")
    for seconds in (0, -1, 86_401, float("nan"), float("inf")):
        with pytest.raises(SelectionError, match="out of bounds"):
            stress_seconds(seconds, "stress")


def test_the_list_says_the_level() -> None:
    assert [(row["id"], row["level"]) for row in listing()][-1] == ("memory", "stress")
