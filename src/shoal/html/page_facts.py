"""What an audit or a search index asks of a page besides its text: headings, images, alternates, meta tags. Pure.

A page may have a million of anything, and elements that lie in one another. So every list has an end, and all texts of
a page together are read within one budget of steps (`Reader`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from selectolax.lexbor import LexborHTMLParser, LexborNode

from shoal.html.link_header import links_in
from shoal.html.page_links import join
from shoal.html.visible_text import squeeze
from shoal.limits import ROW_META, SHORT_TEXT, SHORT_TEXT_STEPS

_STEPS_EACH = 1_000  # elements and texts that are looked at for one short text
_META_VALUE = 1_000  # characters
_UNSEEN = frozenset({"script", "style", "template"})

# Every ideograph and kana counts as a word, as in word processors; elsewhere, what stands between blanks and has a
# letter or a digit in it.
_IDEOGRAPH = "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"
_WORDY = re.compile(r"\w")


class Reader:
    """Reads short texts of a page. When its steps are used up they are empty, and `cut` is True."""

    def __init__(self, steps: int = SHORT_TEXT_STEPS) -> None:
        self._left = steps
        self.cut = False

    def text(self, node: LexborNode) -> str:
        """The text of a link or a heading; of pictures in it, what they say instead."""
        pieces: list[str] = []
        length = 0
        for piece in self._pieces(node):
            pieces.append(piece)
            length += len(piece)
            if length > 4 * SHORT_TEXT:
                break
        return short("".join(pieces))

    def _pieces(self, top: LexborNode) -> Iterator[str]:
        ancestors: list[LexborNode] = []
        node, steps = top.first_child, 0
        while node is not None:
            steps += 1
            self._left -= 1
            if steps > _STEPS_EACH or self._left < 0:
                self.cut = True
                return
            tag = node.tag
            if tag == "-text":
                yield (node.text_content or "")[: 8 * SHORT_TEXT]
            elif tag == "img":
                yield f" {(node.attributes.get('alt') or '')[:SHORT_TEXT]} "
            elif tag == "br":
                yield " "
            child = None if tag in _UNSEEN else node.first_child
            if child is not None:
                ancestors.append(node)
                node = child
                continue
            while (following := node.next) is None and ancestors:
                node = ancestors.pop()
            node = following


def short(text: str) -> str:
    return squeeze(text[: 8 * SHORT_TEXT])[:SHORT_TEXT]


def headings(nodes: Iterable[LexborNode], reader: Reader, most: int) -> Iterator[dict[str, str | int]]:
    """The headings among these elements, in their order: the outline of the page."""
    for node in nodes:
        if most <= 0:
            reader.cut = True
            return
        most -= 1
        yield {"level": int((node.tag or "h0")[1:]), "text": heading_text(node, reader)}


def heading_text(node: LexborNode, reader: Reader) -> str:
    """Without the sign by which documentation links to its headings."""
    return reader.text(node).removesuffix("¶").rstrip()


def images(tree: LexborHTMLParser, base: str) -> Iterator[dict[str, str | None]]:
    """Their URLs, and what is said instead of them: None if nothing is said, which is not the same as ""."""
    for node in tree.tags("img"):
        attributes = node.attributes
        source = attributes.get("src") or attributes.get("data-src")
        if source and (url := join(base, source)):
            alt = attributes.get("alt", _NONE)
            yield {"src": url, "alt": None if alt is _NONE else short(alt or "")}


_NONE = "\0"  # no attribute has it


def meta_tags(tree: LexborHTMLParser) -> dict[str, str]:
    """The values of <meta name> and <meta property>, OpenGraph among them; of several of a name, the first."""
    found: dict[str, str] = {}
    for node in tree.tags("meta"):
        attributes = node.attributes
        name = squeeze(attributes.get("name") or attributes.get("property") or "").lower()
        if name and len(name) <= 100 and attributes.get("content") and name not in found:
            if len(found) >= ROW_META:
                break
            found[name] = squeeze((attributes["content"] or "")[: 2 * _META_VALUE])[:_META_VALUE]
    return found


def canonical_in(tree: LexborHTMLParser, base: str) -> str | None:
    """The URL that the page calls its own, by <link rel="canonical">."""
    for node in tree.tags("link"):
        attributes = node.attributes
        if "canonical" in (attributes.get("rel") or "").lower().split():
            return join(base, attributes.get("href") or "") if attributes.get("href") else None
    return None


def declared_canonical(tree: LexborHTMLParser, base: str, link_headers: Iterable[str] = ()) -> str | None:
    """The URL that the page calls its own, by Google's rules: in the head or the header Link, since readers may write
    into the body; none if several are named that differ."""
    found = {
        join(base, href)
        for node in tree.tags("link")
        if "canonical" in (node.attributes.get("rel") or "").lower().split()
        and (href := node.attributes.get("href"))
        and node.parent is not None
        and node.parent.tag == "head"
    }
    return _only(found | _canonicals_in_header(link_headers, base))


def header_canonical(link_headers: Iterable[str], base: str) -> str | None:
    """The same for what is no HTML."""
    return _only(_canonicals_in_header(link_headers, base))


def _canonicals_in_header(link_headers: Iterable[str], base: str) -> set[str | None]:
    return {link.url for link in links_in(link_headers, base) if "canonical" in link.rel}


def _only(found: set[str | None]) -> str | None:
    found = {url.partition("#")[0] for url in found if url is not None}
    return found.pop() if len(found) == 1 else None


def alternates(tree: LexborHTMLParser, base: str, link_headers: Iterable[str] = ()) -> list[tuple[str, str]]:
    """The page in other languages: (language, URL), by <link rel="alternate" hreflang> and the header Link."""
    found: dict[tuple[str, str], None] = {}
    for node in tree.tags("link"):
        attributes = node.attributes
        language, href = (attributes.get("hreflang") or "").strip().lower(), attributes.get("href")
        is_alternate = "alternate" in (attributes.get("rel") or "").lower().split()
        if language and href and is_alternate and (url := join(base, href)):
            found[language[:40], url] = None
    for link in links_in(link_headers, base):
        language = link.parameters.get("hreflang", "").lower()
        if language and "alternate" in link.rel:
            found[language[:40], link.url] = None
    return list(found)


def word_count(text: str) -> int:
    """How many words a text has."""
    ideographs = len(re.findall(_IDEOGRAPH, text))
    rest = re.sub(_IDEOGRAPH, " ", text) if ideographs else text
    return ideographs + sum(1 for word in rest.split() if _WORDY.search(word))
