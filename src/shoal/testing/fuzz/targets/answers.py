"""Answers of servers: what they are, what is kept of them, their encodings, their cookies, their robots.txt."""

from __future__ import annotations

import asyncio
import math
import random

from multidict import CIMultiDict
from yarl import URL

from shoal.admit.sending import sent_url
from shoal.fetch.body_reader import BodyTooLargeError, Decoder, UndecodableBodyError
from shoal.fetch.challenge.signatures import detect
from shoal.fetch.cookie_jar import CookieJar
from shoal.fetch.http_answer import AnswerReader
from shoal.fetch.http_messages import MessageError, answer_framing, body, read_head, request_framing
from shoal.fetch.robots_fetch import AnyHost, agent_of, fetch_robots
from shoal.fetch.transport import FetchRequest
from shoal.frontier.redis.codec import encode_snapshot
from shoal.frontier.sqlite.codec import decode_letter, encode_letter
from shoal.model import Dead, DeadLetter, Outcome, Response, Retry, Task
from shoal.policy.outcomes import TABLE, judge, kind_of, row_of, snapshot_of
from shoal.policy.retry import retry_after
from shoal.settings import Settings
from shoal.testing.fuzz.target import Reader, as_text, lines

_SETTINGS = Settings()
_NOW = 1_700_000_000.0
_TASK = Task("https://a.example/page", host="a.example", attempt=1)
_SECRET = "s3cret"
_MOST = 1024 * 1024  # bytes that a body is unfolded to
_PART = 1024 * 1024  # at once


def retry_times(data: bytes) -> None:
    """A Retry-After is a time between nothing and the cap, or says nothing."""
    seconds = retry_after(as_text(data), _NOW, 3600.0)
    assert seconds is None or (math.isfinite(seconds) and 0 <= seconds <= 3600.0), seconds


def response_of(data: bytes) -> Response:
    """A status line, headers and a body, as far as they are there."""
    head, _, content = data.partition(b"\n\n")
    first, *fields = head.split(b"\n")
    digits = first.strip()[:4]
    headers: CIMultiDict[str] = CIMultiDict()
    for field in fields[:128]:
        name, _, value = as_text(field).partition(":")
        headers.add(name, value)
    return Response("https://a.example/page", int(digits) if digits.isdigit() else 200, headers, content)


def answers(data: bytes) -> None:
    """Every answer has a row in the table, a verdict with a finite delay, and a snapshot that can be stored, is
    small, and holds no cookie."""
    response = response_of(data)
    kind = kind_of(response)
    assert row_of(kind) in TABLE
    detect(response, "https://a.example/asked")
    verdict = judge(response, _TASK, _SETTINGS, now=_NOW, rng=random.Random(0))
    if isinstance(verdict, Retry):
        assert math.isfinite(verdict.after)
        assert verdict.after >= 0
    elif isinstance(verdict, Dead):
        _check_letter(DeadLetter(_TASK, verdict.failure.kind, _NOW, verdict.snapshot))
    snapshot = snapshot_of(response, _SETTINGS)
    assert snapshot is not None
    assert len(encode_snapshot(snapshot)) < 1024 * 1024, "a snapshot of more than a megabyte"
    for name, value in (snapshot.headers or {}).items():
        assert name.lower() != "set-cookie" or _SECRET not in value


def _check_letter(letter: DeadLetter) -> None:
    read = decode_letter(encode_letter(letter))
    assert read.kind == letter.kind


def cookies(data: bytes) -> None:
    """A host's cookies come back to it alone, on one line, and only for as wide a domain as it may speak for."""
    _loop().run_until_complete(_keep_cookies(data.split(b"\n")[:64]))


async def _keep_cookies(lines: list[bytes]) -> None:
    jar = CookieJar()
    here = URL("https://shop.a.example/dir/page")
    jar.set([as_text(line) for line in lines], here)
    header = "; ".join(f"{cookie.name}={cookie.value}" for cookie in jar.cookies_for(here))
    assert not set(header) & set("\r\n\0"), "a cookie ends its line"
    for stranger in ("https://b.example/", "https://evil-a.example/", "http://10.0.0.1/"):
        assert not jar.cookies_for(URL(stranger)), f"a cookie for {stranger}"


