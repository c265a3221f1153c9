"""What is wrong with the sites of a file beyond its keys: selectors, patterns, paths, names that lead nowhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

from msgspec import UNSET

from shoal.errors import UrlError
from shoal.spider.declared.compiling import start_url
from shoal.spider.declared.extracting import field_table, split_pseudo
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
from shoal.spider.declared.guarded_regex import nests_repeats
from shoal.spider.declared.json_path import JsonPathError, json_path
from shoal.spider.declared.positions import Path
from shoal.spider.declared.reading_file import Site, SpiderFile, handlers_of, keys_of
from shoal.spider.declared.url_patterns import url_pattern
from shoal.spider.declared.validating import Problem, unknown
from shoal.spider.declared.written_numbers import is_sample

_PLACES = ("css", "xpath", "json", "script", "data", "meta", "page", "carried", "like", "const", "any_")
_WITH_JSON = ("css", "xpath", "script")
_HANDLER = re.compile(r"[\w-]{1,100}")
_NAME_SHOWN = 40
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
    for key in ("include", "exclude"):
        yield from _patterns(getattr(table, key), (key,))
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


def _handler(table: HandlerTable, at: Path, handlers: list[str]) -> Iterator[Problem]:
    yield from _patterns(table.match, (*at, "match"))
    if table.when is not None:
        yield from _css(table.when, (*at, "when"))
    if table.each is not None:
        yield from _each(table.each, (*at, "each"))
        if not table.fields:
            yield Problem((*at, "each"), "it has no fields to be read from each of them")
    inside = "" if table.each is None else _kind(table.each)
    yield from _fields(table.fields, (*at, "fields"), inside)
    yield from _keys(table, at)
    follow = table.follow
    if isinstance(follow, str) and follow:
        yield from _css(split_pseudo(follow)[0], (*at, "follow"))
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
            yield from _css(selector, (*at, "paginate", key))


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
        yield from _css(selector, where) if selector or not attribute else ()
    if table.xpath is not None:
        yield from _xpath(table.xpath, (*at, "xpath"))
    if table.json is not None:
        yield from _path(table.json, (*at, "json"))
    if table.data is not None:
        yield from _data(table.data, (*at, "data"))
    if table.regex is not None:
        yield from _regex(table.regex, (*at, "regex"))


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
        yield from _css(given, at)
        return
    if _count(given) != 1:
        yield Problem(at, "give one of css, xpath, json and data")
    for key, check in (("css", _css), ("xpath", _xpath), ("json", _path), ("data", _data)):
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
            yield from _css(split_pseudo(one)[0], path)
        elif isinstance(one, FollowTable):
            yield from _follow(one, path)


def _follow(table: FollowTable, at: Path) -> Iterator[Problem]:
    places = [key for key in ("css", "xpath", "json") if getattr(table, key) is not None]
    if len(places) > 1:
        yield Problem(at, f"{' and '.join(places)} are different places: give one")
    if table.css is not None:
        yield from _css(split_pseudo(table.css)[0], (*at, "css"))
    if table.xpath is not None:
        yield from _xpath(table.xpath, (*at, "xpath"))
    if table.json is not None:
        yield from _path(table.json, (*at, "json"))
    if table.url is not None and "{}" not in table.url:
        yield Problem((*at, "url"), 'it needs {} where what was found is put, as in "/product/{}"')
    yield from _patterns(table.include, (*at, "include"))
    yield from _patterns(table.exclude, (*at, "exclude"))
    yield from _fields(table.carry, (*at, "carry"), "")


# -- texts that mean something


def _checked(check: Callable[[str], str], text: str, at: Path) -> Iterator[Problem]:
    if said := check(text):
        yield Problem(at, said)


def _css(text: str, at: Path) -> Iterator[Problem]:
    yield from _checked(no_css, text, at)


def _xpath(text: str, at: Path) -> Iterator[Problem]:
    yield from _checked(_no_xpath, text, at)


def _path(text: str, at: Path) -> Iterator[Problem]:
    yield from _checked(_no_path, text, at)


def _data(text: str, at: Path) -> Iterator[Problem]:
    kind, _, rest = text.partition(".")
    if not re.fullmatch(r"\w+", kind):
        yield Problem(at, f'"{text}" begins with no kind of record: write it as in "product.price"')
    yield from _path(rest, at)


def _patterns(given: str | list[str], at: Path) -> Iterator[Problem]:
    for number, text in enumerate(keys_of(given)):
        try:
            url_pattern(text)
        except ValueError as error:
            yield Problem((*at, number) if isinstance(given, list) else at, str(error))


def _regex(text: str, at: Path) -> Iterator[Problem]:
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        yield Problem(at, f'not a regular expression: "{_short(text)}" ({error})')
        return
    if nests_repeats(text):
        said = "something is repeated inside what is repeated, which can take for ever: write ++ and *+ for + and *"
        yield Problem(at, said, is_warning=True)


@lru_cache(maxsize=10_000)
def no_css(text: str) -> str:
    """What is wrong with a selector; "": nothing."""
    from selectolax.lexbor import LexborHTMLParser, SelectolaxError

    from shoal.html.xml_css import planned

    try:
        LexborHTMLParser("<p>").css(text)
        return ""
    except (SelectolaxError, UnicodeError, ValueError):
        pass
    try:
        planned(text)  # with the prefix of an XML namespace
        return ""
    except ValueError:
        hint = "; there are no pseudo-elements but ::text and ::attr(name)" if "::" in text else ""
        return f'not a CSS selector: "{_short(text)}"{hint}'


@lru_cache(maxsize=10_000)
def _no_xpath(text: str) -> str:
    try:
        from lxml.etree import XPath, XPathSyntaxError
    except ImportError:
        return "xpath needs lxml: pip install 'shoal[xpath]'"
    try:
        XPath(text)
    except XPathSyntaxError as error:
        return f'not an XPath expression: "{_short(text)}" ({error})'
    return ""


def _no_path(text: str) -> str:
    try:
        json_path(text)
    except JsonPathError as error:
        return f'not a JSON path: "{_short(text)}": {error}'
    return ""


def _short(text: str) -> str:
    return text if len(text) <= _NAME_SHOWN else f"{text[:_NAME_SHOWN]}…"


def warnings_of(problems: Iterable[Problem]) -> list[Problem]:
    return [problem for problem in problems if problem.is_warning]
