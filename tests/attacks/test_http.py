"""Servers that misuse HTTP itself: frames, interim answers, headers and chunks without end."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from h2.errors import ErrorCodes
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from attacks.http2_villain import CERTS, Attack, Http2Villain, Victim
from attacks.stage import Speech, Stage, Villain

MEMORY = 200 * 1024 * 1024  # bytes; an ordinary crawl takes about 80 MB

# -- HTTP/2


async def empty_data(victim: Victim) -> None:
    await victim.head()
    await victim.flood(DataFrame(victim.number))


async def padded_data(victim: Victim) -> None:
    """Frames that are long, but bring nothing: nobody takes them, so that the server may soon send no more."""
    await victim.head()
    await victim.flood(DataFrame(victim.number, b"", pad_length=255, flags=["PADDED"]))


async def crumbs(victim: Victim) -> None:
    """One byte a frame: ten megabytes would take ten million of them."""
    await victim.head()
    await victim.flood(DataFrame(victim.number, b"x"))


async def pings(victim: Victim) -> None:
    await victim.flood(PingFrame(0, b"12345678"))


async def settings(victim: Victim) -> None:
    await victim.flood(SettingsFrame(0, {3: 100}))


async def many_settings(victim: Victim) -> None:
    """Each of 65,000 settings that nobody has defined would be remembered."""
    for first in range(100, 65_000, 1_000):
        await victim.raw(SettingsFrame(0, {first + n: 1 for n in range(1_000)}).serialize())


async def resets(victim: Victim) -> None:
    await victim.head()
    await victim.flood(RstStreamFrame(victim.number, ErrorCodes.NO_ERROR))


async def window_updates(victim: Victim) -> None:
    await victim.flood(WindowUpdateFrame(0, 1))


async def priorities(victim: Victim) -> None:
    await victim.flood(PriorityFrame(victim.number, depends_on=0, stream_weight=1))


async def unknown_frames(victim: Victim) -> None:
    await victim.flood(b"\0\0\1\xee\0\0\0\0\0?")


async def continuations(victim: Victim) -> None:
    await victim.raw(HeadersFrame(victim.number, b"").serialize())
    await victim.flood(ContinuationFrame(victim.number, b""))


async def long_headers(victim: Victim) -> None:
    """Each frame as long as can be, and no end to them."""
    await victim.raw(HeadersFrame(victim.number, b"").serialize())
    await victim.flood(ContinuationFrame(victim.number, b"\0" * 16_000))


async def header_bomb(victim: Victim) -> None:
    """A line of 4 KB, and 10,000 references to it of one byte each."""
    encoder = victim.encoder()
    block = encoder.encode([(b":status", b"200"), (b"x", b"y" * 3_900)], huffman=False) + b"\xbe" * 10_000
    await victim.raw(HeadersFrame(victim.number, block, flags=["END_HEADERS"]).serialize())


async def interim_answers(victim: Victim) -> None:
    block = victim.encoder().encode([(b":status", b"103")])
    await victim.flood(HeadersFrame(victim.number, block, flags=["END_HEADERS"]))


async def after_the_end(victim: Victim) -> None:
    """A whole, good answer, and then frames on the connection that lies idle."""
    await victim.answer(b"<p>good</p>")
    await victim.flood(PingFrame(0, b"12345678"))


async def after_the_cancel(victim: Victim) -> None:
    """A body that is too large, and goes on when we have ended the exchange."""
    await victim.head()
    await victim.raw(DataFrame(victim.number, b"x" * 16_000).serialize() * 10)
    await victim.cancelled.wait()
    await victim.flood(DataFrame(victim.number, b"x" * 16_000))


ATTACKS: dict[Attack, str] = {
    empty_data: "flood",
    padded_data: "truncated",
    crumbs: "flood",
    pings: "flood",
    settings: "flood",
    many_settings: "flood",
    resets: "truncated",
    window_updates: "flood",
    priorities: "flood",
    unknown_frames: "flood",
    continuations: "protocol",
    long_headers: "protocol",
    header_bomb: "protocol",
    interim_answers: "flood",
    after_the_cancel: "too_large",
}


def test_http2_floods(stage: Stage, twice: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTS / "loopback.pem"))
    attacks = (*ATTACKS, after_the_end)
    with Http2Villain({f"/{attack.__name__}": attack for attack in attacks}) as villain:
        # One at a time, for the exchanges of a connection fail together; and a breaker would spare us the rest.
        options = ["http2=true", "per_host=1", "breaker_failures=1000", "breaker_rate=2", "max_attempts=1"]
        options += ["max_body=100000", "http2_hosts=127.0.0.1"]
        result = stage.crawl(*villain.urls, options=[word for one in options for word in ("-s", one)])
        sent = {victim.path: victim.sent for victim in villain.victims}
    stage.check_honest(result, at_most=twice)
    assert result.peak_rss < MEMORY
    kinds = {letter["url"].rpartition("/")[2]: letter["kind"] for letter in result.letters}
    assert kinds == {attack.__name__: kind for attack, kind in ATTACKS.items()}
    assert villain.url("/after_the_end") in result.rows, "the page itself was good"
    assert set(Counter(villain.hits).values()) == {1}, "none is asked for more often than max_attempts says"
    assert max(sent.values()) < 10_000_000, "more was read than a page may have"


# -- HTTP/1.1

OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
WHOLE = OK + b"Content-Length: 4\r\n\r\ngood"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: " + b"x" * 4_000 + b"\r\n\r\n"


def endless(begin: bytes, forever: bytes, sent: Counter[bytes]) -> Speech:
    """Writes the beginning, and then the same again and again until the connection is cut."""

    async def speak(head: bytes, writer: asyncio.StreamWriter) -> None:
        path = head.split(b" ")[1]
        writer.write(begin)
        await writer.drain()
        many = forever * (65_536 // len(forever) + 1)
        while not writer.is_closing():
            writer.write(many)
            sent[path] += len(many)
            await writer.drain()
            await asyncio.sleep(0)

    return speak


STREAMS = {
    "interim": (b"", CONTINUE, "flood"),
    "long_interim": (b"", HINTS, "flood"),
    "empty_lines": (b"", b"\r\n", "protocol"),
    "status_line": (b"HTTP/1.1 200 ", b"y", "protocol"),
    "header_lines": (OK, b"X: y\r\n", "protocol"),
    "header_line": (OK + b"X: ", b"y", "protocol"),
    "folded_line": (OK + b"X: y", b"\r\n y", "protocol"),
    "chunk_extension": (CHUNKED + b"5;", b"a", "flood"),
    "chunk_size": (CHUNKED, b"0", "flood"),
    "crumbs": (CHUNKED, b"1\r\nx\r\n", "flood"),
    "trailers": (CHUNKED + b"4\r\ngood\r\n0\r\n", b"X: y\r\n", "truncated protocol"),
    # A whole, good answer, and then more on the connection that is kept. If junk comes in one piece with the answer,
    # that is not trusted.
    "then_answers": (WHOLE, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "page"),
    "then_interim": (WHOLE, CONTINUE, "page"),
    "then_junk": (WHOLE, b"x", "page protocol"),
    "then_lines": (WHOLE, b"\r\n", "page protocol"),
}


def test_http1_floods(stage: Stage, twice: float) -> None:
    sent: Counter[bytes] = Counter()
    answers = {f"/{name}": endless(begin, forever, sent) for name, (begin, forever, _) in STREAMS.items()}
    with Villain(answers) as villain:
        options = ["per_host=1", "breaker_failures=1000", "breaker_rate=2", "max_attempts=2"]
        result = stage.crawl(*villain.urls, options=[word for one in options for word in ("-s", one)])
    stage.check_honest(result, at_most=twice)
    assert result.peak_rss < MEMORY
    ended = {letter["url"].rpartition("/")[2]: letter["kind"] for letter in result.letters}
    ended |= {name: "page" for name in STREAMS if villain.url(f"/{name}") in result.rows}
    assert set(ended) == set(STREAMS)
    assert all(ended[name] in kinds.split() for name, (_, _, kinds) in STREAMS.items()), ended
    # What the kernels hold between the two is sent, though nobody reads it.
    assert max(sent.values()) < 20_000_000, sent.most_common(3)
