"""What a person may put into a Request, and what is said about the rest."""

from __future__ import annotations

from typing import Any

import pytest

from shoal import Request, Spider
from shoal.errors import SpiderError

spider = Spider("s", "http://a.test/")


@spider.handler(name="product")
def item(page: object) -> None:
    pass


def test_a_handler_is_given_by_name_or_as_the_function() -> None:
    assert Request("/a", handler="product").handler == "product"
    assert Request("/a", handler=item).handler == "product"
    assert Request("/a", item).handler == "product"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"url": None}, "Request: its url is a NoneType; give a text (str)"),
        ({"url": b"http://a/"}, "Request: its url is a bytes; give a text (str)"),
        (
            {"handler": 7},
            "Request: its handler is 7 (int); give the name of a handler, or a function with @spider",
        ),
        (
            {"handler": len},
            "len is not a handler: put @spider.handler above it, or give the name of a handler",
        ),
        ({"base": 1}, "Request: its base is 1 (int); give a text"),
        ({"lane": 1}, "Request: its lane is 1 (int); give a text"),
        ({"priority": "high"}, "Request: its priority is a str; give a whole number"),
        ({"priority": 1.5}, "Request: its priority is 1.5 (float); give a whole number"),
        ({"priority": 2**70}, "Request: its priority is beyond 2,147,483,647"),
        ({"priority": -(2**31)}, "Request: its priority is beyond 2,147,483,647"),
        ({"depth": 2**70}, "Request: its depth is beyond 2,147,483,647"),
        ({"max_attempts": 2**70}, "Request: its max_attempts is beyond 2,147,483,647"),
        ({"depth": "1"}, "Request: its depth is a str; give a whole number"),
        ({"max_attempts": None}, "Request: its max_attempts is a NoneType; give a whole number"),
        ({"method": None}, "Request: its method is a NoneType; give a text"),
        ({"headers": [("A", "b")]}, "Request: its headers is a list; give a dict of texts"),
        ({"headers": {"X-Number": 1}}, "Request: its headers have a str: 1 (int); give texts (str)"),
        (
            {"headers": {"Authorization": b"secret"}},
            "Request: its headers have a str: a bytes; give texts (str)",
        ),
        ({"body": "a=1"}, "Request: its body is a str; give bytes, as in text.encode()"),
        ({"pool": 1}, "Request: its pool is 1 (int); give a text"),
        ({"meta": ["x"]}, "Request: its meta is a list; give a dict"),
        ({"dedupe": 0}, "Request: its dedupe is 0 (int); give True or False"),
        ({"anywhere": "yes"}, "Request: its anywhere is a str; give True or False"),
    ],
)
def test_a_value_of_another_type_is_told_at_once(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(SpiderError) as told:
        Request(**{"url": "http://a.test/", **fields})
    assert str(told.value).startswith(said)
    assert "secret" not in str(told.value)


def test_every_field_is_looked_at() -> None:
    for field in Request.__struct_fields__:
        with pytest.raises(SpiderError, match=f"its {field} is a object"):
            Request(**{"url": "http://a.test/", field: object()})
