"""Answers that break the rules of HTTP/1.1, as servers send them: each with what we make of it.

That is a status and a decoded body (of a redirect, its target), or the kind of a failure.
"""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass

import brotli

OK = b"HTTP/1.1 200 OK\r\n"
LENGTH = b"Content-Length: 5\r\n"
BODY = LENGTH + b"\r\nhello"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
LAST = b"5\r\nhello\r\n0\r\n\r\n"
PAGE = "200 hello"


@dataclass(frozen=True)
class Odd:
    """An answer, and what we make of it. `why`: the reason to do something else than curl."""

    name: str
    data: bytes
    ours: str = PAGE
    why: str = ""
    stays: bool = False  # the server leaves the connection open, and waits for the next request


def with_headers(lines: bytes) -> bytes:
    return OK + lines + BODY


def encoded(label: bytes, body: bytes) -> bytes:
    return OK + b"Content-Encoding: %b\r\nContent-Length: %d\r\n\r\n" % (label, len(body)) + body


def redirect(lines: bytes) -> bytes:
    return b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n" + lines + b"\r\n"


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


# Why we do something else than curl
BROWSERS = "browsers take it so"
TO_THE_END = "no length at all, so that the body ends with the connection, as in browsers"
CUT = "the rest of the head is missing, and perhaps a body: to try again is better than an empty page"
NOTHING = "curl and browsers answer with an empty page, though there was something that they could not read"

ZIPPED = gzip.compress(b"hello", mtime=0)

STATUS_LINES = [
    Odd("as it should be", OK + BODY),
    Odd("http in lower case", b"http/1.1 200 OK\r\n" + BODY),
    Odd("no reason", b"HTTP/1.1 200\r\n" + BODY),
    Odd("an empty reason", b"HTTP/1.1 200 \r\n" + BODY),
    Odd("a reason in Latin-1", b"HTTP/1.1 200 D\xe9j\xe0 vu\r\n" + BODY),
    Odd("two spaces", b"HTTP/1.1  200  OK\r\n" + BODY),
    Odd("a tab for a space", b"HTTP/1.1\t200\tOK\r\n" + BODY, why=BROWSERS),
    Odd("a space before HTTP", b" HTTP/1.1 200 OK\r\n" + BODY, why=BROWSERS),
    Odd("blank lines before", b"\r\n\r\n" + OK + BODY, why=BROWSERS),
    Odd("a blank line of LF before", b"\n" + OK + BODY, why=BROWSERS),
    Odd("HTTP/1.0 without a length", b"HTTP/1.0 200 OK\r\n\r\nhello"),
    Odd("HTTP/1.1 without a length", OK + b"\r\nhello"),
    Odd("HTTP/1.2", b"HTTP/1.2 200 OK\r\n" + BODY, why=BROWSERS),
    Odd("HTTP/2.0 in a line", b"HTTP/2.0 200 OK\r\n" + BODY),
    Odd("HTTP/2 in a line", b"HTTP/2 200 OK\r\n" + BODY),
    Odd("no version", b"HTTP 200 OK\r\n" + BODY, why=BROWSERS),
    Odd("ICY", b"ICY 200 OK\r\n" + BODY, "protocol"),
    Odd("HTTP/0.9: no head at all", b"hello", "protocol"),
    Odd("status 999", b"HTTP/1.1 999 Denied\r\n" + BODY, "999 hello"),
    Odd("status of two digits", b"HTTP/1.1 20 OK\r\n" + BODY, "protocol"),
    Odd("status of four digits", b"HTTP/1.1 2000 OK\r\n" + BODY, "protocol"),
    Odd("status 099", b"HTTP/1.1 099 OK\r\n" + BODY, "protocol"),
]

