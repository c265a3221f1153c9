"""The typed settings are those of settings/__init__.py. (tests/typing/settings.py shows what a type checker finds.)"""

from __future__ import annotations

from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest

from shoal.settings import HostSettings, Settings
from shoal.settings.keywords import CrawlSettings, SpiderSettings

# What people may write instead of the value that Settings holds.
WIDER = {
    "host": dict[str, dict[str, Any]] | dict[str, HostSettings],
    "plugins": list[Any],
    "proxies": dict[str, Any],
}


def without_bounds(kind: Any) -> Any:
    """The type without what msgspec checks besides it."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return without_bounds(parts[0])
    if origin in (Union, UnionType):
        return Union[tuple(without_bounds(one) for one in parts)]  # noqa: UP007
    if origin in (list, dict):
        return origin[tuple(without_bounds(one) for one in parts)]
    return kind


@pytest.mark.parametrize("field", msgspec.structs.fields(Settings), ids=lambda field: field.name)
def test_every_setting_has_its_type(field: msgspec.structs.FieldInfo) -> None:
    typed = get_type_hints(SpiderSettings)
    assert typed[field.name] == WIDER.get(field.name, without_bounds(field.type))


def test_there_are_no_others() -> None:
    names = set(Settings.__struct_fields__)
    assert set(get_type_hints(SpiderSettings)) == names
    assert set(get_type_hints(CrawlSettings)) == names - {"output"}, "crawl has an argument of that name"
