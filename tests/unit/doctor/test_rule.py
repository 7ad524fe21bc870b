"""The decorator: needs are read from the signature and checked at import."""

from __future__ import annotations

import pytest

from envsmith.doctor.rule import Need, rule
from envsmith.model.findings import Severity
from envsmith.model.matrix import Matrix
from envsmith.wire.facts import DriverFacts, TorchFacts, TorchRuntimeFacts


def toy(body):
    return rule(id="ENV900", name="toy", severity=Severity.ERROR, since="0.1", because_of=("ENV901",))(body)


def test_a_rule_is_a_value_with_what_it_was_given():
    def body(matrix: Matrix):
        yield from ()

    made = toy(body)
    assert (made.id, made.name, made.severity, made.since) == ("ENV900", "toy", Severity.ERROR, "0.1")
    assert made.because_of == ("ENV901",)
    assert made.explanation.startswith("The decorator:")


def test_annotations_say_how_a_fact_is_needed():
    def body(driver: DriverFacts | None, torch: TorchFacts, torch_runtime: TorchRuntimeFacts | None = None):
        yield from ()

    assert toy(body).needs == (
        Need("driver", none_is_an_answer=True),
        Need("torch"),
        Need("torch_runtime", none_is_an_answer=True, optional=True),
    )


@pytest.mark.parametrize("name", ["drvier", "gaps", "schema", "self"])
def test_what_is_no_fact_is_refused_at_import(name):
    scope: dict[str, object] = {"__name__": __name__}
    exec(f"def body({name}): yield", scope)
    with pytest.raises(TypeError, match=f"ENV900 asks for '{name}'"):
        toy(scope["body"])
