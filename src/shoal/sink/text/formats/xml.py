"""XML: `<items>` with one `<item>` a row, as Scrapy writes it.

A field is an element of its name, an object an element with elements, a list an element with a `<value>` for each of
its values. A name that is none in XML becomes `<field name="…">`. Characters that XML has not, not even as references,
are replaced by U+FFFD.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO
from xml.etree.ElementTree import Element, XMLPullParser

import msgspec

from shoal.model import Row
from shoal.sink.text.formats import as_fields

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")  # without colons: these are of namespaces
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_DEEPEST = 50  # values that are nested deeper are written as JSON: readers of XML refuse very deep trees
_CHUNK = 1 << 16
# A carriage return, and in attributes any white space but a blank, would be read as something else.
_TEXT = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})
_ATTRIBUTE = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}
)


class Xml:
    head = b'<?xml version="1.0" encoding="utf-8"?>\n<items>'
    tail = b"\n</items>\n"

    def encode(self, rows: Sequence[Row], first: bool) -> bytes:
        parts: list[str] = []
        for row in rows:
            parts.append("\n<item>")
            _write(msgspec.json.decode(row.data), parts, _DEEPEST)
            parts.append("</item>")
        return "".join(parts).encode()

    def read(self, text: BinaryIO) -> Iterator[dict[str, object]]:
        parser: Any = XMLPullParser(["start", "end"])
        open_elements: list[Element] = []
        while chunk := text.read(_CHUNK):
            parser.feed(chunk)
            for event, element in parser.read_events():
                if event == "start":
                    open_elements.append(element)
                    continue
                open_elements.pop()
                if len(open_elements) == 1:
                    yield as_fields(_value(element))
                    open_elements[0].clear()


def _write(value: object, parts: list[str], deepest: int) -> None:
    if isinstance(value, str):
        parts.append(_FORBIDDEN.sub("\ufffd", value).translate(_TEXT))
    elif value is None:
        return
    elif not isinstance(value, list | dict) or not deepest:
        _write(msgspec.json.encode(value).decode(), parts, 0)
    elif isinstance(value, list):
        for one in value:
            parts.append("<value>")
            _write(one, parts, deepest - 1)
            parts.append("</value>")
    else:
        for name, one in value.items():
            start, end = _tags(name)
            parts.append(start)
            _write(one, parts, deepest - 1)
            parts.append(end)


def _tags(name: str) -> tuple[str, str]:
    if _NAME.fullmatch(name):
        return f"<{name}>", f"</{name}>"
    name = _FORBIDDEN.sub("\ufffd", name).translate(_ATTRIBUTE)
    return f'<field name="{name}">', "</field>"


def _value(element: Element) -> object:
    """Numbers and the like are text in XML, and so is what is empty."""
    if not len(element):
        return element.text or ""
    if all(child.tag == "value" for child in element):
        return [_value(child) for child in element]
    return {child.get("name", child.tag): _value(child) for child in element}
