"""Traps: places where a site makes new URLs for as long as a crawler follows them.

A false alarm loses pages, so each rule needs strong evidence; page budgets catch the rest. Session ids need no rule:
the canonical form has none, so a new session makes no new page.
"""

from __future__ import annotations

import re

from shoal.settings import Settings

MAX_SEGMENTS = 32
MAX_PAGE = 10_000
CALENDAR_YEARS = range(1900, 2051)  # fixed, not relative to today: a URL's fate must not depend on the date

_PAGE = re.compile(
    r"[?&](?:page|pg|paged|pagenum|page_num|pageno|page_no|page_number|pagenumber|currentpage)=(\d+)(?=&|$)"
    r"|/page/(\d+)(?=[/?]|$)"
)
_CALENDAR = re.compile(r"calendar|calendrier|calendario|kalender|agenda")
_MONTH = re.compile(r"[?&]month=")
_YEAR_IN_PATH = re.compile(r"/(\d{4})(?:-\d{1,2}){0,2}(?=[/?]|$)")
_YEAR_IN_QUERY = re.compile(r"[?&](?:year|yr|y|date|month|day)=(\d{4})(?:-?\d{2}){0,2}(?=&|$)")


def trap(url: str, settings: Settings, *, length: int = 0) -> str | None:
    """Why this canonical URL looks like a trap, in a few words; None if it does not. `length`: of the URL sent."""
    if max(length, len(url)) > settings.max_url_length:
        return f"longer than {settings.max_url_length} characters"
    slashes = url.count("/") - 2
    if slashes > MAX_SEGMENTS or (settings.trap_repeats and slashes >= settings.trap_repeats):
        reason = _path_trap(url, settings.trap_repeats)
        if reason:
            return reason
    lower = url.lower()
    if "page" in lower or "pg=" in lower:
        reason = _endless_pages(lower)
        if reason:
            return reason
    if "alend" in lower or "agenda" in lower or ("year=" in lower and "month=" in lower):
        return _calendar(lower)
    return None


def _path_trap(url: str, repeats: int) -> str | None:
    segments = url.partition("?")[0].split("/")[3:]
    if len(segments) > MAX_SEGMENTS:
        return f"more than {MAX_SEGMENTS} path segments"
    if repeats and len(set(segments)) < len(segments):
        return _repeated(segments, repeats)
    return None


def _repeated(segments: list[str], repeats: int) -> str | None:
    """A relative link on a page that exists at every path makes it grow for ever: /a/b/a/b/a/b.

    The same segment or pair `repeats` times in a row is a trap, and so is the same segment anywhere once more than
    that: /scrapy/scrapy/tree/master/scrapy is a real path. Numbers do not count: /tiles/0/0/0.
    """
    for size in (1, 2):
        alike = 0  # how many segments in a row equal the one `size` before them
        for at in range(size, len(segments)):
            alike = alike + 1 if segments[at] == segments[at - size] else 0
            if alike >= max(1, size * (repeats - 1)) and not _says_nothing(segments[at - size + 1 : at + 1]):
                return "the path repeats itself"
    if any(segments.count(one) > repeats and not _says_nothing([one]) for one in set(segments)):
        return "the path repeats itself"
    return None


def _says_nothing(block: list[str]) -> bool:
    return len(set(block)) == 1 and (not block[0] or block[0].isdigit())


def _endless_pages(url: str) -> str | None:
    """A list that always has a next page: ?page=10001 or /page/10001.

    `p` is not among the names: it is often the number of an article.
    """
    for match in _PAGE.finditer(url):
        if int((match[1] or match[2])[:18]) > MAX_PAGE:
            return f"page number over {MAX_PAGE}"
    return None


def _calendar(url: str) -> str | None:
    """A calendar with a link to the next month for ever: /calendar/2087/04, ?year=2087&month=4.

    Only URLs that name a calendar or agenda, or give year and month, and only years outside 1900 to 2050.
    """
    if not _CALENDAR.search(url) and not _names_a_month(url):
        return None
    path, _, _ = url.partition("?")
    years = [*_YEAR_IN_PATH.findall(path), *_YEAR_IN_QUERY.findall(url)]
    if any(int(year) not in CALENDAR_YEARS for year in years):
        return f"calendar outside {CALENDAR_YEARS.start} to {CALENDAR_YEARS.stop - 1}"
    return None


def _names_a_month(url: str) -> bool:
    """Month and year, in that order. Two steps: in one pattern, each of many months would search for the year."""
    month = _MONTH.search(url)
    return month is not None and url.find("&year=", month.end()) >= 0
