"""Text that cannot be written stops nothing: in stored values, and in the log."""

from __future__ import annotations

import logging

import msgspec
import pytest

from shoal.model import Snapshot
from shoal.telemetry.logging import JsonFormatter, Line
from shoal.text import pack, pack_sorted

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


def test_packed_bytes_are_the_same_in_whatever_order_the_keys_were_given() -> None:
    """Also with keys that cannot be compared, such as 1 and "a". They are what a page of a variant is known by."""
    given = {
        38: "in stock",
        "a": {None: {"x", "y", "z"}, (2, 1): [{2: 1, 1: 2}], 1.5: b""},
        True: HALF,
        b"b": 0,
    }
    turned = {
        key: dict(reversed(list(value.items()))) if isinstance(value, dict) else value
        for key, value in reversed(list(given.items()))
    }
    turned["a"][(2, 1)] = [{1: 2, 2: 1}]
    assert pack(given) != pack(turned)
    assert pack_sorted(given) == pack_sorted(turned)
    assert pack_sorted(given) != pack_sorted({**given, 38: "gone"})
    assert pack_sorted({1: 2}) != pack_sorted({"1": 2})
    assert pack_sorted({"b": 1, "a": 2}) == b"\x82\xa1a\x02\xa1b\x01", "stored: it must never change"
    with pytest.raises(TypeError, match="object"):
        pack_sorted({1: object()})


@pytest.mark.parametrize("value", [HALF, ValueError(HALF)])
def test_a_line_of_the_log_is_json_whatever_is_said(value: object) -> None:
    record = logging.LogRecord("shoal", logging.WARNING, "", 0, "%s\n", (value,), None)
    record.fields = {"value": value}
    line = JsonFormatter().format(record)
    assert "\n" not in line
    assert msgspec.json.decode(line.encode(), type=Line).message == "a\ufffd\ufffd\n"
