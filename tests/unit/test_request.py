"""What a person may put into a Request, and what is said about the rest."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any
from urllib.parse import parse_qsl

import httpx
import msgspec
import pytest

from shoal import Request, Spider
from shoal.errors import SpiderError
from shoal.model.request import PageLinks, links_to

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
        ({"meta": {"a": 1, 38: "in stock"}}, "Request: its meta has the key 38 (int); give texts (str)"),
        ({"meta": {None: 1}}, "Request: its meta has the key a NoneType; give texts (str)"),
        ({"dedupe": 0}, "Request: its dedupe is 0 (int); give True or False"),
        ({"anywhere": "yes"}, "Request: its anywhere is a str; give True or False"),
        ({"json": object()}, "Request: its json cannot be written: "),
        ({"params": "a=1"}, "Request: its params is a str; give a dict, or pairs of name and value"),
        ({"form": ["a=1"]}, "Request: its form has a str; give a dict, or pairs of name and value"),
        ({"form": {"a": {}}}, "Request: its form has 'a': a dict; give a text or a number"),
        ({"form": {"a": True}}, "Request: its form has 'a': True (bool); give a text or a number"),
        ({"form": {}, "json": {}}, "Request: give one of body, form and json"),
        ({"body": b"", "json": 1}, "Request: give one of body, form and json"),
        ({"auth": ("secret",)}, "Request: its auth is not a pair of texts; give (user, password)"),
        ({"auth": "secret"}, "Request: its auth is a str; give a pair of user and password"),
        ({"cookies": {"a": 1}}, "Request: its cookies have a str: 1 (int); give texts (str)"),
        ({"timeout": 0}, "Request: its timeout is 0; give a number above 0"),
        ({"timeout": float("nan")}, "Request: its timeout is nan; give a number above 0"),
        ({"max_body": -1}, "Request: its max_body is -1; give a number above 0"),
    ],
)
def test_a_value_of_another_type_is_told_at_once(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(SpiderError) as told:
        Request(**{"url": "http://a.test/", **fields})
    assert str(told.value).startswith(said)
    assert "secret" not in str(told.value)


def test_tables_inside_meta_may_have_any_keys() -> None:
    meta = {"sizes": {38: "in stock", None: {(1, 2): 0.5}}}
    assert Request("http://a.test/", meta=meta).meta == meta


def test_every_field_is_looked_at() -> None:
    for field in {*Request.__struct_fields__} - {"json"}:  # which takes anything that can be written
        with pytest.raises(SpiderError, match=f"its {field} is a object"):
            Request(**{"url": "http://a.test/", field: object()})


ODD = {"a": "1 2", "b&c": "ü=+/~*", "n": 7, "many": ["x", "y"], "none": None, "empty": ""}


def test_parameters_and_forms_are_written_as_other_clients_do() -> None:
    """The second opinion is httpx, for what both can say."""
    known = {name: value for name, value in ODD.items() if name != "none"}
    form = Request("http://a.test/", form=ODD)
    other = httpx.Request("POST", "http://a.test/", data=known)
    assert parse_qsl((form.body or b"").decode(), keep_blank_values=True) == parse_qsl(
        other.read().decode(), keep_blank_values=True
    )
    assert (form.method, form.headers, form.form) == (
        "POST",
        {"Content-Type": other.headers["Content-Type"]},
        None,
    )
    query = Request("http://a.test/x", params=ODD).url.partition("?")[2]
    theirs = httpx.Request("GET", "http://a.test/x", params=known).url.query
    assert parse_qsl(query, keep_blank_values=True) == parse_qsl(theirs.decode(), keep_blank_values=True)
    sent = Request("http://a.test/", json={"ü": [1, None]})
    assert json.loads(sent.body or b"") == json.loads(
        httpx.Request("POST", "http://a.test/", json={"ü": [1, None]}).read()
    )
    assert (sent.method, sent.headers) == ("POST", {"Content-Type": "application/json"})
    auth = next(httpx.BasicAuth("ü", "p:w").auth_flow(httpx.Request("GET", "http://a.test/")))
    assert Request("http://a.test/", auth=("ü", "p:w")).headers == {
        "Authorization": auth.headers["Authorization"]
    }


@pytest.mark.parametrize(
    ("url", "params", "whole"),
    [
        ("/a", {"x": 1}, "/a?x=1"),
        ("/a?y=2", {"x": 1}, "/a?y=2&x=1"),
        ("/a?", {"x": 1}, "/a?x=1"),
        ("/a#f?", [("x", "1"), ("x", "2")], "/a?x=1&x=2#f?"),
        ("/a", {}, "/a"),
        ("?p=1", {"x": 1}, "?p=1&x=1"),
    ],
)
def test_parameters_join_the_query(url: str, params: Any, whole: str) -> None:
    assert Request(url, params=params).url == whole


@pytest.mark.parametrize(
    ("url", "sent", "login"),
    [
        ("http://me:p%40ss@a.test/x", "http://a.test/x", "me:p@ss"),
        ("https://me@a.test/", "https://a.test/", "me:"),
        ("HTTP://me:a:b@a.test", "HTTP://a.test", "me:a:b"),
        ("http://a.test/x@y", "http://a.test/x@y", None),
        ("http://a.test?q=me:you@b", "http://a.test?q=me:you@b", None),
        ("mailto:me@a.test", "mailto:me@a.test", None),
        ("/x@y", "/x@y", None),
    ],
)
def test_a_user_in_the_url_is_told_by_a_header(url: str, sent: str, login: str | None) -> None:
    request = Request(url)
    assert request.url == sent
    given = (request.headers or {}).get("Authorization")
    assert given == (f"Basic {b64encode(login.encode()).decode()}" if login is not None else None)


def test_headers_that_are_given_are_kept() -> None:
    given = {"content-type": "text/x", "AUTHORIZATION": "mine", "cookie": "a=1"}
    request = Request("http://u:p@a.test/", form={"a": 1}, headers=given, cookies={"b": "2"}, auth=("a", "b"))
    assert request.headers == given
    assert Request("/", cookies={"a": "1", "b": "2"}).headers == {"Cookie": "a=1; b=2"}
    assert Request("/", method="PUT", json=[]).method == "PUT"


def test_a_copy_is_the_same_request() -> None:
    request = Request("/", params={"a": 1}, form={"b": 2}, auth=("u", "p"), session="s", timeout=3)
    assert msgspec.structs.replace(request) == request


def test_links_of_a_page_are_requests_like_others() -> None:
    urls = ["/a", "", "https://b.test/?q=1", "http://me:secret@b.test/", "/@x"]
    assert links_to(urls, "product", "http://a.test/") == [
        Request(url, "product", "http://a.test/") for url in urls
    ]
    assert links_to(["/a"], "", None) == [Request("/a")]
    with pytest.raises(SpiderError, match="its url is 3"):
        links_to([3], "product", None)  # type: ignore[list-item]


def test_links_of_a_page_are_a_sequence_of_requests() -> None:
    urls = ["/a", "b", "/a"]
    links = PageLinks(urls, "product", "http://a.test/")
    assert list(links) == links_to(urls, "product", "http://a.test/")
    assert (len(links), links[1], list(links[:2])) == (
        3,
        Request("b", "product", "http://a.test/"),
        list(links)[:2],
    )
    assert repr(links) == "<PageLinks: 3 to 'product'>"
    assert not links.with_users