def robots(data: bytes) -> None:
    """Whatever robots.txt says, every URL is allowed or not, and a Crawl-delay is a number."""
    path, location, text = lines(data, 3)
    transport = _Answer(as_text(location), text)
    asking = fetch_robots(
        transport,
        "https://a.example",
        agent=agent_of(_SETTINGS.user_agent),
        now=_NOW,
        pause=_pause,
        other_hosts=AnyHost(),
    )
    rules = _loop().run_until_complete(asking)
    url = sent_url(as_text(path), "https://a.example/")
    assert url is None or rules.allows(url) in (True, False)
    assert rules.allows("https://a.example/robots.txt") in (True, False)
    assert rules.delay is None or isinstance(rules.delay, int | float), rules.delay


class _Answer:
    """A transport for which every host redirects once if it has somewhere to, and then says the same."""

    def __init__(self, location: str, content: bytes) -> None:
        self._location = location
        self._content = content

    async def fetch(self, request: FetchRequest) -> Outcome:
        if location := self._location:
            self._location = ""
            return Response(request.url, 302, CIMultiDict({"Location": location}), b"")
        return Response(request.url, 200, CIMultiDict(), self._content[: request.max_body])

    async def close(self) -> None:
        pass


async def _pause() -> None:
    pass


_own_loop: asyncio.AbstractEventLoop | None = None


def _loop() -> asyncio.AbstractEventLoop:
    """One for all inputs: making a loop takes longer than most of them."""
    global _own_loop
    if _own_loop is None or _own_loop.is_closed():
        _own_loop = asyncio.new_event_loop()
    return _own_loop


def decodings(data: bytes) -> None:
    """A body is decoded piece by piece, none of them large, or is said to be undecodable."""
    reader = Reader(data)
    encoding = reader.choice(
        "gzip", "deflate", "br", "zstd", "identity", "x-odd", "GZIP ", "gzip, deflate", "br,gzip"
    )
    cut = reader.byte() + 1
    content = reader.rest()
    size = 0
    try:
        decoder = Decoder(encoding, _MOST)
        for start in range(0, len(content), cut * 16):
            for part in decoder.feed(content[start : start + cut * 16]):
                assert len(part) <= _PART, f"{len(part)} bytes at once"
                size += len(part)
                if size > _MOST:
                    return
    except (UndecodableBodyError, BodyTooLargeError):
        pass


def mendings(data: bytes) -> None:
    """However it arrives, what a server sends is read as the same answer, never longer than it was."""
    reader = Reader(data)
    cut = reader.byte() + 1
    content = b"HTTP/1.1 200 OK" + reader.rest()
    whole, pieces = AnswerReader(is_head=False), AnswerReader(is_head=False)
    whole.feed(content)
    for at in range(0, len(content), cut):
        pieces.feed(content[at : at + cut])
    assert (whole.head, whole.ended) == (pieces.head, pieces.ended)
    assert (whole.odd, type(whole.error)) == (pieces.odd, type(pieces.error))
    body = whole.take()
    assert body == pieces.take()
    assert len(body) <= len(content), "longer than what has arrived"


def gate_messages(data: bytes) -> None:
    """Messages on their way through the browser's gate have a head and an end, or are refused."""
    _loop().run_until_complete(_read_messages(data))


async def _read_messages(data: bytes) -> None:
    for framing_of in (lambda head: answer_framing(head, b"GET"), request_framing):
        stream = asyncio.StreamReader(limit=64 * 1024)
        stream.feed_data(data)
        stream.feed_eof()
        try:
            while (head := await read_head(stream)) is not None:
                again = head.passed_on(head.start, [(b"Connection", b"close")])
                assert again.endswith(b"\r\n\r\n")
                size = 0
                async for part in body(stream, framing_of(head)):
                    size += len(part)
                assert size <= len(data) + 2, "more was passed on than had come"
        except MessageError:
            pass
