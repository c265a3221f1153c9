"""docs/events.md lists exactly the events there are, with their levels and fields."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from shoal.events import EVENTS
from shoal.inspect.event_log import KEPT
from shoal.telemetry.logging import Line

DOC = (Path(__file__).parents[2] / "docs" / "events.md").read_text("utf-8")
ROW = re.compile(r"^\| `(\w+)` \| (debug|info|warning|error) \| (.+?) \| (.+?) \|$", re.MULTILINE)


def test_the_events_are_those_of_the_vocabulary_in_their_order() -> None:
    written = [
        (name, level, tuple(re.findall(r"`(\w+)`", fields))) for name, level, _, fields in ROW.findall(DOC)
    ]
    assert written == [(name, kind.level, kind.fields) for name, kind in EVENTS.items()]


def test_the_keys_of_a_line_are_told_and_the_example_is_one() -> None:
    table = DOC.partition("| key | meaning |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(Line.__struct_fields__)
    [example] = re.findall(r"```json\n(.+?)\n```", DOC)
    line = msgspec.json.decode(example, type=Line)
    assert set(line.fields) <= set(EVENTS[line.event].fields)
    assert line.message == EVENTS[line.event].sentence.format(**line.fields)


def test_how_many_are_kept_is_true() -> None:
    assert f"the latest {KEPT}" in DOC
