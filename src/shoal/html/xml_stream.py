"""Reads XML piece by piece, as sitemaps and feeds are found: one element of a list at a time, whatever is broken.

Nothing is built but the element that is being read, so a document may be larger than memory. Document types are passed
over and entities are not defined, so there is nothing to expand and nothing to load. Unescaped "&", tags that are never
closed, missing roots and undeclared prefixes are read as they are meant. Every character is looked at a few times at
most.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from html import unescape

from shoal.html.xml_base import OpenBases, inner_base
from shoal.limits import ENTRY_ELEMENTS, ENTRY_TEXT

_TAG_LENGTH = 64 * 1024  # characters of a tag. Beyond: it is none
_DEPTH = 32  # elements in one another. Beyond: passed over
_PREFIXES = 100  # that a document may declare
_ATTRIBUTES = 50  # of an element

_TAG = re.compile(
    r"""<(/?)([^\s/><!?"'=][^\s/><"'=]*+)((?:[^"'<>]++|"[^"<]*+"|'[^'<]*+')*+)>"""
    r"""|<(/?)([^\s/><!?"'=][^\s/><"'=]*+)([^<>]*+)>"""  # with a quote that is never closed
)
# It begins where a word does: without that, a search in a long word would begin at each of its characters.
_ATTRIBUTE = re.compile(r"""(?<![^\s=/"'])([^\s=/"']++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'/>]++))""")
_REFERENCE_LENGTH = 34
_REFERENCE = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});")
_PIECE = ("piece", "", "")
_SPECIAL = ("!", "?")
_BASE = "xml:base"
_CDATA = "<![CDATA["
_SECTIONS = {"<!--": "-->", _CDATA: "]]>", "<?": ">"}

# What the prefixes of these namespaces are called here, whatever the document calls them. "": no prefix.
_NAMESPACES = {
    "www.sitemaps.org/schemas/sitemap/0.9": "",
    "www.google.com/schemas/sitemap/0.84": "",
    "www.google.com/schemas/sitemap/0.90": "",
    "www.google.com/schemas/sitemap-image/1.1": "image",
    "www.google.com/schemas/sitemap-news/0.9": "news",
    "www.google.com/schemas/sitemap-video/1.1": "video",
    "www.w3.org/1999/xhtml": "xhtml",
    "www.w3.org/2005/atom": "atom",
    "purl.org/atom/ns#": "atom",
    "purl.org/rss/1.0/": "",
    "my.netscape.com/rdf/simple/0.9/": "",
    "www.w3.org/1999/02/22-rdf-syntax-ns#": "rdf",
    "purl.org/dc/elements/1.1/": "dc",
    "purl.org/dc/terms/": "dcterms",
}


class Element:
    """An element with its text and children, of which there are no more than a list's entry needs."""

    __slots__ = ("attributes", "children", "name", "text")

    def __init__(self, name: str, attributes: dict[str, str]) -> None:
        self.name = name  # in lower case, with the usual prefix: "image:loc"
        self.attributes = attributes
        self.text = ""
        self.children: list[Element] = []

    def __repr__(self) -> str:
        return f"<Element {self.name}: {len(self.children)} children>"

    def first(self, *names: str) -> str:
        """The text of the first child with one of the names that has any."""
        for name in names:
            for child in self.children:
                if child.name == name and (text := child.text.strip()):
                    return text
        return ""

    def all(self, name: str) -> list[Element]:
        return [child for child in self.children if child.name == name]


