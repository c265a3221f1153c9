"""Where TOML spiders lead: links, next pages, numbered pages, values that go along, functions and hooks in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.errors import SettingsError
from shoal.model.request import Request
from shoal.spider.declared.next_pages import OUTSIDE
from shoal.spider.loading import load_spider
from shoal.spider.spider import Spider
from shoal.testing import page
from toml_tools import declared

HTML = """<a class=p href=/p/1>1</a><a class=p href="/p/2?x=1">2</a><a href=/c/3>c</a><a href="https://else.example/p/9">e</a>
<a href="mailto:a@b">m</a><a class=n href="?page=2">next</a><span class=pages>Page 1 of 3</span><h1>Shelf</h1>
<i data-id=7></i><i data-id="a b"></i>"""
URL = "https://shop.example/list"
REST = '\n[handler.product.fields]\nname = "h1"\n'


def requests(handler: str, html: Any = HTML, top: str = "", rest: str = REST, **given: Any) -> list[Request]:
    spider = declared(f'start = "{URL}"\n{top}\n[handler.listing]\n{handler}{rest}')
    return found(spider, "listing", html, **given)


def found(spider: Spider, handler: str, html: Any = HTML, url: str = URL, **given: Any) -> list[Request]:
    at = page(html, url, handler=handler, **given)
    made = [one for one in spider.handler_named(handler).function(at) if isinstance(one, Request)]
    found.counts = dict(at._counts)  # type: ignore[attr-defined]
    return made


def told(made: list[Request]) -> list[tuple[str, str]]:
    return [(one.url, one.handler) for one in made]


def test_links_by_selector() -> None:
    assert told(requests('follow.product = ".p"')) == [("/p/1", "product"), ("/p/2?x=1", "product")]
    assert told(requests("follow.product = { xpath = \"//a[@class='p']/@href\" }")) == [
        ("/p/1", "product"),
        ("/p/2?x=1", "product"),
    ]
    assert told(requests('follow.product = ["a.none", ".p"]')) == told(requests('follow.product = ".p"'))


def test_links_by_match() -> None:
    rest = '\n[handler.product]\nmatch = "/p/*"\nfields.name = "h1"\n'
    every = [("/p/1", "product"), ("/p/2?x=1", "product"), ("https://else.example/p/9", "product")]
    assert told(requests("follow = true", rest=rest)) == every
    assert told(requests("follow.product = true", rest=rest)) == every
    assert told(requests('follow = "a.p"', rest=rest)) == every[:2]


def test_include_and_exclude() -> None:
    assert told(requests('follow.product = "a"', top='include = "/p/*"\nexclude = "*x=1*"')) == [
        ("/p/1", "product"),
        ("https://else.example/p/9", "product"),
    ]
    assert found.counts == {OUTSIDE: 3}  # type: ignore[attr-defined]
    assert told(requests('follow.product = { css = "a", include = "/c/*" }')) == [("/c/3", "product")]


def test_addresses_made_of_what_was_found() -> None:
    assert told(requests('follow.product = { css = "i::attr(data-id)", url = "/api/{}" }')) == [
        ("/api/7", "product"),
        ("/api/a%20b", "product"),
    ]
    body = {"items": [{"id": 1}, {"id": 2}], "next": "/list?page=2"}
    made = requests(
        'follow.product = { json = "items[*].id", url = "/p/{}" }\nnext = { json = "next" }', body
    )
    assert told(made) == [("/p/1", "product"), ("/p/2", "product"), ("/list?page=2", "listing")]


def test_next_and_numbered_pages_are_no_deeper() -> None:
    [following] = requests('next = "a.n"', rest="", depth=3)
    assert (following.url, following.handler, following.depth) == ("?page=2", "listing", 3)
    made = requests('paginate = { param = "page", total = ".pages" }', rest="", depth=3)
    assert [(one.url, one.depth) for one in made] == [(f"{URL}?page=2", 3), (f"{URL}?page=3", 3)]


def test_values_go_along() -> None:
    rest = '\n[handler.product.fields]\nname = "h1"\nshelf = { carried = "shelf" }\n'
    first, second = requests(
        'follow.product = { css = ".p", carry = { shelf = "h1" }, priority = 5 }', rest=rest
    )
    assert (first.meta, first.priority, second.meta) == ({"shelf": "Shelf"}, 5, {"shelf": "Shelf"})


def test_sites_of_one_job_keep_to_their_hosts_and_depths() -> None:
    shop = '[site.{0}]\nstart = "https://{0}.example/"\n{1}handler.list.follow.p = "a"\nhandler.p.fields.n = "h1"\n'
    spider = declared(shop.format("shop", "depth = 1\n") + shop.format("else", "depth = 2\n"))
    urls = [one.url for one in found(spider, "shop.list")]
    assert urls == ["/p/1", "/p/2?x=1", "/c/3", "?page=2"]
    assert [one.url for one in found(spider, "else.list", url="https://else.example/")][
        3
    ] == "https://else.example/p/9"
    assert found(spider, "shop.list", depth=1) == []
    assert found(spider, "else.list", url="https://www.else.example/", depth=1) != []
    assert spider.settings["depth"] == 2


def test_functions_and_hooks_in_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "beside_shops.py").write_text(
        "def product(page):\n    yield {'n': page.text('h1')}\n\ndef mark(item, page):\n    item['marked'] = 1\n"
    )
    path = tmp_path / "shops.toml"
    site = '[site.{0}]\nstart = "https://{0}.example/"\nhandler.it.function = "beside_shops:product"\n'
    path.write_text(site.format("a") + 'hooks.on_item = "beside_shops:mark"\n' + site.format("b"))
    spider = load_spider(str(path))
    assert list(spider.handler_named("b.it").function(page(HTML, URL))) == [{"n": "Shelf"}]
    [hook] = spider.hooks
    assert (hook.kind, hook.name, hook.handlers) == ("on_item", "mark", {"a.it"})
    path.write_text(site.format("a").replace(":product", ":nothing"))
    with pytest.raises(SettingsError, match="'beside_shops:nothing' cannot be imported"):
        load_spider(str(path))
