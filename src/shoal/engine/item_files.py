"""The handler option `files=`: fields of items with URLs become the files that were downloaded from there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from shoal.engine.tally import Tally
from shoal.policy.outcomes import rule_for
from shoal.spider.handlers import JunkError
from shoal.spider.inner import FetchFailed
from shoal.spider.page import Page
from shoal.spider.spider import Handler


async def with_files(
    items: Sequence[object], handler: Handler, page: Page, tally: Tally, *, last: bool
) -> list[object]:
    """The items, with files in place of their URLs. `last`: the page has no further attempt."""
    return [await _with_files(item, handler, page, tally, last) for item in items]


async def _with_files(item: object, handler: Handler, page: Page, tally: Tally, last: bool) -> object:
    filled: dict[str, object] = {}
    for field in handler.files:
        value = item.get(field) if isinstance(item, Mapping) else getattr(item, field, None)
        if isinstance(value, list | tuple):
            # An empty URL is no file: it would be the page itself.
            filled[field] = [await _file(url, field, handler, page, tally, last) for url in value if url]
        elif value:
            filled[field] = await _file(value, field, handler, page, tally, last)
    return _replaced(item, filled)


def _replaced(item: object, values: Mapping[str, object]) -> object:
    """A copy of the item with these values, whatever the annotations of its class say: its schema checks them later."""
    if isinstance(item, Mapping):
        return {**item, **values}
    if isinstance(item, Struct):
        return replace(item, **values)
    if hasattr(item, "model_copy"):  # of pydantic
        return item.model_copy(update=values)
    made = copy(item)
    for name, value in values.items():
        object.__setattr__(made, name, value)  # a frozen class lets nobody set it otherwise
    return made


async def _file(
    url: object, field: str, handler: Handler, page: Page, tally: Tally, last: bool
) -> dict[str, Any]:
    """The file as a row has it. One that cannot be fetched leaves its row alone: it says why."""
    if not isinstance(url, str):
        raise JunkError(
            f"handler {handler.name!r} yielded an item whose {field!r} is not a URL but a {type(url).__name__}"
        )
    try:
        return asdict(await page.download(url))
    except FetchFailed as failed:
        if rule_for(failed.kind).action == "retry" and not last:
            raise
        tally.cut(f"files ({failed.kind})", 1)
        return {"url": failed.url, "error": failed.kind}
