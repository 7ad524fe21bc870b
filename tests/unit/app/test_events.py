"""The reader passes events on and keeps the rest."""

from __future__ import annotations

from envsmith.app.events import EventReader
from envsmith.wire.encode import canonical_json
from tests.machines import machine
from tests.unit.model.test_check_events import REPORT, RESULT, line


def test_events_are_passed_on_in_order_and_the_report_is_kept():
    seen: list[object] = []
    reader = EventReader(seen.append)
    for kind, value in (("snapshot", machine()), ("result", RESULT), ("report", REPORT)):
        reader.feed(line(kind, value))
    assert seen == [machine(), RESULT, REPORT]
    assert (reader.snapshot, reader.report) == (machine(), REPORT)


def test_other_lines_are_kept_as_they_may_be_shown():
    reader = EventReader(lambda _: None)
    for text in ("Warning: \x1b[31mred\x1b[0m", "   ", canonical_json({"not": "an event"})):
        reader.feed(text)
    assert list(reader.stray) == ["Warning: red", '{"not":"an event"}']


def test_a_flood_of_other_lines_keeps_the_last():
    reader = EventReader(lambda _: None)
    for number in range(10_000):
        reader.feed(f"noise {number}")
    assert len(reader.stray) == 200
    assert reader.stray[-1] == "noise 9999"
