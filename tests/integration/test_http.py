"""The HTTP transport against a server that answers with chosen bytes (faults 17-20 and 30)."""

from __future__ import annotations

import asyncio
import gzip
import random
import socket
import ssl
import threading
import time
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import brotli
import pytest
from aiohttp.compression_utils import HAS_ZSTD

from integration.raw_server import Answer, RawServer, always, by_path, page, serve
from shoal import limits
from shoal.clock import SystemClock
from shoal.fetch import body_reader
from shoal.fetch.deadline import LeaseDeadline
from shoal.fetch.dialer import HostConnector
from shoal.fetch.guard import Guard
from shoal.fetch.http import HttpTransport
from shoal.fetch.slots import Slots
from shoal.fetch.transport import FetchRequest
from shoal.model import Failure, Response
from shoal.settings import Settings
from shoal.testing.servers.names import SILENT, NameServer

DEADLINE = 30.0  # seconds for what never ends if it fails
LOOPBACK = ["127.0.0.0/8"]
CERTS = Path(__file__).parent / "certs"


@asynccontextmanager
async def transport(**settings: Any) -> AsyncIterator[HttpTransport]:
    http = HttpTransport(Settings(**settings), Guard(LOOPBACK), SystemClock())
    try:
        yield http
    finally:
        await http.close()


async def answer_of(http: HttpTransport, url: str, **fields: Any) -> Response:
    outcome = await http.fetch(FetchRequest(url, **fields))
    assert isinstance(outcome, Response), outcome
    return outcome


async def failure_of(http: HttpTransport, url: str, **fields: Any) -> Failure:
    async with asyncio.timeout(DEADLINE):
        outcome = await http.fetch(FetchRequest(url, **fields))
    assert isinstance(outcome, Failure), outcome
    assert "\n" not in outcome.detail
    assert outcome.detail
    return outcome


def headers_of(head: bytes) -> dict[str, str]:
    lines = head.decode().split("\r\n")[1:-2]
    return {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}


# -- the ordinary path


async def test_a_page() -> None:
    async with serve(always(page(b"hello", Content_Type="text/html"))) as server, transport() as http:
        answer = await answer_of(http, server.url("/a"))
    assert (answer.status, answer.body, answer.wire_bytes) == (200, b"hello", 5)
    assert answer.headers["content-TYPE"] == "text/html"
    assert 0 < answer.first_byte <= answer.elapsed


async def test_the_url_is_sent_byte_for_byte() -> None:
    path = "/a%2Fb/%7e/c|d?q=%41+b&&x[]=1;'"
    async with serve(always(page())) as server, transport() as http:
        await answer_of(http, server.url(path))
    assert server.paths == [path]


async def test_default_and_own_headers() -> None:
    settings: dict[str, Any] = {"user_agent": "Bot/1", "headers": {"X-Team": "a", "accept": "text/plain"}}
    async with serve(always(page())) as server, transport(**settings) as http:
        await answer_of(http, server.url(), headers={"x-team": "b"})
    sent = headers_of(server.hits[0])
    assert sent["user-agent"] == "Bot/1"
    assert sent["accept"] == "text/plain"
    assert sent["x-team"] == "b"
    assert sent["accept-encoding"] == "gzip, deflate, br, zstd"
    assert sent["host"] == f"127.0.0.1:{server.port}"


async def test_connections_are_kept_alive() -> None:
    async with serve(always(page())) as server, transport() as http:
        for _ in range(5):
            await answer_of(http, server.url())
    assert server.connections == 1


async def test_a_redirect_is_an_answer() -> None:
    redirect = page(b"", "302 Found", Location="/next", Set_Cookie="a=1")
    async with serve(always(redirect)) as server, transport() as http:
        answer = await answer_of(http, server.url())
    assert (answer.status, answer.headers["Location"], answer.cookies) == (302, "/next", ("a=1",))
    assert len(server.hits) == 1


# -- leases


class FreezingGuard(Guard):
    """The process stands still, as under SIGSTOP, when a connection is about to be opened."""

    def socket_factory(self, addr_info: Any) -> socket.socket:
        time.sleep(0.2)
        return super().socket_factory(addr_info)


