"""The spider of `shoal crawl URL --check-links`: crawls a site's own pages, and asks once for everything they link to.

Two kinds of rows are written, and joined when the crawl has ended (`runtime/link_report.py`): a URL is fetched once,
but linked to from many pages.

link     a link of a page: where it is, what it says, and the `key` of its URL
result   what came of a URL: a row for each `key` on the way, if it was redirected

A `key` is the canonical URL, which stands for every spelling. URLs that gave no answer are dead letters, and have no
row.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Struct

from shoal.admit.canonical import Canonicaliser
from shoal.admit.identity import host_key, site
from shoal.admit.sending import resolve, sent_url
from shoal.html.page_facts import Reader
from shoal.html.page_links import in_encoding, is_legacy
from shoal.limits import LINKED_PARTS
from shoal.model import Task
from shoal.model.request import Request
from shoal.settings import Settings
from shoal.spider.handlers import Retry
from shoal.spider.schemas import Schema
from shoal.spider.spider import Handler, Spider, Start

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

    from shoal.spider.page import Page


PAGE, LINK = "page", "link"  # handlers
_ATTEMPTS = 2  # of a URL that is only checked: a link that works every third time is reported
_OWN_ATTEMPTS = 3  # of a page that answers with a server's error
_URL = 2_000  # characters that a row has of a URL

# Answers that go to the handlers, which write them down. The others are retried as in every crawl.
_STATUSES = [status for status in range(400, 600) if status not in (408, 425, 429)]

_LINKS = (("a", "href"), ("area", "href"), ("iframe", "src"), ("frame", "src"))
_ASSETS = (
    *(("img", "src"), ("script", "src"), ("source", "src"), ("video", "src"), ("audio", "src")),
    *(("video", "poster"), ("track", "src"), ("embed", "src"), ("object", "data")),
)
_ASSET_RELS = frozenset({"stylesheet", "icon", "apple-touch-icon", "manifest", "preload", "modulepreload"})
# What is no page by its name is not downloaded: its headers say whether it is there.
_FILES = re.compile(
    r"[^/]\.(?:7z|avif?|bmp|bz2|css|csv|deb|dmg|docx?|epub|exe|flac|gif|gz|ico|iso|jpe?g|js|json|m4a|mkv|mov|mp[34]|mpeg"
    r"|msi|od[st]|ogg|otf|pdf|png|pptx?|rar|rpm|svg|tar|tgz|tiff?|ttf|wav|web[mp]|whl|woff2?|xlsx?|xz|zip|zst)$",
    re.IGNORECASE,
)


class Link(Struct, frozen=True):
    """A row of the kind `link`: a URL that a page leads to, with the first text that does."""

    page: str
    url: str  # absolute; as it is written, if it is no URL
    key: str
    text: str
    tag: str
    fragment: str | None  # that its page must have; None: it is not checked
    bad: bool  # it is no URL


class Result(Struct, frozen=True):
    """A row of the kind `result`: what came of the URLs of one key."""

    key: str
    url: str  # where it began
    status: int
    method: str
    target: str | None  # where it was redirected to
    anchors: list[str] | None  # the parts that the page has
    start: bool  # it is a start URL


_SCHEMAS = tuple(
    Schema(kind, kind.__name__.lower(), msgspec.json.Decoder(kind).decode, is_checked=True)
    for kind in (Link, Result)
)


class LinkSpider(Spider):
    __slots__ = ("_checks",)

    def __init__(self, name: str, start: Start, checks: Sequence[str]) -> None:
        # Links lead anywhere: which pages belong to the site, the handlers decide.
        super().__init__(
            name,
            start,
            any_host=True,
            handle_status=_STATUSES,
            challenges=[
                "empty_shell"
            ],  # a wall against robots is an answer: it needs no second look after a minute
            # A host that does not answer is a result. One that is away for a moment gets a quarter of a minute.
            breaker_cooldown=2.0,
            breaker_probes=3,
        )
        self._checks = frozenset(checks)
        self._add(Settings())

    def fitted(self, settings: Settings) -> Spider:
        self._add(settings)
        return self

    def _add(self, settings: Settings) -> None:
        checker = _Checker(self._checks, settings, self.start_urls_known())
        self.handlers[PAGE] = Handler(PAGE, checker.page, schemas=_SCHEMAS)
        self.handlers[LINK] = Handler(LINK, checker.link, schemas=_SCHEMAS)


class _Checker:
    def __init__(self, checks: frozenset[str], settings: Settings, starts: Iterable[str]) -> None:
        self._checks = checks
        self._settings = settings
        self._canonical = Canonicaliser(settings.tracking_params)
        urls = [url for start in starts if (url := sent_url(start))]
        self._sites = {site(host_key(url)) for url in urls} | {
            site(name.lower().strip(".")) for name in settings.hosts
        }

    # -- handlers

    def page(self, page: Page) -> list[Link | Result | Request]:
        """A page of the site: what it is, and where it leads."""
        if page.status >= 500 and page.task.attempt < min(_OWN_ATTEMPTS, self._settings.max_attempts):
            raise Retry(f"HTTP {page.status}")
        rows: list[Link | Result | Request] = [*self._results(page)]
        if page.status >= 400 or not page.is_html or not self._is_own(page):
            return rows
        for row, request in self._links(page):
            rows.append(row)
            if request is not None:
                rows.append(request)
        return rows

    def link(self, page: Page) -> list[Link | Result | Request]:
        """Anything else. Servers that refuse HEAD, or answer it wrongly, are asked for the whole."""
        task = page.task
        if page.status < 400:
            return [*self._results(page)]
        if task.method == "HEAD":
            return [self._request(page.url, page.depth, "GET", {"way": way_of(task)})]
        if page.status >= 500 and task.attempt < _ATTEMPTS:
            raise Retry(f"HTTP {page.status}")
        return [*self._results(page)]

    def _request(self, url: str, depth: int, method: str, meta: dict[str, Any] | None = None) -> Request:
        return Request(url, LINK, depth=depth, method=method, max_attempts=_ATTEMPTS, meta=meta)

    # -- what came of a URL

    def _results(self, page: Page) -> Iterator[Result]:
        way = way_of(page.task)
        target = way[-1][:_URL] if len(way) > 1 else None
        anchors = self._anchors(page) if self._wants_anchors(page) else None
        for key in dict.fromkeys(map(self._canonical, way)):
            yield Result(
                key=key,
                url=way[0][:_URL],
                status=page.status,
                method=page.task.method,
                target=target,
                anchors=anchors,
                start=page.task.parent == 0,
            )

    def _wants_anchors(self, page: Page) -> bool:
        return "anchors" in self._checks and page.task.method == "GET" and page.is_html and page.status < 400

    def _anchors(self, page: Page) -> list[str] | None:
        """What "#…" may name. None: too many to say."""
        found = dict.fromkeys(page.attrs("[id]", "id"))
        found |= dict.fromkeys(node.attributes.get("name") or "" for node in page.tree.tags("a"))
        return list(found) if len(found) <= LINKED_PARTS else None

    # -- where a page leads

    def _links(self, page: Page) -> Iterator[tuple[Link, Request | None]]:
        """Every URL once, with the first text that leads there."""
        reader, base, codec = Reader(), page.base, page.codec
        legacy = is_legacy(codec)
        met: set[str] = set()
        for node, tag, target in self._targets(page):
            if len(met) >= self._settings.max_links:
                page.count("pages with more links than max_links")
                return
            href = resolve(in_encoding(target, codec) if legacy else target, base)
            if href is not None and not href.startswith(("http://", "https://")):
                continue  # mailto:, tel:, javascript:, data: …
            if (href or target) in met:
                continue
            met.add(href or target)
            url = sent_url(href) if href is not None else None
            row = Link(
                page=page.url[:_URL],
                url=(href or target)[:_URL],
                key=self._canonical(url) if url else f"not a URL: {target[:_URL]}",
                text=reader.text(node) or (node.attributes.get("alt") or "")[:200],
                tag=tag,
                fragment=self._fragment(href) if href else None,
                bad=url is None,
            )
            yield row, self._asked(page, url, tag) if url else None

    def _targets(self, page: Page) -> Iterator[tuple[LexborNode, str, str]]:
        for tag, attribute in (*_LINKS, *(_ASSETS if "assets" in self._checks else ())):
            for node in page.tree.tags(tag):
                if target := (node.attributes.get(attribute) or "").strip():
                    yield node, tag, target
        if "assets" in self._checks:
            for node in page.tree.tags("link"):
                rel = set((node.attributes.get("rel") or "").lower().split())
                if rel & _ASSET_RELS and (target := (node.attributes.get("href") or "").strip()):
                    yield node, "link", target

    def _asked(self, page: Page, url: str, tag: str) -> Request:
        """Pages of the site are fetched and looked through, the rest is asked for by HEAD."""
        deepest = self._settings.depth
        follows = deepest is None or page.depth < deepest
        if (
            follows
            and tag in ("a", "area", "iframe", "frame")
            and self._owns(url, page)
            and not _is_file(url)
        ):
            return Request(url, PAGE)
        return self._request(url, page.depth, "HEAD")

    def _fragment(self, href: str) -> str | None:
        if "anchors" not in self._checks:
            return None
        fragment = href.partition("#")[2].partition(":~:")[0]
        return fragment[:_URL] if fragment and fragment.lower() != "top" else None

    # -- the site

    def _owns(self, url: str, page: Page) -> bool:
        its = site(host_key(url))
        return its in self._sites or its == site(host_key(page.url))

    def _is_own(self, page: Page) -> bool:
        """Whether the page is one of the site: a redirect may have led away from it. From a start URL it may."""
        here = site(host_key(page.url))
        return page.depth == 0 or here in self._sites or here == site(host_key(page.task.origin))


def way_of(task: Task) -> list[str]:
    """The URLs that a task was at, each once: the first one first, and where it ended last."""
    before = [*(task.meta or {}).get("way", ()), *task.hops]
    return [*dict.fromkeys(url for url in before if url != task.url), task.url]


def _is_file(url: str) -> bool:
    return _FILES.search(urlsplit(url).path) is not None


def has_anchor(fragment: str, anchors: Container[str]) -> bool:
    """As browsers look for it: as it is written, then decoded."""
    return fragment in anchors or unquote(fragment) in anchors


def link_spider(name: str, start: Start, checks: Sequence[str]) -> Spider:
    return LinkSpider(name, start, checks)
