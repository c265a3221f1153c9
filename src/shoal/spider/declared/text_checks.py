"""What is wrong with the texts of a TOML spider that mean something: selectors, paths, patterns, expressions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from shoal.spider.declared.guarded_regex import nests_repeats
from shoal.spider.declared.json_path import JsonPathError, json_path
from shoal.spider.declared.positions import Path
from shoal.spider.declared.reading_file import keys_of
from shoal.spider.declared.url_patterns import url_pattern
from shoal.spider.declared.validating import Problem

_NAME_SHOWN = 40


def _checked(check: Callable[[str], str], text: str, at: Path) -> Iterator[Problem]:
    if said := check(text):
        yield Problem(at, said)


def css_problems(text: str, at: Path) -> Iterator[Problem]:
    yield from _checked(no_css, text, at)


def xpath_problems(text: str, at: Path) -> Iterator[Problem]:
    yield from _checked(_no_xpath, text, at)


def path_problems(text: str, at: Path) -> Iterator[Problem]:
    yield from _checked(_no_path, text, at)


def data_problems(text: str, at: Path) -> Iterator[Problem]:
    kind, _, rest = text.partition(".")
    if not re.fullmatch(r"\w+", kind):
        yield Problem(at, f'"{text}" begins with no kind of record: write it as in "product.price"')
    yield from path_problems(rest, at)


def pattern_problems(given: str | list[str], at: Path) -> Iterator[Problem]:
    for number, text in enumerate(keys_of(given)):
        try:
            url_pattern(text)
        except ValueError as error:
            yield Problem((*at, number) if isinstance(given, list) else at, str(error))


def regex_problems(text: str, at: Path) -> Iterator[Problem]:
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
