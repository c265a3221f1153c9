"""What a user writes: names, settings, handlers and every form of start."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from functools import cache, partial, wraps
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from shoal.admit.sending import sent_url
from shoal.errors import SettingsError, SpiderError
from shoal.model.request import Request
from shoal.spider.spider import Spider, handler_name


async def urls_of(spider: Spider, skip: int = 0) -> list[tuple[int, str]]:
    return [(position, request.url) async for position, request, _ in spider.starts(skip)]


def test_the_first_handler_takes_the_start_urls_and_options_are_kept() -> None:
    spider = Spider("books", start="https://books.example/", rate=2)

    @spider.handler
    def listing(page: object) -> None: ...

    @spider.handler(name="item", key=("shop", "upc"), lane="urgent", priority=3)
    def book(page: object) -> None: ...

    assert spider.handler_named("").name == "listing"
    item = spider.handler_named("item")
    assert (item.function, item.key, item.lane, item.priority) == (book, ("shop", "upc"), "urgent", 3)
    assert spider.settings == {"rate": 2}
    assert handler_name(book) == handler_name(item) == handler_name("item") == "item"


def test_a_handler_can_be_added_without_a_decorator() -> None:
    class Shop:
        def parse(self, page: object) -> None: ...

    shop = Shop()
    spider = Spider("shop")
    handler = spider.add_handler(shop.parse, key="id")
    assert (handler.name, handler.key) == ("parse", ("id",))
    assert handler_name(shop.parse) == "parse"


@pytest.mark.parametrize(
    ("name", "says"), [("rat", "did you mean 'rate'"), ("colour_of_magic", "docs/settings.md")]
)
def test_an_unknown_setting_is_refused_with_a_hint(name: str, says: str) -> None:
    with pytest.raises(SettingsError, match=f"'books'.*'{name}'.*{says}"):
        Spider("books", **{name: 1})


@pytest.mark.parametrize("name", ["", "  ", 7])
def test_a_spider_needs_a_name(name: object) -> None:
    with pytest.raises(SpiderError, match="needs a name"):
        Spider(name)  # type: ignore[arg-type]


def test_mistakes_with_handlers_are_named() -> None:
    spider = Spider("books")
    with pytest.raises(SpiderError, match="has no handler"):
        spider.handler_named("")

    def listing(page: object) -> None: ...

    spider.add_handler(listing)
    with pytest.raises(SpiderError, match="already has a handler named 'listing'"):
        spider.add_handler(listing)
    with pytest.raises(SpiderError, match="no handler named 'lister'; it has listing"):
        spider.handler_named("lister")

    def stranger(page: object) -> None: ...

    with pytest.raises(SpiderError, match="stranger is not a handler"):
        handler_name(stranger)


async def test_start_as_text_list_and_requests() -> None:
    assert await urls_of(Spider("s", "https://a.example/")) == [(1, "https://a.example/")]
    request = Request("https://b.example/", handler="x")
    spider = Spider("s", ["https://a.example/", request])
    assert await urls_of(spider) == [(1, "https://a.example/"), (2, "https://b.example/")]
    assert spider.start_urls_known() == ["https://a.example/", "https://b.example/"]
    assert [r async for _, r, _ in spider.starts(skip=1)] == [request]


async def test_a_start_file_skips_blanks_and_comments_and_passes_junk_on(tmp_path: Path) -> None:
    file = tmp_path / "urls.txt"
    file.write_bytes(b"\xef\xbb\xbfhttps://a.example/\r\n\n  # no\n\xff junk\n  https://b.example/#x  \n")
    spider = Spider("s", [file, "https://c.example/"])
    assert await urls_of(spider) == [
        (1, "https://a.example/"),
        (2, "not UTF-8 (save the file as UTF-8): \\xff junk"),
        (3, "https://b.example/#x"),
        (4, "https://c.example/"),
    ]
    assert spider.start_urls_known() == ["https://c.example/"]
    assert Spider("s", file).start_urls_known() == []


async def test_a_start_file_is_streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many lines are never all in memory: reading stops where the consumer stops."""
    file = tmp_path / "urls.txt"
    with file.open("w") as lines:
        lines.writelines(f"https://a.example/{n}\n" for n in range(200_000))
    read_to = []
    open_file = Path.open

    def watched(self: Path, *args: object, **kwargs: object) -> object:
        opened = open_file(self, *args, **kwargs)  # type: ignore[call-overload]
        read_to.append(opened)
        return opened

    monkeypatch.setattr(Path, "open", watched)
    starts = Spider("s", file).starts()
    assert [(await anext(starts))[0] for _ in range(10)] == list(range(1, 11))
    assert read_to[0].raw.tell() < 100_000
    assert sum([1 async for _ in starts]) == 199_990


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
async def test_a_start_file_in_an_encoding_that_it_names(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "urls.txt"
    mark = "\ufeff" if encoding in ("utf-16-le", "utf-16-be") else ""
    file.write_bytes(f"{mark}https://a.example/é\r\nhttps://a.example/2\r\n".encode(encoding))
    assert await urls_of(Spider("s", file)) == [(1, "https://a.example/é"), (2, "https://a.example/2")]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"https://a.example/\xe9", r"https://a.example/\xe9"),
        (b"https://a.example/\xed\xa0\x80", r"https://a.example/\xed\xa0\x80"),
        (b"\xff\xfe" + "https://a.example/".encode("utf-16-le") + b"\x00\xd8a\x00", "https://a.example/"),
        (b"\xfe\xff" + "https://a.example/".encode("utf-16-be") + b"\x00", r"https://a.example/\x00"),
    ],
)
async def test_a_line_that_is_not_text_is_no_url(tmp_path: Path, written: bytes, shown: str) -> None:
    file = tmp_path / "urls.txt"
    file.write_bytes(written)
    [(_, url)] = await urls_of(Spider("s", file))
    assert url.startswith(f"not UTF-8 (save the file as UTF-8): {shown}")
    assert sent_url(url) is None
    url.encode()


