"""Next-links, numbered pages and detected page counts."""

from __future__ import annotations

import pytest

from shoal.html.page_links import largest_number, query_value, with_query_value
from shoal.model import Response, Task
from shoal.spider.page import MAX_DETECTED_PAGES, Page


def make(body: str = "", url: str = "https://a.example/list") -> Page:
    return Page(
        Task(url=url, depth=4), Response(url, 200, {"Content-Type": "text/html"}, body.encode()), "listing"
    )


def test_next_links_keep_depth_and_handler() -> None:
    page = make('<li class=next><a href="?p=2">next</a></li>')
    (request,) = page.paginate("li.next a")
    assert (request.url, request.depth, request.handler) == ("?p=2", 4, "listing")
    assert page.paginate("li.more a") == []
    assert page.paginate("li.next a", "other", depth=0, lane="urgent")[0].depth == 0


def test_numbered_pages_from_the_first_page_only() -> None:
    pages = make(url="https://a.example/list?q=a%20b&page=1#top").paginate(param="page", total=3)
    assert [r.url for r in pages] == [f"https://a.example/list?q=a%20b&page={n}" for n in (2, 3)]
    assert {r.depth for r in pages} == {4}
    assert [r.url for r in make().paginate(param="page", total=2)] == ["https://a.example/list?page=2"]
    assert make(url="https://a.example/list?page=2").paginate(param="page", total=12) == []
    zero = make().paginate(param="p", total=3, first=0)
    assert [r.url for r in zero] == ["https://a.example/list?p=1", "https://a.example/list?p=2"]


@pytest.mark.parametrize("total", [0, 1, -5])
def test_a_single_page_has_no_others(total: int) -> None:
    assert make().paginate(param="page", total=total) == []


def test_the_number_of_pages_is_read_from_the_page() -> None:
    page = make("<span class=pages>Page 1 of 4</span><b id=n>1\u00a0\u2013\u00a020 of 1,234 results</b>")
    assert len(page.paginate(param="page", total="span.pages")) == 3
    assert len(page.paginate(param="page", count="#n", per_page=20)) == 61
    assert page.paginate(param="page", total="span.none") == []


def test_a_hostile_number_is_not_trusted() -> None:
    page = make("<i>" + "9" * 10_000 + "</i>")
    assert len(page.paginate(param="page", total="i")) == MAX_DETECTED_PAGES - 1


@pytest.mark.parametrize(
    "arguments", [{}, {"param": "page"}, {"param": "p", "count": "b"}, {"next": "a", "param": "p"}]
)
def test_unclear_calls_are_refused(arguments: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"page\.paginate\("):
        make().paginate(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", None),
        ("none", None),
        ("Page 1 of 12", 12),
        ("1.234 Treffer", 1234),
        ("3 of 2", 3),
        ("12,34", 34),
        ("٣", None),
    ],
)
def test_largest_number(text: str, number: int | None) -> None:
    assert largest_number(text) == number


def test_queries_are_edited_in_place() -> None:
    assert with_query_value("https://a/?b=1&page=x&c=%20&&d", "page", "7") == "https://a/?b=1&page=7&c=%20&d"
    assert with_query_value("https://a/", "a b", "ü") == "https://a/?a%20b=%C3%BC"
    assert query_value("https://a/?a+b=1#?page=2", "a b") == "1"
    assert query_value("https://a/#?page=2", "page") is None
