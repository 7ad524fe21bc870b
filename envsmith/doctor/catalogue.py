"""All rules, found by their files: one rule a file, named after its id and its problem."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from functools import lru_cache
from types import ModuleType

from envsmith.doctor import rules as rules_package
from envsmith.doctor.rule import Rule

HEADINGS = ("## What it checks", "## Why it matters", "## How to fix")


@lru_cache(maxsize=1)
def all_rules() -> tuple[Rule, ...]:
    """Return every rule, by id. Raises ValueError when a file breaks the conventions of the catalogue."""
    names = [module.name for module in pkgutil.iter_modules(rules_package.__path__)]
    return gather(importlib.import_module(f"{rules_package.__name__}.{name}") for name in names)


def gather(modules: Iterable[ModuleType]) -> tuple[Rule, ...]:
    """Return the rules of these modules, by id.

    Raises ValueError for a file without exactly one rule, a file name that is not id and name, an
    explanation without its headings, an id used twice, or a cause that does not exist.
    """
    found: dict[str, Rule] = {}
    for module in modules:
        rule = _rule_of(module)
        if rule.id in found:
            raise ValueError(f"rule id {rule.id} is used twice")
        found[rule.id] = rule
    for rule in found.values():
        unknown = set(rule.because_of) - found.keys()
        if unknown:
            raise ValueError(f"{rule.id} names causes that do not exist: {', '.join(sorted(unknown))}")
    return tuple(found[key] for key in sorted(found))


def _rule_of(module: ModuleType) -> Rule:
    file_name = module.__name__.rpartition(".")[2]
    rules = [value for value in vars(module).values() if isinstance(value, Rule)]
    if len(rules) != 1:
        raise ValueError(f"{file_name}.py holds {len(rules)} rules; it must hold one")
    (rule,) = rules
    expected = f"{rule.id}_{rule.name}".lower().replace("-", "_")
    if file_name != expected:
        raise ValueError(f"{file_name}.py holds the rule {rule.id} {rule.name}; its name must be {expected}.py")
    missing = [heading for heading in HEADINGS if heading not in rule.explanation.splitlines()]
    if missing:
        raise ValueError(f"{file_name}.py does not explain itself: {', '.join(missing)} is missing")
    return rule
