"""Dead letters as the dashboard and `--json` tell them."""

from __future__ import annotations

from typing import Any

from shoal.inspect.json_form import MOST_TEXT, letter_dict
from shoal.model import DeadLetter, Failure, ItemNote, Snapshot, Task


def shown(body: bytes, content_type: str = "") -> dict[str, Any]:
    snapshot = Snapshot(500, {"Content-Type": content_type}, body)
    task = Task("http://a.example/", history=(Failure("http_500"),))
    value: dict[str, Any] = letter_dict(DeadLetter(task, "http_500", 1.0, snapshot))["response"]
    return value


def test_a_body_is_text_whatever_it_is() -> None:
    assert shown(b"\xff\x00<b>", "text/html; charset=utf-8")["body"] == "\ufffd␀<b>"
    assert shown("ü".encode("latin-1"), "text/html; charset=latin-1")["body"] == "ü"
    assert shown(b"x" * (MOST_TEXT + 1))["cut"] is True
    assert len(shown(b"x" * (MOST_TEXT + 1))["body"]) == MOST_TEXT
    assert shown(b"x" * MOST_TEXT)["cut"] is False


def test_a_list_has_no_bodies() -> None:
    letter = DeadLetter(Task("http://a.example/"), "http_500", 1.0, Snapshot(500, {}, b"x"))
    assert letter_dict(letter).keys() - letter_dict(letter, response=False).keys() == {"response", "item"}


def test_a_rejected_item_is_text_whatever_it_is() -> None:
    def item(body: bytes) -> object:
        task = Task("http://a.example/", body=body, item=ItemNote("book"))
        return letter_dict(DeadLetter(task, "rejected", 1.0))["item"]

    assert item(b'{"a":"<b>"}') == '{\n  "a": "<b>"\n}'
    assert item(b'{"a":"\x1b[2J') == '{"a":"␛[2J', "it was cut"
    assert len(str(item(b'"' + b"x" * 2 * MOST_TEXT))) == MOST_TEXT
    assert letter_dict(DeadLetter(Task("http://a.example/"), "http_500", 1.0))["item"] is None