async def test_who_was_frozen_past_its_lease_sends_nothing() -> None:
    """Its place at the host may be another's by now."""
    http = HttpTransport(Settings(), FreezingGuard(LOOPBACK), SystemClock())
    async with serve(always(page())) as server:
        LeaseDeadline(asyncio.get_running_loop().time() + 0.1).hold()
        with pytest.raises(asyncio.CancelledError):
            await http.fetch(FetchRequest(server.url("/late")))
        LeaseDeadline(asyncio.get_running_loop().time() + 5).hold()
        await answer_of(http, server.url("/in-time"))
        LeaseDeadline(0.0).hold()
        with pytest.raises(asyncio.CancelledError):
            await http.fetch(FetchRequest(server.url("/on-a-kept-connection")))
        await http.close()
    assert server.paths == ["/in-time"]


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
async def test_bodiless_statuses(status: str) -> None:
    data = f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\n\r\n".encode()
    async with serve(always(data)) as server, transport() as http:
        answer = await answer_of(http, server.url())
    assert (answer.status, answer.body, answer.wire_bytes) == (int(status[:3]), b"", 0)


async def test_head_has_no_body() -> None:
    data = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
    async with serve(always(data)) as server, transport() as http:
        answer = await answer_of(http, server.url(), method="HEAD")
        again = await answer_of(http, server.url(), method="HEAD")
    assert answer.body == again.body == b""
    assert server.connections == 1


async def test_post_sends_its_body() -> None:
    received = asyncio.get_running_loop().create_future()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        received.set_result(await reader.readexactly(4))
        writer.write(page(b"", "201 Created", Connection="close"))
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, transport() as http:
        outcome = await answer_of(http, f"http://127.0.0.1:{port}/", method="POST", body=b"a=%0")
    assert outcome.status == 201
    assert await received == b"a=%0"


# -- cookies


async def test_cookies_come_back_to_their_host_only() -> None:
    answer = page(b"", Set_Cookie="id=7; Path=/")
    async with (
        serve(always(answer)) as one,
        serve(always(page()), host="127.0.0.2") as two,
        transport() as http,
    ):
        for server in (one, one, two):
            await answer_of(http, server.url())
    assert "cookie" not in headers_of(one.hits[0])
    assert headers_of(one.hits[1])["cookie"] == "id=7"
    assert "cookie" not in headers_of(two.hits[0])


async def test_cookies_of_the_redirect_that_led_here() -> None:
    async with serve(always(page())) as server, transport() as http:
        await answer_of(http, server.url("/in"), cookies=("s=1; Path=/",), referrer_url=server.url("/login"))
        other = "http://127.0.0.9/login"
        await answer_of(http, server.url("/in"), cookies=("foreign=1; Path=/",), referrer_url=other)
    assert [headers_of(head)["cookie"] for head in server.hits] == ["s=1", "s=1"]


async def test_cookies_switched_off() -> None:
    async with serve(always(page(b"", Set_Cookie="id=7"))) as server, transport(cookies=False) as http:
        await answer_of(http, server.url())
        await answer_of(http, server.url(), cookies=("s=1",), referrer_url=server.url())
    assert "cookie" not in headers_of(server.hits[1])


# -- encodings and size (17)

ENCODERS = {"gzip": gzip.compress, "br": brotli.compress}
if HAS_ZSTD:
    from aiohttp.compression_utils import ZstdDecompressor

    if ZstdDecompressor.__module__.startswith("backports"):
        from backports import zstd
    else:
        from compression import zstd  # type: ignore[no-redef,import-not-found]
    ENCODERS["zstd"] = zstd.compress


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd"])
async def test_bodies_are_decoded(encoding: str) -> None:
    packed = ENCODERS[encoding](b"hello " * 1000)
    async with serve(always(page(packed, Content_Encoding=encoding))) as server, transport() as http:
        answer = await answer_of(http, server.url())
    assert answer.body == b"hello " * 1000
    assert answer.wire_bytes == len(packed)


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd"])
async def test_a_bomb_is_cut_at_the_decoded_cap(encoding: str) -> None:
    packed = ENCODERS[encoding](bytes(32 * 1024 * 1024))
    async with (
        serve(always(page(packed, Content_Encoding=encoding))) as server,
        transport(max_body=100_000) as http,
    ):
        tracemalloc.start()
        failure = await failure_of(http, server.url())
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert (failure.kind, failure.status) == ("too_large", 200)
    assert "max_body" in failure.detail
    assert peak < 8 * 1024 * 1024


