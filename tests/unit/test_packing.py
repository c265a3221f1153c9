"""Text that cannot be written stops nothing: in stored values, and in the log."""

from __future__ import annotations

import logging

import msgspec
import pytest

from shoal.model import Snapshot
from shoal.telemetry.logging import JsonFormatter, Line
from shoal.text import pack

HALF = "a\udcff\ud800"


def test_what_can_be_written_is_written_as_it_is() -> None:
    snapshot = Snapshot(404, {"X": "ä😀"}, b"\xff", "trace")
    assert msgspec.msgpack.decode(pack(snapshot), type=Snapshot) == snapshot


def test_half_characters_are_replaced_and_nothing_else() -> None:
    packed = pack(Snapshot(404, {HALF: HALF, "whole": "ä😀"}, b"\xff", HALF))
    found = msgspec.msgpack.decode(packed, type=Snapshot)
    assert found == Snapshot(
        404, {"a\ufffd\ufffd": "a\ufffd\ufffd", "whole": "ä😀"}, b"\xff", "a\ufffd\ufffd"
    )
    assert msgspec.msgpack.decode(pack((HALF, {1: [HALF]}, None, 2.5))) == [
        "a\ufffd\ufffd",
        {1: ["a\ufffd\ufffd"]},
        None,
        2.5,
    ]


@pytest.mark.parametrize("value", [HALF, ValueError(HALF)])
def test_a_line_of_the_log_is_json_whatever_is_said(value: object) -> None:
    record = logging.LogRecord("shoal", logging.WARNING, "", 0, "%s\n", (value,), None)
    record.fields = {"value": value}
    line = JsonFormatter().format(record)
    assert "\n" not in line
    assert msgspec.json.decode(line.encode(), type=Line).message == "a\ufffd\ufffd\n"
