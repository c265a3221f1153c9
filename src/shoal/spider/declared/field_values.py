"""Reads the fields of a TOML spider from a page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Struct

from shoal.spider.declared.cleaning import Step, cleaner
from shoal.spider.declared.file_model import WHERE, WITH_WHERE, EachTable, FieldLike, FieldTable
from shoal.spider.declared.guarded_regex import find_all
from shoal.spider.declared.json_path import json_path
from shoal.spider.declared.looking import PAGE, Look, Scope, attribute_of, json_in, markup_of, text_of
from shoal.spider.declared.typed_values import Unreadable, converter

Find: TypeAlias = Callable[[Look, Scope], Iterable[Any]]

UNREADABLE = "unreadable"  # the counter of values that are not of their type
_PSEUDO = re.compile(r"(.*?)\s*::\s*(?:(text)|attr\(\s*[\"']?([^\"')]+?)[\"']?\s*\))\s*$", re.DOTALL)
_INHERITED = ("type", "list", "clean", "format")  # by alternatives, from the field
_EMPTY: tuple[object, ...] = ("", [], {}, None)


class Reading(Struct):
    """An item while it is read: why it lacks what it must have, and whether anything was found."""

    problems: dict[str, str] = {}
    found: bool = False


class Item(dict[str, Any]):
    """An item of a TOML spider; it knows why it is not complete."""

    problems: Mapping[str, str] = {}


def read_item(fields: Mapping[str, Field], look: Look, scope: Scope = PAGE) -> Item:
    reading = Reading({})
    item = Item()
    for name, field in fields.items():
        item[name] = field.read(look, scope, reading, name)
    if not reading.found and not reading.problems:
        reading.problems = {"": f"none of its fields was found: {', '.join(list(fields)[:10])}"}
    item.problems = reading.problems
    return item


class Field:
    """One field, ready to be read."""

    def __init__(self, table: FieldTable) -> None:
        self._table = table
        self._default = table.default
        self._counts = table.page is None and table.const is UNSET  # what is always there says nothing
        self._where = _described(table)
        self._inner = fields_of(table.fields) if table.fields is not None else None
        self._alternatives = [Field(one) for one in _alternatives(table)]
        self._find = _finder(table) if table.any_ is None else None
        self._each = each_scopes(table.each) if table.each is not None else None
        self._regex = re.compile(table.regex) if table.regex else None
        self._path = json_path(table.json) if table.json and _is_inside(table) else None
        self._clean: Step | None = cleaner(table.clean)
        self._convert = converter(table.type, table.format)

    def read(self, look: Look, scope: Scope, reading: Reading, name: str) -> Any:
        """The value, or the default. What is required and missing is noted in `reading`."""
        value, unreadable = self._value(look, scope, reading, name)
        if value is not UNSET:
            reading.found = reading.found or (self._counts and value is not False)
            return value
        if self._default is not UNSET:
            return self._default
        if self._table.required:
            reading.problems[name] = f"{name}: {unreadable or f'nothing was found by {self._where}'}"
        elif unreadable:
            look.page.count(f"{UNREADABLE}: {name}"[:100])
        plain: list[Any] | None = [] if self._table.list_ or self._each is not None else None
        return False if self._table.type == "bool" and not self._table.list_ else plain

    def _value(self, look: Look, scope: Scope, reading: Reading, name: str) -> tuple[Any, str]:
        """The value, or UNSET and perhaps what could not be read."""
        unreadable = ""
        for one in self._alternatives:
            value, said = one._value(look, scope, reading, name)
            unreadable = unreadable or said
            if value is not UNSET:
                return value, ""
        if self._alternatives:
            return UNSET, unreadable
        if self._inner is not None:
            return self._objects(look, scope, reading, name), ""
        return self._plain(look, scope)

    def _plain(self, look: Look, scope: Scope) -> tuple[Any, str]:
        convert, base = self._convert, look.page.base
        unreadable = ""
        kept: list[Any] = []
        for value in self._cleaned(look, scope):
            if value in _EMPTY:
                continue
            try:
                read = convert(value, base)
            except Unreadable as error:
                unreadable = unreadable or str(error)
                continue
            if not self._table.list_:
                return read, ""
            kept.append(read)
        return kept or UNSET, unreadable

    def _cleaned(self, look: Look, scope: Scope) -> Iterable[Any]:
        found = self._searched(look, scope)
        if self._clean is None and not self._table.list_:
            return found  # the first that can be read is enough
        values = look.bounded(value for value in found if value not in _EMPTY)
        return values if self._clean is None else self._clean(values)

    def _searched(self, look: Look, scope: Scope) -> Iterator[Any]:
        assert self._find is not None
        for value in self._find(look, scope):
            texts = [value] if self._regex is None else find_all(self._regex, text_of(value))
            for text in texts:
                if self._path is None:
                    yield text
                else:
                    yield from self._path.find(json_in(text) if isinstance(text, str) else text)

    def _objects(self, look: Look, scope: Scope, reading: Reading, name: str) -> Any:
        """An object of the inner fields, or with `each` a list of them. One in which nothing is found is none."""
        assert self._inner is not None
        if self._each is None:
            scopes = [scope] if self._find is None else [*_narrowed(self._table, look, scope)][:1]
        else:
            scopes = look.bounded(iter(self._each(look, scope)))
        objects: list[dict[str, Any]] = []
        for inside in scopes:
            own = Reading({})
            where = f"{name}[{len(objects)}]" if self._each is not None else name
            values = {
                inner: field.read(look, inside, own, f"{where}.{inner}")
                for inner, field in self._inner.items()
            }
            if own.found:
                reading.problems |= own.problems
                objects.append(values)
        return (objects if self._each is not None else objects[0]) if objects else UNSET


def fields_of(given: Mapping[str, FieldLike]) -> dict[str, Field]:
    """Fields by name, ready to be read."""
    tables = {name: table for name, value in given.items() if (table := field_table(value)) is not None}
    return {name: Field(_resolved(table, tables)) for name, table in tables.items()}


def _resolved(table: FieldTable, others: Mapping[str, FieldTable]) -> FieldTable:
    """A field that is `like` another, with the place of that."""
    if table.like is None:
        return table
    there, own = _plain_keys(others[table.like]), _plain_keys(table)
    place = {key: value for key, value in there.items() if key in (*WHERE, *WITH_WHERE)}
    return msgspec.convert({**place, **own, "like": None}, FieldTable)


def field_table(given: FieldLike) -> FieldTable | None:
    """A field in its long form; None: it was taken away."""
    if isinstance(given, str):
        return FieldTable(css=given)
    if isinstance(given, bool):
        return None
    return FieldTable(any_=list[FieldLike](given)) if isinstance(given, list) else given


def _alternatives(table: FieldTable) -> Iterator[FieldTable]:
    """Each of `any`, with what the field says of all of them."""
    usual = {key: value for key, value in msgspec.to_builtins(table).items() if key in _INHERITED}
    for given in table.any_ or ():
        own = field_table(given)
        if own is not None:
            yield msgspec.convert({**usual, **_plain_keys(own)}, FieldTable)


def _plain_keys(table: FieldTable) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(table)
    return plain


# -- where a value is found


def split_pseudo(selector: str) -> tuple[str, str]:
    """A selector without ::text or ::attr(name), and the attribute's name or ""."""
    found = _PSEUDO.fullmatch(selector)
    return (found[1], found[3] or "") if found else (selector, "")