class XmlStream:
    """The elements of a document that are entries of a list, one after the other.

    `entries`: their names, by the name of the root; "" are those of a document without one. `root` is known with the
    first element, `base` holds for the URLs of the entry that was given last (`xml_base.py`), `cut` counts elements
    that were too large or too deep.
    """

    def __init__(self, pieces: Iterable[str], entries: Mapping[str, Collection[str]]) -> None:
        self._pieces = iter(pieces)
        self._entries = entries
        self._names: Collection[str] = ()
        self._prefixes: dict[str, str] = {}
        self._own = ""  # the prefix of the root
        self._stack: list[Element] = []  # what is open, from the entry on
        self._size = self._skipped = 0  # elements of this entry; those that are open and passed over
        self._cut_here = False
        self._around = OpenBases()  # those of elements that are no part of an entry
        self.root = ""
        self.base = ""
        self.cut = 0

    def __iter__(self) -> Iterator[Element | None]:
        """None stands for a piece that was read: a document may have many without an entry."""
        for kind, name, text in _tokens(self._pieces):
            if kind == "text":
                self._add_text(name)
            elif kind == "piece":
                yield None
            elif kind == "end":
                if (done := self._close(self._named(name))) is not None:
                    yield done
            else:
                yield from self._open(name, text)
        if len(self._stack) > 1:  # the document ends within an element, and perhaps within its text
            self._stack[0].children.remove(self._stack[1])
            self._count_cut()
        yield from self._flush()

    def _flush(self) -> Iterator[Element]:
        if self._stack:
            done, self._stack = self._stack[0], []
            yield done

    def _open(self, name: str, text: str) -> Iterator[Element]:
        is_empty = text.endswith("/")
        attributes = self._attributes(text) if text and text != "/" else {}
        if not self.root or (not self._names and self.root != "html" and self._named(name) in self._entries):
            self._begin(name)
            if self._named(name) not in self._names:
                self._around.open(self._named(name), attributes.get(_BASE, ""))
                return
        named = self._named(name)
        if named in self._names and (not self._stack or self._stack[0].name == named):
            yield from self._flush()  # one that was never closed
            self._size, self._skipped, self._cut_here = 0, 0, False
            self.base = inner_base(self._around.current, attributes.get(_BASE, ""))
        elif not self._stack:
            if not is_empty:
                self._around.open(named, attributes.get(_BASE, ""))
            return
        elif len(self._stack) + self._skipped >= _DEPTH or self._size >= ENTRY_ELEMENTS:
            self._count_cut()
            self._skipped += not is_empty
            return
        element = Element(named, attributes)
        self._size += 1
        if self._stack:
            self._stack[-1].children.append(element)
        self._stack.append(element)
        if is_empty and (done := self._close(named)) is not None:
            yield done

    def _begin(self, name: str) -> None:
        self._own = self._prefix(name)
        self.root = self._named(name)
        self._names = self._entries.get(self.root, ())
        if not self._names and self.root in self._entries.get("", ()):
            self._names = self._entries[""]

    def _close(self, name: str) -> Element | None:
        """The entry, if this closes it. An end that nothing in it begins may be that of an element around it."""
        stack = self._stack
        if stack and self._skipped and name != stack[0].name:
            self._skipped -= 1
            return None
        for at in range(len(stack) - 1, -1, -1):
            if stack[at].name == name:
                del stack[max(at, 1) :]
                if at:
                    return None
                return stack.pop()
        self._around.close(name)
        return None

    def _add_text(self, text: str) -> None:
        if self._stack and not self._skipped:
            element = self._stack[-1]
            room = ENTRY_TEXT - len(element.text)
            if len(text) > room:
                self._count_cut()
                text = text[: max(0, room)]
            element.text = element.text + text if element.text else text

    def _count_cut(self) -> None:
        """Once an entry."""
        self.cut += not self._cut_here
        self._cut_here = True

    # -- names

    def _attributes(self, text: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for match in _ATTRIBUTE.finditer(text):
            name, value = match[1].lower(), _unescaped(match[2] or match[3] or match[4] or "")
            if name == "xmlns" or name.startswith("xmlns:"):
                self._declare(name[6:], value)
            elif len(found) < _ATTRIBUTES:
                found.setdefault(name, value[:ENTRY_TEXT])
        return found

    def _declare(self, prefix: str, uri: str) -> None:
        uri = uri.strip().lower().removeprefix("http://").removeprefix("https://")
        known = _NAMESPACES.get(uri, _NAMESPACES.get(uri.rstrip("/")))
        # Only the root says what names without a prefix mean: an entry's <div xmlns="…xhtml"> is nothing but a <div>.
        if known is not None and len(self._prefixes) < _PREFIXES and (prefix or not self.root):
            self._prefixes.setdefault(prefix, known)

    def _prefix(self, name: str) -> str:
        prefix = name.rpartition(":")[0].lower()
        return self._prefixes.get(prefix, prefix)

    def _named(self, name: str) -> str:
        name = name.lower()
        if ":" not in name:
            return name
        prefix, _, local = name.rpartition(":")
        prefix = self._prefixes.get(prefix, prefix)
        return local if prefix in ("", self._own) else f"{prefix}:{local}"


def _tokens(pieces: Iterator[str]) -> Iterator[tuple[str, str, str]]:
    """("start", name, attributes), ("end", name, "") and ("text", text, ""); ("piece", "", "") where one ends."""
    rest, at = next(pieces, ""), 0
    while True:
        begin = rest.find("<", at)
        if begin < 0:
            piece = next(pieces, None)
            kept = _half_reference(rest[at:]) if piece is not None else ""
            yield "text", _unescaped(rest[at : len(rest) - len(kept)]), ""
            if piece is None:
                return
            rest, at = kept + piece, 0
            yield _PIECE
            continue
        if begin > at:
            yield "text", _unescaped(rest[at:begin]), ""
        at = begin
        tag = None if rest[begin + 1 : begin + 2] in _SPECIAL else _TAG.match(rest, begin)
        if tag is not None:
            at = tag.end()
            end, name, attributes = tag.group(1, 2, 3) if tag[2] else tag.group(4, 5, 6)
            yield ("end", name, "") if end else ("start", name, attributes)
        elif _may_go_on(rest, begin) and (piece := next(pieces, None)) is not None:
            rest, at = rest[begin:] + piece, 0
            yield _PIECE
        elif rest[begin + 1 : begin + 2] in _SPECIAL:
            is_text = rest.startswith(_CDATA, begin)
            for new, at, inside in _special(rest, begin, pieces):  # noqa: B007
                if new is not rest:
                    yield _PIECE
                    rest = new
                if is_text and inside:
                    yield "text", inside, ""
        else:
            yield "text", "<", ""
            at = begin + 1


def _half_reference(text: str) -> str:
    """The beginning of a reference at the end of a piece."""
    half = text.rfind("&", -_REFERENCE_LENGTH)
    return "" if half < 0 or ";" in text[half:] else text[half:]


def _may_go_on(rest: str, begin: int) -> bool:
    """Whether the next piece may have the end of this tag, or show what it is."""
    if len(rest) - begin < len(_CDATA):
        return True
    # Looked for one after the other: "<<<<" would be searched to its end for every "<".
    if rest[begin + 1] in _SPECIAL or len(rest) - begin > _TAG_LENGTH:
        return False
    return rest.find("<", begin + 1) < 0 and rest.find(">", begin + 1) < 0


def _special(rest: str, begin: int, pieces: Iterator[str]) -> Iterator[tuple[str, int, str]]:
    """What is no tag: the text that is left after each part of it, the position there, and the part."""
    for opening, end in _SECTIONS.items():
        if rest.startswith(opening, begin):
            return _section(rest, begin + len(opening), end, pieces)
    if rest[begin : begin + len(_CDATA)].lower() == "<!doctype":
        return _doctype(rest, begin + len(_CDATA), pieces)
    return _section(rest, begin + 2, ">", pieces)  # a comment that is misspelt


def _section(rest: str, at: int, end: str, pieces: Iterator[str]) -> Iterator[tuple[str, int, str]]:
    """A comment, an instruction or CDATA."""
    while True:
        found = rest.find(end, at)
        if found >= 0:
            yield rest, found + len(end), rest[at:found]
            return
        kept = min(len(end) - 1, len(rest) - at)  # the end may be in two pieces
        inside = rest[at : len(rest) - kept]
        piece = next(pieces, None)
        if piece is None:
            yield "", 0, rest[at:]
            return
        rest, at = rest[len(rest) - kept :] + piece, 0
        yield rest, at, inside


def _doctype(rest: str, at: int, pieces: Iterator[str]) -> Iterator[tuple[str, int, str]]:
    """Its end is the first ">" that is not in brackets, quotes, comments or instructions."""
    depth, end = 0, ""  # brackets that are open; what ends the part that is passed over
    while True:
        if end:
            found = rest.find(end, at)
            if found >= 0:
                at, end = found + len(end), ""
                continue
            kept = max(at, len(rest) - len(end) + 1)  # the end may be in two pieces
        elif sign := _DOCTYPE_SIGN.search(rest, at):
            at = sign.end()
            if sign[0] in _DOCTYPE_ENDS:
                end = _DOCTYPE_ENDS[sign[0]]
            elif sign[0] != ">":
                depth += 1 if sign[0] == "[" else -1
            elif depth <= 0:
                yield rest, at, ""
                return
            continue
        else:
            half = rest.rfind("<", max(at, len(rest) - _DOCTYPE_HALF))  # so may a sign
            kept = half if half >= 0 else len(rest)
        piece = next(pieces, None)
        if piece is None:
            yield "", 0, ""
            return
        rest, at = rest[kept:] + piece, 0
        yield rest, at, ""


_DOCTYPE_SIGN = re.compile(r"""<!--|<\?|[\[\]>"']""")
_DOCTYPE_ENDS = {"<!--": "-->", "<?": "?>", '"': '"', "'": "'"}
_DOCTYPE_HALF = len("<!-")


def _unescaped(text: str) -> str:
    """The text with the characters that references stand for. "&" alone is "&", and "&copy=1" no sign: those stand in
    URLs."""
    if "&" not in text:
        return text
    return _REFERENCE.sub(lambda found: unescape(found[0]), text)
