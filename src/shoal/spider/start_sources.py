"""Sources of start URLs: a sitemap or a feed as the start of a spider.

    Spider("shop", start=Sitemap("https://shop.example/sitemap.xml", include=r"/product/"))

A source is a task in the queue like any page, for a handler that every spider has (`source_handlers.py`). What is to be
taken from it travels in the `meta` of the task, so any worker can read it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import copy
from datetime import UTC, date, datetime
from typing import Any, Self, TypeAlias

import msgspec
from msgspec import Struct

from shoal.admit.sending import sent_url
from shoal.errors import SpiderError
from shoal.limits import SITEMAP_BYTES
from shoal.model.built_in import FEED, ROBOTS, SITEMAP, SOURCE_LANE, is_built_in
from shoal.model.request import Request, name_of_handler

LAST = "last"
MARGIN = 86_400.0  # seconds: sitemaps are often made once a day, and name changes of the day before
NOTE = "source"  # the name in `meta`

Patterns: TypeAlias = str | Sequence[str]
Since: TypeAlias = str | date | float | None  # a datetime is a date


class SourceNote(Struct, frozen=True, omit_defaults=True):
    """What the task of a source carries with it."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    sitemaps: tuple[str, ...] = ()  # which files of an index
    since: float | None = None
    margin: float = MARGIN
    is_since_last: bool = False  # `since` is to be the time of the last run; whoever feeds the job knows it
    handler: str = ""  # of the entries
    rules: tuple[tuple[str, str], ...] = ()  # pattern and handler: the first that matches is taken
    alternates: bool = False
    details: bool = True
    pages: int = 1  # of a feed
    meta: dict[str, Any] | None = None  # of the entries, besides what the source says of them
    # -- how far it is read
    nested: int = 0  # indexes that led here
    offset: int = 0  # entries that were read before
    digest: str = ""  # of their URLs: if it differs, the file has changed since
    changes: int = 0  # how often it had changed

    @property
    def oldest(self) -> float | None:
        """What was changed before is not taken."""
        return None if self.since is None else self.since - self.margin

    @property
    def identity(self) -> tuple[object, ...]:
        """What a second run must have in common with the first, to take only what has changed."""
        return self.include, self.exclude, self.sitemaps, self.handler, self.rules, self.alternates

    def as_meta(self) -> dict[str, Any]:
        return {NOTE: msgspec.to_builtins(self)}


def read_note(meta: dict[str, Any] | None) -> SourceNote:
    try:
        return msgspec.convert((meta or {}).get(NOTE) or {}, SourceNote)
    except msgspec.ValidationError as error:
        raise SpiderError(f"the meta of a sitemap or feed cannot be read: {error}") from None


class Source:
    """A sitemap or a feed. `url` may be a `Request`, to give headers, a session or a proxy pool."""

    kind = "source"
    reader = ""  # the name of its handler

    def __init__(
        self,
        url: str | Request,
        *,
        include: Patterns = (),
        exclude: Patterns = (),
        since: Since = None,
        margin: float = MARGIN,
        handler: Any = "",
        meta: dict[str, Any] | None = None,
    ) -> None:
        self.asked = url if isinstance(url, Request) else self._request(url)
        if sent_url(self.asked.url) is None:
            raise SpiderError(f"{self.kind}: {self.asked.url[:200]!r} is not a URL: write it with https://")
        if isinstance(margin, bool) or not isinstance(margin, int | float) or not 0 <= margin < float("inf"):
            raise SpiderError(f"{self.kind}: margin is {margin!r}; give seconds")
        self.handler = handler
        if isinstance(handler, Mapping):
            self._patterns("handler", tuple(handler))
        self.note = SourceNote(
            include=self._patterns("include", include),
            exclude=self._patterns("exclude", exclude),
            since=self._since(since),
            is_since_last=since == LAST,
            margin=float(margin),
            meta=meta,
        )

    def __repr__(self) -> str:
        return f"<{self.kind} {self.asked.url}>"

    @property
    def url(self) -> str:
        return self.asked.url

    def request(self) -> Request:
        """The start request."""
        handler = self.handler
        if isinstance(handler, Mapping):
            rules = tuple((pattern, _name_of(one)) for pattern, one in handler.items())
            note = msgspec.structs.replace(self.note, rules=rules)
        else:
            note = msgspec.structs.replace(self.note, handler=_name_of(handler))
        return source_request(self.asked, self.reader, note)

    def changed_since(self, since: Since) -> Self:
        """The same source, with another `since`."""
        made = copy(self)
        made.note = msgspec.structs.replace(self.note, since=self._since(since), is_since_last=since == LAST)
        return made

    def _request(self, url: object) -> Request:
        if not isinstance(url, str):
            raise SpiderError(f"{self.kind}: give a URL or a Request, not a {type(url).__name__}")
        return Request(url.strip())

    def _patterns(self, name: str, given: Patterns) -> tuple[str, ...]:
        patterns = (given,) if isinstance(given, str) else tuple(given)
        for pattern in patterns:
            try:
                re.compile(pattern)
            except (re.error, TypeError) as error:
                raise SpiderError(
                    f"{self.kind}: {name}: {pattern!r} is not a regular expression ({error})"
                ) from None
        return patterns

    def _since(self, since: object) -> float | None:
        if since is None or since == LAST:
            return None
        if isinstance(since, datetime):
            return since.timestamp()
        if isinstance(since, date):
            return datetime(since.year, since.month, since.day, tzinfo=UTC).timestamp()
        if isinstance(since, int | float) and not isinstance(since, bool):
            return float(since)
        from shoal.html.feed_dates import read_date

        moment = read_date(since) if isinstance(since, str) else None
        if moment is None:
            raise SpiderError(
                f"{self.kind}: since is {since!r}; give a date such as '2026-01-31', or 'last' for the last run"
            )
        return moment.earliest