def _is_inside(table: FieldTable) -> bool:
    """Whether a path goes into what another key finds, and not into the page's own JSON."""
    return bool(table.css or table.xpath or table.script or table.attr or table.regex)


def _described(table: FieldTable) -> str:
    """Where a field is looked for, in words."""
    if table.any_ is not None:
        return f"any of {len(table.any_)} alternatives"
    keys = ("css", "xpath", "script", "data", "meta", "page", "carried", "json", "attr")
    said = [f'{key} "{value}"' for key in keys if (value := getattr(table, key))]
    return " ".join(said) or "its fields"


def _finder(table: FieldTable) -> Find | None:
    if table.css is not None:
        selector, named = split_pseudo(table.css)
        return _of_elements(
            lambda look, scope: look.css(selector, scope) if selector else _self(scope), table, named
        )
    if table.xpath is not None:
        expression = table.xpath
        return _of_elements(lambda look, scope: look.xpath(expression, scope), table, "")
    if table.const is not UNSET:
        return lambda look, scope: [table.const]
    if table.meta is not None:
        meta = table.meta.lower()
        return lambda look, scope: look.meta.get(meta, [])
    if (name := table.carried) is not None:
        return lambda look, scope: _listed(look.page.meta.get(name))
    if table.page is not None:
        fact = _FACTS[table.page]
        return lambda look, scope: [fact(look)]
    return _of_data(table)


