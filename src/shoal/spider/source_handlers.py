"""The handlers that read sitemaps and feeds: from a page to requests for what it lists.

They are part of every spider, and their tasks carry all that they need (`start_sources.py`). So any worker can read a
sitemap, and what it lists is queued in the transaction that ends its task. A long one is queued in parts: the last
request of a part asks for the same file again, from where this part has ended. The queue may drain in between.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from shoal.admit.identity import host_key, origin, registrable_domain
from shoal.admit.sending import resolve
from shoal.errors import SpiderError
from shoal.html.feed import Feed, NextPage
from shoal.html.feed_dates import read_date
from shoal.html.link_header import linked
from shoal.html.sitemap import Sitemap, SitemapEntry, sitemaps_in
from shoal.limits import ENTRY_META, KB, MB, SITEMAP_DEPTH, SITEMAP_ENTRIES
from shoal.model import Request
from shoal.model.built_in import FEED, ROBOTS, SITEMAP
from shoal.spider.spider import Handler
from shoal.spider.start_sources import SourceNote, read_note, source_request
from shoal.text import pack

if TYPE_CHECKING:
    from shoal.spider.page import Page

_OFTEN = 100  # entries between two turns of the event loop
_PART_BYTES = 16 * MB  # of the requests of a part
_ALL = 5 * SITEMAP_ENTRIES  # entries that are queued at once, if a file is another one each time
_ROBOTS_BYTES = 512 * KB
_NO_SITEMAP = {"html": "a page (HTML)", "empty": "empty", "xml": "XML, but no sitemap", "text": "a text"}
_NO_FEED = {**_NO_SITEMAP, "xml": "XML, but no feed"}


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
    part = _Part(page, note, SITEMAP)
    document = Sitemap(page.body, page.headers.get("Content-Type", ""))
    if note.offset and not await _is_unchanged(document, note):
        page.count("sitemaps that changed while they were read")
        part = _Part(page, replace(note, offset=0, digest=""), SITEMAP, most=_ALL)
    document = Sitemap(page.body, page.headers.get("Content-Type", ""))
    async for request in part.requests(document):
        yield request
    if part.read == 0 and (document.kind in _NO_SITEMAP):
        raise SpiderError(f"{page.url} is no sitemap: it is {_NO_SITEMAP[document.kind]}")
    part.tell(document)


async def feed(page: Page) -> AsyncIterator[Request]:
    note = read_note(page.meta)
    part = _Part(page, note, FEED, most=_ALL)
    document, following, fresh = Feed(page.body, page.headers.get("Content-Type", "")), "", 0
    for entry in document:
        if isinstance(entry, NextPage):
            following = following or entry.url
            continue
        lastmod = entry.updated or entry.published
        for request in part.take(SitemapEntry(entry.url, lastmod=lastmod, details=entry.details)):
            fresh += 1
            yield request
        if part.read % _OFTEN == 0:
            await asyncio.sleep(0)
    if part.read == 0 and document.kind in _NO_FEED:
        raise SpiderError(f"{page.url} is no feed: it is {_NO_FEED[document.kind]}")
    if document.kind == "json" and document.problem:
        raise SpiderError(f"{page.url} is no feed: {document.problem}")
    following = following or next(iter(linked(page.headers, page.url, "next")), "")
    if following and note.pages > 1 and (fresh or not part.unchanged):
        yield _follow(page, following, replace(note, pages=note.pages - 1), FEED)
    part.tell(document)


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
        self._oldest = note.oldest
        self._taken = self._size = 0
        self._digest = blake2b(digest_size=12)
        self._seen: set[str] = set()
        self.read = self.unchanged = 0

    async def requests(self, document: Iterable[SitemapEntry]) -> AsyncIterator[Request]:
        note = self._note
        for entry in document:
            self.read += 1
            if self.read % _OFTEN == 0:
                await asyncio.sleep(0)
            if self._taken >= self._most or self._size >= _PART_BYTES:
                yield self._rest()
                return
            self._digest.update(f"{entry.url}\n".encode("utf-8", "replace"))
            if self.read > note.offset:
                for request in self.take(entry):
                    yield request

    def _rest(self) -> Request:
        """The request for the rest of this file."""
        page, done = self._page, self.read - 1
        self.read = done
        note = replace(self._note, offset=done, digest=self._digest.hexdigest())
        return _follow(page, page.task.origin, note, self._reader, anywhere=True, dedupe=False, priority=1)

    def take(self, entry: SitemapEntry) -> Iterable[Request]:
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
            if not self._is_wanted(url):
                self._page.count(f"{self._what} left out")
                continue
            request = self._request(url, entry)
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
            note = replace(self._note, nested=self._note.nested + 1, offset=0, digest="")
            yield _follow(self._page, entry.url, note, SITEMAP)

    def _is_wanted(self, url: str) -> bool:
        if self._include and not any(search(url) for search in self._include):
            return False
        return not any(search(url) for search in self._exclude)

    def _request(self, url: str, entry: SitemapEntry) -> Request:
        note, meta = self._note, dict(self._note.meta or {})
        if note.details and entry.details:
            meta[self._reader.removeprefix("shoal:")] = self._details(entry.details)
        task = self._page.task
        same = origin(task.url) == _origin_of(url, task.url)
        return Request(
            url,
            note.handler,
            self._page.url,
            depth=0,
            meta=meta or None,
            headers=task.headers if same else None,
            pool=task.pool,
            session=task.session,
            country=task.options.country,
            proxy=task.options.proxy,
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
        page.count(self._what, self.read - note.offset)
        if not self._taken and not note.offset and not self.read:
            page.log.warning("%s lists no page", page.url)
        page.count(f"{self._what} without a URL", document.broken)
        page.count(f"{self._what} cut", document.cut)
        if document.problem:
            page.count(f"{self._reader.removeprefix('shoal:')}s cut")
            page.log.warning("%s is not read to its end: %s", page.url, document.problem)


async def _is_unchanged(document: Iterable[SitemapEntry], note: SourceNote) -> bool:
    """Whether the entries that were read before are the same still: otherwise those after them are others, too."""
    digest = blake2b(digest_size=12)
    for number, entry in enumerate(document, 1):
        digest.update(f"{entry.url}\n".encode("utf-8", "replace"))
        if number == note.offset:
            return digest.hexdigest() == note.digest
        if number % _OFTEN == 0:
            await asyncio.sleep(0)
    return False


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