async def test_the_cap_is_exact() -> None:
    async with serve(always(page(b"x" * 1000))) as server, transport() as http:
        assert len((await answer_of(http, server.url(), max_body=1000)).body) == 1000
        assert (await failure_of(http, server.url(), max_body=999)).kind == "too_large"


async def test_a_body_without_end_is_cut_and_its_connection_closed() -> None:
    closed = asyncio.Event()

    async def pour(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        try:
            while True:
                writer.write(b"x" * 65536)
                await writer.drain()
        except OSError:
            closed.set()
            raise

    async with serve(pour) as server, transport(max_body=1_000_000) as http:
        assert (await failure_of(http, server.url())).kind == "too_large"
        async with asyncio.timeout(DEADLINE):
            await closed.wait()


async def test_truncate_gives_the_beginning() -> None:
    async with serve(always(page(b"x" * 500_000))) as server, transport() as http:
        answer = await answer_of(http, server.url(), max_body=1000, truncate=True)
        assert answer.body == b"x" * 1000
        assert len((await answer_of(http, server.url(), max_body=500_000, truncate=True)).body) == 500_000


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "deflate", "br", "zstd"])
async def test_a_compressed_body_that_breaks_off_is_truncated(encoding: str) -> None:
    """Though it is as long as the server says."""
    text = random.Random(1).randbytes(20_000)
    pack = {**ENCODERS, "x-gzip": gzip.compress, "deflate": zlib.compress}[encoding]
    packed = pack(text)
    for size in (5_000, 19_000):
        answer = page(packed[:size], Content_Encoding=encoding)
        async with serve(always(answer)) as server, transport() as http:
            failure = await failure_of(http, server.url())
        assert (failure.kind, failure.status) == ("truncated", 200)
        assert f"its {encoding} data breaks off" in failure.detail


async def test_a_bomb_within_a_bomb_is_cut() -> None:
    """Within is a bomb, or something that unfolds to nothing at all, for as long as one likes."""
    nothing = b"\x78\x9c" + b"\0\0\0\xff\xff" * 1_000_000
    for inner in (gzip.compress(bytes(10_000_000)) + bytes(5_000_000), nothing):
        packed = gzip.compress(inner)
        answer = always(page(packed, Content_Encoding="deflate, gzip"))
        async with serve(answer) as server, transport(max_body=100_000) as http:
            assert (await failure_of(http, server.url())).kind == "too_large"


async def test_a_body_that_is_longer_compressed_is_cut_too() -> None:
    packed = b"\x78\x9c" + b"\0\0\0\xff\xff" * 100_000
    async with (
        serve(always(page(packed, Content_Encoding="deflate"))) as server,
        transport(max_body=100_000) as http,
    ):
        assert (await failure_of(http, server.url())).kind == "too_large"


@pytest.mark.parametrize("size", [1_000, 65_536, 262_144, 1 << 20])
async def test_how_a_body_is_cut_into_pieces_decides_nothing(size: int) -> None:
    """Other event loops read in larger pieces: then this one came at once, and was taken for broken."""

    def pieces(data: bytes) -> Callable[[], Awaitable[bytes]]:
        parts = iter([data[at : at + size] for at in range(0, len(data), size)])

        async def read() -> bytes:
            return next(parts, b"")

        return read

    empty = b"\x78\x9c" + b"\0\0\0\xff\xff" * 100_000
    with pytest.raises(body_reader.BodyTooLargeError, match="265536 bytes, compressed"):
        await body_reader.read_body(pieces(empty), "deflate", cap=100_000, truncate=False)
    noise = random.Random(1).randbytes(300_000)
    _, start = await body_reader.read_body(pieces(gzip.compress(noise)), "gzip", cap=100, truncate=True)
    assert start == noise[:100]


