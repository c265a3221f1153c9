"""Paths into JSON: the part of RFC 9535 that people use. Pure, and bounded in what it visits.

product.price            $.product.price         names; the dollar may be left out
offers[0].price          offers[-1]              entries, also from the end
items[*].sku             items[2:10]             all, or some
..price                                          at any depth
["odd name"].price                               any name
offers[?@.type == "new"].price    [?@.price]     entries for which something holds
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, TypeAlias

from msgspec import Struct

_VISITED = 200_000  # values that one path may look at
_MOST = 500  # characters of a path

_NAME = re.compile(r"[^\W\d][\w-]*|[A-Za-z_@$][\w@$-]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,14})")
_SLICE = re.compile(r"\s*(-?\d{1,15})?\s*:\s*(-?\d{1,15})?\s*(?::\s*(-?\d{1,15})?\s*)?")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*+"|\'(?:[^\'\\]|\\.)*+\'', re.DOTALL)
_FILTER = re.compile(r"\?\s*@\s*")
_COMPARED = re.compile(r"\s*(==|!=|<=|>=|<|>)\s*")
_LITERAL = re.compile(
    r'"(?:[^"\\]|\\.)*+"|\'(?:[^\'\\]|\\.)*+\'|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null', re.DOTALL
)

Step: TypeAlias = Callable[["_Walk", Any], Iterator[Any]]


class JsonPathError(ValueError):
    """This is no path into JSON; the message says where it ends to be one."""


class JsonPath(Struct, frozen=True):
    text: str
    steps: tuple[Step, ...]

    def find(self, value: Any) -> list[Any]:
        """Every value at the path, in the order of the document."""
        found, walk = [value], _Walk()
        for step in self.steps:
            found = [inner for one in found for inner in step(walk, one)]
        return found


class _Walk:
    """How much is still looked at."""

    def __init__(self) -> None:
        self.left = _VISITED

    def spend(self) -> bool:
        self.left -= 1
        return self.left >= 0


@lru_cache(maxsize=4096)
def json_path(text: str) -> JsonPath:
    """Raises JsonPathError."""
    if len(text) > _MOST:
        raise JsonPathError(f"a path has at most {_MOST} characters")
    bare = text.strip()
    at = 1 if bare.startswith("$") else 0
    parser = _Parser(bare, at)
    if not at and bare and bare[0] not in ".[":
        parser.steps.append(_child(parser.name()))
    parser.read()
    if parser.at < len(bare):
        raise parser.error("a dot or a bracket")
    return JsonPath(text, tuple(parser.steps))


class _Parser:
    def __init__(self, text: str, at: int) -> None:
        self.text = text
        self.at = at
        self.steps: list[Step] = []

    def error(self, wanted: str) -> JsonPathError:
        return JsonPathError(f"{wanted} is missing at character {self.at + 1}")

    def read(self) -> None:
        while self.at < len(self.text):
            if self._take(".."):
                self.steps.append(_descend)
                if self._take("["):
                    self._bracket()
                else:
                    self._named()
            elif self._take("."):
                self._named()
            elif self._take("["):
                self._bracket()
            else:
                return

    def _named(self) -> None:
        self.steps.append(_all if self._take("*") else _child(self.name()))

    def name(self) -> str:
        found = _NAME.match(self.text, self.at)
        if found is None:
            raise self.error("a name")
        self.at = found.end()
        return found[0]

    def _bracket(self) -> None:
        self._blanks()
        if self._take("*"):
            self.steps.append(_all)
        elif found := _QUOTED.match(self.text, self.at):
            self.at = found.end()
            self.steps.append(_child(_string(found[0])))
        elif found := _FILTER.match(self.text, self.at):
            self.at = found.end()
            self.steps.append(self._filter())
        elif found := _SLICE.match(self.text, self.at):
            self.at = found.end()
            start, stop, stride = (int(one) if one else None for one in found.groups())
            self.steps.append(_some(start, stop, stride))
        elif found := _NUMBER.match(self.text, self.at):
            self.at = found.end()
            self.steps.append(_entry(int(found[0])))
        else:
            raise self.error("a number, *, a name in quotes or ?@")
        self._blanks()
        if not self._take("]"):
            raise self.error("]")

    def _filter(self) -> Step:
        inner = _Parser(self.text, self.at)
        inner.read()
        self.at = inner.at
        path = JsonPath("", tuple(inner.steps))
        sign = _COMPARED.match(self.text, self.at)
        if sign is None:
            return _where(path, "", None)
        self.at = sign.end()
        literal = _LITERAL.match(self.text, self.at)
        if literal is None:
            raise self.error("a text in quotes, a number, true, false or null")
        self.at = literal.end()
        quoted = literal[0][0] in "\"'"
        return _where(path, sign[1], _string(literal[0]) if quoted else json.loads(literal[0]))

    def _take(self, sign: str) -> bool:
        if self.text.startswith(sign, self.at):
            self.at += len(sign)
            return True
        return False

    def _blanks(self) -> None:
        while self.text[self.at : self.at + 1] in (" ", "\t", "\n", "\r"):
            self.at += 1


def _string(quoted: str) -> str:
    body = quoted[1:-1]
    if quoted[0] == "'":
        body = body.replace("\\'", "'").replace('"', '\\"')
    try:
        return str(json.loads(f'"{body}"', strict=False))
    except ValueError:
        raise JsonPathError(f"{quoted} is no text in quotes") from None


# -- steps


def _child(name: str) -> Step:
    def step(walk: _Walk, value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value and walk.spend():
            yield value[name]

    return step


def _entry(number: int) -> Step:
    def step(walk: _Walk, value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= number < len(value) and walk.spend():
            yield value[number]

    return step


def _some(start: int | None, stop: int | None, stride: int | None) -> Step:
    def step(walk: _Walk, value: Any) -> Iterator[Any]:
        if isinstance(value, list) and stride != 0:
            yield from _spent(walk, value[start:stop:stride])

    return step


def _all(walk: _Walk, value: Any) -> Iterator[Any]:
    yield from _spent(walk, _inside(value))


def _inside(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _spent(walk: _Walk, values: Iterable[Any]) -> Iterator[Any]:
    for one in values:
        if not walk.spend():
            return
        yield one


def _descend(walk: _Walk, value: Any) -> Iterator[Any]:
    """The value and everything inside it, without recursion."""
    waiting = [value]
    while waiting and walk.spend():
        one = waiting.pop()
        yield one
        waiting += reversed(list(_inside(one)))


def _where(path: JsonPath, sign: str, wanted: Any) -> Step:
    def holds(walk: _Walk, value: Any) -> bool:
        found = [value]
        for step in path.steps:
            found = [inner for one in found for inner in step(walk, one)]
        if not sign:
            return bool(found)
        if len(found) > 1:
            return False
        return _compare(found[0] if found else _NOTHING, sign, wanted)

    def step(walk: _Walk, value: Any) -> Iterator[Any]:
        for one in _inside(value):
            if not walk.spend():
                return
            if holds(walk, one):
                yield one

    return step


_NOTHING = object()


def _compare(found: Any, sign: str, wanted: Any) -> bool:
    same = _equal(found, wanted)
    if sign in ("==", "!="):
        return same == (sign == "==")
    ordered = (isinstance(found, str) and isinstance(wanted, str)) or (
        _is_number(found) and _is_number(wanted)
    )
    if not ordered or same:
        return same and sign in ("<=", ">=")
    return bool(found < wanted) == sign.startswith("<")


def _equal(one: Any, other: Any) -> bool:
    """As in JSON: true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    comparable = type(one) is type(other) or (_is_number(one) and _is_number(other))
    return comparable and bool(one == other)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
