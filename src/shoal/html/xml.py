"""XML documents, and XPath in HTML, with lxml, which is an extra.

No document types, no entities, no network (`markup_repair.py`), and the same budget of time as for HTML. Slightly
broken documents are read as far as possible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from shoal.html.css import Plan, Source, select
from shoal.html.parsing import stopwatch
from shoal.limits import XML_TAGS

if TYPE_CHECKING:
    from lxml.etree import _Element


_SMALL = 24 * 1024  # bytes
_PIECE = 4 * 1024
_SLOWER = 2  # … than lexbor
_MOST_NAMESPACES = 1_000
_DEFAULT = "_"  # what the default namespace is called in XPath, which has no name for it
# So that a prefix means the same in all feeds, whatever prefix they use.
_WELL_KNOWN = {
    "atom": "http://www.w3.org/2005/Atom",
    "content": "http://purl.org/rss/1.0/modules/content/",
    "dc": "http://purl.org/dc/elements/1.1/",
    "dcterms": "http://purl.org/dc/terms/",
    "g": "http://base.google.com/ns/1.0",
    "georss": "http://www.georss.org/georss",
    "image": "http://www.google.com/schemas/sitemap-image/1.1",
    "itunes": "http://www.itunes.com/dtds/podcast-1.0.dtd",
    "media": "http://search.yahoo.com/mrss/",
    "news": "http://www.google.com/schemas/sitemap-news/0.9",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rss": "http://purl.org/rss/1.0/",
    "sitemap": "http://www.sitemaps.org/schemas/sitemap/0.9",
    "slash": "http://purl.org/rss/1.0/modules/slash/",
    "svg": "http://www.w3.org/2000/svg",
    "sy": "http://purl.org/rss/1.0/modules/syndication/",
    "video": "http://www.google.com/schemas/sitemap-video/1.1",
    "xhtml": "http://www.w3.org/1999/xhtml",
    "xlink": "http://www.w3.org/1999/xlink",
}


def lxml_etree(what: str) -> Any:
    try:
        from lxml import etree
    except ImportError:
        raise ImportError(f"{what} needs lxml: pip install 'shoal[xpath]'") from None
    return etree


class XmlDocument:
    """The document that `page.css` and `page.xpath` search."""

    def __init__(self, xml: bytes, what: str = "reading XML") -> None:
        self._etree = lxml_etree(what)
        self.size = len(xml)
        self.root, self.kept = self._parse(xml)
        if self.kept < self.size:  # once more, for the reason in `parsing._read_in_time`
            self.root, self.kept = max((self.root, self.kept), self._parse(xml), key=itemgetter(1))

    def _parse(self, xml: bytes) -> tuple[_Element | None, int]:
        from shoal.html.attribute_bombs import crowded_tag
        from shoal.html.markup_repair import mend

        mended, is_whole = mend(xml, stopwatch(_SLOWER))
        wanted = mended[: _first_tags(mended)]
        if len(wanted) > _SMALL:
            wanted = wanted[: crowded_tag(wanted)]
        parser = self._etree.XMLParser(
            encoding="utf-8", recover=True, resolve_entities=False, no_network=True, load_dtd=False,
            huge_tree=False, remove_comments=True, remove_pis=True, strip_cdata=True,
        )  # fmt: skip
        read = self._feed(parser, wanted, stopwatch(_SLOWER))
        try:
            root = parser.close()
        except self._etree.XMLSyntaxError:  # there is no element in it
            root = None
        return root, self.size if is_whole and read == len(mended) else min(read, self.size - 1)

    def _feed(self, parser: Any, xml: bytes, is_over: Callable[[int], bool]) -> int:
        """How far the document was read when its time was up, or a limit of the parser reached."""
        for at in range(0, len(xml), _PIECE):
            parser.feed(xml[at : at + _PIECE])
            last = parser.feed_error_log.last_error
            if is_over(at) or (last is not None and last.type_name == "ERR_RESOURCE_LIMIT"):
                return at
        return len(xml)

    @cached_property
    def namespaces(self) -> dict[str, str]:
        """Namespaces by prefix: well-known ones, and those of the document."""
        own = dict[str, str]()
        if self.root is not None:
            for _, (prefix, uri) in self._etree.iterwalk(self.root, events=("start-ns",)):
                if uri:  # "" takes a default namespace back
                    own.setdefault(prefix or _DEFAULT, uri)
                if len(own) >= _MOST_NAMESPACES:
                    break
        return {**_WELL_KNOWN, **own}

    def xpath(self, expression: str, namespaces: Mapping[str, str] | None = None) -> list[Any]:
        if self.root is None:
            return []
        names = {**self.namespaces, **(namespaces or {})}
        try:
            found = self.root.xpath(expression, namespaces=names, smart_strings=False)
        except self._etree.XPathError as error:
            raise ValueError(f"not an XPath expression: {expression!r} ({error})") from None
        return found if isinstance(found, list) else [found]

    @cached_property
    def _elements(self) -> _Elements:
        assert self.root is not None
        return _Elements(self, self.root)

    def css(self, selector: str) -> Iterator[XmlNode]:
        plan = _planned(selector)
        return iter(()) if self.root is None else self._nodes(self._elements, plan)

    def within(self, root: _Element, selector: str) -> Iterator[XmlNode]:
        """As in selectolax: the element itself may match, and its context does not count."""
        return self._nodes(_Elements(self, root), _planned(selector))

    def _nodes(self, elements: _Elements, plan: Plan) -> Iterator[XmlNode]:
        return (XmlNode(self, element) for element in select(elements, plan))

    def text(self) -> str:
        return "" if self.root is None else " ".join(map(str, self.root.itertext()))


def _planned(selector: str) -> Plan:
    from shoal.html.xml_css import planned

    return planned(selector)


def _first_tags(xml: bytes) -> int:
    """The length of the document up to XML_TAGS tags."""
    left = XML_TAGS - xml.count(b"<")
    end = len(xml)
    while left < 0:
        end -= _PIECE
        left += xml.count(b"<", end, end + _PIECE)
    return end


class _Elements(Source["_Element"]):
    """The elements of a document, for selectors."""

    def __init__(self, document: XmlDocument, root: _Element) -> None:
        self._document = document
        self._root = root
        self._all: list[_Element] = list(root.iter("*"))
        self._numbers = {element: number for number, element in enumerate(self._all, 1)}
        # For the parser, "x:y" with an undeclared prefix is one name.
        self._has_bare_prefixes = any(":" in str(element.tag).rpartition("}")[2] for element in self._all)

    def elements(self) -> Iterator[tuple[_Element, int, int, str]]:
        numbers, root = self._numbers, self._root
        for number, element in enumerate(self._all, 1):
            parent = None if element is root else element.getparent()
            yield element, number, 0 if parent is None else numbers[parent], str(element.tag)

    def matching(self, selector: str) -> Iterable[int]:
        from shoal.html.xml_css import matcher

        matches, name = matcher(selector, self._document.namespaces)
        if name is None or self._has_bare_prefixes:
            return [number for number, element in enumerate(self._all, 1) if matches(element)]
        numbers = self._numbers
        return [numbers[element] for element in self._root.iter(f"{{*}}{name}") if matches(element)]


class XmlNode:
    """An element of an XML document, with the interface of HTML nodes."""

    __slots__ = ("_document", "element")

    def __init__(self, document: XmlDocument, element: _Element) -> None:
        self._document = document
        self.element = element  # lxml's

    def __repr__(self) -> str:
        return f"<XmlNode {self.tag}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, XmlNode) and other.element is self.element

    def __hash__(self) -> int:
        return hash(self.element)

    @property
    def tag(self) -> str:
        """The name as written: "link", "media:thumbnail"."""
        return _written(str(self.element.tag), self.element.prefix)

    @property
    def attributes(self) -> dict[str, str]:
        """By name as written: "href", "rdf:about"."""
        prefixes = {uri: prefix for prefix, uri in self.element.nsmap.items() if prefix}
        prefixes[_XML] = "xml"
        return {
            _written(name, prefixes.get(name[1:].partition("}")[0])): value
            for name, value in ((str(name), str(value)) for name, value in self.element.attrib.items())
        }

    def text(self, deep: bool = True, separator: str = "", strip: bool = False) -> str:
        pieces = self.element.itertext() if deep else iter((self.element.text or "",))
        texts = (str(piece) for piece in pieces)
        return separator.join(text.strip() for text in texts) if strip else separator.join(texts)

    def css(self, selector: str) -> list[XmlNode]:
        return list(self._document.within(self.element, selector))

    def css_first(self, selector: str) -> XmlNode | None:
        return next(self._document.within(self.element, selector), None)

    @property
    def parent(self) -> XmlNode | None:
        parent = self.element.getparent()
        return None if parent is None else XmlNode(self._document, parent)

    @property
    def html(self) -> str:
        """The markup, which is XML."""
        data: bytes = lxml_etree("XML").tostring(self.element, encoding="utf-8", with_tail=False)
        return data.decode("utf-8", "replace")  # libxml2 lets half characters pass

    @property
    def target(self) -> str | None:
        """Its link target: href, src or url, or its text if it has no children."""
        for name in ("href", "src", "url"):
            if value := self.element.get(name):
                return str(value).strip()
        text = (self.element.text or "").strip() if not len(self.element) else ""
        return text if text and not any(map(str.isspace, text)) else None


_XML = "http://www.w3.org/XML/1998/namespace"


def _written(name: str, prefix: str | None) -> str:
    local = name.rpartition("}")[2]
    return f"{prefix}:{local}" if prefix else local


# -- XPath in HTML
#
# lxml has the same budget of time as lexbor (`parsing.py`): a document that is not small is first read in pieces. Its
# parser stops at 256 nested elements; only `page.css` sees what is nested deeper.


def evaluate(
    html: bytes, expression: str, namespaces: Mapping[str, str] | None = None
) -> tuple[list[Any], int]:
    """What the expression finds in a UTF-8 document, and how many of its bytes were read.

    A single value (count(), string()) is a list of one.
    """
    try:
        from lxml import etree
        from lxml.html import HTMLParser
    except ImportError:
        raise ImportError("page.xpath() needs lxml: pip install 'shoal[xpath]'") from None
    kept = _affordable(html, lambda: HTMLParser(encoding="utf-8"))
    root = etree.fromstring(html[:kept] or b"<html/>", HTMLParser(encoding="utf-8"))
    if root is None:  # nothing but blanks or comments
        return [], kept
    try:
        found = root.xpath(expression, namespaces=dict(namespaces or {}), smart_strings=False)
    except etree.XPathError as error:
        raise ValueError(f"not an XPath expression: {expression!r} ({error})") from None
    return (found if isinstance(found, list) else [found]), kept


def _affordable(html: bytes, new_parser: Callable[[], Any]) -> int:
    """How many bytes can be parsed in the time of a page."""
    if len(html) <= _SMALL:
        return len(html)
    from shoal.html.attribute_bombs import crowded_tag

    html = html[: crowded_tag(html)]
    kept = _read_in_time(html, new_parser())
    return kept if kept == len(html) else max(kept, _read_in_time(html, new_parser()))


def _read_in_time(html: bytes, parser: Any) -> int:
    is_over = stopwatch(_SLOWER)
    for at in range(0, len(html), _PIECE):
        parser.feed(html[at : at + _PIECE])
        if is_over(at):
            return at
    return len(html)
