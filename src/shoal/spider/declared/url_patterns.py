"""Patterns for URLs as people write them: "/product/*", "https://shop.example/p/*", "re:/p/\\d+". Pure.

* stands for anything. A pattern that begins with a slash is for the path; one with "://" for the whole URL; any other
for host and path. The query counts only if the pattern has a question mark or an equals sign. "re:" begins a regular
expression that is searched in the whole URL.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from msgspec import Struct

_REGEX = "re:"


class UrlPattern(Struct, frozen=True):
    text: str
    regex: re.Pattern[str]
    part: str  # "path", "host", "url" or "any"
    with_query: bool = False

    def fits(self, url: str) -> bool:
        url = url.partition("#")[0]
        if self.part == "any":
            return self.regex.search(url) is not None
        if not self.with_query:
            url = url.partition("?")[0]
        if self.part != "url":
            url = url.partition("://")[2]
        if self.part == "path":
            url = f"/{url.partition('/')[2]}"
        return self.regex.fullmatch(url) is not None

    @property
    def source(self) -> str:
        """The same as a regular expression for a whole URL."""
        inner = self.regex.pattern
        if self.part == "any":
            return f"^(?s:.*?)(?:{inner})"
        before = {"path": "[^:]*+://[^/]*+", "host": "[^:]*+://", "url": ""}[self.part]
        behind = "(?:#.*)?$" if self.with_query else "(?:[?#].*)?$"
        return f"(?s:^{before}(?:{inner}){behind})"


def all_of(*several: Iterable[UrlPattern]) -> list[str]:
    """Regular expressions for URLs that fit at least one pattern of each group; a group without any fits all."""
    groups = [list(group) for group in several]
    looks = ["|".join(pattern.source for pattern in group) for group in groups if group]
    return ["".join(f"(?={look})" for look in looks)] if looks else []


@lru_cache(maxsize=4096)
def url_pattern(text: str) -> UrlPattern:
    """Raises ValueError for what is no pattern."""
    if text.startswith(_REGEX):
        try:
            return UrlPattern(text, re.compile(text.removeprefix(_REGEX)), "any")
        except (re.error, RecursionError, OverflowError) as error:
            raise ValueError(f'not a regular expression: "{text.removeprefix(_REGEX)}" ({error})') from None
    if not text.strip():
        raise ValueError('an empty pattern fits nothing; "*" fits everything')
    part = "url" if "://" in text else "path" if text.startswith("/") else "host"
    if part == "host" and text.startswith("*"):
        part = "url"
    # One star after another would be tried in all ways.
    pieces = [re.escape(piece) for piece in re.split(r"\*+", text)]
    return UrlPattern(text, re.compile(_anything(pieces), re.DOTALL), part, "?" in text or "=" in text)


def _anything(pieces: list[str]) -> str:
    """Each star ends where the next piece first stands: as good as any later place, and no way back is kept."""
    if len(pieces) == 1:
        return pieces[0]
    first, *middle, last = pieces
    return first + "".join(f"(?>.*?{piece})" for piece in middle) + f".*{last}"


def fits_any(patterns: Iterable[UrlPattern], url: str) -> bool:
    return any(pattern.fits(url) for pattern in patterns)
