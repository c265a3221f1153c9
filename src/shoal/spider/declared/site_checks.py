"""What is wrong with the sites of a file beyond its keys: selectors, patterns, paths, names that lead nowhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import UNSET

from shoal.errors import UrlError
from shoal.spider.declared.compiling import start_url
from shoal.spider.declared.field_values import field_table, split_pseudo
from shoal.spider.declared.file_model import (
    CleanTable,
    EachTable,
    FieldLike,
    FieldTable,
    FollowLike,
    FollowTable,
    HandlerTable,
    SourceTable,
    StartTable,
)
from shoal.spider.declared.positions import Path
from shoal.spider.declared.reading_file import Site, SpiderFile, handlers_of, keys_of
from shoal.spider.declared.text_checks import (
    css_problems,
    data_problems,
    path_problems,
    pattern_problems,
    regex_problems,
    xpath_problems,
)
from shoal.spider.declared.validating import Problem, unknown
from shoal.spider.declared.written_numbers import is_sample
from shoal.text.humanize import read_span

_PLACES = ("css", "xpath", "json", "script", "data", "meta", "page", "carried", "like", "const", "any_")
_WITH_JSON = ("css", "xpath", "script")
_HANDLER = re.compile(r"[\w-]{1,100}")
_NUMBERS = ("int", "float", "decimal", "price")
_TIMES = ("date", "datetime")


def site_problems(file: SpiderFile) -> list[Problem]:
    """All that is wrong, each at its place in the file, once."""
    found: dict[tuple[Path, str], Problem] = {}
    # What follows from something that is wrong inside is not told: a field without its misspelt place has none.
    known = {problem.path[:length] for problem in file.problems for length in range(len(problem.path) + 1)}
    for site in file.sites.values():
        for problem in _of_site(site):
            path = file.place_in(site, problem.path)
            if path not in known:
                found[path, problem.said] = Problem(path, problem.said, problem.is_warning)
    return list(found.values())


def _of_site(site: Site) -> Iterator[Problem]:
    table = site.table
    if re.search(r"[:/\\\s\x00-\x1f]", site.name) or len(site.name) > 100:
        yield Problem((), "the name of a site has no colon, slash or blank, and at most 100 characters")
    handlers = handlers_of(table)
    if not handlers:
        yield Problem((), "it has no handler: write [handler.NAME] with fields or follow")
    yield from _start(site)
    yield from _schedule(site)
    for key in ("include", "exclude"):
        yield from pattern_problems(getattr(table, key), (key,))
    for name, handler in handlers.items():
        at = ("handler", name)
        if not _HANDLER.fullmatch(name):
            yield Problem(at, "the name of a handler has letters, digits, _ and - only")
        yield from _handler(handler, at, list(handlers))
    yield from _unreached(site, handlers)


def _start(site: Site) -> Iterator[Problem]:
    table = site.table
    if not table.start and not table.sitemap and not table.feed:
        yield Problem((), "it has no start: write start, sitemap or feed")
    for key in ("start", "sitemap", "feed"):
        given = getattr(table, key)
        for number, one in enumerate(given if isinstance(given, list) else [given]):
            at: Path = (key, number) if isinstance(given, list) else (key,)
            if isinstance(one, StartTable) and (one.url is None) == (one.file is None):
                yield Problem(at, "give one of url and file")
            named = one.handler if isinstance(one, StartTable | SourceTable) else None
            if named is not None and named not in table.handler:
                yield Problem((*at, "handler"), unknown((), named, list(table.handler), "handler").said)
            url = one.url if isinstance(one, StartTable | SourceTable) else one
            try:
                if url is not None:
                    start_url(url)
            except UrlError as error:
                yield Problem(at, str(error))


def _schedule(site: Site) -> Iterator[Problem]:
    every, cron = site.table.every, site.table.cron
    if every is not None and cron is not None:
        yield Problem(("cron",), "give one of every and cron")
    if every is not None and read_span(every) is None:
        yield Problem(("every",), f'"{every[:40]}" is not a time: write it like 30s, 10m, 2h or 1d')
    if cron is not None and len(cron.split()) != 5:
        yield Problem(("cron",), "write five fields, minute hour day month weekday, as in 30 4 * * 1-5")


def _handler(table: HandlerTable, at: Path, handlers: list[str]) -> Iterator[Problem]:
    yield from pattern_problems(table.match, (*at, "match"))
    if table.when is not None:
        yield from css_problems(table.when, (*at, "when"))
    if table.each is not None:
        yield from _each(table.each, (*at, "each"))
        if not table.fields:
            yield Problem((*at, "each"), "it has no fields to be read from each of them")
    inside = "" if table.each is None else _kind(table.each)
    yield from _fields(table.fields, (*at, "fields"), inside)
    yield from _keys(table, at)
    follow = table.follow
    if isinstance(follow, str) and follow:
        yield from css_problems(split_pseudo(follow)[0], (*at, "follow"))
    elif isinstance(follow, dict):
        for name, given in follow.items():
            if name not in handlers:
                yield Problem((*at, "follow", name), unknown((), name, handlers, "handler").said)
            yield from _follows(given, (*at, "follow", name))
    if table.next is not None:
        yield from _follows(table.next, (*at, "next"))
    yield from _paginate(table, at)
    if table.function is not None and (table.fields or table.follow or table.next or table.paginate):
        yield Problem(
            (*at, "function"),
            "it does all the work: leave out fields, follow, next and paginate",
        )
    elif table.function is None and not (table.fields or table.follow or table.next or table.paginate):
        yield Problem(at, "it does nothing: give it fields, follow or next")


def _keys(table: HandlerTable, at: Path) -> Iterator[Problem]:
    if table.function is not None:
        return
    names = [name for name, given in table.fields.items() if given is not False]
    for option in ("key", "files"):
        for name in keys_of(getattr(table, option)):
            if name not in names:
                yield Problem((*at, option), unknown((), name, names, "field").said)
    for name in names:
        if not name.strip() or len(name) > 100 or not name.isprintable():
            yield Problem((*at, "fields", name), "the name of a field is a text of at most 100 characters")


def _paginate(table: HandlerTable, at: Path) -> Iterator[Problem]:
    pages = table.paginate
    if pages is None:
        return
    if pages.total is None and (pages.count is None or pages.per_page is None):
        yield Problem((*at, "paginate"), "it needs total, or count and per_page")
    for key in ("total", "count"):
        if isinstance(selector := getattr(pages, key), str):
            yield from css_problems(selector, (*at, "paginate", key))


def _unreached(site: Site, handlers: dict[str, HandlerTable]) -> Iterator[Problem]:
    """Handlers that no start and no link leads to."""
    if not handlers or any(table.function for table in handlers.values()):
        return
    reached = {next(iter(handlers))}
    given = site.table.start if isinstance(site.table.start, list) else [site.table.start]
    sources = [one for one in _listed(site.table.sitemap, site.table.feed) if isinstance(one, SourceTable)]
    reached |= {one.handler for one in (*given, *sources) if not isinstance(one, str) and one.handler}
    files = [one for one in given if isinstance(one, StartTable) and one.file]
    dealt = bool(site.table.sitemap or site.table.feed or files)
    for table in handlers.values():
        if isinstance(table.follow, dict):
            reached |= {name for name, rule in table.follow.items() if rule is not False}
        elif table.follow:
            dealt = True
    for name, table in handlers.items():
        is_start = any(isinstance(one, str) for one in given) and table.match
        if name not in reached and not (table.match and dealt) and not is_start:
            said = "no page leads to it: name it in follow of another handler, or give it a match"
            yield Problem(("handler", name), said, is_warning=True)


def _listed(*given: Any) -> list[Any]:
    return [one for several in given for one in (several if isinstance(several, list) else [several])]


# -- fields


def _fields(given: dict[str, FieldLike], at: Path, inside: str) -> Iterator[Problem]:
    for name, value in given.items():
        yield from _field(value, (*at, name), inside)
        if isinstance(value, FieldTable) and value.like is not None:
            yield from _like(given, value.like, (*at, name, "like"))


def _like(given: dict[str, FieldLike], other: str, at: Path) -> Iterator[Problem]:
    if other not in given:
        yield Problem(at, unknown((), other, list(given), "field").said)
    elif isinstance(table := given[other], FieldTable) and (table.like or table.fields is not None):
        yield Problem(at, f'"{other}" has no place of its own')


def _field(given: FieldLike, at: Path, inside: str) -> Iterator[Problem]:
    table = field_table(given)
    if table is None:
        return
    places = [key for key in _PLACES if _is_given(table, key)]
    yield from _places(table, places, at, inside)
    yield from _texts(table, given, at)
    for number, one in enumerate(table.any_ or ()):
        path = (*at, number) if isinstance(given, list) else (*at, "any", number)
        yield from _field(one, path, inside)
    for number, step in enumerate(table.clean):
        if isinstance(step, CleanTable) and _count(step) != 1:
            yield Problem((*at, "clean", number), "a cleaning step has one key")
    yield from _format(table, at)
    if table.each is not None:
        yield from _each(table.each, (*at, "each"))
        if table.fields is None:
            yield Problem((*at, "each"), "it has no fields to be read from each of them")
    if table.fields is not None:
        if table.type is not None or table.list_:
            yield Problem(at, "an object has no type: its fields have; each makes a list of objects")
        scope = inside if table.each is None else _kind(table.each)
        for key in ("css", "xpath", "json", "data"):
            scope = _SCOPES[key] if _is_given(table, key) else scope
        yield from _fields(table.fields, (*at, "fields"), scope)


_SCOPES = {"css": "css", "xpath": "xpath", "json": "json", "data": "json"}


def _places(table: FieldTable, places: list[str], at: Path, inside: str) -> Iterator[Problem]:
    named = [key.rstrip("_") for key in places]
    with_json = len(places) == 2 and "json" in places and any(key in places for key in _WITH_JSON)
    if len(places) > 1 and not with_json:
        yield Problem(at, f"{' and '.join(named)} are different places: give one, or several as a list")
    if not places and table.each is None and table.fields is None and not inside:
        yield Problem(at, "it says nowhere what to read: give css, xpath, json, data, meta, page or const")
    if table.attr and inside == "json" and not places:
        yield Problem((*at, "attr"), "attr is of an element, and each gives JSON here: use json")
    if inside == "css" and table.xpath is not None:
        yield Problem(
            (*at, "xpath"), 'each is a CSS selector here: write each = { xpath = "…" }, or css in its fields'
        )
    if inside == "xpath" and table.css is not None:
        yield Problem(
            (*at, "css"), "each is an XPath expression here: write xpath in its fields, or each as CSS"
        )
    if table.required and table.default is not UNSET:
        yield Problem((*at, "default"), "what has a default is never missing: leave out required or default")


def _texts(table: FieldTable, given: FieldLike, at: Path) -> Iterator[Problem]:
    if table.css is not None:
        selector, attribute = split_pseudo(table.css)
        where = at if isinstance(given, str) else (*at, "css")
        yield from css_problems(selector, where) if selector or not attribute else ()
    if table.xpath is not None:
        yield from xpath_problems(table.xpath, (*at, "xpath"))
    if table.json is not None:
        yield from path_problems(table.json, (*at, "json"))
    if table.data is not None:
        yield from data_problems(table.data, (*at, "data"))
    if table.regex is not None:
        yield from regex_problems(table.regex, (*at, "regex"))


def _format(table: FieldTable, at: Path) -> Iterator[Problem]:
    if table.format is None:
        return
    if table.type in _NUMBERS:
        if not is_sample(table.format):
            yield Problem((*at, "format"), 'of a number it shows how 1234.56 is written, as in "1.234,56"')
    elif table.type in _TIMES:
        if "%" not in table.format:
            yield Problem((*at, "format"), 'of a date it is as in "%d.%m.%Y"')
    else:
        yield Problem((*at, "format"), "it is for numbers, prices, dates and times: give a type")


def _is_given(table: FieldTable, key: str) -> bool:
    return getattr(table, key) is not None and getattr(table, key) is not UNSET


def _count(table: CleanTable | EachTable) -> int:
    return sum(getattr(table, name) is not None for name in table.__struct_fields__)


def _each(given: str | EachTable, at: Path) -> Iterator[Problem]:
    if isinstance(given, str):
        yield from css_problems(given, at)
        return
    if _count(given) != 1:
        yield Problem(at, "give one of css, xpath, json and data")
    for key, check in (
        ("css", css_problems),
        ("xpath", xpath_problems),
        ("json", path_problems),
        ("data", data_problems),
    ):
        if (text := getattr(given, key)) is not None:
            yield from check(text, (*at, key))


def _kind(given: str | EachTable) -> str:
    if isinstance(given, str):
        return "css"
    return next((_SCOPES[key] for key in _SCOPES if getattr(given, key) is not None), "css")


# -- links


def _follows(given: FollowLike, at: Path) -> Iterator[Problem]:
    for number, one in enumerate(given if isinstance(given, list) else [given]):
        path = (*at, number) if isinstance(given, list) else at
        if isinstance(one, str):
            yield from css_problems(split_pseudo(one)[0], path)
        elif isinstance(one, FollowTable):
            yield from _follow(one, path)


def _follow(table: FollowTable, at: Path) -> Iterator[Problem]:
    places = [key for key in ("css", "xpath", "json") if getattr(table, key) is not None]
    if len(places) > 1:
        yield Problem(at, f"{' and '.join(places)} are different places: give one")
    if table.css is not None:
        yield from css_problems(split_pseudo(table.css)[0], (*at, "css"))
    if table.xpath is not None:
        yield from xpath_problems(table.xpath, (*at, "xpath"))
    if table.json is not None:
        yield from path_problems(table.json, (*at, "json"))
    if table.url is not None and "{}" not in table.url:
        yield Problem((*at, "url"), 'it needs {} where what was found is put, as in "/product/{}"')
    yield from pattern_problems(table.include, (*at, "include"))
    yield from pattern_problems(table.exclude, (*at, "exclude"))
    yield from _fields(table.carry, (*at, "carry"), "")
