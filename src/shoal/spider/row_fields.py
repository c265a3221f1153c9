"""The fields that a row without code has on request: setting `row_fields`, option `--row`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Any

from selectolax.lexbor import LexborNode

from shoal.admit.identity import host_key, site
from shoal.html.page_facts import Reader, alternates, heading_text, headings, images, meta_tags, word_count
from shoal.html.page_links import in_encoding, is_legacy, join
from shoal.html.robots_meta import directives
from shoal.limits import ALTERNATES, ROW_HEADINGS, ROW_IMAGES
from shoal.settings import ROW_FIELDS, Settings

if TYPE_CHECKING:
    from shoal.model import Task
    from shoal.spider.page import Page

_FRAMES = (("iframe", "src"), ("frame", "src"))


class RowFields:
    """Adds the fields that the settings name to a row, in the order of ROW_FIELDS."""

    def __init__(self, settings: Settings) -> None:
        asked = {_ALIASES.get(name, name) for name in settings.row_fields}
        self._names = [name for name in ROW_FIELDS if name in asked or "all" in asked]
        self._most_text = settings.max_text
        self._most_links = settings.max_links
        self._longest_url = settings.max_url_length

    def of(self, page: Page) -> dict[str, Any]:
        """A page that is no HTML has those that need no markup; the others are null. `cut` names fields that are not
        whole."""
        facts = _Facts(page, self._most_text, self._most_links, self._longest_url)
        row: dict[str, Any] = {}
        for name in self._names:
            row[name] = _FIELDS[name](facts) if page.is_html or name in _WITHOUT_MARKUP else None
        if facts.reader.cut:
            facts.cut |= {"outlinks", "headings", "h1"} & set(self._names)
        row["cut"] = [name for name in self._names if name in facts.cut] or None
        return row


class _Facts:
    """What several fields of one page need, found once."""

    def __init__(self, page: Page, most_text: int, most_links: int, longest_url: int) -> None:
        self.page = page
        self.reader = Reader()
        self.cut: set[str] = set()
        self._whole: str | None = None
        self._most_text = most_text
        self._most_links = most_links
        self._longest_url = longest_url

    @property
    def whole(self) -> str:
        if self._whole is None:
            self._whole = self.page.text()
        return self._whole

    def text(self) -> str:
        if len(self.whole) > self._most_text:
            self.cut.add("text")
        return self.whole[: self._most_text]

    def outlinks(self) -> list[dict[str, Any]]:
        page = self.page
        here, base, codec = site(host_key(page.url)), page.base, page.codec
        legacy = is_legacy(codec)
        links: list[dict[str, Any]] = []
        for node, target in _linking(page):
            url = join(base, in_encoding(target, codec) if legacy else target)
            if url is None:
                continue
            if len(links) >= self._most_links or len(url) > self._longest_url:
                self.cut.add("outlinks")
                if len(links) >= self._most_links:
                    break
                continue
            rel = " ".join((node.attributes.get("rel") or "").lower().split())[:200]
            internal = site(host_key(url)) == here
            links.append({"url": url, "text": self.reader.text(node), "rel": rel, "internal": internal})
        return links

    def headings(self) -> list[dict[str, str | int]]:
        found = self.page.css("h1, h2, h3, h4, h5, h6")
        nodes = (node for node in found if isinstance(node, LexborNode))
        return list(headings(nodes, self.reader, ROW_HEADINGS))

    def images(self) -> list[dict[str, str | None]]:
        return self.first("images", images(self.page.tree, self.page.base), ROW_IMAGES)

    def first(self, name: str, found: Iterable[Any], most: int) -> list[Any]:
        """As many as a row may have."""
        taken = list(islice(found, most + 1))
        if len(taken) > most:
            self.cut.add(name)
        return taken[:most]


def _linking(page: Page) -> Iterable[tuple[LexborNode, str]]:
    for tag, attribute in (("a", "href"), ("area", "href"), *_FRAMES):
        for node in page.tree.tags(tag):
            if target := node.attributes.get(attribute):
                yield node, target


def _h1(facts: _Facts) -> str | None:
    nodes = facts.page.tree.tags("h1")
    return heading_text(nodes[0], facts.reader) or None if nodes else None


def header_values(headers: Mapping[str, str], name: str) -> Sequence[str]:
    """All lines of a header."""
    getall = getattr(headers, "getall", None)
    if getall is not None:
        return list(getall(name, ()))
    value = headers.get(name)
    return [] if value is None else [value]


def _hreflang(facts: _Facts) -> list[dict[str, str]]:
    page = facts.page
    found = alternates(page.tree, page.base, header_values(page.headers, "Link"))
    return facts.first("hreflang", ({"lang": lang, "url": url} for lang, url in found), ALTERNATES)


def _robots(facts: _Facts) -> list[str]:
    page = facts.page
    return directives(header_values(page.headers, "X-Robots-Tag"), page.tree if page.is_html else None)


def _redirects(facts: _Facts) -> list[str]:
    task: Task = facts.page.task
    return list(task.hops)


_ALIASES = {"links": "outlinks"}  # `links` is their number, in every row
_WITHOUT_MARKUP = frozenset({"robots", "redirects"})
_FIELDS: Mapping[str, Callable[[_Facts], Any]] = {
    "h1": _h1,
    "headings": lambda facts: facts.headings(),
    "text": lambda facts: facts.text(),
    "word_count": lambda facts: word_count(facts.whole),
    # Of the whole text, however much of it the row has. Blanks and line breaks of the markup make no difference.
    "content_hash": lambda facts: sha256(facts.whole.encode("utf-8", "replace")).hexdigest(),
    "outlinks": lambda facts: facts.outlinks(),
    "images": lambda facts: facts.images(),
    "hreflang": _hreflang,
    "meta": lambda facts: meta_tags(facts.page.tree),
    "robots": _robots,
    "redirects": _redirects,
}
