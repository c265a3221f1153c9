"""A page for the commands of development: from a file, the cache, an archive, or the site.

What is fetched is added to the cache, so that nothing is fetched twice.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shoal.admit import Admission
from shoal.admit.identity import host_key
from shoal.admit.sending import has_scheme, typed_url
from shoal.admit.sizes import OversizeError, stored_size
from shoal.archive import saved_page
from shoal.archive.cache import ArchiveCache, CachedAnswer
from shoal.develop import DEFAULT_CACHE
from shoal.errors import PageMissing, SpiderError, UrlError, UsageError
from shoal.model import Failure, Refused, Response, Task
from shoal.model.request import Request
from shoal.policy.outcomes import kind_of
from shoal.runtime.admission import make_admission
from shoal.settings import BROWSER, Settings
from shoal.spider.spider import Spider
from shoal.text import pack, shown_url

__all__ = ["DEFAULT_CACHE", "Found", "find_page"]

log = logging.getLogger("shoal")

_SUFFIXES = (".html", ".htm", ".xhtml", ".xml", ".json", ".txt")  # of saved pages

Where: TypeAlias = Literal["live", "cache", "archive", "file"]


class Found(Struct, frozen=True):
    """A page and where it was found."""

    task: Task  # its handler: that of the request, or else the one that the page was fetched for
    response: Response
    where: Where
    at: float  # when it was fetched, in seconds since 1970
    kind: str = "ok"  # or that of an error, such as "http_404"
    record: str = ""  # its id in the archive


async def find_page(
    target: str | Request,
    *,
    spider: Spider | None,
    settings: Settings,
    cache: Path | None,
    offline: bool = False,
    refresh: bool = False,
    browser: bool = False,
    handler: str = "",
    typed: Sequence[str] = (),
    stays_open: AsyncExitStack | None = None,
) -> Found:
    """The page at a URL (https:// may be left out), of a request, or in a saved file. `offline`: nothing is fetched.
    `refresh`: it is fetched though the cache has it. `handler`: the one that a URL is for. `typed`: URLs that a
    person wrote, besides a `target` that is text and the spider's start: their hosts may be private. `stays_open`: a
    browser that has fetched it stays until this is closed. Raises PageMissing if there is no answer."""
    if isinstance(target, str):
        if (path := saved_file(target)) is not None:
            return read_saved(path, spider, settings)
        url = typed_url(target)
        target = Request(url, handler or _dealt(spider, url))
        typed = [*typed, target.url]
    admission = _admission(spider, settings, target.url)
    task = admission.admit(target)
    if isinstance(task, Refused):
        raise UrlError(f"{task.url}: refused ({task.reason}), so a crawl would not fetch it")
    browser = browser or task.lane == BROWSER
    task = replace(task, lane=BROWSER) if browser else task
    if not refresh:
        for folder, where in _folders(cache, settings):
            if (found := _look_up(folder, where, task, admission, settings)) is not None:
                return found
    if offline:
        place = str(cache or settings.archive)
        raise PageMissing(
            task.url,
            f"it is not in the cache ({place})"
            if place
            else "it is in no cache, and --offline fetches nothing",
        )
    typed = [*typed, *(spider.start_urls_known() if spider is not None else ())]
    return await _fetch(target, spider, settings, cache, browser, typed, stays_open)


def as_stored(request: Request) -> Request:
    """The request with its `meta` as a crawl gives it to the handler, once it was in the store: a tuple is a list then,
    and a date a text. Raises SpiderError if a crawl could not store it."""
    try:
        stored_size(request)
    except OversizeError as error:
        raise SpiderError(f"a request cannot be stored: {error} (for {shown_url(request.url)})") from None
    if request.meta is None:
        return request
    return replace(request, meta=msgspec.msgpack.decode(pack(request.meta)))


def _dealt(spider: Spider | None, url: str) -> str:
    """The handler that the spider has for a URL; "": its first."""
    return "" if spider is None or spider.route is None else spider.route(url, None)


def _admission(spider: Spider | None, settings: Settings, url: str) -> Admission:
    return Admission(settings, [url]) if spider is None else make_admission(spider, settings)


# -- a file


def saved_file(word: str) -> Path | None:
    """The file that a word means; None: it is a URL."""
    if word.startswith("file://"):
        word = word.removeprefix("file://")
    elif has_scheme(word):
        return None
    path = Path(word)
    if path.is_file():
        return path
    if _is_path(word):
        raise UsageError(f"there is no file {word}; if it is a URL, write https:// before it")
    return None


def _is_path(word: str) -> bool:
    """Whether a word without a scheme is meant as a file. "example.com/page.html" is a URL."""
    if word.startswith(("./", "../", "/", "~")):
        return True
    first, slash, _ = word.partition("/")
    is_host = bool(slash) and ("." in first or ":" in first or first == "localhost")
    return Path(word).suffix.lower() in _SUFFIXES and not is_host


def read_saved(path: Path, spider: Spider | None, settings: Settings) -> Found:
    """A saved page, with what is noted beside it. One that does not say where it is from is taken for the spider's
    first."""
    starts = spider.start_urls_known() if spider is not None else []
    saved = saved_page.read_saved(path, url=starts[0] if starts else "")
    url, response = saved.task.url, saved.response
    task = _admission(spider, settings, url).admit(Request(url, _dealt(spider, url)))
    if isinstance(task, Refused):
        task = Task(url, host=host_key(url))
    task = replace(task, hops=saved.task.hops)
    return Found(task, response, "file", saved.at or saved.path.stat().st_mtime, _kind(response, settings))


# -- the cache and the archive


def _folders(cache: Path | None, settings: Settings) -> Iterator[tuple[Path, Where]]:
    archive = Path(settings.archive) if settings.archive and "://" not in settings.archive else None
    if cache is not None and cache.is_dir():
        yield cache, "cache"
    if archive is not None and archive != cache and archive.is_dir():
        yield archive, "archive"


def _look_up(
    folder: Path, where: Where, task: Task, admission: Admission, settings: Settings
) -> Found | None:
    """The page, behind redirects that are archived, too."""
    archive = ArchiveCache(folder, settings.max_body, exact=False, max_age=settings.cache_age)
    archive.open()
    try:
        while (answer := archive.find(task)) is not None:
            moved = _moved(task, answer, admission)
            if moved is None:
                kind = _kind(answer.response, settings)
                response = replace(answer.response, cached=True)
                task = task if task.handler else replace(task, handler=answer.handler)
                return Found(task, response, where, answer.at, kind, answer.record)
            if moved.goes_round or len(moved.hops) > settings.max_redirects:
                return None
            task = moved
        return None
    finally:
        if archive.broken:
            log.warning("%s: its record in %s cannot be read, so it counts as missing", task.url, folder)
        archive.close()


def _moved(task: Task, answer: CachedAnswer, admission: Admission) -> Task | None:
    """Where an archived redirect leads; None: it is no redirect."""
    response = answer.response
    if kind_of(response) != "redirect":
        return None
    moved = admission.moved(task, response.headers["Location"], (), response.status, anywhere=True)
    return None if isinstance(moved, Refused) else moved


def _kind(response: Response, settings: Settings) -> str:
    return "ok" if response.status in settings.handle_status else kind_of(response)


# -- the site


async def _fetch(
    request: Request,
    spider: Spider | None,
    settings: Settings,
    cache: Path | None,
    browser: bool,
    typed: Sequence[str],
    stays_open: AsyncExitStack | None,
) -> Found:
    from shoal.inspect.single_page import look  # what fetches takes a while to import
    from shoal.spider.rendering import Rendering

    if browser:
        _check_browser(settings)
    rendering = Rendering() if browser else None
    report = await look(
        request, settings, rendering=rendering, spider=spider, typed=typed, stays_open=stays_open
    )
    task, response = report.task, report.outcome
    if isinstance(response, Failure):
        detail = _by_robots(report.robots) if response.kind == "robots" else response.detail
        raise PageMissing(task.url, f"{response.kind}: {detail}", kind=response.kind)
    kind = _kind(response, settings)
    record = ""
    if cache is not None and kind == "ok":
        from shoal.develop.page_cache import keep

        record = await keep((task, response), report.moves, settings, cache)
    return Found(task, response, "live", time.time() - response.elapsed, kind, record)


def _by_robots(said: str) -> str:
    reason = said.partition("(robots.txt: ")[2].rstrip(")")
    why = f"robots.txt cannot be read ({reason})" if reason else "robots.txt forbids it"
    return f"{why}; --no-robots fetches it all the same"


def _check_browser(settings: Settings) -> None:
    from shoal.fetch.browser.executable import available, why_not

    if not available(settings):
        raise UsageError(why_not(settings))
