"""What is too much: where it is cut or refused, and in what words."""

from __future__ import annotations

from typing import Any

import pytest
from yarl import URL

from shoal import limits
from shoal.admit import Admission
from shoal.admit.sizes import OversizeError, stored_size
from shoal.fetch.cookie_jar import CookieJar
from shoal.model import Failure, Retry, Task
from shoal.model.request import Request
from shoal.settings import Settings
from shoal.sink import items as rows_module
from shoal.sink.items import encode_rows
from shoal.spider.handlers import JunkError
from shoal.spider.spider import Handler, Spider
from shoal.text import one_line, pack

URL_ = "https://shop.example/a"


# -- cookies of redirects


def moved(cookies: tuple[str, ...], task: Task | None = None) -> Task:
    admission = Admission(Settings(), [URL_])
    made = admission.moved(task or Task(URL_, host="shop.example"), "/b", cookies)
    assert isinstance(made, Task)
    return made


def test_a_chain_of_redirects_does_not_grow_the_task() -> None:
    task = Task(URL_, host="shop.example")
    for _ in range(10):
        task = moved(tuple(f"c{n}={'x' * 4_000}; Path=/" for n in range(100)), task)
    assert 0 < len(task.cookies) <= limits.REDIRECT_COOKIES
    assert len(pack(task)) < limits.REDIRECT_COOKIE_BYTES + 4_000


def test_usual_cookies_are_carried_as_they_are() -> None:
    cookies = tuple(f"c{n}=short; Path=/; HttpOnly" for n in range(limits.REDIRECT_COOKIES))
    assert moved(cookies).cookies == cookies
    assert moved((*cookies, "one=more")).cookies == cookies


def test_a_cookie_that_no_jar_takes_does_not_keep_others_out() -> None:
    long = f"long={'x' * limits.COOKIE_LINE}"
    assert moved(("a=1", long, "b=2")).cookies == ("a=1", "b=2")


# -- jars: what RFC 6265bis says, as the second opinion


def jar_after(lines: list[str], urls: list[str]) -> CookieJar:
    jar = CookieJar()
    for url in urls:
        for line in lines:
            jar.set([line], URL(url))
    return jar


async def test_a_domain_has_so_many_cookies() -> None:
    """At least 50 (RFC 6265bis, 6.1); browsers have 180."""
    jar = jar_after([f"c{n}=x; Path=/" for n in range(1_000)], [URL_])
    assert 50 <= len(jar) <= 180
    assert "c999" in {cookie.name for cookie in jar}, "the newest is there"


async def test_a_jar_has_so_many_cookies() -> None:
    """At least 3,000 (RFC 6265bis, 6.1)."""
    jar = jar_after([f"c{n}=x" for n in range(50)], [f"https://h{n}.example/" for n in range(100)])
    assert 3_000 <= len(jar) <= 3_300


@pytest.mark.parametrize(("size", "taken"), [(4_096, 1), (4_097, 0)])
async def test_a_cookie_has_so_many_bytes(size: int, taken: int) -> None:
    """Name and value together (RFC 6265bis, 5.6)."""
    assert len(jar_after([f"a={'x' * (size - 1)}"], [URL_])) == taken
    assert len(moved((f"a={'x' * (size - 1)}",)).cookies) == 1, "what a jar would take is carried"


async def test_what_is_sent_is_bounded_too() -> None:
    jar = jar_after([f"c{n}={'x' * 1_000}; Path=/" for n in range(100)], [URL_])
    assert 7_000 <= sum(len(one.value) for one in jar.cookies_for(URL(URL_))) < 8_000


# -- what a handler asks for


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {"in": value}
    return value


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        ({"meta": {"html": "x" * limits.REQUEST_META}}, "its meta has 262,1"),
        ({"meta": {"html": ["x"] * limits.REQUEST_META}}, "its meta has 524,2"),
        ({"meta": nested(10_000)}, "its meta has more than 64 containers in one another"),
        ({"meta": {"page": object()}}, "its meta cannot be stored: "),
        ({"meta": {"number": 1 << 70}}, "its meta cannot be stored: "),
        ({"headers": {"X": "y" * limits.REQUEST_HEADERS}}, "its headers has 32,7"),
        ({"body": b"x" * (limits.REQUEST_BODY + 1)}, "its body has 4,194,305 bytes; 4,194,304 are the most"),
        ({"method": "G" * 300}, "its method has 300 characters; 200 are the most"),
        ({"pool": "p" * 300}, "its pool has 300 characters; 200 are the most"),
        ({"handler": "h" * 300}, "its handler has 300 characters; 200 are the most"),
    ],
)
def test_requests_that_are_too_large(request_: dict[str, Any], problem: str) -> None:
    with pytest.raises(OversizeError) as caught:
        stored_size(Request(URL_, **request_))
    assert str(caught.value).startswith(problem)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"meta": {"html": "x" * (limits.REQUEST_META - 100)}},
        {"meta": nested(limits.REQUEST_META_DEPTH)},
        {"meta": {"half a character": "\ud800"}},
        {"body": b"x" * limits.REQUEST_BODY, "method": "POST", "headers": {"X": "y"}, "pool": "p"},
    ],
)
def test_requests_that_fit(request_: dict[str, Any]) -> None:
    assert stored_size(Request(URL_, **request_)) <= limits.REQUEST_BODY + limits.REQUEST_META


# -- what it yields


def handler() -> Handler:
    spider = Spider("s", start=URL_)

    @spider.handler
    def parse(page: Any) -> None: ...

    return spider.handler_named("")


def test_items_that_are_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "ROW_BYTES", 100)
    monkeypatch.setattr(rows_module, "PAGE_ROWS", 1_000)
    assert len(encode_rows([{"a": "x" * 80}] * 11, handler()).rows) == 11
    encoded = encode_rows([{"a": "x" * 100}, {"a": "x"}], handler())
    [rejected] = encoded.rejected
    assert (rejected.place, rejected.reason) == (0, "it has 108 bytes as JSON; 100 are the most")
    assert len(encoded.rows) == 1, "the others of the page are written"
    with pytest.raises(JunkError, match=r"'parse' yielded items of more than 1,000 bytes for one page"):
        encode_rows([{"a": "x" * 80}] * 12, handler())


# -- what is kept about failures


def test_the_history_of_a_task_is_bounded() -> None:
    task = Task(URL_)
    for attempt in range(1, 200):
        task = Retry(1.0, Failure("timeout", attempt=attempt)).task(task)
    assert [failure.attempt for failure in task.history] == list(range(150, 200))


@pytest.mark.parametrize("text", ["x" * 10_000_000, "x " * 10_000, "\n" * 10_000_000])
def test_a_detail_is_one_short_line(text: str) -> None:
    line = one_line(f"it said {text}")
    assert len(line) <= limits.DETAIL
    assert line.startswith("it said")
    assert line.endswith("…") == ("x" in text)


def test_a_detail_has_no_userinfo() -> None:
    assert one_line("to https://joe:hunter2@b.example/") == "to https://b.example/"