HEADERS = [
    Odd("LF for CRLF", (OK + b"X: y\r\n" + BODY).replace(b"\r\n", b"\n")),
    Odd("LF for some CRLF", OK + b"X: y\nZ: z\r\n" + LENGTH + b"\nhello"),
    Odd("a space before the colon", with_headers(b"X-Odd : y\r\n")),
    Odd(
        "a space before the colon of Content-Length",
        OK + b"Content-Length : 5\r\n\r\nhello",
        why="the whitespace is removed, as RFC 9112 (5.1) wants; curl does not see the header",
        stays=True,
    ),
    Odd(
        "a space before the colon of Transfer-Encoding",
        OK + b"Transfer-Encoding : chunked\r\n\r\n" + LAST,
        why="the whitespace is removed, as RFC 9112 (5.1) wants; curl does not see the header",
    ),
    Odd("a space in a name", with_headers(b"X Odd: y\r\n")),
    Odd("brackets in a name", with_headers(b"X(odd)[1]@{2}: y\r\n")),
    Odd("a name in UTF-8", with_headers("X-é: y\r\n".encode())),
    Odd("an empty name", with_headers(b": y\r\n")),
    Odd("no colon", with_headers(b"a line without\r\n"), why=BROWSERS),
    Odd("a status line among the headers", with_headers(b"HTTP/1.1 200 OK\r\n"), why=BROWSERS),
    Odd("a folded value", with_headers(b"X: a\r\n b\r\n")),
    Odd("a folded value, by a tab", with_headers(b"X: a\r\n\tb\r\n")),
    Odd("a folded Content-Length", OK + b"Content-Length:\r\n 5\r\n\r\nhello", why=BROWSERS),
    Odd("a first line that is folded", with_headers(b" X: a\r\n"), why=BROWSERS),
    Odd("spaces in place of the last line", OK + LENGTH + b"  \r\n\r\nhello"),
    Odd("NUL in a value", with_headers(b"X: a\0b\r\n"), "protocol"),
    Odd("a CR in a value", with_headers(b"X: a\rb\r\n")),
    Odd("CR for CRLF", (OK + b"X: y\r\n" + BODY).replace(b"\r\n", b"\r"), "reset"),
    Odd("control characters in a value", with_headers(b"X: a\x01\x1b\x7fb\r\n")),
    Odd("a value in Latin-1", with_headers(b"X: \xe9\r\n")),
    Odd("an empty value", with_headers(b"X:\r\n")),
    Odd("two spaces at both ends of a value", OK + b"Content-Length:  5  \r\n\r\nhello"),
    Odd("a line of 40 KB", with_headers(b"X: " + b"y" * 40_000 + b"\r\n")),
    Odd("a line of 90 KB", with_headers(b"X: " + b"y" * 90_000 + b"\r\n")),
    Odd(
        "a line of 200 KB",
        with_headers(b"X: " + b"y" * 200_000 + b"\r\n"),
        why="curl takes 100 KB a line; browsers and we bound all headers together",
    ),
    Odd("40 KB of headers", with_headers(b"X-Some: %b\r\n" % (b"y" * 1_000) * 40)),
    Odd("150 headers", with_headers(b"".join(b"X-%d: y\r\n" % n for n in range(150)))),
    Odd("500 headers", with_headers(b"".join(b"X-%d: y\r\n" % n for n in range(500)))),
    Odd("3,000 headers", with_headers(b"".join(b"X-%d: y\r\n" % n for n in range(3_000)))),
    Odd(
        "20,000 headers",
        with_headers(b"".join(b"X-%d: y\r\n" % n for n in range(20_000))),
        "protocol",
        why="bounded by HEADER_LINES; newer curls refuse it too",
    ),
    Odd("1 MB of headers", with_headers(b"X-Some: %b\r\n" % (b"y" * 10_000) * 100), "protocol"),
    Odd("the end in place of the empty line", OK + b"X: y\r\n", "reset", why=CUT),
    Odd("the end within a header", OK + b"X: y", "reset", why=CUT),
]