async def test_of_a_line_with_tabs_the_first_column_is_the_url(tmp_path: Path) -> None:
    file = tmp_path / "urls.txt"
    json = '{"url":\t"https://a.example/9"}'
    file.write_text(f"https://a.example/7\thello\nhello \thttps://a.example/8\n\t\n{json}\n")
    assert [url for _, url in await urls_of(Spider("s", file))] == ["https://a.example/7", "hello", json]


async def test_a_missing_start_file_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(SpiderError, match=r"cannot read the start URLs from .*nowhere.txt: No such file"):
        await urls_of(Spider("s", tmp_path / "nowhere.txt"))


async def test_start_functions_of_every_kind_and_without_end() -> None:
    def endless() -> Iterator[str]:
        for n in itertools.count():
            yield f"https://a.example/{n}"

    async with aclosing(Spider("s", endless).starts(skip=1_000)) as starts:
        assert await anext(starts) == (1_001, Request("https://a.example/1000"), False)

    async def fed() -> AsyncIterator[Request]:
        yield Request("https://b.example/")

    class Feed:
        def __aiter__(self) -> AsyncIterator[Request]:
            return fed()

    async def listed() -> list[str]:
        return ["https://c.example/"]

    assert await urls_of(Spider("s", fed)) == [(1, "https://b.example/")]
    assert await urls_of(Spider("s", Feed)) == [(1, "https://b.example/")]
    assert await urls_of(Spider("s", listed)) == [(1, "https://c.example/")]
    assert await urls_of(Spider("s", lambda: "https://d.example/")) == [(1, "https://d.example/")]
    assert Spider("s", endless).start_urls_known() == []


async def test_what_a_person_typed(tmp_path: Path) -> None:
    """A file and a function may hold what others wrote."""
    file = tmp_path / "urls.txt"
    file.write_text("https://b.example/\nhttps://c.example/\n")
    spider = Spider("s", ["https://a.example/", file, Request("https://d.example/")])
    assert [typed async for _, _, typed in spider.starts()] == [True, False, False, True]
    assert [typed async for _, _, typed in spider.starts(skip=2)] == [False, True]
    assert [typed async for _, _, typed in Spider("s", "https://a.example/").starts()] == [True]
    assert [typed async for _, _, typed in Spider("s", file).starts()] == [False, False]
    assert [typed async for _, _, typed in Spider("s", lambda: ["https://a.example/"]).starts()] == [False]


async def test_a_start_generator_is_closed_with_the_stream() -> None:
    closed = []

    async def fed() -> AsyncIterator[str]:
        try:
            while True:
                yield "https://a.example/"
        finally:
            closed.append(True)

    async with aclosing(Spider("s", fed).starts()) as starts:
        await anext(starts)
    assert closed == [True]


async def test_wrong_starts_are_named() -> None:
    with pytest.raises(SpiderError, match="start is a int"):
        Spider("s", 7)  # type: ignore[arg-type]
    with pytest.raises(SpiderError, match="returned a NoneType"):
        await urls_of(Spider("s", lambda: None))
    with pytest.raises(SpiderError, match="start gave a int"):
        await urls_of(Spider("s", lambda: [7]))


