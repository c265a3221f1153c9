"""The handlers that read sitemaps and feeds: from a page to requests for what it lists.

They are part of every spider, and their tasks carry all that they need (`start_sources.py`). So any worker can read a
sitemap, and what it lists is queued in the transaction that ends its task. A long one is queued in parts: the last
request of a part asks for the same file again, from where this part has ended. The queue may drain in between.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Iterator
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from shoal.admit.identity import host_key, origin, registrable_domain
from shoal.admit.sending import resolve
from shoal.errors import SpiderError
from shoal.html.feed import Feed, FeedEntry, NextPage
from shoal.html.link_header import linked
from shoal.html.sitemap import Sitemap, SitemapEntry, sitemaps_in
from shoal.limits import ENTRY_META, KB, MB, SITEMAP_DEPTH, SITEMAP_ENTRIES
from shoal.model.built_in import FEED, ROBOTS, SITEMAP
from shoal.model.request import Request
from shoal.spider.spider import Handler
from shoal.spider.start_sources import SourceNote, read_note, source_request
from shoal.text import pack

if TYPE_CHECKING:
    from shoal.spider.page import Page

T = TypeVar("T")

_OFTEN = 50  # entries between two turns of the event loop
_PART_BYTES = 16 * MB  # of the requests of a part
_ALL = 10 * SITEMAP_ENTRIES  # entries that are queued at once, if a file is another one each time
_CHANGES = 3  # times that a file may have changed while it was read
_ROBOTS_BYTES = 512 * KB
# Of a file that is read again and again, its first part asks for the rest each time.
_REST: dict[str, Any] = {"anywhere": True, "dedupe": False, "priority": 1, "revisit": "never"}
_OTHERS = {"html": "a page (HTML)", "empty": "empty", "xml": "XML of another kind", "text": "a text"}


async def robots(page: Page) -> AsyncIterator[Request]:
    """The sitemaps that a robots.txt names: its site vouches for them, wherever they are."""
    named = sitemaps_in(page.body, most=_ROBOTS_BYTES) if page.status == 200 else []
    if not named:
        page.count("robots.txt without a sitemap")
    note = read_note(page.meta)
    for url in named or ["/sitemap.xml"]:
        yield _follow(page, url, note, SITEMAP, anywhere=True)


async def sitemap(page: Page) -> AsyncIterator[Request]:
    note = read_note(page.meta)
    document = _sitemap_in(page)
    part = _Part(page, note, SITEMAP)
    async for request in part.requests(document):
        yield request
    if part.has_changed:  # since its first entries were read: those after them may be others, too
        page.count("sitemaps that changed while they were read")
        document = _sitemap_in(page)
        again = replace(note, offset=0, digest="", changes=note.changes + 1)
        part = _Part(page, again, SITEMAP, most=_ALL)
        async for request in part.requests(document):
            yield request
    _check_kind(page, part, document, "sitemap")
    part.tell(document)


def _sitemap_in(page: Page) -> Sitemap:
    return Sitemap(page.body, page.headers.get("Content-Type", ""))


async def feed(page: Page) -> AsyncIterator[Request]:
    note = read_note(page.meta)
    part = _Part(page, note, FEED, most=_ALL)
    document, following, fresh = Feed(page.body, page.headers.get("Content-Type", "")), "", 0
    entries: AsyncIterator[FeedEntry | NextPage] = _with_turns(document.read())
    async for entry in entries:
        if isinstance(entry, NextPage):
            following = following or entry.url
            continue
        assert isinstance(entry, FeedEntry)
        part.read += 1
        if part.is_full:
            page.count("feed entries cut")
            continue
        lastmod = entry.updated or entry.published
        for request in part.take(SitemapEntry(entry.url, lastmod=lastmod, details=entry.details)):
            fresh += 1
            yield request
    _check_kind(page, part, document, "feed")
    if document.kind == "json" and document.problem:
        raise SpiderError(f"{page.url} is no feed: {document.problem}")
    following = following or next(iter(linked(page.headers, page.url, "next")), "")
    if following and note.pages > 1 and (fresh or not part.unchanged):
        yield _follow(page, following, replace(note, pages=note.pages - 1), FEED)
    part.tell(document)


def _check_kind(page: Page, part: _Part, document: Sitemap | Feed, what: str) -> None:
    """Raises if nothing was read because it is something else, such as the page that says "not found"."""
    if part.read == 0 and document.kind in _OTHERS:
        kind = "html" if document.kind == "xml" and page.is_html else document.kind
        raise SpiderError(f"{page.url} is no {what}: it is {_OTHERS[kind]}")


class _Part:
    """What is taken of a sitemap or a feed for one settlement, and what is counted."""

    def __init__(self, page: Page, note: SourceNote, reader: str, *, most: int = SITEMAP_ENTRIES) -> None:
        self._page = page
        self._note = note
        self._reader = reader
        self._most = most
        self._include = _patterns(note.include)
        self._exclude = _patterns(note.exclude)
        self._files = _patterns(note.sitemaps)
        searches = _patterns(tuple(pattern for pattern, _ in note.rules))
        self._rules = [(search, name) for search, (_, name) in zip(searches, note.rules, strict=True)]
        self._oldest = note.oldest
        self._taken = self._size = 0
        self._digest = blake2b(digest_size=12)
        self._pages = 0  # entries that are no sitemaps
        self.read = self.unchanged = 0
        self.has_changed = False  # the entries that were read before are others now

    async def requests(self, document: Sitemap) -> AsyncIterator[Request]:
        note = self._note
        async for entry in _with_turns(document.read()):
            self.read += 1
            if self.is_full:
                if note.changes < _CHANGES:
                    yield self._rest()
                else:  # it is another one each time, and would be read for ever
                    self._page.count("sitemaps cut")
                    self._page.log.warning(
                        "%s is not read to its end: it changes all the time", self._page.url
                    )
                return
            self._digest.update(f"{entry.url}\n".encode("utf-8", "replace"))
            if self.read > note.offset:
                for request in self.take(entry):
                    yield request
            elif self.read == note.offset and self._digest.hexdigest() != note.digest:
                break
        self.has_changed = bool(note.offset) and self.read <= note.offset

    @property
    def is_full(self) -> bool:
        return self._taken >= self._most or self._size >= _PART_BYTES

    def _rest(self) -> Request:
        """The request for the rest of this file."""
        page, done = self._page, self.read - 1
        self.read = done
        note = replace(self._note, offset=done, digest=self._digest.hexdigest())
        return _follow(page, page.task.origin, note, self._reader, **_REST)

    def take(self, entry: SitemapEntry) -> Iterable[Request]:
        self._pages += not entry.is_sitemap
        if self._oldest is not None and _is_older(entry.lastmod, self._oldest):
            self.unchanged += 1
            self._page.count("sitemaps not changed" if entry.is_sitemap else f"{self._what} not changed")
            return
        if entry.is_sitemap:
            yield from self._file(entry)
            return
        urls = [entry.url]
        if self._note.alternates:
            urls += [one["href"] for one in entry.details.get("alternates", ()) if one.get("href")]
        for url in urls:
            handler = self._handler_of(url)
            if handler is None:
                self._page.count(f"{self._what} left out")
                continue
            request = self._request(url, handler, entry)
            self._taken += 1
            self._size += len(url)
            yield request

    def _file(self, entry: SitemapEntry) -> Iterable[Request]:
        if self._files and not any(search(entry.url) for search in self._files):
            self._page.count("sitemaps left out")
        elif self._note.nested >= SITEMAP_DEPTH:
            self._page.count("sitemaps nested too deep")
        else:
            self._taken += 1
            note = replace(self._note, nested=self._note.nested + 1, offset=0, digest="", changes=0)
            yield _follow(self._page, entry.url, note, SITEMAP)

    def _handler_of(self, url: str) -> str | None:
        """None: it is not wanted."""
        if self._include and not any(search(url) for search in self._include):
            return None
        if any(search(url) for search in self._exclude):
            return None
        if not self._note.rules:
            return self._note.handler
        return next((name for search, name in self._rules if search(url)), None)

    def _request(self, url: str, handler: str, entry: SitemapEntry) -> Request:
        note, meta = self._note, dict(self._note.meta or {})
        if note.details and entry.details:
            meta[self._reader.removeprefix("shoal:")] = self._details(entry.details)
        task = self._page.task
        same = origin(task.url) == _origin_of(url, task.url)
        return Request(
            url,
            handler,
            self._page.url,
            depth=0,
            meta=meta or None,
            headers=task.headers if same else None,
            pool=task.pool,
            session=task.session,
            country=task.options.country,
            proxy=task.options.proxy,
            changed_at=_moment(entry.lastmod) if entry.lastmod and task.record is not None else None,
        )

    def _details(self, details: dict[str, Any]) -> dict[str, Any]:
        plain = {name: value for name, value in details.items() if isinstance(value, str)}
        if len(plain) == len(details):
            return details
        size = len(pack(details))
        if size > ENTRY_META:
            self._page.count(f"{self._what} with too many details")
            return plain
        self._size += size
        return details

    @property
    def _what(self) -> str:
        return f"{self._reader.removeprefix('shoal:')} entries"

    def tell(self, document: Sitemap | Feed) -> None:
        page, note = self._page, self._note
        page.count(f"{self._reader.removeprefix('shoal:')}s read", int(not note.offset))
        page.count(self._what, self._pages)
        if not self.read:
            page.log.warning("%s lists nothing", page.url)
        page.count(f"{self._what} without a URL", document.broken)
        page.count(f"{self._what} cut", document.cut)
        if document.problem:
            page.count(f"{self._reader.removeprefix('shoal:')}s cut")
            page.log.warning("%s is not read to its end: %s", page.url, document.problem)


async def _with_turns(entries: Iterator[T | None]) -> AsyncIterator[T]:
    """The entries, with turns for the rest of the process: a hostile file may keep a processor busy for a while."""
    for number, entry in enumerate(entries):
        if entry is None or number % _OFTEN == 0:
            await asyncio.sleep(0)
        if entry is not None:
            yield entry


def _follow(page: Page, url: str, note: SourceNote, reader: str, **changed: Any) -> Request:
    """A request for another file of the same source. Headers may hold secrets, so no other origin gets them."""
    task = page.task
    asked = Request(
        url,
        base=page.url,
        headers=task.headers if origin(task.url) == _origin_of(url, page.url) else None,
        pool=task.pool,
        session=task.session,
        country=task.options.country,
        proxy=task.options.proxy,
        lane=task.lane,
    )
    changed.setdefault("anywhere", _is_same_site(url, page.url))
    return source_request(asked, reader, note, **changed)


def _origin_of(url: str, base: str) -> str:
    return origin(resolve(url, base) or "")


def _is_same_site(url: str, base: str) -> bool:
    """Whether a file is where the one is that names it: then it belongs to the source, whatever the scope is."""
    absolute = resolve(url, base) or ""
    if not absolute.startswith(("http://", "https://")):
        return False
    here, there = host_key(base), host_key(absolute)
    return here == there or (registrable_domain(here) or here) == (registrable_domain(there) or there)


def _is_older(lastmod: str, oldest: float) -> bool:
    moment = _moment(lastmod) if lastmod else None
    return moment is not None and moment < oldest


@lru_cache(4096)  # many entries have the same date
def _moment(lastmod: str) -> float | None:
    from shoal.html.feed_dates import read_date

    read = read_date(lastmod)
    return None if read is None else read.latest


@lru_cache(64)
def _patterns(patterns: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(re.compile(pattern).search for pattern in patterns)


HANDLERS = {
    SITEMAP: Handler(SITEMAP, sitemap),
    FEED: Handler(FEED, feed),
    ROBOTS: Handler(ROBOTS, robots),
}
