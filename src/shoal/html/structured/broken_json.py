"""JSON as pages hold it: with trailing or missing commas, comments, single quotes, bare names, quotes and line breaks
in strings, several values one after the other, brackets that are missing or too many.

One pass from left to right, without recursion. Every character is looked at a few times at most. What cannot be
understood is left out.
"""

from __future__ import annotations

import json
import re
from typing import Any

_DEEPEST = 100  # containers in containers
_MOST = 200_000  # values of a text

_BLANK = re.compile(
    r"(?:[\s\ufeff\u200b\x00;]++|//\s*+(?:<!\[CDATA\[|\]\]>|<!--|-->)|<!\[CDATA\[|<!--|-->"
    r"|//[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/|\Z))++"
)
_TO_QUOTE = {
    quote: re.compile(rf"[^{quote}\\]*+(?:\\.[^{quote}\\]*+)*+{quote}", re.DOTALL)
    for quote in ('"', "'", "”")
}
_CLOSING = {'"': '"', "'": "'", "“": "”", "”": "”"}
_WORD = re.compile(r"[^\s,:{}\[\]\"'“”]++")
_WITH_COMMA = re.compile(r"\d[\d.]*+,\d{1,2}(?=\s*+[},\r\n])")  # 1234,50 without quotes, in an object
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": ""}
_WORDS = {"true": True, "false": False, "null": None, "none": None, "undefined": None, "nan": None}

# What follows the end of a string. After a name, a colon. After a value, the next name, or the end of its object. A
# name without quotes must have more than a word behind it, unless the text has had one: 'a "fine", wide: 5" screen'.
_QUOTED = r"""(?:"[^"\\\n]{0,100}"|'[^'\\\n]{0,100}')\s*+:"""
_BARE = r"[\w$@-]{1,64}+\s*+:"
_BLANKS = (
    r"(?:\s++|//[^\n]{0,100}+\n|/\*[^*]{0,100}+\*/){0,8}+"  # with short comments: every quote looks ahead
)
_AFTER_NAME = re.compile(r"\s*+(?::|\Z)")
_AFTER_VALUE = {
    has_bare: re.compile(
        rf"{_BLANKS}(?:[}}\];]|\Z|,{_BLANKS}(?:[}},]|\Z|{_QUOTED}|{bare}))|\s++{_QUOTED}|[^\S\n]*+\n\s*+{bare}"
    )
    for has_bare, bare in ((False, _BARE + r"\s*+[\"'{\[]"), (True, _BARE))
}
_AFTER_ELEMENT = re.compile(
    rf"{_BLANKS}(?:[\]}};]|\Z|,{_BLANKS}(?:[\"'“{{\[\]\d,-]|true|false|null|\Z))|[^\S\n]*+\n\s*+[\"'{{]"
)


def read_json(text: str) -> list[Any]:
    """The values of a text, usually one."""
    try:
        return [json.loads(text, strict=False)]
    except (ValueError, RecursionError):
        return _Reader(text).values()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._found: list[Any] = []
        self._open: list[dict[str, Any] | list[Any]] = []
        self._names: list[str | None] = []  # of every open object: the one whose value comes next
        self._brackets = {"}": 0, "]": 0}  # open ones, by what closes them
        self._left = _MOST
        self._has_bare = False  # names without quotes

    def values(self) -> list[Any]:
        text, size = self._text, len(self._text)
        while self._left > 0:
            if found := _BLANK.match(text, self._at):
                self._at = found.end()
            if self._at >= size:
                break
            char = text[self._at]
            if char in "{[":
                if len(self._open) >= _DEEPEST:
                    break
                self._enter({} if char == "{" else [])
            elif char in "}]":
                self._leave(char)
            elif char in _CLOSING:
                self._string(_CLOSING[char])
            elif char in ",:":
                self._at += 1
                if char == "," and self._names:
                    self._names[-1] = None
            else:
                self._word()
        return [value for value in self._found if value]

    def _enter(self, container: dict[str, Any] | list[Any]) -> None:
        self._at += 1
        self._put(container)
        self._open.append(container)
        self._names.append(None)
        self._brackets["}" if isinstance(container, dict) else "]"] += 1

    def _leave(self, bracket: str) -> None:
        """Ends the nearest container of that kind, and those in it that were not ended. One too many is ignored."""
        self._at += 1
        while self._brackets[bracket]:
            container = self._open.pop()
            self._names.pop()
            closing = "}" if isinstance(container, dict) else "]"
            self._brackets[closing] -= 1
            if closing == bracket:
                break

    def _put(self, value: Any) -> None:
        self._left -= 1
        if not self._open:
            self._found.append(value)
        elif isinstance(container := self._open[-1], list):
            container.append(value)
        elif (name := self._names[-1]) is not None:
            container[name] = value
            self._names[-1] = None

    def _scalar(self, value: Any) -> None:
        """A name where an object expects one, else a value."""
        if self._awaits_name():
            self._left -= 1
            self._names[-1] = str(value)
        elif self._open:
            self._put(value)

    def _awaits_name(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1], dict) and self._names[-1] is None

    def _string(self, quote: str) -> None:
        """Up to the first quote that what follows allows to be its end. Without one, the string is left out."""
        if self._awaits_name():
            follows = _AFTER_NAME
        else:
            follows = (
                _AFTER_VALUE[self._has_bare]
                if self._open and isinstance(self._open[-1], dict)
                else _AFTER_ELEMENT
            )
        start = at = self._at + 1
        while found := _TO_QUOTE[quote].match(self._text, at):
            at = found.end()
            if follows.match(self._text, at):
                self._at = at
                self._scalar(_unescaped(self._text[start : at - 1]))
                return
        self._at = len(self._text)

    def _word(self) -> None:
        in_object = bool(self._open) and isinstance(self._open[-1], dict)
        found = (in_object and _WITH_COMMA.match(self._text, self._at)) or _WORD.match(self._text, self._at)
        if found is None:
            self._at += 1
            return
        self._at = found.end()
        word = found[0]
        self._has_bare = self._has_bare or self._awaits_name()
        if word.lower() in _WORDS:
            self._scalar(_WORDS[word.lower()])
        elif word[0] in "-0123456789":
            self._scalar(_number(word))
        elif self._awaits_name() or len(word) <= 200:
            self._scalar(word)


def _number(word: str) -> int | float | str:
    try:
        return int(word) if word.lstrip("-").isdecimal() else float(word)
    except ValueError:
        return word


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    text = _ESCAPE.sub(lambda found: _character(found[1]), text)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _character(escape: str) -> str:
    if len(escape) > 1:
        return chr(int(escape[1:], 16))
    return _ESCAPED.get(escape, escape)