REDIRECTS = [
    Odd("the same Location twice", redirect(b"Location: /a\r\nLocation: /a\r\n"), "302 /a"),
    Odd("two Locations", redirect(b"Location: /a\r\nLocation: /b\r\n"), "302 /a"),
    Odd("a Location in UTF-8", redirect("Location: /é\r\n".encode()), "302 /%C3%A9"),
    Odd("a Location in Latin-1", redirect(b"Location: /\xe9\r\n"), "302 /%E9"),
    Odd("a Location with spaces", redirect(b"Location: /a b\r\n"), "302 /a%20b"),
    Odd("an empty Location", redirect(b"Location:\r\n"), "302 "),
    Odd("a folded Location", redirect(b"Location:\r\n /a\r\n"), "302 /a", why=BROWSERS),
]

LENGTHS = [
    Odd(
        "Transfer-Encoding and Content-Length",
        OK + b"Transfer-Encoding: chunked\r\n" + LENGTH + b"\r\n" + LAST,
    ),
    Odd(
        "Content-Length and Transfer-Encoding",
        OK + b"Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n" + LAST,
    ),
    Odd(
        "the same, left open",
        OK + b"Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n" + LAST,
        stays=True,
    ),
    Odd("a length twice", OK + LENGTH + BODY, stays=True),
    Odd("a length twice in a line", OK + b"Content-Length: 5, 5\r\n\r\nhello"),
    Odd(
        "two lengths",
        OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        "protocol",
        why="which of them is meant cannot be known; browsers refuse it too",
    ),
    Odd("a length with zeros", OK + b"Content-Length: 0005\r\n\r\nhello"),
    Odd("a length with a plus", OK + b"Content-Length: +5\r\n\r\nhello"),
    Odd("a negative length", OK + b"Content-Length: -5\r\n\r\nhello", why=TO_THE_END),
    Odd("an empty length", OK + b"Content-Length:\r\n\r\nhello", why=TO_THE_END),
    Odd("a length in words", OK + b"Content-Length: five\r\n\r\nhello", why=TO_THE_END),
    Odd("a length and a word", OK + b"Content-Length: 5 bytes\r\n\r\nhello"),
    Odd("a length as a fraction", OK + b"Content-Length: 5.0\r\n\r\nhello"),
    Odd("a length in hexadecimal", OK + b"Content-Length: 0x5\r\n\r\nhello", why=TO_THE_END),
    Odd("a length without end", OK + b"Content-Length: 99999999999999999999999\r\n\r\nhello"),
    Odd("longer than said, closed", OK + BODY + b" and more"),
    Odd("longer than said, left open", OK + BODY + b" and more", stays=True),
    Odd("a line end after the body", OK + BODY + b"\r\n", stays=True),
    Odd("shorter than said", OK + b"Content-Length: 9\r\n\r\nhello", "truncated"),
    Odd(
        "shorter than said, Connection: close",
        OK + b"Connection: close\r\nContent-Length: 9\r\n\r\nhello",
        "truncated",
    ),
    Odd("204 with a body", b"HTTP/1.1 204 No Content\r\n" + BODY, "204 "),
    Odd("204 with a body, left open", b"HTTP/1.1 204 No Content\r\n" + BODY, "204 ", stays=True),
    Odd("204 with chunks", CHUNKED.replace(b"200 OK", b"204 No Content") + LAST, "204 "),
    Odd("205 with a body", b"HTTP/1.1 205 Reset Content\r\n" + BODY, "205 hello"),
    Odd("304 with a body", b"HTTP/1.1 304 Not Modified\r\n" + BODY, "304 "),
    Odd("100 before", b"HTTP/1.1 100 Continue\r\n\r\n" + OK + BODY),
    Odd("103 before", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK + BODY),
    Odd("100 with a length before", b"HTTP/1.1 100 Continue\r\nContent-Length: 0\r\n\r\n" + OK + BODY),
    Odd("102 before, with LF", b"HTTP/1.1 102 Processing\n\n" + OK + BODY),
    Odd(
        "101 that nobody asked for",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n" + OK + BODY,
        "101 ",
        why="nobody switches protocols; what follows is not read",
    ),
    Odd("Upgrade offered with the page", with_headers(b"Upgrade: h2,h2c\r\nConnection: Upgrade\r\n")),
]

