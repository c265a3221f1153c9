"""Links of a page and the absolute URLs they mean; numbered pages; queries in a legacy encoding."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, unquote_plus

import ada_url
from selectolax.lexbor import LexborHTMLParser, LexborNode

from shoal.html.decoding import NOT_DECODED, USER_DEFINED
from shoal.html.encoding import encode
from shoal.html.xml import XmlNode

# The tags that link to other pages, and the attribute.
_LINKS = (("a", "href"), ("area", "href"), ("iframe", "src"), ("frame", "src"))

# "5; url=/next", as the HTML standard reads it: the word "url" may be missing, and a blank may stand for the semicolon.
_REFRESH = re.compile(
    r"[\t\n\f\r ]*+[0-9.]++(?=[\t\n\f\r ;,])[\t\n\f\r ]*+[;,]?+[\t\n\f\r ]*+"
    r"(?:url[\t\n\f\r ]*+=[\t\n\f\r ]*+)?+(.+)",
    re.IGNORECASE | re.DOTALL,
)


def targets_in(tree: LexborHTMLParser) -> list[str]:
    """The link targets of a page: links, areas of image maps, frames, and <meta> refreshes."""
    targets = [
        target
        for tag, attribute in _LINKS
        for node in tree.tags(tag)
        if (target := node.attributes.get(attribute))
    ]
    return targets + [target for node in tree.tags("meta") if (target := _refresh_of(node))]


def _refresh_of(node: LexborNode) -> str | None:
    attributes = node.attributes
    if (attributes.get("http-equiv") or "").lower() != "refresh":
        return None
    found = _REFRESH.match(attributes.get("content") or "")
    if found is None:
        return None
    target = found[1]
    quote = target[0]
    return target[1:].partition(quote)[0] if quote in "\"'" else target


def target_of(node: LexborNode | XmlNode) -> str | None:
    """The href or src of an element, as written."""
    if isinstance(node, XmlNode):
        return node.target
    attributes = node.attributes
    return attributes.get("href") or attributes.get("src")


def document_base(tree: LexborHTMLParser, url: str) -> str:
    """The base of relative links: the page's URL unless <base href> says otherwise."""
    for node in tree.tags("base"):
        href = node.attributes.get("href")
        if href is not None:
            return join(url, href) or url
    return url


def join(base: str, target: str) -> str | None:
    """The absolute http(s) URL; None if there is none (mailto:, javascript:, junk)."""
    try:
        url = ada_url.join_url(base, target)
    except (ValueError, UnicodeError):
        return None
    return url if url.startswith(("http://", "https://")) else None


def absolute(base: str, targets: Iterable[str]) -> list[str]:
    """The targets as absolute URLs, each once, in order; targets that are not http(s) are dropped."""
    urls = dict.fromkeys(join(base, target) for target in targets)
    return [url for url in urls if url is not None]


# -- numbered pages


# "12", "1,234", "1.234" and "1 234" (with a no-break space) are one number each.
_NUMBER = re.compile(r"[0-9]{1,3}(?:[,.'’\u00a0\u202f][0-9]{3}){1,4}(?![0-9])|[0-9]{1,15}")
_NOT_DIGIT = re.compile(r"[^0-9]")


def largest_number(text: str) -> int | None:
    """The largest whole number in a text such as "Page 1 of 1,234"."""
    numbers = [int(_NOT_DIGIT.sub("", found)) for found in _NUMBER.findall(text)]
    return max(numbers, default=None)


def page_urls(url: str, param: str, first: int, total: int) -> Iterator[str]:
    """The URLs of the second to the last page, whose number is in `param` and counts from `first`.

    None for other pages than the first: otherwise every page would queue all others.
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
    """The URL with the parameter set, the rest of its query unchanged, and without the fragment."""
    path, _, query = url.partition("#")[0].partition("?")
    changed = f"{quote(param)}={quote(value)}"
    pairs = [pair for pair in query.split("&") if pair]
    kept = [changed if unquote_plus(pair.partition("=")[0]) == param else pair for pair in pairs]
    if changed not in kept:
        kept.append(changed)
    return f"{path}?{'&'.join(kept)}"


# -- Queries of links on pages in a legacy encoding: sent in that encoding, as browsers do (WHATWG URL, "percent-encode
# after encoding"). The rest of a URL is always UTF-8.


_FOREIGN = re.compile("[^\x00-\x7f]+")
# Bytes that a query may not hold as they are. Some encodings write characters with bytes of ASCII, which it may.
_ESCAPED = {byte: f"%{byte:02X}" for byte in (*range(0x21), *b"\"#'<>", *range(0x7F, 0x100))}
_SURROGATE = re.compile("[\ud800-\udfff]")
_REFERENCE = "%26%23{}%3B"
# What the parser of URLs takes out, and at the end of one.
_LINE_ENDS = str.maketrans("", "", "\t\n\r")
_BLANKS = "".join(map(chr, range(0x21)))


def is_legacy(codec: str) -> bool:
    """Whether queries are sent in the page's encoding. From UTF-16, and from what Python cannot write, as UTF-8."""
    return not codec.startswith("utf") and codec not in (NOT_DECODED, USER_DEFINED)


def in_encoding(link: str, codec: str) -> str:
    """The link with its query in the page's encoding. What that cannot write becomes a character reference."""
    if link.isascii():
        return link
    head, mark, rest = link.partition("?")
    if not mark or "#" in head:
        return link
    query, hash_, fragment = rest.partition("#")
    if codec == "iso2022_jp":  # how a character is written depends on those before it
        query = query.translate(_LINE_ENDS)
        query = _escaped(query if hash_ else query.rstrip(_BLANKS), codec)
    else:
        query = _FOREIGN.sub(lambda found: _escaped(found[0], codec), query)
    return f"{head}?{query}{hash_}{fragment}"


def in_bytes(text: str, codec: str) -> bytes:
    """A form's text in the page's encoding. What that cannot write becomes a character reference."""
    if not is_legacy(codec):
        return _SURROGATE.sub("\ufffd", text).encode()
    return encode(text, codec)


def _escaped(text: str, codec: str) -> str:
    return encode(text, codec, _REFERENCE).decode("latin-1").translate(_ESCAPED)


# What <meta name="referrer"> called the policies before they had names.
_OLD_POLICIES = {
    "never": "no-referrer",
    "default": "strict-origin-when-cross-origin",
    "always": "unsafe-url",
    "origin-when-crossorigin": "origin-when-cross-origin",
}


def meta_referrer(tree: LexborHTMLParser) -> str:
    """The referrer policies of <meta name="referrer">, in their order, as a header would have them."""
    found = []
    for node in tree.tags("meta"):
        attributes = node.attributes
        if (attributes.get("name") or "").strip().lower() == "referrer":
            value = (attributes.get("content") or "").strip().lower()
            if "," not in value:  # a list is for the header only
                found.append(_OLD_POLICIES.get(value, value))
    return ",".join(found)
