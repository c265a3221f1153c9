"""What a hostile host answers with: every attack by name, each an answer for a page of its own."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import repeat

from shoal.testing.web.site import Answer

Attack = Callable[[int, int], Answer]  # of the page's number, and how large it may be

_KB = 1024
_COOKIES = tuple(f"Set-Cookie: c{n}={'x' * 500}; Path=/" for n in range(100))
_LINK = 64  # bytes of a flood for each of its links
_FLOODS = 3  # that differ


def _page(fragment: bytes, last: bytes = b"", media_type: str | None = "text/html", most: int = 0) -> Attack:
    """A body of one fragment, repeated."""

    @cache
    def answer(size: int) -> Answer:
        times = max(1, min(size, most or size) // len(fragment))
        return Answer(200, fragment * times + last, media_type=media_type)

    return lambda page, size: answer(size)


def _bomb(page: int, size: int) -> Answer:
    return Answer(200, _bomb_body(), headers=("Content-Encoding: gzip",))


@cache
def _bomb_body() -> bytes:
    return gzip.compress(bytes(32 * _KB * _KB), mtime=0)


def _drips(page: int, size: int) -> Answer:
    """A byte a second, for ever."""
    return Answer(200, stream=repeat(b"x"), length=1_000_000, pause=1.0)


def _drips_head(page: int, size: int) -> Answer:
    return Answer(200, b"late", delay=3600.0)


def _many_headers(page: int, size: int) -> Answer:
    return Answer(200, headers=tuple(f"X-{n}: y" for n in range(5_000)))


def _long_header(page: int, size: int) -> Answer:
    return Answer(200, headers=(f"X: {'y' * 500_000}",))


def _short_body(page: int, size: int) -> Answer:
    """Says a length and closes early."""
    return Answer(200, stream=iter([b"<p>short"]), length=100_000, closes=True)


def _broken_chunks(page: int, size: int) -> Answer:
    return Answer(200, b"zz\r\nnot a chunk", headers=("Transfer-Encoding: chunked",), closes=True)


def _cookies(page: int, size: int) -> Answer:
    return Answer(200, b"<p>have some cookies", headers=_COOKIES)


def _redirects(page: int, size: int) -> Answer:
    """On and on, each with cookies. The path grows no longer, so that nothing else stops it."""
    return Answer(302, headers=(f"Location: /again/{page + 100_000}", *_COOKIES))


def _long_type(page: int, size: int) -> Answer:
    return Answer(200, b"<p>hello", media_type="text/html; " + "charset " * 3_500)


def _odd_headers(page: int, size: int) -> Answer:
    return Answer(200, b"<p>hello", headers=("Server: \udcff\udcfe", "Set-Cookie: a b=\udc80"))


def _flood(page: int, size: int) -> Answer:
    """Links to pages that are not there. Some floods are alike, so that a crawl comes to an end."""
    count = size // _LINK
    first = page % _FLOODS * count
    links = "".join(f'<a href="/flood/{first + n}">x</a>' for n in range(count))
    return Answer(200, links.encode())


def _formats() -> Iterator[bytes]:
    return (b"<b id=%d>" % n for n in range(3_000))


ATTACKS: Mapping[str, Attack] = {
    "comments": _page(b"<!---->", b"x", media_type=None, most=980),  # nothing says what it is
    "attributes": _page(b"<body " + b" ".join(b"a%d" % n for n in range(400)) + b">"),
    "slashes": _page(b"<a/b="),
    "ruby": _page(b"<rt>"),
    "foreign": _page(b"<svg></x>"),
    "ends": _page(b"<b></i>"),
    "styles": _page(b"<svg><style>"),
    "deep": _page(b"<div>"),
    "formats": _page(b"".join(_formats()) + b"<p>" * 3_000),
    "bomb": _bomb,
    "drips": _drips,
    "silence": _drips_head,
    "headers": _many_headers,
    "header": _long_header,
    "short": _short_body,
    "chunks": _broken_chunks,
    "cookies": _cookies,
    "redirects": _redirects,
    "type": _long_type,
    "bytes": _odd_headers,
    "flood": _flood,
}

# For the robots.txt of a hostile host: many agents that share many rules.
ROBOTS = "".join(f"User-agent: bot{n}\n" for n in range(1_500)) + "".join(
    f"Disallow: /{n}*x\n" for n in range(1_500)
)