CHUNKS = [
    Odd("chunked", CHUNKED + LAST),
    Odd("chunked in capitals", OK + b"Transfer-Encoding: CHUNKED\r\n\r\n" + LAST),
    Odd("chunked by HTTP/1.0", b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + LAST),
    Odd("chunked twice in a line", OK + b"Transfer-Encoding: chunked, chunked\r\n\r\n" + LAST),
    Odd(
        "chunked in two lines",
        OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + LAST,
    ),
    Odd("identity", OK + b"Transfer-Encoding: identity\r\n" + BODY),
    Odd(
        "gzip and chunked as transfer codings",
        OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(ZIPPED), ZIPPED),
    ),
    Odd("an unknown transfer coding", OK + b"Transfer-Encoding: secret\r\n" + BODY, why=BROWSERS),
    Odd("an empty transfer coding", OK + b"Transfer-Encoding:\r\n" + BODY),
    Odd("a chunk extension", CHUNKED + b"5;a=b\r\nhello\r\n0;c\r\n\r\n"),
    Odd("a quoted chunk extension", CHUNKED + b'5;a="b;\tc"\r\nhello\r\n0\r\n\r\n'),
    Odd("a space before a chunk extension", CHUNKED + b"5 ; a=b\r\nhello\r\n0\r\n\r\n"),
    Odd("a chunk extension that is none", CHUNKED + b"5;=;;(\r\nhello\r\n0\r\n\r\n"),
    Odd("spaces after a chunk size", CHUNKED + b"5   \r\nhello\r\n0  \r\n\r\n"),
    Odd("a space before a chunk size", CHUNKED + b" 5\r\nhello\r\n0\r\n\r\n", "truncated"),
    Odd("zeros before a chunk size", CHUNKED + b"0000005\r\nhello\r\n000\r\n\r\n"),
    Odd("LF after chunk sizes", CHUNKED + b"5\nhello\n0\n\n"),
    Odd("LF after chunk sizes, CRLF after chunks", CHUNKED + b"5\nhello\r\n0\n\r\n"),
    Odd("0x before a chunk size", CHUNKED + b"0x5\r\nhello\r\n0\r\n\r\n", "truncated"),
    Odd("a trailer", CHUNKED + b"5\r\nhello\r\n0\r\nX: y\r\n\r\n"),
    Odd("a trailer that is none", CHUNKED + b"5\r\nhello\r\n0\r\njunk\r\n\r\n", why=BROWSERS),
    Odd("a trailer with a space before the colon", CHUNKED + b"5\r\nhello\r\n0\r\nX : y\r\n\r\n"),
    Odd("Content-Length as a trailer", CHUNKED + b"5\r\nhello\r\n0\r\nContent-Length: 9\r\n\r\n"),
    Odd("more after the last chunk", CHUNKED + LAST + b"junk", stays=True),
    Odd("no empty line after the last chunk", CHUNKED + b"5\r\nhello\r\n0\r\n", "truncated"),
    Odd("no line end after the last chunk", CHUNKED + b"5\r\nhello\r\n0", "truncated"),
    Odd("no last chunk", CHUNKED + b"5\r\nhello\r\n", "truncated"),
    Odd("no line end after a chunk", CHUNKED + b"5\r\nhello0\r\n\r\n", "truncated"),
    Odd("a chunk longer than said", CHUNKED + b"5\r\nhello, world\r\n0\r\n\r\n", "truncated"),
    Odd("a chunk shorter than said", CHUNKED + b"9\r\nhello\r\n0\r\n\r\n", "truncated"),
    Odd("a chunk size that is none", CHUNKED + b"xyz\r\nhello\r\n0\r\n\r\n", "truncated"),
    Odd("a chunk size without end", CHUNKED + b"fffffffffffffffffff\r\nhello\r\n0\r\n\r\n", "truncated"),
    Odd("chunked, but sent as it is", CHUNKED + b"hello", "truncated"),
]