async def test_many_members_take_little_time() -> None:
    packed = gzip.compress(b"x", mtime=0) * 50_000
    async with serve(always(page(packed, Content_Encoding="gzip"))) as server, transport() as http:
        assert (await answer_of(http, server.url())).body == b"x" * 50_000


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(b"\x50\x2a\x4d\x18\0\0\0\0", id="skippable"),
        pytest.param(b"\x28\xb5\x2f\xfd\x20\0\x01\0\0", id="of no bytes"),
    ],
)
async def test_frames_that_hold_nothing_end(frame: bytes) -> None:
    """Two million of them fit into 20 KB of gzip, and each takes the time of a new decompressor."""
    packed = gzip.compress(frame * 20_000)
    async with (
        serve(always(page(packed, Content_Encoding="zstd, gzip"))) as server,
        transport() as http,
    ):
        failure = await failure_of(http, server.url())
    assert failure.kind == "encoding"
    assert "1,001 frames hold only 0 bytes" in failure.detail


async def test_frames_that_hold_a_line_each_are_read() -> None:
    """As logs are written, with some that hold nothing."""
    line = b"GET /catalogue/item-1 200 4711 bytes, by somebody who reads it all\n"
    packed = (ENCODERS["zstd"](line) + ENCODERS["zstd"](b"")) * 500 + ENCODERS["zstd"](line) * 5_000
    async with serve(always(page(packed, Content_Encoding="zstd"))) as server, transport() as http:
        assert (await answer_of(http, server.url())).body == line * 5_500


@pytest.mark.parametrize("encoding", ["gzip", "zstd, gzip"])
async def test_others_have_their_turn_while_members_that_hold_nothing_are_read(encoding: str) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    end = ENCODERS["zstd"](b"x") if encoding.startswith("zstd") else b"x"
    parts = iter([gzip.compress(b"", mtime=0) * 5_000 + gzip.compress(end), b""])

    async def read() -> bytes:
        return next(parts)

    counting = asyncio.create_task(count())
    _, body = await body_reader.read_body(read, encoding, cap=1_000_000, truncate=False)
    counting.cancel()
    assert body == b"x"
    assert turns > 20


async def test_corrupt_gzip() -> None:
    packed = b"\x1f\x8b not gzip at all"
    async with serve(always(page(packed, Content_Encoding="gzip"))) as server, transport() as http:
        assert (await failure_of(http, server.url())).kind == "encoding"


# -- time (18)


