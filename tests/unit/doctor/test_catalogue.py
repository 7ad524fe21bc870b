"""The catalogue finds rules by file and holds its conventions."""

from __future__ import annotations

import re
from dataclasses import replace
from types import ModuleType

import pytest

from envsmith.doctor.catalogue import HEADINGS, all_rules, gather
from envsmith.doctor.rule import Rule
from envsmith.model.findings import Severity

EXPLANATION = "Something is wrong.\n\n" + "\n\nText.\n\n".join(HEADINGS)


def toy(rule_id: str = "ENV900", name: str = "toy-problem", **changes) -> Rule:
    made = Rule(rule_id, name, Severity.ERROR, "0.1", (), (), EXPLANATION, lambda: iter(()))
    return replace(made, **changes)


def module(name: str, *rules: Rule) -> ModuleType:
    made = ModuleType(f"somewhere.{name}")
    for number, rule in enumerate(rules):
        setattr(made, f"rule_{number}", rule)
    return made


def test_the_shipped_rules():
    assert [rule.id for rule in all_rules()] == ["ENV001", "ENV002", "ENV101", "ENV102", "ENV201", "ENV301", "ENV401"]


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
def test_every_explanation_says_something_under_each_heading(rule):
    parts = re.split(r"^## .*$", rule.explanation, flags=re.MULTILINE)
    assert len(parts) == 4
    assert all(len(part.split()) >= 8 for part in parts)


def test_rules_come_by_id():
    second, first = toy("ENV901", "b"), toy("ENV900", "a")
    assert gather([module("env901_b", second), module("env900_a", first)]) == (first, second)


@pytest.mark.parametrize(
    ("modules", "message"),
    [
        ([module("env900_toy_problem")], "holds 0 rules"),
        ([module("env900_toy_problem", toy(), toy())], "holds 2 rules"),
        ([module("env900_other", toy())], r"must be env900_toy_problem\.py"),
        ([module("env900_toy_problem", toy(explanation=EXPLANATION.replace("## How to fix", "")))], "## How to fix"),
        ([module("env900_toy_problem", toy(because_of=("ENV999",)))], "ENV900 names causes that do not exist: ENV999"),
        ([module("env900_toy_problem", toy()), module("env900_toy_problem", toy())], "ENV900 is used twice"),
    ],
)
def test_a_file_that_breaks_a_convention_is_refused(modules, message):
    with pytest.raises(ValueError, match=message):
        gather(modules)