class Sitemap(Source):
    """The pages that a sitemap lists, as the start of a spider; see docs/sources.md.

    - `url`: of a sitemap, an index of sitemaps, or a robots.txt that names some. A site without a path, such as
      `https://shop.example`, means its robots.txt
    - `include`, `exclude`: regular expressions: a URL must match one, and none
    - `sitemaps`: the same for the files that an index lists
    - `since`: only what has changed since a date, or since the last finished run: `"last"`; entries that do not say
      when they changed are taken
    - `margin`: seconds by which that is moved back
    - `handler`: of the pages, by name; the spider's first one, if none is given. A dict has a handler for each pattern
      of URLs; what matches none of them is left out
    - `alternates`: whether translations of a page (hreflang) are taken as pages, too
    - `details`: whether handlers are told what the sitemap says of a page: `page.meta["sitemap"]`
    - `meta`: of the pages
    """

    kind = "Sitemap"
    reader = SITEMAP

    def __init__(
        self,
        url: str | Request,
        *,
        include: Patterns = (),
        exclude: Patterns = (),
        sitemaps: Patterns = (),
        since: Since = None,
        margin: float = MARGIN,
        handler: Any = "",
        alternates: bool = False,
        details: bool = True,
        meta: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(
            url, include=include, exclude=exclude, since=since, margin=margin, handler=handler, meta=meta
        )
        self.note = msgspec.structs.replace(
            self.note,
            sitemaps=self._patterns("sitemaps", sitemaps),
            alternates=bool(alternates),
            details=bool(details),
        )
        path = (sent_url(self.asked.url) or "").split("?", 1)[0].split("/", 3)[-1]
        if not path:
            self.asked = msgspec.structs.replace(
                self.asked, url=(sent_url(self.asked.url) or "") + "robots.txt"
            )
        if path in ("", "robots.txt"):
            self.reader = ROBOTS

    @classmethod
    def from_robots(cls, site: str, **options: Any) -> Sitemap:
        """The sitemaps that the robots.txt of a site names; /sitemap.xml, if it names none."""
        url = sent_url(site)
        if url is None:
            raise SpiderError(f"Sitemap: {site[:200]!r} is not a URL: write it with https://")
        return cls("/".join([*url.split("/", 3)[:3], "robots.txt"]), **options)


class Feed(Source):
    """The pages that a feed lists (RSS, Atom, JSON Feed), as the start of a spider; see docs/sources.md.

    `pages`: how many pages of the feed are read, if it has several (RFC 5005, or a Link header). The rest is as for
    `Sitemap`. Handlers are told what the feed says of a page: `page.meta["feed"]`.
    """

    kind = "Feed"
    reader = FEED

    def __init__(
        self,
        url: str | Request,
        *,
        include: Patterns = (),
        exclude: Patterns = (),
        since: Since = None,
        margin: float = MARGIN,
        handler: Any = "",
        pages: int = 1,
        meta: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(
            url, include=include, exclude=exclude, since=since, margin=margin, handler=handler, meta=meta
        )
        if isinstance(pages, bool) or not isinstance(pages, int) or pages < 1:
            raise SpiderError(f"Feed: pages is {pages!r}; give a whole number from 1 on")
        self.note = msgspec.structs.replace(self.note, pages=pages)


def source_request(asked: Request, reader: str, note: SourceNote, **changed: Any) -> Request:
    """The request for a source: as the person asked for it, but for the handler that reads it."""
    return msgspec.structs.replace(
        asked,
        handler=reader,
        lane=asked.lane or SOURCE_LANE,
        depth=0,
        meta=note.as_meta(),
        max_body=max(asked.max_body or 0, SITEMAP_BYTES),
        **changed,
    )


def _name_of(handler: object) -> str:
    return handler if isinstance(handler, str) else name_of_handler(handler)


def handlers_of_entries(request: Request) -> Sequence[str]:
    """The handlers of the pages that a source lists; that of the request, if it is no source."""
    if not is_built_in(request.handler):
        return [request.handler]
    note = read_note(request.meta)
    return [name for _, name in note.rules] or [note.handler]


def check_apart(sources: Sequence[object]) -> None:
    """Raises if a file is there twice: it would be fetched once, and read as the first one says."""
    seen: set[str] = set()
    for source in sources:
        if isinstance(source, Source):
            if source.url in seen:
                raise SpiderError(
                    f"{source} is there twice: give it once, with handler={{pattern: handler, …}} for several handlers"
                )
            seen.add(source.url)
