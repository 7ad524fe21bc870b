"""Events are read from lines; nothing else is ever taken for one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsmith.model.check_events import CheckStarted, Refusal, read_event
from envsmith.wire.encode import canonical_json
from envsmith.wire.results import CheckResult, ValidationReport
from tests.machines import machine

RESULT = CheckResult("cuda-kernel", "A CUDA kernel", "pass", 0.5, needs_gpu=True)
REPORT = ValidationReport("envsmith 0.1.0", None, "2026-11-30T21:00:00Z", 1.0, machine(), (RESULT,))


def line(kind: str, value: object) -> str:
    return canonical_json({"event": kind, kind: value})


@pytest.mark.parametrize(("kind", "value"), [("snapshot", machine()), ("result", RESULT), ("report", REPORT)])
def test_what_crosses_comes_back(kind, value):
    assert read_event(line(kind, value)) == value


def test_a_start():
    assert read_event('{"event":"start","id":"a","title":"A","limit_s":60}') == CheckStarted("a", "A", 60.0)
    assert read_event('{"event":"start","id":"a","title":"A","limit_s":60,"device":"cuda:0 X (9.0)"}') == CheckStarted(
        "a", "A", 60.0, "cuda:0 X (9.0)"
    )


def test_a_refusal():
    assert read_event('{"event":"usage-error","message":"no GPU 7"}') == Refusal("no GPU 7")
    assert read_event('{"event":"usage-error"}') is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "{",
        "{}",
        '{"event":"start","id":"a"}',
        '{"event":"other","other":{}}',
        '{"event":["start"]}',
        '{"event":"result","result":{"id":1}}',
        '{"event":"result"}',
        '{"event":"report","report":null}',
        "[1]",
        '{"event":"start","id":"\udcff","title":"","limit_s":1}',
        "{" * 100_000,
        '{"a":' * 100_000,
    ],
)
def test_what_is_no_event(text):
    assert read_event(text) is None


@given(st.text())
def test_any_text_is_read_or_left(text):
    read_event(text)
    read_event("{" + text)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_json_under_a_known_name_is_read_or_left(value):
    for kind in ("snapshot", "result", "report", "start"):
        assert read_event(json.dumps({"event": kind, kind: value})) is None
