"""Odd answers become clean ones, however they arrive; and whoever sends one is not trusted with a second request."""

from __future__ import annotations

import random

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from integration.odd_answers import ALL, CHUNKED, CHUNKS, HEADERS, LAST, LENGTHS, OK, STATUS_LINES, Odd
from shoal.fetch.failures import BrokenAnswerError, BrokenBodyError, FloodError, LostError
from shoal.fetch.http_answer import AnswerReader, Head, _faultless, _mended
from shoal.limits import ANSWER_HEADERS, CHUNK_LINE, HEADER_LINES


def read(data: bytes, sizes: list[int]) -> tuple[Head | None, bytes, bool, bool, type | None]:
    """The answer's head and body; whether it has ended, and whether it was odd; its error."""
    reader = AnswerReader(is_head=False)
    at = 0
    for size in sizes:
        reader.feed(data[at : at + size])
        at += size
    reader.feed(data[at:])
    return reader.head, reader.take(), reader.ended, reader.odd, type(reader.error)


@pytest.mark.parametrize("odd", [odd for odd in ALL if len(odd.data) < 10_000], ids=lambda odd: odd.name)
def test_the_pieces_do_not_matter(odd: Odd) -> None:
    whole = read(odd.data, [])
    assert read(odd.data, [1] * len(odd.data)) == whole
    rng = random.Random(odd.name)
    for _ in range(5):
        assert read(odd.data, [rng.randrange(1, 30) for _ in range(99)]) == whole


# Whose end nobody can mistake: the connection may be used again.
HARMLESS = {
    *("a line of 40 KB", "a line of 90 KB", "a line of 200 KB", "40 KB of headers"),
    *("150 headers", "500 headers", "3,000 headers"),
    "as it should be",
    "no reason",  # and no space before it
    "an empty reason",
    "a reason in Latin-1",
    "HTTP/1.0 without a length",
    "HTTP/1.1 without a length",
    "status 999",
    "control characters in a value",
    "a value in Latin-1",
    "an empty value",
    "two spaces at both ends of a value",
    "a length with zeros",
    "205 with a body",
    "100 before",
    "103 before",
    "100 with a length before",
    "Upgrade offered with the page",
    "chunked",
    "chunked in capitals",
    "spaces after a chunk size",
    "zeros before a chunk size",
    "a trailer",
    "Content-Length as a trailer",
}


def test_after_anything_odd_the_connection_is_not_used_again() -> None:
    trusted = set()
    for odd in (*STATUS_LINES, *HEADERS, *LENGTHS, *CHUNKS):
        reader = AnswerReader(is_head=False)
        reader.feed(odd.data)
        if not reader.odd and odd.ours[:3].isdigit():
            trusted.add(odd.name)
    assert trusted == HARMLESS


def fields(head: Head) -> set[tuple[str, str]]:
    return {(name.lower(), value) for name, value in head.fields}


@given(
    st.lists(
        st.sampled_from(
            [
                *(
                    b"Content-Length: 5",
                    b"content-length:5",
                    b"Content-Length: 5 ",
                    b"Content-Length: x",
                    b"Content-Length: ",
                ),
                *(
                    b"Transfer-Encoding: chunked",
                    b"Transfer-Encoding: gzip",
                    b"Location: chunked",
                    b"Location: /",
                ),
                *(b"X: y", b"X : y", b" folded", b"X\r: y", b"X: \xe9", b"X:", b":", b"Content-Length : 6"),
            ]
        ),
        max_size=3,
    ),
    st.sampled_from(
        [b"HTTP/1.1 200 OK", b"HTTP/1.1 204", b"HTTP/1.1 304 x", b"HTTP/1.0 200 OK", b"HTTP/1.1 101 x"]
    ),
    st.sampled_from([b"\r\n", b"\n"]),
)
def test_the_fast_way_is_the_same_way(lines: list[bytes], status: bytes, end: bytes) -> None:
    head = end.join((status, *lines)) + end.removesuffix(b"\n")
    if (fast := _faultless(head)) is not None:
        slow = _mended(head)
        assert replace(slow, fields=[]) == replace(fast, fields=[])
        assert fields(slow) == fields(fast)


