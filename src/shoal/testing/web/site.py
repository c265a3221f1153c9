"""A generated site: any number of pages, all reachable from the first, the same for the same seed; and an answer."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterable, Iterator
from http import HTTPStatus

import msgspec
from msgspec import Struct

from shoal.testing.web.profile import HostProfile

# fmt: off
_WORDS = (
    "harbour", "tide", "lantern", "market", "copper", "willow", "signal", "ferry", "garden", "winter",
    "ledger", "bridge", "amber", "quarry", "meadow", "compass", "orchard", "slate", "river", "engine",
    "paper", "island", "valley", "timber", "glass", "anchor", "village", "mirror", "thunder", "copse",
)
# fmt: on
_REASONS = {status.value: status.phrase for status in HTTPStatus}


class Answer(Struct, frozen=True):
    """What a host decides to do with a request. Deciding is pure; `connection.Connection` carries it out."""

    status: int  # NO_ANSWER: stay silent until the client leaves
    body: bytes = b""
    headers: tuple[str, ...] = ()  # besides Content-Type and the one that frames the body
    media_type: str | None = "text/html; charset=utf-8"  # None: it does not say
    delay: float = 0.0  # seconds before the first byte
    stream: Iterator[bytes] | None = None  # instead of `body`, sent as fast as the client reads
    length: int | None = None  # of the stream; None: it never ends, and is sent in chunks
    pause: float = 0.0  # seconds between two blocks of the stream
    closes: bool = False  # the connection ends with it

    def head(self) -> bytes:
        if self.stream is None:
            frame = f"Content-Length: {len(self.body)}"
        elif self.length is None:
            frame = "Transfer-Encoding: chunked"
        else:
            frame = f"Content-Length: {self.length}"
        if any(line.startswith("Transfer-Encoding") for line in self.headers):
            frame = "X-Framing: its own"
        kind = "" if self.media_type is None else f"Content-Type: {self.media_type}\r\n"
        more = "".join([f"{line}\r\n" for line in self.headers])
        return f"HTTP/1.1 {self.status} {_REASONS[self.status]}\r\n{kind}{frame}\r\n{more}\r\n".encode(
            errors="surrogateescape"
        )


class Site(Struct, frozen=True):
    """Page i is at /p/i. Each page links to its children in a tree, so that all are reachable, and to others.

    Pages that are shells may lie elsewhere."""

    pages: int = 10_000
    links: int = 33
    body_bytes: int = 15_000
    seed: int = 0
    via: str = "/p/"  # links lead here, followed by the page's number
    extra: tuple[str, ...] = ()  # further links, on the first page only
    shells: float = 0.0  # share of the pages that are empty until their script has run
    shells_at: str = "/p/"

    def paths(self) -> Iterator[str]:
        return (self.path(i) for i in range(self.pages))

    def path(self, page: int) -> str:
        return f"{self.shells_at if self.is_shell(page) else '/p/'}{page}"

    def is_shell(self, page: int) -> bool:
        """By chance; but the first page never is, or a client without scripts would see nothing at all."""
        return page > 0 and zlib.crc32(f"{self.seed} shell {page}".encode()) < self.shells * 2**32

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
        topic, hrefs = self._topic(page), self._hrefs(page)
        start = (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f"<title>Page {page}: {topic}</title>\n"
            f'<meta name="description" content="All about {topic}, part {page}">\n'
            f'<link rel="canonical" href="{self.path(page)}">\n</head>\n<body>\n<nav><ul>\n{_items(hrefs)}</ul></nav>\n'
            f"<main>\n<h1>{topic}</h1>\n<p>"
        ).encode()
        end = b"</p>\n</main>\n</body>\n</html>\n"
        return start + _filler(self.body_bytes - len(start) - len(end)) + end

    def shell(self, page: int) -> bytes:
        """The page for a client with scripts; without, there is nothing to see."""
        return _SHELL.replace(b"{page}", b"%d" % page)

    def data(self, page: int) -> bytes:
        """What the shell's script writes into it: what `html` shows, if its links leave room for text."""
        topic, text = self._topic(page), _filler(self.body_bytes)
        title = f"Page {page}: {topic}"
        content = {"title": title, "topic": topic, "links": self._hrefs(page), "text": text.decode()}
        return msgspec.json.encode(content)

    def _topic(self, page: int) -> str:
        return f"{_WORDS[page % len(_WORDS)]} {_WORDS[page // len(_WORDS) % len(_WORDS)]}"

    def _hrefs(self, page: int) -> list[str]:
        targets = self.targets(page)
        hrefs = (
            [self.path(target) for target in targets]
            if self.shells
            else [self.via + str(target) for target in targets]
        )
        return [*hrefs, *self.extra] if page == 0 else hrefs


def site_of(profile: HostProfile, seed: int) -> Site:
    """The site of a host with such a profile, as far as it follows from that."""
    scripted = profile.kind == "scripted"
    return Site(
        profile.pages,
        profile.links,
        profile.body_bytes,
        seed,
        shells=profile.shells if scripted else 0.0,
        shells_at=profile.shells_at,
    )


_SHELL = b"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Loading</title></head>
<body>
<div id="root"></div>
<script>
fetch("/data/{page}.json").then(answer => answer.json()).then(page => {
  const items = page.links.map(href => `<li class="link"><a href="${href}">about ${href}</a></li>`);
  document.title = page.title;
  document.getElementById("root").innerHTML =
    `<nav><ul>${items.join("")}</ul></nav><main><h1>${page.topic}</h1><p>${page.text}</p></main>`;
});
</script>
</body>
</html>
"""


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
