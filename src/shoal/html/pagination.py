"""Numbered pages: how many there are, and their URLs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote, unquote_plus

# "12", "1,234", "1.234" and "1 234" (with a no-break space) are one number each.
_NUMBER = re.compile(r"[0-9]{1,3}(?:[,.'’\u00a0\u202f][0-9]{3}){1,4}(?![0-9])|[0-9]{1,15}")
_NOT_DIGIT = re.compile(r"[^0-9]")


def largest_number(text: str) -> int | None:
    """The largest whole number in a text such as "Page 1 of 1,234"."""
    numbers = [int(_NOT_DIGIT.sub("", found)) for found in _NUMBER.findall(text)]
    return max(numbers, default=None)


def page_urls(url: str, param: str, first: int, total: int) -> Iterator[str]:
    """The URLs of the second page to the last, in which `param` counts from `first`.

    Only the first page answers: if every page named all the others, each would be queued as often as there are pages.
    """
    current = query_value(url, param)
    if current is not None and current != str(first):
        return
    for number in range(first + 1, first + total):
        yield with_query_value(url, param, str(number))


def query_value(url: str, param: str) -> str | None:
    """The value of a query parameter; None if it is absent."""
    query = url.partition("#")[0].partition("?")[2]
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        if unquote_plus(name) == param:
            return unquote_plus(value)
    return None


def with_query_value(url: str, param: str, value: str) -> str:
    """The URL with the parameter set, everything else in its query as it was, and without the fragment."""
    path, _, query = url.partition("#")[0].partition("?")
    changed = f"{quote(param)}={quote(value)}"
    pairs = [pair for pair in query.split("&") if pair]
    kept = [changed if unquote_plus(pair.partition("=")[0]) == param else pair for pair in pairs]
    if changed not in kept:
        kept.append(changed)
    return f"{path}?{'&'.join(kept)}"
