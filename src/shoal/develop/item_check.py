"""Whether the items that handlers write as dicts have the fields of their schema, and those of their key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from inspect import unwrap
from pathlib import Path
from typing import Any

import msgspec

from shoal.develop.findings import Finding
from shoal.develop.spider_code import Code, ItemUse
from shoal.spider.schemas import Schema
from shoal.spider.spider import Handler, Spider, shown
from shoal.text.humanize import plural


def check_items(spider: Spider, codes: Sequence[Code]) -> Iterator[Finding]:
    """One row for keys and one for schemas, or what is wrong with them."""
    found = [
        finding
        for handler in spider.handlers.values()
        for finding in (*_check_names(spider, handler), *_check_literals(handler, codes))
    ]
    yield from found
    wrong = {finding.subject for finding in found}
    keyed = [handler for handler in spider.handlers.values() if handler.key]
    if "keys" not in wrong:
        said = ", ".join(f"{handler.name}: {' + '.join(handler.key or ())}" for handler in keyed)
        yield Finding("keys", "ok", said or "no handler has a key: equal items are written more than once")
    if "schemas" not in wrong:
        classes = {schema.type.__name__ for handler in spider.handlers.values() for schema in handler.schemas}
        said = f"{plural(len(classes), 'class', 'classes')}: {', '.join(sorted(classes))}" if classes else ""
        yield Finding("schemas", "ok", said or "no handler has one: any item will do")


def _check_names(spider: Spider, handler: Handler) -> Iterator[Finding]:
    """The names that a handler gives as key= and files= are fields of its schemas."""
    for schema in handler.schemas:
        if (fields := fields_of(schema)) is None:
            continue
        for option, names in (("key", handler.key or ()), ("files", handler.files)):
            for name in names:
                if name not in fields:
                    found = f"handler {handler.name}: {option}={name!r} is no field of {schema.type.__name__}"
                    do = f"name one of {', '.join(sorted(fields))}"
                    yield Finding("keys" if option == "key" else "schemas", "wrong", found, do, spider.name)


def _check_literals(handler: Handler, codes: Sequence[Code]) -> Iterator[Finding]:
    function = getattr(unwrap(handler.function), "__code__", None)
    if function is None:
        return
    at = (Path(function.co_filename), function.co_firstlineno)
    for code in codes:
        for item in code.items:
            if (code.path, item.within) == at:
                yield from _check_literal(handler, item, f"{shown(str(code.path))}:{item.line}")


def _check_literal(handler: Handler, item: ItemUse, where: str) -> Iterator[Finding]:
    own = fields_of(handler.schemas[0]) if len(handler.schemas) == 1 else None
    given = [name for name, is_required in (own or {}).items() if not is_required]  # by their defaults
    lacking = [name for name in handler.key or () if name not in item.fields and name not in given]
    if lacking:
        found = f"the item has no {' and no '.join(map(repr, lacking))}, which is the key of handler {handler.name}"
        yield Finding("keys", "wrong", found, "without it the item is rejected: add the field", where)
    if own is None:
        return
    schema = handler.schemas[0]
    name = schema.type.__name__
    unknown = [field for field in item.fields if field not in own]
    if unknown and schema.fields is not None:
        found = f"{name} has no field {' or '.join(map(repr, unknown))}"
        yield Finding("schemas", "wrong", found, f"its fields are {', '.join(sorted(own))}", where)
    required = {field for field, is_required in own.items() if is_required} - set(item.fields) - set(lacking)
    if required:
        found = f"the item has no {' and no '.join(map(repr, sorted(required)))}, which {name} requires"
        yield Finding("schemas", "wrong", found, "add it, or give the field a default", where)


def fields_of(schema: Schema) -> dict[str, bool] | None:
    """The fields of a class, and whether an item must have them; None: that is not known."""
    kind: Any = schema.type
    if hasattr(kind, "model_fields"):  # pydantic
        fields = kind.model_fields.items()
        return {field.alias or name: field.is_required() for name, field in fields}
    if schema.fields is None:
        return None
    info: Any = msgspec.inspect.type_info(kind)
    known = {field.encode_name: field.required for field in info.fields}
    return {name: known.get(name, False) for name in schema.fields}
