"""A whole crawl of pages that a test gives, without a network.

The crawl is a real one: admission, queue, redirects, robots.txt, hooks, handlers, keys and schemas. Only the
transport is another: it answers from the pages, and 404 to all else. Nothing waits for politeness, nothing is tried
twice.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import msgspec
from msgspec.structs import replace
from multidict import CIMultiDict

from shoal.archive.saved_page import SavedPage, read_all
from shoal.config import load
from shoal.engine.event_loop import run_loop
from shoal.errors import CrawlFailed, ShoalError, UsageError
from shoal.fetch.transport import FetchRequest, Transport
from shoal.model import DEFAULT_LANE, DeadLetter, Failure, Outcome, Response
from shoal.runtime.crawl import crawl as _crawl
from shoal.runtime.results import Results
from shoal.settings import BROWSER, Settings
from shoal.sink.file_sink import FileSink
from shoal.sink.jsonl import MemoryJournal
from shoal.spider.page import Page
from shoal.spider.spider import Spider, check_spider
from shoal.terminal.tracebacks import user_frames
from shoal.testing.pages import Content, checked_url, saved_content
from shoal.text import humanize

# By URL; "POST https://…" is for requests with that method. Or a folder of saved pages, or pages.
Pages: TypeAlias = Mapping[str, Content | Page] | Path | str | Iterable[Page | Path | str]

_METHOD = re.compile(r"([A-Z]+) +")  # before a URL
_ROBOTS = "/robots.txt"
# Kinds of dead letters that a test may want, besides HTTP errors: the page says so, or the handler.
_EXPECTED = frozenset({"robots", "retry_asked"})
# Whatever the spider or shoal.toml says: nothing is written, nothing waits, nobody is asked.
_OFFLINE: dict[str, object] = {
    "transport": "shoal.testing.offline:PagesTransport",
    "rate": 0,
    "domain_rate": 0,
    "per_host": 1,  # one page after another: rows come in the same order every time
    "concurrency": 1,
    "settle_delay": 0.0,
    "max_crawl_delay": 0.0,
    "max_attempts": 1,
    "policies": [],
    "backpressure": [],
    "processes": 1,
    "serve": [],
    "escalate": False,
    "http2": False,
    "archive": "",
    "cache": False,
    "proxy": "",
    "pool": "",
    "worker_pool": "",
    "fallback": [],
    "challenge_routes": [],
}


class OfflineResults(Results, frozen=True):
    """`Results`, and what was asked for."""

    asked: tuple[
        str, ...
    ] = ()  # every request in its order: its URL, or "POST https://…"; without robots.txt
    missing: tuple[str, ...] = ()  # those that no page was given for

    def __repr__(self) -> str:
        count = humanize.plural(len(self.missing), "request")
        more = " …" if len(self.missing) > 1 else ""
        said = f"\n{count} without a page: {self.missing[0]}{more}" if self.missing else ""
        return super().__repr__() + said


def run(spider: Spider, pages: Pages, *, check: bool = True, **settings: object) -> OfflineResults:
    """Crawls the pages, and only these. Other URLs are answered with 404, and listed in `missing`.

    `pages` are contents or files by URL, a folder of pages that `shoal keep` saved, or a list of pages and files. If a
    handler or a hook fails, or an item is rejected, CrawlFailed says where; `check=False` leaves that to the caller.
    HTTP errors, pages that robots.txt forbids and `raise Retry` make dead letters, as in any crawl. Settings given here
    win over the spider's own.
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    if _loop_runs():
        raise UsageError("an event loop runs already; write `await shoal.testing.crawl(…)` in an async test")
    try:
        return run_loop(crawl(spider, pages, check=check, **settings))
    except ShoalError as error:
        raise error.with_traceback(None)  # noqa: B904 (the lines of the engine tell nothing about the test)


async def crawl(spider: Spider, pages: Pages, *, check: bool = True, **settings: object) -> OfflineResults:
    """`run` for tests with an event loop."""
    check_spider(spider)
    web = _Web(pages)
    spider, letters = _copied(spider)
    kept = MemoryJournal()
    with TemporaryDirectory(prefix="shoal-files-") as files, _answering(web):
        options = {**_OFFLINE, "files": files, **_replaced(spider, settings), **settings}
        results = await _crawl(spider, output=FileSink(kept), **options)  # type: ignore[arg-type]
    if check and letters:
        raise _failed(letters)
    known = {name: getattr(results, name) for name in Results.__struct_fields__}
    known["items"] = [msgspec.json.decode(row) for row in kept.rows]
    return OfflineResults(**known, asked=tuple(web.asked), missing=tuple(web.missing))


def _loop_runs() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class PagesTransport:
    """Answers from the pages of the crawl that runs. Made by the setting `transport`."""

    def __init__(self, settings: Settings, built_in: Transport) -> None:
        self._web = _current.get()

    async def fetch(self, request: FetchRequest) -> Outcome:
        return self._web.answer(request)

    async def close(self) -> None:
        pass