async def hang(head: bytes, writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def trickle(head: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


async def test_a_silent_server() -> None:
    async with serve(hang) as server, transport(read_timeout=0.1) as http:
        failure = await failure_of(http, server.url())
    assert (failure.kind, failure.status) == ("read_timeout", None)
    assert failure.elapsed >= 0.09  # loops round their timers to milliseconds


@pytest.mark.parametrize("limit", ["read_timeout", "total_timeout"])
async def test_a_whole_answer_is_kept_while_its_page_waits_for_memory(
    monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    async def wait(size: int) -> None:
        await asyncio.sleep(0.4)

    monkeypatch.setattr(body_reader, "received", wait)
    body = b"x" * 50_000
    async with serve(always(page(body))) as server, transport(**{limit: 0.2}) as http:
        assert (await answer_of(http, server.url())).body == body


async def test_the_total_deadline_holds_against_a_trickle() -> None:
    async with serve(trickle) as server, transport(read_timeout=1.0, total_timeout=0.2) as http:
        failure = await failure_of(http, server.url())
    assert (failure.kind, failure.status) == ("timeout", 200)


async def test_a_request_may_have_its_own_deadline() -> None:
    async with serve(hang) as server, transport() as http:
        assert (await failure_of(http, server.url(), total_timeout=0.1)).kind == "timeout"


async def test_a_connection_that_is_never_made(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    never = loop.create_future()

    async def sock_connect(sock: object, address: object) -> None:
        await never

    monkeypatch.setattr(loop, "sock_connect", sock_connect)
    async with transport(connect_timeout=0.1) as http:
        assert (await failure_of(http, "http://127.0.0.1:9/")).kind == "connect_timeout"


async def test_cancellation_goes_through_and_closes_the_connection() -> None:
    begun, closed = asyncio.Event(), asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        begun.set()
        assert await reader.read() == b""
        closed.set()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, transport() as http, asyncio.timeout(DEADLINE):
        fetching = asyncio.create_task(http.fetch(FetchRequest(f"http://127.0.0.1:{port}/")))
        await begun.wait()
        fetching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await fetching
        await closed.wait()


# -- bytes that are not HTTP (19, 20)

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
BROKEN = {
    "no HTTP": (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "protocol"),
    "bad status": (b"HTTP/1.1 abc OK\r\n\r\n", "protocol"),
    "10 MB of headers": (OK + b"X: " + b"y" * 10_000_000 + b"\r\n\r\n", "protocol"),
    "10^5 header lines": (OK + b"X: y\r\n" * 100_000 + b"\r\n", "protocol"),
    "NUL in a header": (OK + b"X: a\0b\r\nContent-Length: 0\r\n\r\n", "protocol"),
    "two lengths": (OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", "protocol"),
    "longer than it is": (OK + b"Content-Length: 100\r\n\r\nhello", "truncated"),
    "chunk size is junk": (CHUNKED + b"zz\r\nhello\r\n0\r\n\r\n", "truncated"),
    "broken second chunk": (CHUNKED + b"5\r\nhello\r\n5\r\nhelloJUNK\r\n0\r\n\r\n", "truncated"),
    "no last chunk": (CHUNKED + b"5\r\nhello\r\n", "truncated"),
    "ends in mid-header": (OK + b"Content-Le", "reset"),
    "nothing at all": (b"", "reset"),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_broken_answers_are_classified_and_never_hang(name: str) -> None:
    data, kind = BROKEN[name]
    async with serve(always(data, close=True)) as server, transport() as http:
        failure = await failure_of(http, server.url())
    assert failure.kind == kind
    assert len(failure.detail) <= 200
    assert len(server.hits) == 1  # one claim, one hit


@pytest.mark.parametrize("data", [CHUNKED + b"zz\r\nhello", CHUNKED + b"5\r\nhello\r\n5\r\nhelloJUNK\r\n"])
async def test_broken_chunks_on_a_connection_that_stays_open(data: bytes) -> None:
    async with serve(always(data)) as server, transport() as http:
        failure = await failure_of(http, server.url())
    assert failure.kind == "truncated"


async def test_broken_chunks_after_a_good_beginning() -> None:
    reading = asyncio.Event()

    class TellingClock(SystemClock):
        calls = 0

        def monotonic(self) -> float:
            self.calls += 1
            if self.calls == 2:  # the head has come, now the body is waited for
                reading.set()
            return super().monotonic()

    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + b"5\r\nhello\r\n")
        await writer.drain()
        await reading.wait()
        writer.write(b"5\r\nhelloJUNK\r\n0\r\n\r\n")
        await asyncio.Event().wait()

    async with serve(answer) as server:
        http = HttpTransport(Settings(), Guard(LOOPBACK), TellingClock())
        failure = await failure_of(http, server.url())
        await http.close()
    assert (failure.kind, failure.status) == ("truncated", 200)


async def test_small_chunks_are_no_flood() -> None:
    """As a template engine that flushes after each tag."""
    data = CHUNKED + b"10\r\n<p>16 bytes.</p>\r\n" * 100_000 + b"0\r\n\r\n"
    async with serve(always(data)) as server, transport() as http:
        assert (await answer_of(http, server.url())).body == b"<p>16 bytes.</p>" * 100_000


async def test_interim_answers_are_passed_over() -> None:
    hint = b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n"
    async with serve(always(hint * limits.INTERIM_ANSWERS + page())) as server, transport() as http:
        assert (await answer_of(http, server.url())).body == b"hello"
    async with serve(always(hint * (limits.INTERIM_ANSWERS + 1) + page())) as server, transport() as http:
        assert (await failure_of(http, server.url())).kind == "flood"


SMUGGLED = page(b"for the next")


@pytest.mark.parametrize(
    "data",
    [
        page() + SMUGGLED,
        page(b"", "204 No Content") + SMUGGLED,
        CHUNKED + b"5\r\nhello\r\n0\r\n\r\n" + SMUGGLED,
        OK + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n" + SMUGGLED,
        OK + b"Content-Length : 5\r\n\r\nhello" + SMUGGLED,
        CHUNKED + b"5;\nhello\r\n0\r\n\r\n" + SMUGGLED,
    ],
)
async def test_what_follows_an_answer_is_not_the_next(data: bytes) -> None:
    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(data if head.startswith(b"GET /first") else page(b"asked for"))

    async with serve(answer) as server, transport() as http:
        await answer_of(http, server.url("/first"))
        assert (await answer_of(http, server.url("/second"))).body == b"asked for"
    assert server.connections == 2


async def test_a_connection_is_not_kept_after_an_odd_answer() -> None:
    async with (
        serve(always(OK + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello")) as server,
        transport() as http,
    ):
        for _ in range(3):
            assert (await answer_of(http, server.url())).body == b"hello"
    assert server.connections == 3


@pytest.mark.parametrize("more", [page(b"other"), b"x", b"\r\n"])
async def test_what_comes_on_an_idle_connection_is_not_read(more: bytes) -> None:
    """An answer to nothing must not be taken for the answer to the next request, nor be kept."""
    writers: list[asyncio.StreamWriter] = []

    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        writer.write(page(head.split(b" ")[1]))

    async with serve(answer) as server, transport() as http:
        assert (await answer_of(http, server.url("/1"))).body == b"/1"
        writers[0].write(more)
        async with asyncio.timeout(DEADLINE):
            await writers[0].wait_closed()
        assert (await answer_of(http, server.url("/2"))).body == b"/2"
    assert server.connections == 2


async def test_nobody_listens() -> None:
    async with serve(always(page())) as server:
        url = server.url()
    async with transport() as http:
        assert (await failure_of(http, url)).kind == "connect"


async def test_a_reset_connection() -> None:
    async def reset(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async with serve(reset) as server, transport() as http:
        assert (await failure_of(http, server.url())).kind == "reset"
    assert len(server.hits) == 1


async def test_a_connection_closed_while_idle_is_opened_anew() -> None:
    closing = asyncio.Event()

    async def once(head: bytes, writer: asyncio.StreamWriter) -> None:
        if head.startswith(b"GET /first"):
            writer.write(page())
        elif not closing.is_set():  # stands for a server that closed just as the request was on its way
            closing.set()
            writer.close()
        else:
            writer.write(page(b"second"))

    async with serve(once) as server, transport() as http:
        await answer_of(http, server.url("/first"))
        assert (await answer_of(http, server.url("/second"))).body == b"second"
    assert server.connections == 2


@pytest.mark.parametrize("url", ["http://", "http:///x", "ftp://127.0.0.1/", "http://127.0.0.1:99999/", "x"])
async def test_what_is_no_url(url: str) -> None:
    async with transport() as http:
        assert (await failure_of(http, url)).kind == "invalid_url"


async def test_a_host_name_that_cannot_be() -> None:
    async with transport() as http:
        assert (await failure_of(http, f"http://{'a' * 70}.example/")).kind in ("invalid_url", "dns")


async def test_a_header_that_would_smuggle() -> None:
    async with serve(always(page())) as server, transport() as http:
        failure = await failure_of(http, server.url(), headers={"X": "a\r\nY: b"})
    assert failure.kind == "invalid_request"
    assert not server.hits


# -- answers that drip (18)


def slowly(*parts: bytes, every: float = 0.02, first: float = 0.0) -> Answer:
    """The parts one after another, the last of them again and again until the connection ends."""

    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(first)
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(every)
        while not writer.is_closing():
            writer.write(parts[-1])
            await writer.drain()
            await asyncio.sleep(every)

    return answer


@pytest.mark.parametrize(
    ("parts", "status"),
    [
        ((b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n", b"x"), 200),
        ((b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"), 200),
        ((b"HTTP/1.1 200 OK\r\n\r\n", b"x"), 200),
        ((b"HTTP/1.1 200 OK\r\nX-Long: ", b"x"), None),
        ((b"HTTP/1.1 200 ", b"O"), None),
    ],
)
async def test_an_answer_that_drips_is_cut(
    monkeypatch: pytest.MonkeyPatch, parts: tuple[bytes, ...], status: int | None
) -> None:
    monkeypatch.setattr(body_reader, "GRACE", 0.1)
    async with serve(slowly(*parts)) as server, transport(min_rate=5000) as http:
        failure = await failure_of(http, server.url())
    assert (failure.kind, failure.status) == ("too_slow", status)
    assert "lower min_rate" in failure.detail


async def test_a_kept_connection_that_drips_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rate is that of the answer, not of what came over the connection before."""
    monkeypatch.setattr(body_reader, "GRACE", 0.1)
    dripping = slowly(b"HTTP/1.1 200 OK\r\nX-Long: ", b"x")

    async def first_quickly(head: bytes, writer: asyncio.StreamWriter) -> None:
        await (always(page(b"x" * 100_000)) if len(server.hits) == 1 else dripping)(head, writer)

    async with serve(first_quickly) as server, transport(min_rate=5000) as http:
        await answer_of(http, server.url())
        assert (await failure_of(http, server.url())).kind == "too_slow"
    assert server.connections == 1


async def test_a_large_piece_is_no_licence_to_drip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_reader, "GRACE", 0.1)
    begun = b"HTTP/1.1 200 OK\r\nContent-Length: 500000\r\n\r\n" + b"x" * 100_000
    async with serve(slowly(begun, b"x")) as server, transport(min_rate=5000) as http:
        assert (await failure_of(http, server.url())).kind == "too_slow"


async def test_a_small_piece_after_long_thought_is_no_drip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_reader, "GRACE", 0.05)
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = slowly(head, b"2\r\nok\r\n", b"0\r\n\r\n", every=0.2)
    async with serve(answer) as server, transport(min_rate=100_000) as http:
        assert (await answer_of(http, server.url())).body == b"ok"


@pytest.mark.parametrize("where", ["before", "between", "within"])
async def test_a_server_that_thinks_is_not_too_slow(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """It is silent for a while and then sends what it has; read_timeout is for that."""
    monkeypatch.setattr(body_reader, "GRACE", 0.05)
    head, body = b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n", b"x" * 5000
    parts = {"before": (head + body,), "between": (head, body), "within": (head + body[:100], body[100:])}
    answer = slowly(*parts[where], every=0.3, first=0.3 if where == "before" else 0.0)
    async with serve(answer) as server, transport(min_rate=1000) as http:
        assert (await answer_of(http, server.url())).body == body


async def test_a_small_page_that_is_complete_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_reader, "GRACE", 0.05)
    answer = slowly(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", b"ok", every=0.2)
    async with serve(answer) as server, transport(min_rate=100_000) as http:
        assert (await answer_of(http, server.url())).body == b"ok"


async def test_the_least_rate_can_be_lifted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_reader, "GRACE", 0.0)
    answer = slowly(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", b"x", every=0.01)
    async with serve(answer) as server, transport(min_rate=0) as http:
        assert (await answer_of(http, server.url())).body == b"x" * 9


# -- names


async def test_unknown_name() -> None:
    with NameServer({}) as names:
        async with transport(dns_servers=[names.address]) as http:
            failure = await failure_of(http, "http://nowhere.invalid/")
    assert failure.kind == "dns"
    assert "nowhere.invalid" in failure.detail


async def test_no_slot_is_held_while_a_name_is_looked_up() -> None:
    given_up = asyncio.Event()
    slots = Slots(1, per_slot=8, most_waiting=99, on_free=given_up.set)
    slots.enter("normal").occupy()
    with NameServer({"x.example": SILENT}) as names:
        async with transport(dns_servers=[names.address], dns_timeout=0.3) as http:
            fetching = asyncio.create_task(failure_of(http, "http://x.example/"))
            async with asyncio.timeout(DEADLINE):
                await given_up.wait()
            assert (slots.working, slots.waiting) == (0, 1)
            failure = await fetching
    assert (failure.kind, slots.working) == ("dns", 1)
    assert "dns_timeout" in failure.detail


async def test_a_body_that_grows_needs_a_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many may wait, but few may hold much memory."""
    monkeypatch.setattr("shoal.fetch.slots.ROOM", 500_000)
    slots = Slots(1, per_slot=8, most_waiting=99, on_free=lambda: None)
    place, other = slots.enter("normal"), slots.enter("normal")
    place.occupy()
    place.give_up()
    body = b"x" * 1_000_000
    async with serve(always(page(body))) as server, transport() as http:
        fetching = asyncio.create_task(answer_of(http, server.url()))
        done, _ = await asyncio.wait([fetching], timeout=0.3)
        assert not done
        other.leave()
        assert (await fetching).body == body
    assert (slots.working, slots.waiting) == (1, 0)


# -- bodies of requests


async def test_a_body_may_take_longer_than_read_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that takes it bit by bit is not silent."""

    def small(sock: socket.socket) -> socket.socket:
        """Otherwise some megabytes are in the buffers of the two sockets when all is written."""
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, 64_000)
        return sock

    async def open_socket(self: HostConnector, host: str, port: int) -> socket.socket:
        return small(await opened(self, host, port))

    async def read_slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for _ in range(12):
            await reader.readexactly(200_000)
            await asyncio.sleep(0.2)
        writer.write(page(b"thanks", Connection="close"))
        writer.close()

    opened = HostConnector.open_socket
    monkeypatch.setattr(HostConnector, "open_socket", open_socket)
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTS / "loopback.pem"))
    listening = small(socket.create_server(("127.0.0.1", 0)))
    server = await asyncio.start_server(read_slowly, sock=listening, ssl=tls_server("loopback"))
    async with server, transport(read_timeout=2.0) as http:
        url = f"https://127.0.0.1:{listening.getsockname()[1]}/"
        assert (await answer_of(http, url, method="POST", body=bytes(2_400_000))).body == b"thanks"


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_what_follows_a_body_that_nobody_reads_has_its_own_connection(
    monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """The server has answered and reads no more. What is behind the body would never arrive."""
    done = asyncio.Event()

    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(page(b"", "413 Content Too Large") if head.startswith(b"POST") else page(b"asked for"))
        if head.startswith(b"POST"):
            await done.wait()

    monkeypatch.setenv("SSL_CERT_FILE", str(CERTS / "loopback.pem"))
    tls = tls_server("loopback") if scheme == "https" else None
    async with serve(answer, tls=tls) as server, transport(read_timeout=2) as http:
        body = b"x" * 20_000_000  # more than fits into the buffers of the sockets
        assert (await answer_of(http, server.url("/large"), method="POST", body=body)).status == 413
        assert (await answer_of(http, server.url("/second"))).body == b"asked for"
        done.set()
    assert server.connections == 2


async def test_an_answer_before_the_request_was_sent_is_read_though_the_server_closes_then() -> None:
    """It has not read the request, so its end is a reset: curl reads the answer, as browsers do."""

    def refuse(listening: socket.socket) -> None:
        for _ in range(20):
            client, _ = listening.accept()
            with client:
                head = b""
                while b"\r\n\r\n" not in head:
                    head += client.recv(1024)
                client.sendall(page(b"large", "413 Content Too Large"))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=refuse, args=(listening,), daemon=True).start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        async with transport() as http:
            asked = [FetchRequest(url, method="POST", body=bytes(1_000_000)) for _ in range(20)]
            outcomes = [await http.fetch(request) for request in asked]
    # The reset may come between the moment when we look for an answer and the next piece that we write.
    assert sum(isinstance(outcome, Response) and outcome.status == 413 for outcome in outcomes) >= 10


# -- TLS (30)


def tls_server(name: str = "elsewhere") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTS / f"{name}.pem", CERTS / f"{name}.key")
    return context


async def test_an_untrusted_certificate() -> None:
    async with serve(always(page()), tls=tls_server()) as server, transport() as http:
        failure = await failure_of(http, server.url())
    assert failure.kind == "tls"
    assert "self-signed" in failure.detail
    assert not server.hits


async def test_a_certificate_for_another_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTS / "elsewhere.pem"))
    async with serve(always(page()), tls=tls_server()) as server, transport() as http:
        failure = await failure_of(http, server.url())
    assert failure.kind == "tls"
    assert "127.0.0.1" in failure.detail


async def test_plain_text_on_a_tls_port() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n")
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server, transport() as http:
        port = server.sockets[0].getsockname()[1]
        assert (await failure_of(http, f"https://127.0.0.1:{port}/")).kind == "tls"


# -- many hosts


async def test_idle_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.fetch.http._MAX_IDLE", 3)
    servers: list[RawServer] = []

    async def visit(http: HttpTransport, number: int) -> None:
        if number:
            async with serve(by_path({"/": page()}), host=f"127.0.1.{number}") as server:
                servers.append(server)
                await answer_of(http, server.url())
                await visit(http, number - 1)
        else:
            assert 1 < http._pool._count <= 4

    async with transport() as http:
        await visit(http, 8)
        assert len(servers) == 8
