"""Short CSS selectors for an element: by what its names say, and by its place only where it has no names."""

from __future__ import annotations

import re
from collections.abc import Iterator

from shoal.develop.guessing.outline import Outline, Spot

MOST = 14  # selectors for an element, besides the one that goes by its place
_PLAIN = ("div", "span", "body", "html", "main", "section", "article")  # tags that say little
_NAME = re.compile(r"-?[A-Za-z_][A-Za-z0-9_-]{1,40}")
_SERIAL = re.compile(r"\d{2,}|[0-9a-f]{8,}")  # in names that differ from page to page
_LOOKS = re.compile(  # classes that say how something looks
    r"(?:[mp][trblxy]?|text|font|flex|grid|col|row|w|h|max|min|bg|border|rounded|gap|items|justify|lg|md|sm|xl|ml|mt)-.*|flex|grid|row|col|h[1-6]"
)


def selectors_for(outline: Outline, spot: Spot) -> list[str]:
    """The plainest first. Whether they find the element, and no other before it, is for the caller to see."""
    made = dict.fromkeys(one for one in _selectors(outline, spot) if "*" not in one)
    placed = _by_place(outline, spot)
    return [*list(made)[:MOST], *([placed] if "*" not in placed else [])]


def _selectors(outline: Outline, spot: Spot) -> Iterator[str]:
    own = list(tokens(spot))
    if spot.tag == "h1":
        yield "h1"
    yield from own
    parent = outline.spots[spot.parent] if spot.parent >= 0 else None
    if parent is not None and parent.tag not in _PLAIN:  # "ins > .amount"
        yield from (f"{parent.tag} > {token}" for token in (*own, spot.tag))
    above = _named_above(outline, spot)
    for parent, is_direct in above:
        for token in tokens(parent):
            for inner in (*own, spot.tag):
                yield f"{token} > {inner}" if is_direct else f"{token} {inner}"


def tokens(spot: Spot) -> Iterator[str]:
    """What an element can be called by."""
    attributes = spot.node.attributes
    id_ = attributes.get("id") or ""
    if _NAME.fullmatch(id_) and not _SERIAL.search(id_):
        yield f"#{id_}"
    if (prop := attributes.get("itemprop")) and _NAME.fullmatch(prop):
        yield f'[itemprop="{prop}"]'
    classes = [name for name in (attributes.get("class") or "")[:400].split()[:8] if _NAME.fullmatch(name)]
    telling = [name for name in classes if not _LOOKS.fullmatch(name) and not _SERIAL.search(name)]
    telling.sort(key=lambda name: "--" not in name)  # "price--now" says more than "price"
    for name in telling:
        yield f".{name}"
    for name in telling[:2]:
        yield f"{spot.tag}.{name}"
    for name in attributes:
        if name.startswith("data-") and _NAME.fullmatch(name) and len(attributes) <= 12:
            yield f"[{name}]"
    if not telling and len(classes) > 1:
        yield spot.tag + "".join(f".{name}" for name in classes[:3])
    if (role := attributes.get("role")) and _NAME.fullmatch(role):
        yield f'[role="{role}"]'


def _named_above(outline: Outline, spot: Spot) -> list[tuple[Spot, bool]]:
    """The nearest two elements around it that have names, and whether it is a child of theirs."""
    found: list[tuple[Spot, bool]] = []
    place, direct = spot.parent, True
    while place >= 0 and len(found) < 2:
        parent = outline.spots[place]
        if next(tokens(parent), None) is not None:
            found.append((parent, direct))
        place, direct = parent.parent, False
    return found


def _by_place(outline: Outline, spot: Spot) -> str:
    """From the nearest element with a name, or from the body, by numbers."""
    steps: list[str] = []
    while spot.parent >= 0 and len(steps) < 8:
        parent = outline.spots[spot.parent]
        steps.append(f"{spot.tag}:nth-of-type({_number(spot)})")
        named = next(tokens(parent), "")
        if named or parent.tag == "body":
            steps.append(named or "body")
            break
        spot = parent
    return " > ".join(reversed(steps)) if len(steps) > 1 else spot.tag


_FAR = 200  # siblings


def _number(spot: Spot) -> int:
    """Among the siblings of its kind."""
    number, before = 1, spot.node.prev
    for _ in range(_FAR):
        if before is None:
            break
        number += before.tag == spot.tag
        before = before.prev
    return number
