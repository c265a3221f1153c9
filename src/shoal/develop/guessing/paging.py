"""The way to the next page of a list: a next-link, numbers, or a link that loads more."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

from shoal.develop.guessing.cards import own_links
from shoal.develop.guessing.outline import Outline, Spot
from shoal.develop.guessing.short_selectors import selectors_for, tokens

Manner: TypeAlias = Literal["next", "numbers", "more"]
_WORDS = (
    "next|weiter|nächste|suivant|suivante|siguiente|successivo|avanti|volgende|próximo|próxima|następna|dalej|další|nästa|neste|næste|seuraava"
    "|következő|următoarea|sonraki|далее|следующая|далі|наступна|επόμενο|επόμενη|次へ|次|下一页|다음|التالي|הבא|berikutnya|selanjutnya|tiếp|ถัดไป|следваща"
)
_NEXT = re.compile(rf"(?:{_WORDS})(?: page| seite)?|[›»→>]+", re.IGNORECASE)
_MORE = re.compile(
    r"(?:load|show|view|see) more|mehr (?:laden|anzeigen)|voir plus|afficher plus|cargar más|ver más"
    r"|carica altri|meer laden|carregar mais|pokaż więcej|načíst další|visa fler|vis flere|näytä lisää"
    r"|továbbiak|încarcă mai multe|daha fazla"
    r"|показать ещё|показати ще|περισσότερα"
    r"|もっと見る|加载更多|더 보기|عرض المزيد|טען עוד|muat lagi|xem thêm|ดูเพิ่มเติม|зареди още",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d{1,4}")
_TEXT = 30  # characters of such a link
_OTHER_NUMBER = re.compile(r"\d+")


class NextPage(Struct, frozen=True):
    css: str
    manner: Manner
    urls: tuple[str, ...]


def next_page(outline: Outline) -> NextPage | None:
    for look in (_by_rel, _by_words, _by_numbers):
        if (found := look(outline)) is not None:
            return found
    return None


def _links(outline: Outline) -> Iterator[tuple[Spot, str, str]]:
    """With their texts, without the marks around them."""
    for spot, url in own_links(outline):
        if 0 < spot.length <= _TEXT:
            yield spot, url, outline.text(spot).strip(" «»›→>…")


def _by_rel(outline: Outline) -> NextPage | None:
    for spot, url in own_links(outline):
        if "next" in (spot.node.attributes.get("rel") or "").lower().split():
            return NextPage('a[rel~="next"]', "next", (url,))
    return None


def _by_words(outline: Outline) -> NextPage | None:
    for spot, url, text in _links(outline):
        raw = outline.text(spot)
        named = re.search(r"(?:^|[\s_-])next(?:$|[\s_-])", spot.names)
        if named or _NEXT.fullmatch(text) or raw in ("»", "›", "→", ">"):
            return _next(_first_that_finds(outline, spot), "next", url)
        if _MORE.fullmatch(text) or re.search(r"load[-_]?more", spot.names):
            return _next(_first_that_finds(outline, spot), "more", url)
    return None


def _next(css: str, manner: Manner, url: str) -> NextPage | None:
    return NextPage(css, manner, (url,)) if css else None


def _by_numbers(outline: Outline) -> NextPage | None:
    """Several links with a number as their text, to URLs that differ in a number."""
    here = _OTHER_NUMBER.sub("#", outline.page.url)
    found = [(spot, url) for spot, url, text in _links(outline) if _NUMBER.fullmatch(text)]
    same = [
        (spot, url)
        for spot, url in found
        if _OTHER_NUMBER.sub("#", url).startswith(here.partition("?")[0].rstrip("/"))
    ]
    if not same:
        return None
    wanted = tuple(url for _, url in same)
    first = same[0][0]
    for css in _of_all(outline, first):
        if {getattr(node, "mem_id", 0) for node in outline.page.css(css)} >= {
            spot.node.mem_id for spot, _ in same
        }:
            return NextPage(css, "numbers", wanted)
    return None


def _of_all(outline: Outline, spot: Spot) -> Iterator[str]:
    """Selectors for all numbers, not for this one."""
    yield from (f"a{token}" for token in tokens(spot) if token.startswith("."))
    place = spot.parent
    for _ in range(4):
        if place < 0:
            return
        parent = outline.spots[place]
        yield from (f"{token} a" for token in tokens(parent))
        place = parent.parent


def _first_that_finds(outline: Outline, spot: Spot) -> str:
    page = outline.page
    for css in selectors_for(outline, spot):
        first = page.first(css)
        if first is not None and getattr(first, "mem_id", None) == spot.node.mem_id:
            return css
    return ""
