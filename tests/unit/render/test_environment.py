"""The Jinja environment refuses what a template author could forget."""

from __future__ import annotations

import jinja2
import pytest

from envsmith.errors import DataError
from envsmith.render.environment import environment


def rendered(source: str, **values: object) -> str:
    return environment().from_string(source).render(values)


def test_quoted_values_are_printed() -> None:
    assert rendered("RUN x {{ a | run_word }} {{ b | run_words }}", a="a b", b=["c", "$d"]) == "RUN x 'a b' c '$d'"
    assert rendered("LABEL {{ a | label_name }}={{ b | dockerfile_string }}", a="x", b="$y") == 'LABEL x="\\$y"'


@pytest.mark.parametrize(
    "source", ["{{ a }}", "{{ a ~ 'x' }}", "{{ (a | run_word) ~ 'x' }}", "{{ a.upper() }}", "{{ 7 }}", "{{ none }}"]
)
def test_a_value_without_a_filter_is_an_error(source: str) -> None:
    with pytest.raises(DataError, match="without a quoting filter"):
        rendered(source, a="text")


@pytest.mark.parametrize("source", ["{{ missing | run_word }}", "{{ missing | run_words }}", "{{ missing }}"])
def test_a_missing_value_is_an_error(source: str) -> None:
    with pytest.raises((DataError, jinja2.UndefinedError)):
        rendered(source)


@pytest.mark.parametrize("name", ["safe", "e", "tojson", "replace", "upper", "default"])
def test_the_built_in_filters_are_gone(name: str) -> None:
    with pytest.raises(jinja2.TemplateAssertionError, match="No filter"):
        rendered("{{ a | " + name + " }}", a="x")


@pytest.mark.parametrize("value", [None, 7, ["a"], object()])
def test_only_text_can_be_quoted(value: object) -> None:
    with pytest.raises(DataError, match="which is no text"):
        rendered("{{ a | dockerfile_string }}", a=value)


def test_jinja_text_in_a_value_stays_text() -> None:
    assert rendered("{{ a | run_word }}", a="{{ 7*7 }}") == "'{{ 7*7 }}'"
