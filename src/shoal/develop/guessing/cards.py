"""Repeated blocks: the links of a listing, and the blocks that they are in."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice

from msgspec import Struct

from shoal.admit.identity import host_key
from shoal.develop.guessing.outline import Outline, Spot
from shoal.develop.guessing.short_selectors import tokens
from shoal.develop.guessing.url_shapes import most_common_shape
from shoal.html.page_links import join, target_of
from shoal.html.records.prices import parse_price

_LEAST = 3  # links that make a list
_LEVELS = 3  # elements around a link that it is told apart by
_MOST_GROUPS = 30
_BLOCK = 400  # characters of a block that may have a price
_DEEP = 8  # elements between a block and its link
_TRIES = 40  # selectors that are tried for a group
_AMOUNT = re.compile(r"\d[.,]\d\d\d?(?!\d)|\d(?:[.,:]-|[.,]–)")  # without a currency
_HINTS = re.compile(r"product|item|card|tile|listing|article|result|grid|miniature|artikel|produkt")
_ELSEWHERE = re.compile(
    r"/(?:cart|basket|account|login|register|search|wishlist|checkout|about|terms|contact|privacy|help|faq|blog|imprint|impressum)\b"
)


class Cards(Struct, frozen=True):
    """Links of one kind on one page."""

    css: str  # finds the links
    block: str  # finds the blocks that they are in; "" if there is no selector for them
    urls: tuple[str, ...]
    priced: int  # blocks with a price
    score: float
    reduced: tuple[str, ...] = ()  # those of them with a crossed-out price


class _Group(Struct):
    key: tuple[str, ...]
    links: list[tuple[Spot, str]]


def cards_on(outline: Outline) -> list[Cards]:
    """The groups of links, the most likely list of products first."""
    groups = sorted(_groups(outline), key=lambda group: -len(group.links))[:_MOST_GROUPS]
    found = [cards for group in groups if (cards := _cards(outline, group)) is not None]
    return sorted(found, key=lambda cards: -cards.score)


def own_links(outline: Outline) -> Iterator[tuple[Spot, str]]:
    """Links to other pages of the host, in the order of the page."""
    page = outline.page
    host = host_key(page.url)
    for spot in outline.spots:
        if spot.tag != "a":
            continue
        target = target_of(spot.node)
        url = join(page.base, target) if target else None
        if url is None or not url.startswith("http"):
            continue
        url = url.partition("#")[0]
        if host_key(url) == host and url != page.url:
            yield spot, url


def leads_elsewhere(url: str) -> bool:
    """To what shops have besides products."""
    return bool(_ELSEWHERE.search(url.lower()))


def _groups(outline: Outline) -> list[_Group]:
    by_key: defaultdict[tuple[str, ...], list[tuple[Spot, str]]] = defaultdict(list)
    for spot, url in own_links(outline):
        if not leads_elsewhere(url):
            by_key[_key(outline, spot)].append((spot, url))
    return [_Group(key, links) for key, links in by_key.items() if len({url for _, url in links}) >= _LEAST]


def _key(outline: Outline, spot: Spot) -> tuple[str, ...]:
    key, place = [], spot.place
    for _ in range(_LEVELS + 1):
        if place < 0:
            break
        one = outline.spots[place]
        key.append(one.tag + "".join(sorted(token for token in tokens(one) if token.startswith("."))[:2]))
        place = one.parent
    return tuple(key)


def _cards(outline: Outline, group: _Group) -> Cards | None:
    urls = tuple(dict.fromkeys(url for _, url in group.links))
    alike = most_common_shape(urls)
    if len(alike) < _LEAST:
        return None
    blocks = _blocks(outline, [spot for spot, _ in group.links])
    priced = sum(_has_price(block) for block in blocks)
    css = _selector(outline, group, set(urls))
    if not css:
        return None
    others = sum(spot.is_other for spot, _ in group.links) / len(group.links)
    score = min(len(urls), 60) * len(alike) / len(urls) * (1 + 3 * priced / len(blocks)) * (1 - 0.9 * others)
    if _HINTS.search(" ".join(outline.spots[block.place].names for block in blocks[:3])):
        score *= 1.5
    with_old = {block.place for block in blocks if block.holds_old}
    reduced = [url for spot, url in group.links if with_old and _is_inside(outline, spot, with_old)]
    return Cards(css, _block_selector(outline, blocks), urls, priced, score, tuple(dict.fromkeys(reduced)))


def _is_inside(outline: Outline, link: Spot, places: set[int]) -> bool:
    """Whether a link is in one of these elements, or not far below it."""
    place = link.place
    for _ in range(_DEEP):
        if place < 0 or place in places:
            break
        place = outline.spots[place].parent
    return place in places


def _blocks(outline: Outline, links: list[Spot]) -> list[Spot]:
    """The largest elements around the links of which each has only one."""
    around = [spot.place for spot in links]
    for _ in range(6):
        above = [outline.spots[place].parent for place in around]
        if -1 in above or len(set(above)) < len(set(around)) or len(set(above)) < 2:
            break
        around = above
    return [outline.spots[place] for place in dict.fromkeys(around)]


def _has_price(block: Spot) -> bool:
    if not 0 < block.length <= _BLOCK:
        return False
    text = " ".join((block.node.text(separator=" ") or "").split())
    price = parse_price(text)
    return price is not None and (price.symbol is not None or bool(_AMOUNT.search(text)))


def _selector(outline: Outline, group: _Group, wanted: set[str]) -> str:
    """The shortest that finds these links and few others."""
    page = outline.page
    for css in islice((one for one in _candidates(outline, group) if "*" not in one), _TRIES):
        found = {join(page.base, target_of(node) or "") for node in page.css(css)}
        found = {url.partition("#")[0] for url in found if url}
        if wanted <= found and len(found) <= 1.2 * len(wanted) + 1:
            return css
    return ""


def _candidates(outline: Outline, group: _Group) -> Iterator[str]:
    first = group.links[0][0]
    common = [token for token in tokens(first) if _is_common(token, group)]
    yield from (f"a{token}" if token[0] in ".[" else token for token in common)
    place, joint = first.parent, " > "
    inner = ["a"]
    for _ in range(5):
        if place < 0:
            break
        parent = outline.spots[place]
        named = list(tokens(parent))
        yield from (f"{token}{joint}{one}" for token in named for one in inner)
        inner = [*inner, f"{parent.tag}{joint}a"] if joint == " > " else inner
        place, joint = parent.parent, " "
    yield " ".join(part.partition(".")[0] for part in reversed(group.key[:3]))


def _is_common(token: str, group: _Group) -> bool:
    return all(token in set(tokens(spot)) for spot, _ in group.links[:5])


def _block_selector(outline: Outline, blocks: list[Spot]) -> str:
    if len(blocks) < 2:
        return ""
    later = set(tokens(blocks[1]))
    return next((token for token in tokens(blocks[0]) if token in later and token[0] == "."), "")
