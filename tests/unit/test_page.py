"""What a handler can ask a page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from multidict import CIMultiDict

from shoal.errors import SpiderError
from shoal.model import Response, Task
from shoal.model.request import Request
from shoal.spider.page import Page
from shoal.spider.spider import Spider

HTML = """<!doctype html><html lang=en><head><title> A
 title </title><style>p{}</style></head><body>
<h1 id=top>Hello <b>big</b>\n\t world</h1><p class=x>One</p><p>Two</p><script>var no</script>
<a href="/a?x=1">a</a> <a href="b">b</a> <a name=c>c</a> <a href="b">b again</a> <a href="mailto:x@y.example">m</a>
<a href="http://[bad">bad</a> <img src="i.png"></body></html>"""


def make(body: str | bytes = HTML, content_type: str = "text/html; charset=utf-8", **task: Any) -> Page:
    data = body.encode() if isinstance(body, str) else body
    headers = CIMultiDict({"content-type": content_type} if content_type else {})
    url = task.pop("url", "https://a.example/dir/page")
    return Page(Task(url=url, **task), Response(url, 200, headers, data), "listing")


def test_what_the_server_answered() -> None:
    page = make(depth=3, meta={"k": 1})
    assert (page.url, page.status, page.depth, page.meta) == ("https://a.example/dir/page", 200, 3, {"k": 1})
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert (page.content_type, page.is_html, page.html) == ("text/html", True, HTML)
    assert make().meta == {}
    assert repr(page) == f"<Page 200 https://a.example/dir/page ({len(HTML)} bytes, depth 3)>"


def test_selectors() -> None:
    page = make()
    assert [node.text() for node in page.css("p")] == ["One", "Two"]
    first = page.first("p.x")
    assert first is not None
    assert first.attributes["class"] == "x"
    assert page.first("video") is None
    assert page.text("h1") == "Hello big world"
    assert page.text("video") == ""
    assert page.text("video", "none") == "none"
    assert page.attr("h1", "id") == "top"
    assert page.attr("h1", "title") is None
    assert page.attr("video", "src", "none") == "none"


def test_the_text_of_the_page_is_what_a_reader_sees() -> None:
    page = make()
    assert page.text().startswith("Hello big world One Two a b c")
    assert "var no" not in page.text()
    assert "p{}" not in page.text()
    assert page.first("script") is not None  # the tree is unchanged


@pytest.mark.parametrize("selector", ["p:", "", "\ud800", ">>"])
def test_a_wrong_selector_is_named(selector: str) -> None:
    with pytest.raises(ValueError, match="not a CSS selector: "):
        make().css(selector)
    with pytest.raises(ValueError, match="not a CSS selector: "):
        make().first(selector)


@pytest.mark.parametrize(
    ("selector", "hint"),
    [
        ("h1::text", "the text is page.text('h1'), or page.texts('h1') for every match"),
        ("a.x::attr(href)", "the attribute is page.attr('a.x', 'href'), or page.attrs(…) for every match"),
        ("p::before", "there are no pseudo-elements here"),
    ],
)
def test_selectors_of_other_tools_get_a_hint(selector: str, hint: str) -> None:
    for look in (make("<h1>x</h1>").css, make("<h1>x</h1>").text, make("<h1>x</h1>").texts):
        with pytest.raises(ValueError, match=re.escape(f"not a CSS selector: {selector!r}; {hint}")):
            look(selector)


def test_every_match_at_once() -> None:
    page = make("<a href=/1>one <b>x</b></a><a>two</a><a href=/3>three: 3 4</a>")
    assert page.texts("a") == ["one x", "two", "three: 3 4"]
    assert page.attrs("a", "href") == ["/1", "/3"]
    assert page.texts("i") == page.attrs("i", "href") == []
    assert page.re(r"\d", "a") == ["3", "4"]
    assert page.re(r"(\w+): (\d)", "a") == ["three", "3"]
    assert page.re(re.compile(r"href=(\S+?)>")) == ["/1", "/3"]


def test_jsonld() -> None:
    def ld(*texts: str) -> list[dict[str, object]]:
        return make(
            "".join(f"<script type='application/ld+json; charset=utf-8'>{text}</script>" for text in texts)
        ).jsonld()

    assert ld('{"@type": "Product"}', '[{"a": 1}, [{"b": 2}], 3]') == [
        {"@type": "Product"},
        {"a": 1},
        {"b": 2},
    ]
    assert ld('{"@context": "c", "@graph": [{"a": 1}, {"@context": "d", "@graph": [{"b": 2}]}]}') == [
        {"@context": "c", "a": 1},
        {"@context": "d", "b": 2},
    ]
    assert ld("{", "", "null", '"text"', "<!-- {} -->", '//<![CDATA[\n{"a": "b\nc"};\n//]]>') == [
        {},
        {"a": "b\nc"},
    ]
    assert ld("[" * 100_000) == []
    assert make("<script>{}</script>").jsonld() == []


def test_a_page_is_saved_whole(tmp_path: Path) -> None:
    saved = make("<p>ü").save(tmp_path / "a" / "page.html")
    assert saved.read_text("utf-8") == "<p>ü"
    assert [path.name for path in saved.parent.iterdir()] == ["page.html"]


def test_xpath() -> None:
    page = make()
    assert page.xpath("//p/text()") == ["One", "Two"]
    assert type(page.xpath("//a/@href")[0]) is str
    assert page.xpath("count(//p)") == [2.0]
    assert page.xpath("//h1")[0].get("id") == "top"
    with pytest.raises(ValueError, match=r"not an XPath expression: '//\['"):
        page.xpath("//[")


@pytest.mark.parametrize("body", ["", "  ", "<!-- -->", "\0", "<div>" * 5_000])
def test_xpath_of_next_to_nothing(body: str) -> None:
    assert make(body).xpath("//a") == []


def test_xpath_without_lxml_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "lxml", None)
    with pytest.raises(ImportError, match=r"pip install 'shoal\[xpath\]'"):
        make().xpath("//p")


def test_links_are_absolute_and_each_once() -> None:
    assert make().links() == ["https://a.example/a?x=1", "https://a.example/dir/b"]
    assert make().links("img") == ["https://a.example/dir/i.png"]


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("/root/", "https://a.example/root/b"),
        ("//cdn.example/", "https://cdn.example/b"),
        ("javascript:x", "https://a.example/dir/b"),
        ("http://[", "https://a.example/dir/b"),
    ],
)
def test_base_href_is_honoured(base: str, expected: str) -> None:
    page = make(f'<base target=_top><base href="{base}"><base href="/second/"><a href=b>')
    assert page.links() == [expected]
    assert page.follow("b").base == page.base


def test_a_body_that_ends_within_a_character_is_not_whole(caplog: pytest.LogCaptureFixture) -> None:
    page = make("<title>5 €".encode()[:-1])
    assert (page.text("title"), page.html, page.truncated) == ("5", "<title>5 ", True)
    assert caplog.messages == [
        "https://a.example/dir/page ends in the middle of a character: it is not whole"
    ]
    whole = make("<title>5 €".encode())
    assert (whole.text("title"), whole.truncated) == ("5 €", False)


def test_json() -> None:
    assert make('\ufeff{"a": [1]}', "application/json").json() == {"a": [1]}
    assert make('{"a": "é"}'.encode("utf-16-le"), "application/json; charset=utf-16le").json() == {"a": "é"}
    for junk in (b"", b"<html>", b'"\xff"', b"[" * 100_000):
        with pytest.raises(ValueError, match=r"https://a\.example/dir/page is not JSON: "):
            make(junk, "application/json").json()


def test_follow_keeps_the_url_as_written_and_stays_with_the_handler() -> None:
    page = make()
    base = "https://a.example/dir/page"
    assert page.follow("../x y") == Request("../x y", "listing", base)
    first = page.first("a")
    assert first is not None
    assert page.follow(first) == Request("/a?x=1", "listing", base)
    image = page.first("img")
    assert image is not None
    assert page.follow(image).url == "i.png"


def test_follow_does_not_parse_what_is_not_html() -> None:
    page = make('{"next": "/2"}', "application/json")
    assert page.follow(page.json()["next"]).base == page.url
    assert page._tree is None


def test_follow_takes_handlers_in_every_form() -> None:
    spider = Spider("s")

    @spider.handler(name="item")
    def book(page: Page) -> None: ...

    page = make()
    assert page.follow("/", book).handler == page.follow("/", "item").handler == "item"
    assert page.follow("/", spider.handlers["item"]).handler == "item"
    with pytest.raises(SpiderError, match="is not a handler"):
        page.follow("/", lambda page: None)


def test_follow_passes_every_option_on() -> None:
    options: dict[str, Any] = {
        "lane": "urgent", "priority": 2, "depth": 0, "meta": {"k": 1}, "method": "POST", "headers": {"a": "b"},
        "body": b"x", "pool": "p", "dedupe": False, "max_attempts": 9, "anywhere": True,
    }  # fmt: skip
    request = make().follow("/", "h", **options)
    assert request == Request("/", "h", "https://a.example/dir/page", **options)
    assert make().follow_all(["/"], "h", **options) == [request]


def test_follow_refuses_what_points_nowhere() -> None:
    page = make()
    with pytest.raises(ValueError, match="a <h1> that has neither href nor src"):
        page.follow(page.css("h1")[0])
    with pytest.raises(TypeError, match="not a int"):
        page.follow(7)  # type: ignore[arg-type]


def test_follow_all_passes_over_what_points_nowhere() -> None:
    page = make()
    assert [r.url for r in page.follow_all()] == ["/a?x=1", "b", "b", "mailto:x@y.example", "http://[bad"]
    assert [r.url for r in page.follow_all("img", "pic")] == ["i.png"]
    assert [r.url for r in page.follow_all(page.css("a")[1:3])] == ["b"]
    assert [r.url for r in page.follow_all(["x", ""])] == ["x"]
    assert page.follow_all("video") == []
