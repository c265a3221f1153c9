"""Odd answers become clean ones, however they arrive; and whoever sends one is not trusted with a second request."""

from __future__ import annotations

import random

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from integration.odd_answers import ALL, CHUNKED, CHUNKS, HEADERS, LAST, LENGTHS, OK, STATUS_LINES, Odd
from shoal.fetch.failures import BrokenAnswerError, FloodError
from shoal.fetch.http_answer import AnswerRepair, _faultless, _mended
from shoal.limits import ANSWER_HEADERS, CHUNK_LINE, HEADER_LINES


def mended(data: bytes, sizes: list[int]) -> tuple[bytes, bool, type | None]:
    """What has come out, chunks put together; whether it was odd; its error."""
    mender = AnswerRepair(is_head=False)
    clean, at = b"", 0
    for size in sizes:
        clean += mender.feed(data[at : at + size])
        at += size
    clean += mender.feed(data[at:])
    head, end, body = (
        clean.rpartition(b"\r\n\r\n") if b"chunked" not in clean else clean.partition(b"\r\n\r\n")
    )
    return head + end + joined(body) if b"chunked" in head else clean, mender.odd, type(mender.error)


def joined(chunks: bytes) -> bytes:
    body = b""
    while chunks:
        size, _, rest = chunks.partition(b"\r\n")
        body, end, chunks = body + rest[: int(size, 16)], rest[int(size, 16) :][:2], rest[int(size, 16) + 2 :]
        assert end == b"\r\n"
    return body


@pytest.mark.parametrize("odd", [odd for odd in ALL if len(odd.data) < 10_000], ids=lambda odd: odd.name)
def test_the_pieces_do_not_matter(odd: Odd) -> None:
    whole = mended(odd.data, [])
    assert mended(odd.data, [1] * len(odd.data)) == whole
    rng = random.Random(odd.name)
    for _ in range(5):
        assert mended(odd.data, [rng.randrange(1, 30) for _ in range(99)]) == whole


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
        mender = AnswerRepair(is_head=False)
        mender.feed(odd.data)
        if not mender.odd and odd.ours[:3].isdigit():
            trusted.add(odd.name)
    assert trusted == HARMLESS


def fields(head: bytes) -> set[tuple[bytes, bytes]]:
    """Names and values, whatever stands between them."""
    lines = [line.partition(b":") for line in head.lower().split(b"\r\n")[1:]]
    return {(name, value.strip()) for name, _, value in lines}


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
        assert replace(slow, data=b"") == replace(fast, data=b"")
        assert fields(slow.data) == fields(fast.data)


def test_a_head_has_no_body() -> None:
    mender = AnswerRepair(is_head=True)
    assert mender.feed(OK + b"Content-Length: 5\r\n\r\n") == OK + b"Content-Length: 5\r\n\r\n"
    assert not mender.odd
    assert mender.feed(b"hello") == b""
    assert mender.odd


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
        (CHUNKED + b"0\r\n" + b"X: y\r\n" * (ANSWER_HEADERS // 6 + 1), aiohttp.ClientPayloadError),
    ],
)
def test_what_goes_too_far(data: bytes, error: type[Exception]) -> None:
    mender = AnswerRepair(is_head=False)
    mender.feed(data)
    assert isinstance(mender.error, error)
    assert mender.feed(LAST) == b"", "nothing comes after an error"
