"""What buildx prints becomes events, and nothing that it could print breaks the reader or the terminal."""

from __future__ import annotations

import base64
import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsmith.engine.progress import PlainProgress, RawJsonProgress
from envsmith.model.image import BuildEvent

RECORDED = Path(__file__).parents[2] / "recorded" / "docker"


def read(lines: list[str], reader: RawJsonProgress | PlainProgress) -> list[BuildEvent]:
    return [event for line in lines for event in reader.feed(line)]


def recorded(name: str) -> list[str]:
    return (RECORDED / name).read_text(encoding="utf-8").splitlines()


def one_object_a_line(lines: list[str]) -> list[str]:
    """The recording as newer buildx writes it."""
    text, decoder, out = "\n".join(lines), json.JSONDecoder(), []
    while text.lstrip().startswith("{"):
        text = text.lstrip()
        value, end = decoder.raw_decode(text)
        out.append(json.dumps(value))
        text = text[end:]
    return [*out, *text.strip("\n").split("\n")]


@pytest.mark.parametrize("form", ["pretty", "one a line"])
def test_a_recorded_build(form: str) -> None:
    lines = recorded("buildx-0.13-rawjson-step-fails.txt")
    reader = RawJsonProgress()
    events = read(lines if form == "pretty" else one_object_a_line(lines), reader)
    steps = [(event.kind, event.number, event.total) for event in events if event.number and event.kind != "log"]
    assert steps[-4:] == [("started", 2, 3), ("finished", 2, 3), ("started", 3, 3), ("failed", 3, 3)]
    assert [event.text for event in events if event.kind == "log"][:3] == ["hi", "red", "30+0 records in"]
    assert events[-1].text.endswith("exit code: 3")
    assert events[-1].seconds == pytest.approx(0.2229, abs=0.001)
    assert events[-1].step == "RUN echo fail >&2; exit 3"
    moved = [event for event in events if event.kind == "progress"]
    assert (moved[2].text, moved[2].current_bytes, moved[2].total_bytes) == ("transferring dockerfile", 206, None)
    assert "Dockerfile:4" in reader.tail
    assert reader.tail[-1].startswith("ERROR: failed to solve")


def test_a_recorded_build_in_the_plain_form() -> None:
    reader = PlainProgress()
    events = read(recorded("buildx-plain-step-fails.txt"), reader)
    steps = [(event.kind, event.number, event.total) for event in events if event.number and event.kind != "log"]
    assert steps[-4:] == [("started", 2, 3), ("finished", 2, 3), ("started", 3, 3), ("failed", 3, 3)]
    assert [event.text for event in events if event.kind == "log" and event.number == 2][:2] == ["hi", "red"]
    assert "Dockerfile:4" in reader.tail


def log(data: bytes, vertex: str = "sha256:1") -> str:
    return json.dumps({"logs": [{"vertex": vertex, "data": base64.b64encode(data).decode()}]})


def test_a_log_line_that_comes_in_pieces_is_one_event() -> None:
    reader = RawJsonProgress()
    reader.feed(json.dumps({"vertexes": [{"digest": "sha256:1", "name": "[stage-0 2/4] RUN x"}]}))
    assert read([log(b"Downloading to"), log(b"rch\nnext")], reader)[0].text == "Downloading torch"
    done = {"digest": "sha256:1", "name": "[stage-0 2/4] RUN x", "completed": "2026-01-01T00:00:00Z"}
    rest = reader.feed(json.dumps({"vertexes": [done]}))
    assert [(event.kind, event.text, event.number, event.total) for event in rest] == [
        ("log", "next", 2, 4),
        ("finished", "", 2, 4),
    ]


def test_a_log_without_line_breaks_is_cut_and_not_kept_for_ever() -> None:
    reader = RawJsonProgress()
    assert sum(len(reader.feed(log(b"x" * 60_000))) for _ in range(4)) == 2


def test_a_cached_step_has_no_start() -> None:
    vertex = {"digest": "d", "name": "[2/3] RUN x", "started": "2026-01-01T00:00:00Z", "cached": True,
              "completed": "2026-01-01T00:00:01Z"}  # fmt: skip
    assert [event.kind for event in RawJsonProgress().feed(json.dumps({"vertexes": [vertex]}))] == ["cached"]


def test_hostile_output_of_a_step_cannot_reach_the_terminal() -> None:
    reader = RawJsonProgress(("s3cret",))
    hostile = b"\x1b]0;title\x07\x1b[2J\x1b[31mred\x1b[0m \xe2\x80\xaegnp.exe tok=s3cret \xff\n"
    assert reader.feed(log(hostile))[0].text == "red gnp.exe tok=**** \N{REPLACEMENT CHARACTER}"


_texts = st.text(max_size=30) | st.sampled_from(["{", "}", "#1 DONE 0.1s", "#1 [1/2] RUN x", "\x1b[2J"])
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _texts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["vertexes", "statuses", "logs", "digest", "name", "started", "completed", "data", "vertex", "error",
                 "current", "total", "id", "cached"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)  # fmt: skip
_logs = st.binary(max_size=60).map(log)


@given(st.lists(_texts | _values.map(json.dumps) | _logs, max_size=15))
def test_whatever_is_printed_becomes_printable_events(lines: list[str]) -> None:
    for reader in (RawJsonProgress(), PlainProgress()):
        for event in read(lines, reader):
            assert not _controls(event.text + event.step)
        assert len(reader.tail) <= 60
        assert not any(_controls(line) for line in reader.tail)


def _controls(text: str) -> bool:
    return any(unicodedata.category(character) == "Cc" and character != "\t" for character in text)


def test_deep_nesting_is_kept_as_text() -> None:
    reader = RawJsonProgress()
    assert reader.feed('{"vertexes":' + "[" * 100_000) == []
    assert len(reader.tail) == 1
