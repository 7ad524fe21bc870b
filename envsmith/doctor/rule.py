"""The `@rule` decorator: a generator of problems becomes a `Rule` value with checked needs.

A rule's body names the facts it needs as parameters, and how it needs them by their annotation:

    driver: DriverFacts            the rule does not apply where there is none
    driver: DriverFacts | None     none is an answer too, and the rule wants it
    runtime: RuntimeFacts | None = None    taken if it is there; the rule does without it otherwise

A fact that nobody could look at (a `Gap`) skips the rule in the first two cases: "could not look" is not
"fine". So a body holds no I/O, no guards and no `try`. Two parameters are no facts: `matrix`, and `site` (an
`advice.Site`) for rules that name ways out.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

from envsmith.model.findings import Evidence, Fix, Severity
from envsmith.wire.facts import Snapshot

MATRIX = "matrix"
SITE = "site"
_FACTS = {f.name for f in fields(Snapshot)} - {"tool", "collected_at", "gaps", "schema", "kind"}


class CannotTell(Exception):  # noqa: N818 - an outcome, not an error
    """Raised by a rule's body where the facts are there and still do not say; the text is the reason."""


@dataclass(frozen=True)
class Problem:
    """What a body yields. fixes: ways out, the one to try first at the front. severity: None = the rule's."""

    summary: str
    evidence: tuple[Evidence, ...]
    fixes: tuple[Fix, ...] = ()
    severity: Severity | None = None


Body = Callable[..., Iterator[Problem]]


@dataclass(frozen=True)
class Need:
    """A fact that a body takes. none_is_an_answer: it wants None as well; optional: it does without."""

    fact: str
    none_is_an_answer: bool = False
    optional: bool = False


@dataclass(frozen=True)
class Rule:
    """One rule. because_of: rules whose findings explain this one's. explanation: its module's docstring."""

    id: str
    name: str
    severity: Severity
    since: str
    because_of: tuple[str, ...]
    needs: tuple[Need, ...]
    explanation: str
    body: Body


def rule(
    *,
    id: str,  # noqa: A002 - the word that everybody uses
    name: str,
    severity: Severity,
    since: str,
    because_of: tuple[str, ...] = (),
) -> Callable[[Body], Rule]:
    """Make a `Rule` of a body.

    name: the problem, never the remedy. since: the envsmith version that first had it.
    Raises TypeError, at import, for a parameter that is neither a fact of `Snapshot`, `matrix` nor `site`.
    """

    def decorate(body: Body) -> Rule:
        explanation = inspect.cleandoc(sys.modules[body.__module__].__doc__ or "")
        return Rule(id, name, severity, since, because_of, _needs(id, body), explanation, body)

    return decorate


def _needs(rule_id: str, body: Body) -> tuple[Need, ...]:
    hints = typing.get_type_hints(body)
    needs = []
    for parameter in inspect.signature(body).parameters.values():
        if parameter.name not in _FACTS | {MATRIX, SITE}:
            raise TypeError(f"{rule_id} asks for {parameter.name!r}, which is no fact of a snapshot")
        hint = hints.get(parameter.name)
        # typing.Union as well: Python 3.10 makes one of an annotation whose default is None
        is_union = typing.get_origin(hint) in (types.UnionType, typing.Union)
        accepts_none = is_union and type(None) in typing.get_args(hint)
        optional = parameter.default is not inspect.Parameter.empty
        needs.append(Need(parameter.name, accepts_none, optional))
    return tuple(needs)