def test_a_head_has_no_body() -> None:
    reader = AnswerReader(is_head=True)
    reader.feed(OK + b"Content-Length: 5\r\n\r\n")
    assert reader.ended
    assert not reader.odd
    reader.feed(b"hello")
    assert reader.take() == b""
    assert reader.odd


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (OK + b"X: " + b"y" * ANSWER_HEADERS + b"\r\n\r\n", BrokenAnswerError),
        (OK + b"X: y\r\n" * (HEADER_LINES + 1) + b"\r\n", BrokenAnswerError),
        (OK + b"Content-Length: 5\r\nContent-Length: five\r\n\r\n", BrokenAnswerError),
        (b"SSH-2.0-OpenSSH_9.6", BrokenAnswerError),
        (b"\x16\x03", BrokenAnswerError),
        (CHUNKED + b"5;" + b"x" * CHUNK_LINE, FloodError),
        (CHUNKED + b"0" * CHUNK_LINE, FloodError),
        (CHUNKED + b"0\r\n" + b"X: y\r\n" * (ANSWER_HEADERS // 6 + 1), BrokenBodyError),
    ],
)
def test_what_goes_too_far(data: bytes, error: type[Exception]) -> None:
    reader = AnswerReader(is_head=False)
    reader.feed(data)
    assert isinstance(reader.error, error)
    size = reader.size
    reader.feed(LAST)
    assert (reader.size, reader.ended) == (size, False), "nothing comes after an error"


@pytest.mark.parametrize(
    ("lines", "lasts"),
    [
        (b"HTTP/1.1 200 OK\r\n", True),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n", False),
        (b"HTTP/1.1 200 OK\r\nconnection: Upgrade, Close\r\n", False),
        (b"HTTP/1.1 200 OK\r\nConnection: x\r\nConnection: close\r\n", False),
        (b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n", True),
        (b"HTTP/1.1 200 OK\r\nX-Connection: close\r\n", True),
        (b"HTTP/1.0 200 OK\r\n", False),
        (b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n", True),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nLocation: /\r\n", True),
    ],
)
def test_whether_the_connection_lasts(lines: bytes, lasts: bool) -> None:
    """As h11 says for HTTP/1.1; it never keeps a connection of HTTP/1.0."""
    reader = AnswerReader(is_head=False)
    reader.feed(lines + b"Content-Length: 0\r\n\r\n")
    assert reader.head is not None
    assert reader.head.lasts == lasts
    if b"HTTP/1.1" in lines:
        client = h11.Connection(h11.CLIENT)
        client.send(h11.Request(method="GET", target="/", headers=[("Host", "a")]))
        client.send(h11.EndOfMessage())
        client.receive_data(lines + b"Content-Length: 0\r\n\r\n")
        while client.next_event() not in (h11.NEED_DATA, h11.PAUSED):
            pass
        assert (client.their_state is h11.DONE) == lasts


@pytest.mark.parametrize(
    ("data", "reason", "error"),
    [
        (b"", "", LostError),
        (b"HTTP/1.1 200 OK\r\nContent-", "", LostError),
        (OK + b"Content-Length: 5\r\n\r\nabc", "", BrokenBodyError),
        (CHUNKED + b"3\r\nabc\r\n", "", BrokenBodyError),
        (OK + b"\r\nabc", "connection reset", BrokenBodyError),
        (OK + b"\r\nabc", "", None),  # its end is the end of the connection
        (OK + b"Content-Length: 3\r\n\r\nabc", "connection reset", None),
    ],
)
def test_the_end_of_the_connection(data: bytes, reason: str, error: type[Exception] | None) -> None:
    reader = AnswerReader(is_head=False)
    reader.feed(data)
    reader.feed_eof(reason)
    assert type(reader.error) is (type(None) if error is None else error)
    assert reader.ended == (error is None)