def _of_data(table: FieldTable) -> Find | None:
    if table.data is not None:
        kind, _, rest = table.data.partition(".")
        path = json_path(rest)
        return lambda look, scope: (one for record in look.records(kind) for one in _flat(path.find(record)))
    if (mark := table.script) is not None:
        return lambda look, scope: look.after(mark)
    if table.json is not None and not _is_inside(table):
        inner = json_path(table.json)
        return lambda look, scope: _flat(
            [one for document in _documents(look, scope) for one in inner.find(document)]
        )
    if table.attr is not None or table.regex is not None or table.fields is None:
        return _of_elements(lambda look, scope: _self(scope), table, "")
    return None


def _of_elements(elements: Callable[[Look, Scope], list[Any]], table: FieldTable, named: str) -> Find:
    attribute = table.attr or named

    def find(look: Look, scope: Scope) -> Iterator[Any]:
        found = elements(look, scope)
        if attribute:
            yield from (attribute_of(one, attribute) for one in found)
            return
        for one in look.readable(found, scope):
            if table.type == "html":
                yield markup_of(one)
            elif table.type == "bool" and table.regex is None:
                yield True  # it is there
            elif table.json is not None or table.type == "json":
                yield _raw_text(one)
            else:
                yield one if isinstance(one, dict | list | bool | int) else text_of(one)

    return find


def _raw_text(found: Any) -> Any:
    """With its white space, which is part of the texts in JSON."""
    if hasattr(found, "text") and callable(found.text):
        return found.text()
    return "".join(found.itertext()) if hasattr(found, "itertext") else found


def _self(scope: Scope) -> list[Any]:
    return [] if scope.kind == "page" else [scope.value]


def _documents(look: Look, scope: Scope) -> list[Any]:
    return [scope.value] if scope.kind == "json" else look.documents


def _flat(values: list[Any]) -> Iterator[Any]:
    """A list at the end of a path is its entries."""
    for one in values:
        if isinstance(one, list):
            yield from one
        else:
            yield one


def _listed(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]


_FACTS: Mapping[str, Callable[[Look], Any]] = {
    "url": lambda look: look.page.url,
    "site": lambda look: look.site,
    "handler": lambda look: look.page.handler,
    "status": lambda look: look.page.status,
    "depth": lambda look: look.page.depth,
    "fetched_at": lambda look: datetime.fromtimestamp(int(look.page.fetched_at), UTC).isoformat(),
    "text": lambda look: look.page.text(),
    "html": lambda look: look.page.html,
}


# -- what is repeated


def each_scopes(given: str | EachTable) -> Callable[[Look, Scope], Iterable[Scope]]:
    """The scopes that `each` gives: one for every element or value."""
    table = EachTable(css=given) if isinstance(given, str) else given
    if (selector := table.css) is not None:
        return lambda look, scope: (Scope("css", node) for node in look.css(selector, scope))
    if (expression := table.xpath) is not None:
        return lambda look, scope: (Scope("xpath", one) for one in look.xpath(expression, scope))
    if table.data is not None:
        kind, _, rest = table.data.partition(".")
        path = json_path(rest)
        return lambda look, scope: (
            Scope("json", one) for record in look.records(kind) for one in _flat(path.find(record))
        )
    inner = json_path(table.json or "$")
    return lambda look, scope: (
        Scope("json", one)
        for document in _documents(look, scope)
        for one in _flat(inner.find(document))
        if one is not None
    )


def _narrowed(table: FieldTable, look: Look, scope: Scope) -> Iterable[Scope]:
    """The scope of an object's fields."""
    given = EachTable(css=table.css, xpath=table.xpath, json=table.json, data=table.data)
    return each_scopes(given)(look, scope)
