"""The Link header (RFC 8288): what an answer says about other pages, beside its body. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from shoal.html.page_links import join

_LONGEST = 64 * 1024  # characters that are read
_MOST = 1_000  # links
_TARGET = re.compile(r"<([^<>]*+)>")
_BETWEEN = re.compile(r"[\s,]*+")
_PARAMETER = re.compile(
    r"""\s*+;\s*+(?:([^\s=;,"<>]++)\s*+(?:=\s*+(?:"((?:[^"\\]++|\\.)*+)"|([^\s;,"<>]*+)))?+)?+"""
)
_ESCAPED = re.compile(r"\\(.)")


class HeaderLink(Struct, frozen=True):
    """A link of an answer: where to, how the two are related ("next", "alternate" …), and what else is said."""

    url: str
    rel: tuple[str, ...]  # in lower case
    parameters: dict[str, str] = {}


def read_links(headers: Mapping[str, str], base: str) -> list[HeaderLink]:
    """The links of an answer."""
    getall = getattr(headers, "getall", None)
    return links_in(getall("Link", ()) if getall else [headers.get("Link", "")], base)


def links_in(values: Iterable[str], base: str) -> list[HeaderLink]:
    """The links in Link headers. What cannot be read is passed over."""
    found = list[HeaderLink]()
    for value in values:
        for target, parameters in _parsed(value[:_LONGEST]):
            # The link of a page about another one ("anchor") says nothing about this one.
            url = join(base, target)
            if url is not None and len(found) < _MOST and "anchor" not in parameters:
                rel = tuple(parameters.pop("rel", "").lower().split())
                found.append(HeaderLink(url, rel, parameters))
    return found


def linked(headers: Mapping[str, str], base: str, rel: str) -> list[str]:
    """The URLs of the links with that relation, each once."""
    wanted = rel.lower()
    return list(dict.fromkeys(link.url for link in read_links(headers, base) if wanted in link.rel))


def _parsed(value: str) -> Iterator[tuple[str, dict[str, str]]]:
    at = 0
    while (between := _BETWEEN.match(value, at)) is not None and (at := between.end()) < len(value):
        target = _TARGET.match(value, at)
        if target is None:  # junk, up to the next comma that may begin a link
            found = value.find(",", at + 1)
            if found < 0:
                return
            at = found
            continue
        at, parameters = target.end(), dict[str, str]()
        while (found_one := _PARAMETER.match(value, at)) is not None:
            at = found_one.end()
            name, quoted, plain = found_one.groups()
            if name:
                text = _ESCAPED.sub(r"\1", quoted) if quoted is not None else plain or ""
                parameters.setdefault(name.lower(), text)  # the first one counts
        yield target[1].strip(), parameters
