"""Where the keys of a TOML file stand: line and column. tomllib does not say.

The text is known to be valid, so that little of the grammar is needed: what a key is, and where a value ends.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Generator, Iterator

from msgspec import Struct

Path = tuple[str | int, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+)*+")
_SPACE = re.compile(r"[ \t]*+")
_STRING = re.compile(
    r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*+"{3,5}'
    r"|'''(?:[^']|'{1,2}(?!'))*+'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*+"'
    r"|'[^'\n]*+'",
    re.DOTALL,
)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]++")
_PLAIN = re.compile(r"[^\s,\]}#]++(?: [0-9][^\s,\]}#]*+)?+")  # a number, a date with a blank, true
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_ESCAPED = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", "e": "\x1b"}


class Place(Struct, frozen=True):
    line: int
    column: int


class Positions:
    """The place of every key, and of every entry of an array, by its path."""

    def __init__(self, text: str) -> None:
        self._text = text = text.replace("\r\n", "\n")
        self._lines = [0, *(found.end() for found in re.finditer("\n", text))]
        self._places: dict[Path, int] = {}
        for path, at in _Scanner(text).places():
            self._places.setdefault(path, at)

    def of(self, path: Path) -> Place:
        """Where the path begins; of one that the file does not have, where the nearest above it does."""
        while path and path not in self._places:
            path = path[:-1]
        at = self._places.get(path, 0)
        line = bisect_right(self._lines, at)
        return Place(line, at - self._lines[line - 1] + 1)

    def __contains__(self, path: Path) -> bool:
        return path in self._places


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._tables: dict[Path, int] = {}  # how many tables an array of tables has by now

    def places(self) -> Iterator[tuple[Path, int]]:
        prefix: Path = ()
        while True:
            self._skip(_BLANK)
            if self._at >= len(self._text):
                return
            if self._text[self._at] == "[":
                prefix = yield from self._header()
            else:
                yield from self._pair(prefix)

    def _header(self) -> Generator[tuple[Path, int], None, Path]:
        is_array = self._text.startswith("[[", self._at)
        self._at += 2 if is_array else 1
        path: Path = ()
        names = list(self._names())
        for number, (name, at) in enumerate(names, 1):
            path = (*path, name)
            yield path, at
            if is_array and number == len(names):
                self._tables[path] = self._tables.get(path, 0) + 1
            if path in self._tables:
                path = (*path, self._tables[path] - 1)
                yield path, at
        self._at += 2 if is_array else 1
        return path

    def _pair(self, prefix: Path) -> Iterator[tuple[Path, int]]:
        path = prefix
        for name, at in self._names():
            path = (*path, name)
            yield path, at
        self._at += 1  # "="
        self._skip(_SPACE)
        yield from self._value(path)

    def _names(self) -> Iterator[tuple[str, int]]:
        """The parts of a dotted key, up to what is behind it."""
        while True:
            self._skip(_SPACE)
            at = self._at
            if found := _BARE_KEY.match(self._text, at):
                name = found[0]
            else:
                found = _STRING.match(self._text, at)
                if found is None:
                    raise ValueError("this is no key")  # it would be no valid TOML
                name = _unquoted(found[0])
            self._at = found.end()
            yield name, at
            self._skip(_SPACE)
            if self._text[self._at : self._at + 1] != ".":
                return
            self._at += 1

    def _value(self, path: Path) -> Iterator[tuple[Path, int]]:
        """Deep ones without recursion: brackets that are open are in a list."""
        opened: list[tuple[str, Path, int]] = []  # the bracket, its path, its entries by now
        while True:
            sign = self._text[self._at : self._at + 1]
            if sign in ("[", "{"):
                self._at += 1
                opened.append((sign, path, 0))
            elif found := _STRING.match(self._text, self._at) or _PLAIN.match(self._text, self._at):
                self._at = found.end()
            # -- behind a value, or at the beginning of brackets: go to the next value
            while opened:
                self._skip(_BLANK)
                if self._text[self._at : self._at + 1] == ",":
                    self._at += 1
                    continue
                if self._text[self._at : self._at + 1] in ("]", "}", ""):
                    self._at += 1
                    opened.pop()
                    continue
                break
            if not opened:
                return
            sign, outer, count = opened[-1]
            if sign == "[":
                opened[-1] = (sign, outer, count + 1)
                path = (*outer, count)
                yield path, self._at
            else:
                path = outer
                for name, at in self._names():
                    path = (*path, name)
                    yield path, at
                self._at += 1
                self._skip(_SPACE)

    def _skip(self, blanks: re.Pattern[str]) -> None:
        found = blanks.match(self._text, self._at)
        self._at = found.end() if found else self._at


def _unquoted(text: str) -> str:
    if text.startswith("'"):
        return text[1:-1]
    return _ESCAPE.sub(_character, text[1:-1])


def _character(found: re.Match[str]) -> str:
    code = found[1] or found[2]
    return chr(int(code, 16)) if code else _ESCAPED.get(found[3], found[3])
