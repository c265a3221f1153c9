"""The elements of a page in a flat list, with what a guess goes by: names, zones, lengths. One walk, bounded."""

from __future__ import annotations

import re
from functools import cached_property
from itertools import islice

from msgspec import Struct
from selectolax.lexbor import LexborNode

from shoal.spider.page import Page

MOST_ELEMENTS = 20_000  # of a page; those behind them are not looked at
_LEAST_TITLE = 4  # characters of a heading
_TITLES = 500  # elements that are compared with the title
_TAG = re.compile(r"[a-z][a-z0-9-]{0,40}")
_NAME = 200  # characters of ids and classes that are looked at
_UNSEEN = frozenset(("script", "style", "template", "noscript", "head", "svg", "select", "option"))
_OLD = re.compile(
    r"\b(?:old|was|before|regular|list|rrp|msrp|strike|striked|crossed|compare|original|line-through|statt|alt|ancien|tachado)\b"
)
_OLD_LABEL = re.compile(
    r"(?:old|was|before|regular|list|rrp|msrp|strike|crossed|compare|original)[-_]?price|line-through"
)
_OTHER = re.compile(
    r"related|recommend|upsell|cross-?sell|similar|carousel|basket|cart(?!_button)|wishlist|announcement|banner|breadcrumb|cookie"
    r"|newsletter|minicart|footer|header(?!.*product)|navbar|menu|review"
)
_STATES = ("with-", "has-", "is-", "on-")  # "with-list-price" is beside one, and is none
_BESIDE = re.compile(r"unit|tax|instal|shipping|per-|monthly|saving|discount|deposit")


class Spot(Struct):
    """One element."""

    node: LexborNode
    place: int
    parent: int  # place of the parent; -1: none
    tag: str
    names: str  # id and classes, in lower case
    is_old: bool  # inside what is crossed out
    is_other: bool  # inside what is about other things: headers, recommendations, the basket
    is_beside: bool  # inside what is about another amount: taxes, instalments
    length: int = 0  # characters of the text in it
    has_digit: bool = False  # in a text of its own
    children: int = 0
    holds_old: bool = False  # something in it is crossed out, and it is not itself


class Outline:
    def __init__(self, page: Page) -> None:
        self.page = page
        self.spots: list[Spot] = []
        self._places: dict[int, int] = {}
        self.is_cut = False
        root = page.tree.body if page.is_html else None
        if root is not None:
            self._walk(root)
            self._measure()

    def spot_of(self, node: LexborNode) -> Spot | None:
        place = self._places.get(node.mem_id)
        return None if place is None else self.spots[place]

    @cached_property
    def heading(self) -> int:
        """The place of the main heading: the first h1, else what the title of the page begins with; -1: none."""
        first = next((spot.place for spot in self.spots if spot.tag == "h1" and spot.length), -1)
        title = self.page.text("title") if first < 0 else ""
        if len(title) < _LEAST_TITLE:
            return first
        short = (
            spot for spot in self.spots if _LEAST_TITLE <= spot.length <= len(title) and not spot.is_other
        )
        return next((spot.place for spot in islice(short, _TITLES) if title.startswith(self.text(spot))), -1)

    def text(self, spot: Spot) -> str:
        """Of an element whose `length` was found to be small."""
        return " ".join(spot.node.text(separator="").split())

    def _walk(self, root: LexborNode) -> None:
        for node in root.traverse(include_text=True):
            parent = node.parent
            above = self._places.get(parent.mem_id, -1) if parent is not None else -1
            if node.tag == "-text":
                self._note_text(node, above)
                continue
            if above < 0 and self.spots:
                continue  # inside something that is not seen
            if node.tag in _UNSEEN:
                continue
            if len(self.spots) >= MOST_ELEMENTS:
                self.is_cut = True
                return
            self._add(node, above)

    def _add(self, node: LexborNode, above: int) -> None:
        attributes = node.attributes
        names = f"{attributes.get('id') or ''} {attributes.get('class') or ''}"[:_NAME].lower()
        tag = node.tag or ""
        tag = tag if _TAG.fullmatch(tag) else "*"  # parsers take nearly anything for a name
        upper = self.spots[above] if above >= 0 else None
        style = (attributes.get("style") or "")[:_NAME]
        old = tag in ("del", "s", "strike") or "line-through" in style or _is_old(names)
        other = (
            tag in ("aside", "footer", "nav")
            or (tag == "header" and above <= 1)
            or bool(_OTHER.search(names))
        )
        place = len(self.spots)
        self._places[node.mem_id] = place
        self.spots.append(
            Spot(
                node,
                place,
                above,
                tag,
                names,
                old or (upper is not None and upper.is_old),
                (other and tag not in ("body", "main", "h1")) or (upper is not None and upper.is_other),
                bool(_BESIDE.search(names)) or (upper is not None and upper.is_beside),
            )
        )
        if upper is not None:
            upper.children += 1

    def _note_text(self, node: LexborNode, above: int) -> None:
        text = node.text_content or ""
        if above >= 0 and (kept := text.strip()):
            spot = self.spots[above]
            spot.length += len(kept)
            spot.has_digit = spot.has_digit or any(map(str.isdigit, kept[:100]))

    def _measure(self) -> None:
        for spot in reversed(self.spots):
            if spot.parent >= 0:
                above = self.spots[spot.parent]
                above.length += spot.length
                above.holds_old = above.holds_old or spot.holds_old or (spot.is_old and not above.is_old)


def _is_old(names: str) -> bool:
    names = " ".join(name for name in names.split() if not name.startswith(_STATES))
    words = re.sub(r"[_-]+", " ", names)
    return bool(_OLD_LABEL.search(names)) or bool(
        _OLD.search(words) and "price" in words and "now" not in words
    )
