"""A generated site: any number of pages, all reachable from the first, the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from msgspec import Struct

# fmt: off
_WORDS = (
    "harbour", "tide", "lantern", "market", "copper", "willow", "signal", "ferry", "garden", "winter",
    "ledger", "bridge", "amber", "quarry", "meadow", "compass", "orchard", "slate", "river", "engine",
    "paper", "island", "valley", "timber", "glass", "anchor", "village", "mirror", "thunder", "copse",
)
# fmt: on


class Site(Struct, frozen=True):
    """Page i is at /p/i. Each page links to its children in a tree, so that all are reachable, and to others."""

    pages: int = 10_000
    links: int = 33
    body_bytes: int = 15_000
    seed: int = 0
    via: str = "/p/"  # links lead here, followed by the page's number
    extra: tuple[str, ...] = ()  # further links, on the first page only

    def paths(self) -> Iterator[str]:
        return (f"/p/{i}" for i in range(self.pages))

    def targets(self, page: int) -> list[int]:
        """The pages that `page` links to; `links` of them."""
        fanout = max(1, self.links // 3)
        first = page * fanout + 1
        targets = list(range(first, min(first + fanout, self.pages)))
        state = self.seed * 1_000_003 + page + 1
        for _ in range(self.links - len(targets)):
            # A linear congruential step: thousands of pages a second are made, random.Random is too slow.
            state = (state * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
            targets.append((state >> 33) % self.pages)
        return targets

    def html(self, page: int) -> bytes:
        """The page, about `body_bytes` long unless its links alone are longer."""
        topic = f"{_WORDS[page % len(_WORDS)]} {_WORDS[page // len(_WORDS) % len(_WORDS)]}"
        hrefs = [self.via + str(target) for target in self.targets(page)]
        if page == 0:
            hrefs.extend(self.extra)
        start = (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f"<title>Page {page}: {topic}</title>\n"
            f'<meta name="description" content="All about {topic}, part {page}">\n'
            f'<link rel="canonical" href="/p/{page}">\n</head>\n<body>\n<nav><ul>\n{_items(hrefs)}</ul></nav>\n'
            f"<main>\n<h1>{topic}</h1>\n<p>"
        ).encode()
        end = b"</p>\n</main>\n</body>\n</html>\n"
        return start + _filler(self.body_bytes - len(start) - len(end)) + end


def small_page(title: str, hrefs: Iterable[str]) -> bytes:
    """A page of links and nothing else, for the corners of a host that are no part of its site."""
    head = f'<!doctype html>\n<html lang="en">\n<title>{title}</title>\n'
    return f"{head}<ul>\n{_items(hrefs)}</ul>\n</html>\n".encode()


def _items(hrefs: Iterable[str]) -> str:
    return "".join([f'<li class="link"><a href="{href}">about {href}</a></li>\n' for href in hrefs])


def _paragraphs(count: int) -> bytes:
    choose = random.Random(0).choice
    texts = []
    for _ in range(count):
        words = [choose(_WORDS) for _ in range(40)]
        words[7] = f"<em>{words[7]}</em>"
        words[21] = f"<strong>{words[21]}</strong>"
        texts.append(" ".join(words))
    return "</p>\n<p>".join(texts).encode()


_TEXT = _paragraphs(64)


def _filler(size: int) -> bytes:
    """Text of about `size` bytes. No tag in it holds a space, so cutting at one leaves all tags whole."""
    if size <= 0:
        return b""
    text = _TEXT
    if size > len(text):
        text = text * (size // len(text) + 1)
    return text[: text.rfind(b" ", 0, size)] if size < len(text) else text