class _Web:
    def __init__(self, pages: Pages) -> None:
        self._answers = _answers(pages)
        self.asked: list[str] = []
        self.missing: list[str] = []

    def answer(self, request: FetchRequest) -> Outcome:
        url = request.url.partition("#")[0]
        asked = url if request.method == "GET" else f"{request.method} {url}"
        found = self._answers.get(asked)
        is_robots = url.endswith(_ROBOTS) and url.count("/") == 3
        if not is_robots:
            self.asked.append(asked)
        if found is None:
            if not is_robots:
                self.missing.append(asked)
            found = Response(url, 404, CIMultiDict(), b"")
        found = replace(found, url=request.url)
        return found if request.sink is None else _into_sink(found, request)


def _into_sink(response: Response, request: FetchRequest) -> Outcome:
    """For `page.download`: the body goes to the disk."""
    sink = request.sink
    assert sink is not None
    if not sink.takes(response.status, response.headers):
        return response
    if len(response.body) > sink.cap:
        return Failure("too_large", f"the body is larger than {sink.cap} bytes; raise max_file to take it")
    sink.write(response.body)
    return replace(response, body=b"", wire_bytes=len(response.body))


_current: ContextVar[_Web] = ContextVar("shoal-offline-web")


@contextmanager
def _answering(web: _Web) -> Iterator[None]:
    before = _current.set(web)
    try:
        yield
    finally:
        _current.reset(before)


def _answers(pages: Pages) -> dict[str, Response]:
    """By URL, with the method before it if that is not GET."""
    if isinstance(pages, Mapping):
        return dict(_answer(asked, content) for asked, content in pages.items())
    if isinstance(pages, str | Path):
        return _moving(_folder(Path(pages)))
    if not isinstance(pages, Iterable):
        raise UsageError(
            f"pages is a {type(pages).__name__}; give a dict by URL, a folder, or a list of pages"
        )
    return _moving(one if isinstance(one, Page) else saved_content(Path(one), None) for one in pages)


def _moving(pages: Iterable[Page | SavedPage]) -> dict[str, Response]:
    """The pages, and the redirects that led to them."""
    answers: dict[str, Response] = {}
    moves: dict[str, Response] = {}
    for found in pages:
        answers[checked_url(found.response.url)] = found.response
        for hop, target in pairwise([*found.task.hops, found.response.url]):
            moves[checked_url(hop)] = Response(hop, 302, CIMultiDict({"Location": target}), b"")
    return moves | answers


def _answer(asked: str, content: Content | Page) -> tuple[str, Response]:
    found = _METHOD.match(asked)
    method = found[1] if found else ""
    url = checked_url(asked[found.end() :] if found else asked)
    response = content.response if isinstance(content, Page) else saved_content(content, url).response
    return (url if method in ("", "GET") else f"{method} {url}"), response


def _folder(folder: Path) -> list[SavedPage]:
    found = read_all(folder)
    if not found:
        raise UsageError(f"{folder} has no saved pages; `shoal keep URL {folder}` saves one")
    return found


def _copied(spider: Spider) -> tuple[Spider, list[DeadLetter]]:
    """The spider without the browser lane, since a page is the same with and without a browser here; and a list that
    gets the dead letters that no test wants."""
    twin, letters = copy(spider), list[DeadLetter]()
    twin.handlers = {
        name: replace(handler, lane=DEFAULT_LANE if handler.lane == BROWSER else handler.lane)
        for name, handler in spider.handlers.items()
    }
    twin.hooks = [*spider.hooks]

    def note(letter: DeadLetter) -> None:
        if letter.kind not in _EXPECTED and not letter.kind.startswith("http_"):
            letters.append(letter)

    twin.add_hook("on_dead_letter", note)
    return twin, letters


def _replaced(spider: Spider, settings: Mapping[str, object]) -> dict[str, object]:
    """Settings of hosts and proxies as they would be without limits, and without addresses that a test has not."""
    chosen = load(None, spider.settings, os.environ, settings)
    hosts: dict[str, dict[str, object]] = {}
    for name, table in chosen.host.items():
        hosts[name] = {"rate": 0, "lane": DEFAULT_LANE} if table.lane == BROWSER else {"rate": 0}
    proxies = {name: ["http://127.0.0.1:9"] for name in chosen.proxies}
    return {"host": hosts, "proxies": proxies}


def _failed(letters: list[DeadLetter]) -> CrawlFailed:
    letter = letters[0]
    failure = letter.task.history[-1] if letter.task.history else Failure(letter.kind)
    more = f" (and {len(letters) - 1} more)" if len(letters) > 1 else ""
    error = CrawlFailed(f"{letter.task.url}: {failure.kind}: {failure.detail}{more}")
    if letter.snapshot is not None and letter.snapshot.traceback:
        error.add_note(user_frames(letter.snapshot.traceback))
    return error
