"""Where a message ends in the gate. Second opinions: h11, which refuses more, and Chromium, which the gate is for."""

from __future__ import annotations

import asyncio

import h11
import pytest

from browser import browser, plain
from integration.raw_server import always, by_path, serve
from shoal.fetch.http_messages import Head, MessageError, answer_framing, body, read_head, request_framing

OK = b"HTTP/1.1 200 OK\r\n"
LENGTH = b"Content-Length: 2\r\n\r\nok"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
NEXT = b"HTTP/1.1 404 the next answer"

BOTH_TAKE = {
    "as it should be": OK + LENGTH,
    "lines end with LF": (OK + LENGTH).replace(b"\r\n", b"\n"),
    "no reason": b"HTTP/1.1 200\r\n" + LENGTH,
    "a reason in Latin-1": b"HTTP/1.1 200 \xe9\r\n" + LENGTH,
    "a value in Latin-1": OK + b"X: \xe9\r\n" + LENGTH,
    "a folded line": OK + b"X: a\r\n b\r\n" + LENGTH,
    "a status beyond 599": b"HTTP/1.1 999 No\r\n" + LENGTH,
    "a length twice": OK + b"Content-Length: 2\r\n" + LENGTH,
    "a length besides chunks": OK + b"Content-Length: 9\r\n" + CHUNKED + b"2\r\nok\r\n0\r\n\r\n",
    "blanks behind a chunk's size": OK + CHUNKED + b"2  \r\nok\r\n0\r\n\r\n",
    "an extension of a chunk": OK + CHUNKED + b"2;a=b\r\nok\r\n0\r\n\r\n",
    "trailers": OK + CHUNKED + b"2\r\nok\r\n0\r\nX: y\r\n\r\n",
    "no body": b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
    "a long head": OK + b"".join(b"X%d: %b\r\n" % (n, b"y" * 60) for n in range(1500)) + LENGTH,
}
ONLY_WE_TAKE = {
    "an empty line before": b"\r\n" + OK + LENGTH,
    "a blank before the colon": OK + LENGTH.replace(b":", b" :"),
    "a blank in a name": OK + b"X Y: 1\r\n" + LENGTH,
    "brackets in a name": OK + b"X[1]: 1\r\n" + LENGTH,
    "a name in UTF-8": OK + b"X-\xc3\xa9: 1\r\n" + LENGTH,
    "a control character": OK + b"X: a\x0bb\r\n" + LENGTH,
    "a line without a colon": OK + b"junk\r\n" + LENGTH,
    "a line without a name": OK + b": junk\r\n" + LENGTH,
    "http in lower case": b"http/1.1 200 OK\r\n" + LENGTH,
    "two blanks before the status": b"HTTP/1.1  200 OK\r\n" + LENGTH,
    "no blank behind the status": b"HTTP/1.1 200OK\r\n" + LENGTH,
    "compressed for the connection": OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "chunks twice": OK + b"Transfer-Encoding: chunked\r\n" + CHUNKED + b"2\r\nok\r\n0\r\n\r\n",
    "chunks that end with LF": OK + CHUNKED + b"2\nok\n0\n\n",
}
NO_LENGTHS = ("-2", "+2", "two", "2.0", "0x2", "2 2", "9" * 30)
NOBODY_TAKES = {
    "two lengths": OK + b"Content-Length: 3\r\n" + LENGTH,
    "a size that is none": OK + CHUNKED + b"x\r\nok\r\n0\r\n\r\n",
    "more than the chunk's size": OK + CHUNKED + b"1\r\nok\r\n0\r\n\r\n",
    "a NUL": OK + b"X: \0\r\n" + LENGTH,
    "another protocol": b"SSH-2.0-OpenSSH\r\n\r\n",
}


async def rest_by_us(data: bytes) -> bytes | None:
    """What comes after the message; None: it is refused."""
    reader = asyncio.StreamReader(limit=64 * 1024)
    reader.feed_data(data)
    reader.feed_eof()
    try:
        head = await read_head(reader)
        assert head is not None
        async for _ in body(reader, answer_framing(head, b"GET")):
            pass
    except MessageError:
        return None
    return await reader.read()


def rest_by_h11(data: bytes) -> bytes | None:
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=256 * 1024)
    connection.send(h11.Request(method="GET", target="/", headers=[("Host", "a.example")]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(data)
    try:
        while not isinstance(event := connection.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                return None
    except h11.RemoteProtocolError:
        return None
    return connection.trailing_data[0]


@pytest.mark.parametrize("name", BOTH_TAKE)
async def test_both_say_where_it_ends(name: str) -> None:
    data = BOTH_TAKE[name] + NEXT
    assert (await rest_by_us(data), rest_by_h11(data)) == (NEXT, NEXT)


@pytest.mark.parametrize("name", ONLY_WE_TAKE)
async def test_we_take_more_than_h11(name: str) -> None:
    data = ONLY_WE_TAKE[name] + NEXT
    assert (await rest_by_us(data), rest_by_h11(data)) == (NEXT, None)


@pytest.mark.parametrize("length", NO_LENGTHS)
async def test_a_length_that_is_none_is_none(length: str) -> None:
    """The body ends with the connection."""
    data = OK + f"Content-Length: {length}\r\n\r\nok".encode() + NEXT
    assert (await rest_by_us(data), rest_by_h11(data)) == (b"", None)
    with pytest.raises(MessageError, match="an invalid Content-Length"):
        request_framing(Head(b"POST / HTTP/1.1", ((b"Content-Length", length.encode()),)))


async def test_a_browser_behind_the_gate_shows_them() -> None:
    answers = {f"/{number}": data for number, data in enumerate(ONLY_WE_TAKE.values())}
    async with browser() as chromium, serve(by_path(answers)) as server:
        for path in answers:
            assert (await plain(chromium, server.url(path))).body == b"ok", path
        for length in NO_LENGTHS:
            data = OK + f"Content-Length: {length}\r\n\r\nok".encode()
            async with serve(always(data, close=True)) as other:
                assert (await plain(chromium, other.url("/"))).body == b"ok", length


@pytest.mark.parametrize("name", NOBODY_TAKES)
async def test_what_both_refuse(name: str) -> None:
    data = NOBODY_TAKES[name] + NEXT
    assert (await rest_by_us(data), rest_by_h11(data)) == (None, None)