ENCODINGS = [
    Odd("gzip", encoded(b"gzip", ZIPPED)),
    Odd("GZIP", encoded(b"GZIP", ZIPPED)),
    Odd("x-gzip", encoded(b"x-gzip", ZIPPED)),
    Odd(
        "gzip of several members",
        encoded(b"gzip", gzip.compress(b"hel") + gzip.compress(b"lo")),
        why="all of it is one file by RFC 1952",
    ),
    Odd("gzip with zeros after it", encoded(b"gzip", ZIPPED + b"\0" * 20), why=BROWSERS),
    Odd("gzip with junk after it", encoded(b"gzip", ZIPPED + b"junk"), why=BROWSERS),
    Odd("gzip that is cut", encoded(b"gzip", ZIPPED[:-4])),
    Odd(
        "gzip cut within the data",
        encoded(b"gzip", gzip.compress(b"hello" + bytes(range(256)))[:-100]),
        "truncated",
        why="half a page would pass for a page",
    ),
    Odd("gzip with a wrong checksum", encoded(b"gzip", ZIPPED[:-8] + b"\0\0\0\0" + ZIPPED[-4:]), "encoding"),
    Odd("gzip said, sent as it is", encoded(b"gzip", b"hello"), "encoding"),
    Odd("gzip said of nothing", encoded(b"gzip", b""), "200 "),
    Odd(
        "gzip said of nothing, in chunks",
        OK + b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "200 ",
    ),
    Odd("gzip twice", encoded(b"gzip, gzip", gzip.compress(ZIPPED, mtime=0))),
    Odd(
        "gzip twice, in two lines", encoded(b"gzip\r\nContent-Encoding: gzip", gzip.compress(ZIPPED, mtime=0))
    ),
    Odd("gzip said twice, done once", encoded(b"gzip, gzip", ZIPPED), "encoding"),
    Odd(
        "gzip done twice, said once",
        encoded(b"gzip", gzip.compress(ZIPPED, mtime=0)),
        "200 \x1f\x8b\x08\0\0…",
    ),
    Odd("gzip, then br", encoded(b"gzip, br", brotli.compress(ZIPPED))),
    Odd("gzip and identity", encoded(b"identity, gzip", ZIPPED)),
    Odd("gzip and a comma", encoded(b"gzip,", ZIPPED)),
    Odd("gzip ten times", encoded(b",".join([b"gzip"] * 10), ZIPPED), "encoding"),
    Odd("gzip said, but deflate", encoded(b"gzip", zlib.compress(b"hello"))),
    Odd("deflate", encoded(b"deflate", zlib.compress(b"hello"))),
    Odd("deflate without its header", encoded(b"deflate", raw_deflate(b"hello"))),
    Odd("deflate that is cut", encoded(b"deflate", zlib.compress(b"hello")[:-4])),
    Odd(
        "deflate said, but gzip",
        encoded(b"deflate", ZIPPED),
        why="curl looks for both kinds where gzip is said, and for one where deflate is",
    ),
    Odd("deflate said, sent as it is", encoded(b"deflate", b"hello"), "encoding"),
    Odd("br", encoded(b"br", brotli.compress(b"hello"))),
    Odd("br said, sent as it is", encoded(b"br", b"hello"), "encoding", why=NOTHING),
    Odd("br that is cut", encoded(b"br", brotli.compress(b"hello" * 99)[:-3]), "encoding", why=NOTHING),
    Odd("br with junk after it", encoded(b"br", brotli.compress(b"hello") + b"junk"), "encoding"),
    Odd("identity as encoding", encoded(b"identity", b"hello")),
    Odd("none as encoding", encoded(b"none", b"hello")),
    Odd("an empty encoding", encoded(b"", b"hello")),
    Odd("UTF-8 as encoding", encoded(b"UTF-8", b"hello"), why=BROWSERS),
    Odd("an encoding nobody knows", encoded(b"secret", b"hello"), why=BROWSERS),
]
ALL = [*STATUS_LINES, *HEADERS, *REDIRECTS, *LENGTHS, *CHUNKS, *ENCODINGS]