@pytest.mark.parametrize("priority", [2**31, -(2**70), "high"])
def test_a_handlers_priority_is_one_that_can_be_stored(priority: int) -> None:
    with pytest.raises(
        SpiderError, match="handler 'page': its priority must be a whole number, 2,147,483,647"
    ):
        Spider("s").add_handler(lambda page: None, name="page", priority=priority)


class Shop:
    def parse(self, page: object) -> None: ...

    def __call__(self, page: object) -> None: ...

    @staticmethod
    def plain(page: object) -> None: ...

    @classmethod
    def of_the_class(cls, page: object) -> None: ...


class Pages:
    """A class whose objects are iterable may be a handler."""

    def __init__(self, page: object) -> None: ...

    def __iter__(self) -> Iterator[object]:
        return iter(())


@dataclass
class Book:
    page: object


async def waits(page: object) -> None: ...


async def gives(page: object) -> AsyncIterator[object]:
    yield {}


def with_more(
    page: object, database: object = None, *rest: object, limit: int = 3, **others: object
) -> None: ...


def two(shop: object, page: object) -> None: ...


def injected(function: Callable[..., Any]) -> Callable[..., Any]:
    """As a decorator that gives its function another argument."""

    @wraps(function)
    def call(page: object) -> object:
        return function(page, "database")

    return call


def of_another_signature(page: object) -> None: ...


ONE = [Parameter("self", Parameter.POSITIONAL_ONLY), Parameter("page", Parameter.POSITIONAL_ONLY)]
of_another_signature.__signature__ = Signature(ONE)  # type: ignore[attr-defined]  # it says so, and takes one


@pytest.mark.parametrize(
    "function",
    [
        *(Shop().parse, Shop(), Shop.plain, Shop.of_the_class, Pages, Book, dict, len, print),
        *(
            waits,
            gives,
            with_more,
            partial(two, "shop"),
            partial(waits),
            lambda page: None,
            lambda *given: None,
        ),
        *(injected(two), of_another_signature, MagicMock(), cache(len)),
    ],
)
def test_whatever_can_be_called_with_a_page_is_a_handler(function: Callable[..., Any]) -> None:
    assert Spider("s").add_handler(function, name="h").function is function


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (
            "def parse(self, response): ...",
            "cannot be called with (page): missing a required argument: 'response'; write def parse(page)",
        ),
        (
            "async def parse(page, response): yield {}",
            "cannot be called with (page): missing a required argument: 'response'; write async def parse(page)",
        ),
        (
            "def parse(): ...",
            "cannot be called with (page): too many positional arguments; write def parse(page)",
        ),
        (
            "def parse(page, *, response): ...",
            "cannot be called with (page): missing a required argument: 'response'; write def parse(page)",
        ),
        ("class parse: ...", "is a class; write def parse(page)"),
        ("class parse:\n def __init__(self, page): ...", "is a class; write def parse(page)"),
        ("class Shop:\n def __call__(self): ...\nparse = Shop()", "cannot be called with (page): too many"),
        (
            "class Shop:\n def parse(self): ...\nparse = Shop().parse",
            "cannot be called with (page): too many",
        ),
    ],
)
def test_a_handler_that_cannot_be_called_with_a_page_is_refused_at_once(code: str, says: str) -> None:
    made: dict[str, Any] = {}
    exec(code, made)
    with pytest.raises(SpiderError) as refused:
        Spider("s").handler(name="parse")(made["parse"])
    assert str(refused.value).startswith(f"spider 's': handler 'parse' {says}")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"key": 5}, "handler 'h': its key has 5; give the name of a field, or a list of names"),
        ({"key": ["a", 1]}, "handler 'h': its key has 1; give the name of a field, or a list of names"),
        ({"files": 5}, "handler 'h': its files has 5; give the name of a field, or a list of names"),
        ({"lane": 5}, "handler 'h': its lane is 5; give a text (str)"),
        ({"revisit": 5}, "handler 'h': its revisit is 5; give a text (str)"),
        ({"name": 5}, "handler 5: its name is 5; give a text (str)"),
        ({"kye": "a"}, "a handler has no option 'kye'; did you mean key=?"),
        ({"foo": 1}, "a handler has no option 'foo'; there are name, key, lane, "),
    ],
)
def test_wrong_options_of_a_handler_are_told_in_words(options: dict[str, Any], says: str) -> None:
    def h(page: object) -> None: ...

    with pytest.raises(SpiderError) as refused:
        Spider("s").handler(**options)(h)
    assert str(refused.value).startswith(f"spider 's': {says}")
