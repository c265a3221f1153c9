"""HTTP/2, against a real server: the same guarantees as over HTTP/1.1."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import sys
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, cast

import brotli
import pytest
from yarl import URL

from integration.http2_server import CERTS, Answer, Stream, serve_http2
from integration.raw_server import always, page, serve
from integration.test_guard import FakeDns
from integration.tls_front import tls_front
from shoal.admit.sending import sent_url
from shoal.clock import SystemClock
from shoal.errors import SettingsError
from shoal.fetch import body_reader
from shoal.fetch import http2 as module
from shoal.fetch.body_reader import Decoder
from shoal.fetch.cookie_jar import CookieJar
from shoal.fetch.deadline import LeaseDeadline
from shoal.fetch.guard import Guard
from shoal.fetch.http import HttpTransport
from shoal.fetch.http2 import Http2Transport, wants_http2
from shoal.fetch.proxy.pools import load_pools
from shoal.fetch.proxy.proxy import Proxy
from shoal.fetch.transport import FetchRequest
from shoal.fetch.transports import Transports
from shoal.model import Failure, Outcome, Response
from shoal.settings import USER_AGENT, Settings
from shoal.sink.files import PartFile
from shoal.testing.proxy_server import ProxyServer
from shoal.testing.servers.server_process import free_port

LOOPBACK = ["127.0.0.0/8", "::1/128"]
KINDS: list[Literal["http", "socks5"]] = ["http", "socks5"]


@pytest.fixture(autouse=True)
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own certificate is trusted, as one of the system's."""
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTS / "loopback.pem"))


@asynccontextmanager
async def transport(guard: Guard | None = None, **settings: Any) -> AsyncIterator[Http2Transport]:
    parts = (Settings(http2=True, **settings), guard if guard is not None else Guard(LOOPBACK), SystemClock())
    http = HttpTransport(*parts)
    made = Http2Transport(*parts, http)
    async with asyncio.timeout(20):
        try:
            yield made
        finally:
            await made.close()
            await http.close()


async def fetch(
    url: str, guard: Guard | None = None, *, request: dict[str, Any] | None = None, **settings: Any
) -> Outcome:
    async with transport(guard, **settings) as http:
        return await http.fetch(FetchRequest(url, **(request or {})))


def proxy_of(url: str) -> Proxy:
    return load_pools(Settings(proxies={"pool": [url]}), {})["pool"][0]


def ok(outcome: Outcome) -> Response:
    assert isinstance(outcome, Response), outcome
    return outcome


def failed(outcome: Outcome) -> Failure:
    assert isinstance(outcome, Failure), outcome
    assert "\n" not in outcome.detail
    assert "https://" not in outcome.detail
    return outcome


async def hello(stream: Stream) -> None:
    await stream.answer(b"hello")


async def hang(stream: Stream) -> None:
    await asyncio.Event().wait()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 (what is waited for is another's)
        await asyncio.sleep(0.005)


# -- one exchange


async def test_a_page() -> None:
    async def answer(stream: Stream) -> None:
        await stream.head(
            200, [("content-type", "text/html"), ("x-many", "a"), ("x-many", "b"), ("x-odd", "é")]
        )
        await stream.send(b"hello ")
        await stream.send(b"world", end=True)

    async with serve_http2(answer) as server:
        response = ok(await fetch(server.url("/a?b=c")))
    assert response.url == server.url("/a?b=c")
    assert response.status == 200
    assert response.body == b"hello world"
    assert response.headers["Content-Type"] == "text/html"
    assert response.headers.getall("X-Many") == ["a", "b"]  # type: ignore[attr-defined]
    assert response.headers["x-odd"] == "é"
    assert response.wire_bytes == 11
    assert 0 < response.first_byte <= response.elapsed
    assert response.via == ""
    assert server.paths == ["/a?b=c"]


async def test_a_file_goes_to_its_part_and_on_from_there(tmp_path: Path) -> None:
    async def answer(stream: Stream) -> None:
        if stream.path == "/gone":
            await stream.answer(b"not here", 404)
        elif "range" in dict(stream.headers):
            await stream.answer(b"world", 206, **{"content-range": "bytes 6-10/11", "etag": '"1"'})
        else:
            await stream.head(200, [("etag", '"1"'), ("content-length", "11")])
            await stream.send(b"hello ")
            await stream.reset()

    part = PartFile.open(tmp_path / "key", 1000)
    assert part is not None
    async with serve_http2(answer) as server, transport() as http:
        request = {"sink": part}
        gone = ok(await http.fetch(FetchRequest(server.url("/gone"), headers=part.headers(), **request)))
        assert (gone.status, gone.body, part.size) == (404, b"not here", 0)
        cut = failed(await http.fetch(FetchRequest(server.url("/f"), headers=part.headers(), **request)))
        assert (cut.kind, part.size) == ("truncated", 6)
        rest = ok(await http.fetch(FetchRequest(server.url("/f"), headers=part.headers(), **request)))
    assert (rest.status, rest.body, part.missing()) == (206, b"", "")
    assert part.path.read_bytes() == b"hello world"
    part.close()


async def test_who_we_say_we_are() -> None:
    """Our own headers, and no others: nothing of a browser's."""
    async with serve_http2(hello) as server:
        await fetch(
            server.url("/"),
            headers={"X-Mine": "1"},
            request={"headers": {"user-agent": "mine", "X-Own": "ß"}},
        )
        await fetch(server.url("/"))
    first, second = server.streams
    assert {name for name, _ in first.headers if not name.startswith(":")} == {
        "user-agent",
        "accept",
        "accept-encoding",
        "x-mine",
        "x-own",
    }
    assert first["user-agent"] == "mine"
    assert first["x-mine"] == "1"
    assert second["user-agent"] == USER_AGENT
    assert first["accept-encoding"] == "gzip, deflate, br, zstd"


ODD_PATHS = [
    "/%2F/%7e;a=b,c/",
    "/a//b/?q=a+b&x=%20&y='&z=[]{}|^`\"<>",
    "/ü/%c3%bc?ü=%C3%BC",
    "/a/./b/../c",
    "/(x)!*$&'@:=",
    "/?",
    "/a b?c d#fragment",
    "/\\back?\\slash",
]


@pytest.mark.parametrize("path", ODD_PATHS)
async def test_urls_are_sent_as_they_are(path: str) -> None:
    async with serve_http2(hello) as server:
        url = sent_url(server.url(path))
        assert url is not None
        ok(await fetch(url))
    assert server.paths == [url.removeprefix(server.url(""))]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_body_is_sent(method: str) -> None:
    async def answer(stream: Stream) -> None:
        await stream.complete.wait()
        await stream.answer(stream[":method"].encode() + b" " + stream.body)

    async with serve_http2(answer) as server:
        request = {"method": method, "body": b"\x00\xffbody", "headers": {"Content-Type": "x/y"}}
        assert ok(await fetch(server.url("/"), request=request)).body == method.encode() + b" \x00\xffbody"
    assert server.streams[0]["content-type"] == "x/y"
    assert server.streams[0]["content-length"] == "6"


async def test_a_length_without_a_body_is_not_sent() -> None:
    async with serve_http2(hello) as server:
        ok(await fetch(server.url("/"), request={"headers": {"Content-Length": "5"}}))
    assert not server.streams[0]["content-length"]


async def test_head_has_no_body() -> None:
    async def answer(stream: Stream) -> None:
        await stream.head(200, [("content-length", "1000")], end=True)

    async with serve_http2(answer) as server:
        response = ok(await fetch(server.url("/"), request={"method": "HEAD"}))
    assert response.body == b""
    assert response.wire_bytes == 0


@pytest.mark.parametrize("status", [204, 304])
async def test_answers_without_a_body(status: int) -> None:
    async def answer(stream: Stream) -> None:
        length = [("content-length", "100")] if status == 304 else []
        await stream.head(status, [*length, ("etag", "x")], end=True)

    async with serve_http2(answer) as server:
        response = ok(await fetch(server.url("/")))
    assert (response.status, response.body, response.headers["ETag"]) == (status, b"", "x")


async def test_exchanges_share_a_connection() -> None:
    async with serve_http2(hello) as server, transport() as http:
        requests = [http.fetch(FetchRequest(server.url(f"/{number}"))) for number in range(20)]
        ok(await http.fetch(FetchRequest(server.url("/"))))
        assert [ok(outcome).body for outcome in await asyncio.gather(*requests)] == [b"hello"] * 20
    assert server.connections == 1


async def test_who_was_frozen_past_its_lease_sends_nothing() -> None:
    """Its place at the host may be another's by now."""
    async with serve_http2(hello) as server, transport() as http:
        ok(await http.fetch(FetchRequest(server.url("/in-time"))))
        LeaseDeadline(0.0).hold()
        with pytest.raises(asyncio.CancelledError):
            await http.fetch(FetchRequest(server.url("/late")))
    assert server.paths == ["/in-time"]


async def test_a_host_without_http2() -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(CERTS / "loopback.pem", CERTS / "loopback.key")
    async with serve(always(page(b"one point one")), tls=tls) as server:
        assert ok(await fetch(server.url("/"))).body == b"one point one"
    assert b" HTTP/1.1\r\n" in server.hits[0]


# -- what is not done


async def test_redirects_are_not_followed() -> None:
    async def answer(stream: Stream) -> None:
        await stream.head(
            302, [("location", "/next"), ("set-cookie", "a=1"), ("set-cookie", "b=2; Path=/x")], end=True
        )

    async with serve_http2(answer) as server:
        response = ok(await fetch(server.url("/")))
    assert response.status == 302
    assert response.headers["Location"] == "/next"
    assert response.cookies == ("a=1", "b=2; Path=/x")
    assert server.paths == ["/"]


@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
async def test_an_error_is_an_answer(status: int) -> None:
    async def answer(stream: Stream) -> None:
        await stream.answer(b"sorry", status, retry_after="1")

    async with serve_http2(answer) as server:
        response = ok(await fetch(server.url("/")))
    assert (response.status, response.body) == (status, b"sorry")
    assert len(server.streams) == 1


@pytest.mark.parametrize("how", ["reset", "drop", "calm"])
async def test_what_failed_is_not_sent_again(how: str) -> None:
    async def answer(stream: Stream) -> None:
        if how == "drop":
            stream.drop()
        else:
            await stream.reset(2 if how == "reset" else 11)  # 11: enhance your calm

    async with serve_http2(answer) as server, transport() as http:
        failure = failed(await http.fetch(FetchRequest(server.url("/"))))
        assert failure.kind == "reset"
    assert len(server.streams) == 1


async def test_a_refused_request_is_for_the_queue_to_repeat() -> None:
    async def answer(stream: Stream) -> None:
        await stream.reset(7)  # refused stream

    async with serve_http2(answer) as server:
        failure = failed(await fetch(server.url("/")))
    assert failure.kind == "reset"
    assert "refused stream" in failure.detail
    assert len(server.streams) == 1


async def test_a_request_that_a_leaving_server_has_not_looked_at_is_sent_again() -> None:
    """The one exception: as with a kept connection of HTTP/1.1, it never arrived."""

    async def answer(stream: Stream) -> None:
        if server.connections == 1 and stream.path == "/2":
            await stream.go_away(last=1)
        else:
            await stream.answer(b"hello")

    async with serve_http2(answer) as server, transport() as http:
        for path in ("/1", "/2", "/3"):
            ok(await http.fetch(FetchRequest(server.url(path), method="POST", body=b"x")))
    assert server.paths == ["/1", "/2", "/2", "/3"]
    assert server.connections == 2


async def test_a_leaving_server_answers_what_it_has_taken() -> None:
    """As nginx does after a number of requests: GOAWAY comes first, the answer after it."""

    async def answer(stream: Stream) -> None:
        await stream.go_away(last=stream.number)
        await stream.answer(b"last words")

    async with serve_http2(answer) as server, transport() as http:
        for _ in range(2):
            assert ok(await http.fetch(FetchRequest(server.url("/")))).body == b"last words"
    assert server.connections == 2


async def test_a_kept_connection_that_the_server_has_ended() -> None:
    async with serve_http2(hello) as server, transport() as http:
        ok(await http.fetch(FetchRequest(server.url("/1"))))
        server.streams[0].drop()
        await until(lambda: not http._pool)
        ok(await http.fetch(FetchRequest(server.url("/2"))))
    assert server.paths == ["/1", "/2"]


# -- cookies


async def set_cookie(stream: Stream) -> None:
    await stream.answer(b"", **({"set_cookie": "a=1; Path=/"} if stream.path == "/set" else {}))


async def test_cookies_are_kept_in_the_jar() -> None:
    async with serve_http2(set_cookie) as server, transport() as http:
        for path in ("/set", "/next"):
            ok(await http.fetch(FetchRequest(server.url(path))))
        ok(await http.fetch(FetchRequest(server.url("/own"), headers={"cookie": "b=2; a=0"})))
    assert [stream["cookie"] for stream in server.streams] == ["", "a=1", "b=2; a=1"]


async def test_jars_are_apart() -> None:
    async with serve_http2(set_cookie) as server, transport() as http:
        one, two = CookieJar(), CookieJar()
        for path, jar in (("/set", one), ("/1", one), ("/2", two), ("/3", None)):
            ok(await http.fetch(FetchRequest(server.url(path), jar=jar)))
    assert [stream["cookie"] for stream in server.streams] == ["", "a=1", "", ""]


async def test_no_cookies() -> None:
    async with serve_http2(set_cookie) as server, transport(cookies=False) as http:
        for path in ("/set", "/next"):
            ok(await http.fetch(FetchRequest(server.url(path))))
    assert [stream["cookie"] for stream in server.streams] == ["", ""]


async def test_cookies_of_a_redirect() -> None:
    async with serve_http2(hello) as server, transport(cookies=False) as http:
        request = FetchRequest(
            server.url("/"), jar=CookieJar(), cookies=("a=1",), referrer_url=server.url("/before")
        )
        ok(await http.fetch(request))
    assert server.streams[0]["cookie"] == "a=1"


async def test_the_shared_jar() -> None:
    async with serve_http2(set_cookie) as server, transport() as http:
        ok(await http.fetch(FetchRequest(server.url("/set"))))
        assert [cookie.name for cookie in cast("CookieJar", http._http.jar)] == ["a"]


# -- bodies


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


TEXT = b"The quick brown fox. " * 20_000
ENCODINGS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("gzip", gzip.compress),
    ("GZip", gzip.compress),
    ("deflate", zlib.compress),
    ("deflate", raw_deflate),
    ("br", brotli.compress),
    ("identity", lambda data: data),
]


def zstd_compress(data: bytes) -> bytes:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    packed: bytes = zstd.compress(data)
    return packed


@pytest.mark.parametrize(("name", "pack"), [*ENCODINGS, ("zstd", zstd_compress)])
async def test_encodings_are_undone(name: str, pack: Callable[[bytes], bytes]) -> None:
    packed = pack(TEXT)

    async def answer(stream: Stream) -> None:
        await stream.answer(packed, content_encoding=name)

    async with serve_http2(answer) as server:
        response = ok(await fetch(server.url("/")))
    assert response.body == TEXT
    assert response.wire_bytes == len(packed)
    assert response.headers["Content-Encoding"] == name


@pytest.mark.parametrize("name", ["gzip", "br", "deflate", "zstd", "gzip, br"])
async def test_encodings_that_are_none(name: str) -> None:
    async def answer(stream: Stream) -> None:
        await stream.answer(b"\x08 this is plain text", content_encoding=name)

    async with serve_http2(answer) as server:
        failure = failed(await fetch(server.url("/")))
    assert failure.kind == "encoding"
    assert failure.status == 200


def bomb(pack: Literal["gzip", "br"], megabytes: int) -> bytes:
    if pack == "br":
        packer = brotli.Compressor(quality=1)
        return b"".join(packer.process(bytes(1_000_000)) for _ in range(megabytes)) + packer.finish()
    other = zlib.compressobj(9, wbits=31)
    return b"".join(other.compress(bytes(1_000_000)) for _ in range(megabytes)) + other.flush()


@pytest.mark.parametrize("pack", ["gzip", "br"])
async def test_a_bomb_is_not_unfolded(pack: Literal["gzip", "br"], monkeypatch: pytest.MonkeyPatch) -> None:
    packed = bomb(pack, 100)
    unfolded = 0
    feed = Decoder.feed

    def counted(decoder: Decoder, data: bytes) -> Any:
        nonlocal unfolded
        for part in feed(decoder, data):
            unfolded += len(part)
            yield part

    monkeypatch.setattr(Decoder, "feed", counted)

    async def answer(stream: Stream) -> None:
        await stream.answer(packed, content_encoding=pack)

    async with serve_http2(answer) as server:
        failure = failed(await fetch(server.url("/"), max_body=1_000_000))
        assert failure.kind == "too_large"
        assert "max_body" in failure.detail
        cut = ok(await fetch(server.url("/"), request={"max_body": 1_000, "truncate": True}))
    assert cut.body == bytes(1_000)
    assert unfolded < 3_000_000


async def test_an_endless_body_is_cut_off() -> None:
    async def answer(stream: Stream) -> None:
        await stream.head()
        while True:
            await stream.send(bytes(16_000))

    async with serve_http2(answer) as server, transport(max_body=500_000) as http:
        assert failed(await http.fetch(FetchRequest(server.url("/")))).kind == "too_large"
        await server.streams[0].reset_by_client.wait()


async def test_a_slow_reader_holds_the_server_back() -> None:
    """What is not read is not fetched: without a limit on streams a few large bodies would fill the memory."""
    sent = 0

    async def answer(stream: Stream) -> None:
        nonlocal sent
        await stream.head()
        while True:
            await stream.send(bytes(64_000))
            sent += 64_000

    async with serve_http2(answer) as server, transport() as http:
        request, key = FetchRequest(server.url("/")), ("", "127.0.0.1", server.port)
        headers = http._headers_for(request, CookieJar(), URL(request.url))
        exchange = await http._begin(key, request, headers)
        assert exchange is not None
        before = -1
        while sent != before:
            before = sent
            await asyncio.sleep(0.1)
        assert 0 < sent < 1_000_000
        exchange.close()


async def test_small_frames_are_no_flood() -> None:
    async def answer(stream: Stream) -> None:
        await stream.head()
        for _ in range(10_000):
            await stream.send(b"x" * 64)
        await stream.send(b"!", end=True)

    async with serve_http2(answer) as server:
        assert len(ok(await fetch(server.url("/"))).body) == 640_001


# -- time


async def test_total_timeout() -> None:
    async def answer(stream: Stream) -> None:
        await stream.head()
        while True:
            await stream.send(b"drip")
            await asyncio.sleep(0.02)

    async with serve_http2(answer) as server, transport() as http:
        failure = failed(await http.fetch(FetchRequest(server.url("/"), total_timeout=0.3)))
        assert failure.kind == "timeout"
        assert 0.2 < failure.elapsed < Settings().total_timeout
        await server.streams[0].reset_by_client.wait()


async def half_an_answer(stream: Stream) -> None:
    await stream.head()
    await stream.send(b"half")
    await hang(stream)


async def test_a_body_that_drips_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_reader, "GRACE", 0.1)

    async def drip(stream: Stream) -> None:
        await stream.head()
        while True:
            await stream.send(b"x")
            await asyncio.sleep(0.02)

    async with serve_http2(drip) as server:
        failure = failed(await fetch(server.url("/"), min_rate=5000))
    assert (failure.kind, failure.status) == ("too_slow", 200)


@pytest.mark.parametrize(("answer", "status"), [(hang, None), (half_an_answer, 200)])
async def test_read_timeout(answer: Answer, status: int | None) -> None:
    async with serve_http2(answer) as server:
        failure = failed(await fetch(server.url("/"), read_timeout=0.2))
    assert failure.kind == "read_timeout"
    assert failure.status == status
    assert failure.elapsed < Settings().read_timeout


async def test_connect_timeout() -> None:
    """A server that takes connections, but does not speak TLS."""
    server = await asyncio.start_server(_mute, "127.0.0.1", 0)
    async with server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        assert failed(await fetch(url, connect_timeout=0.2)).kind == "connect_timeout"


async def _mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


@pytest.mark.parametrize("answer", [hang, half_an_answer])
async def test_cancelling_ends_the_stream(answer: Answer) -> None:
    async with serve_http2(answer) as server, transport() as http:
        fetching = asyncio.create_task(http.fetch(FetchRequest(server.url("/"))))
        await until(lambda: bool(server.streams))
        fetching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await fetching
        await server.streams[0].reset_by_client.wait()
        assert not http._pool, "what the server still sends must not be another's trouble"


async def test_cancelling_leaves_the_others_alone() -> None:
    go_on = asyncio.Event()

    async def answer(stream: Stream) -> None:
        await go_on.wait()
        await stream.answer(b"hello")

    async with serve_http2(answer) as server, transport() as http:
        one, two = (asyncio.create_task(http.fetch(FetchRequest(server.url("/")))) for _ in range(2))
        await until(lambda: len(server.streams) == 2)
        one.cancel()
        await server.streams[0].reset_by_client.wait()
        go_on.set()
        assert ok(await two).body == b"hello"
    assert server.connections == 1


# -- failures


async def _reset_early(stream: Stream) -> None:
    await stream.reset(2)


async def _reset_late(stream: Stream) -> None:
    await stream.head()
    await stream.send(b"half")
    await stream.reset(2)


async def _drop_late(stream: Stream) -> None:
    await stream.head()
    await stream.send(b"half")
    stream.drop()


async def _too_short(stream: Stream) -> None:
    await stream.head(200, [("content-length", "100")])
    await stream.send(b"half", end=True)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (_reset_early, "reset"),
        (_reset_late, "truncated"),
        (_drop_late, "truncated"),
        (_too_short, "truncated"),
    ],
)
async def test_answers_that_break_off(answer: Answer, kind: str) -> None:
    async with serve_http2(answer) as server:
        assert failed(await fetch(server.url("/?secret=hunter2"))).kind == kind


async def test_headers_may_be_long_but_not_endless() -> None:
    async def answer(stream: Stream) -> None:
        await stream.head(
            200, [(f"x-{number}", "y" * 4_000) for number in range(int(stream.path[1:]))], end=True
        )

    async with serve_http2(answer) as server:
        assert len(ok(await fetch(server.url("/25"))).headers) == 25
        assert failed(await fetch(server.url("/200"))).kind == "protocol"


@pytest.mark.parametrize(
    "request_",
    [{"headers": {"X": "a\r\nb"}}, {"headers": {"a b": "c"}}, {"headers": {"": "c"}}],
)
async def test_requests_that_cannot_be_sent(request_: dict[str, Any]) -> None:
    async with serve_http2(hello) as server:
        assert failed(await fetch(server.url("/"), request=request_)).kind == "invalid_request"
    assert server.streams == []


@pytest.mark.parametrize("url", ["https://127.0.0.1:99999/", "https:///", "https://[::1/", "nonsense"])
async def test_what_is_no_url(url: str) -> None:
    assert failed(await fetch(url)).kind == "invalid_url"


async def test_an_untrusted_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTS / "elsewhere.pem"))
    async with serve_http2(hello) as server:
        failure = failed(await fetch(server.url("/")))
    assert failure.kind == "tls"
    assert "self-signed certificate" in failure.detail


async def test_a_certificate_for_another_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTS / "elsewhere.pem"))
    async with serve_http2(hello, certificate="elsewhere") as server:
        assert failed(await fetch(server.url("/"))).kind == "tls"
    assert server.streams == []


async def test_nobody_there() -> None:
    failure = failed(await fetch(f"https://127.0.0.1:{free_port()}/"))
    assert failure.kind == "connect"
    assert "no connection to 127.0.0.1" in failure.detail


async def test_a_name_that_nobody_knows() -> None:
    failure = failed(await fetch("https://no-such-host.invalid/"))
    assert failure.kind == "dns"
    assert "no-such-host.invalid" in failure.detail


# -- the guard


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0x7f.1", "2130706433"])
async def test_no_spelling_of_loopback_gets_through(host: str) -> None:
    async with serve_http2(hello) as server:
        failure = failed(await fetch(f"https://{host}:{server.port}/", Guard()))
    assert failure.kind in ("forbidden_address", "invalid_url")
    assert server.connections == 0


async def test_a_name_that_turns_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve_http2(hello) as server:
        guard = Guard(allowed=[("evil.example", server.port)])
        guard.note("evil.example", server.port, ["93.184.216.34"])
        FakeDns(monkeypatch, {"evil.example": [["127.0.0.1"]]})
        assert failed(await fetch(f"https://evil.example:{server.port}/", guard)).kind == "forbidden_address"
    assert server.connections == 0


@pytest.mark.parametrize("name", ["NO_PROXY", "no_proxy", "HTTPS_PROXY", "ALL_PROXY"])
async def test_the_environment_leads_nowhere_else(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "*" if "no_" in name.lower() else "http://127.0.0.1:9")
    async with serve_http2(hello) as server:
        assert failed(await fetch(server.url("/"), Guard())).kind == "forbidden_address"
        ok(await fetch(server.url("/")))


# -- proxies


@pytest.mark.parametrize("kind", KINDS)
async def test_through_a_proxy(kind: Literal["http", "socks5"]) -> None:
    async with (
        serve_http2(hello) as server,
        ProxyServer(kind, user="u", password="hunter2:/@") as proxy,
        transport() as http,
    ):
        for _ in range(2):
            ok(await http.fetch(FetchRequest(server.url("/"), proxy=proxy_of(proxy.url))))
        assert proxy.passed == [f"127.0.0.1:{server.port}"]
        ok(await http.fetch(FetchRequest(server.url("/direct"))))
    assert proxy.passed == [f"127.0.0.1:{server.port}"], "connections by a proxy are for it alone"
    assert server.connections == 2


async def test_through_a_proxy_with_tls() -> None:
    async with serve_http2(hello) as server, ProxyServer() as proxy, tls_front(proxy.port) as port:
        request = {"proxy": proxy_of(f"https://127.0.0.1:{port}")}
        assert ok(await fetch(server.url("/"), request=request)).body == b"hello"
    assert proxy.passed == [f"127.0.0.1:{server.port}"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_dead_proxy(kind: Literal["http", "socks5"]) -> None:
    proxy = proxy_of(f"{kind}://u:hunter2@127.0.0.1:{free_port()}")
    failure = failed(await fetch("https://127.0.0.1:443/", request={"proxy": proxy}))
    assert failure.kind == "proxy_connect"
    assert "hunter2" not in failure.detail


@pytest.mark.parametrize("kind", KINDS)
async def test_a_proxy_that_wants_another_password(kind: Literal["http", "socks5"]) -> None:
    async with ProxyServer(kind, user="u", password="hunter2") as proxy:
        proxy.password = "changed"
        failure = failed(await fetch("https://127.0.0.1:443/", request={"proxy": proxy_of(proxy.url)}))
    assert failure.kind == "proxy_auth"
    assert "hunter2" not in failure.detail


async def test_a_proxy_leads_nowhere_inside() -> None:
    async with ProxyServer("http") as proxy:
        request = {"proxy": proxy_of(proxy.url)}
        assert failed(await fetch("https://localhost/", Guard(), request=request)).kind == "forbidden_address"
    assert proxy.connections == 0


async def test_idle_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_IDLE", 2)
    async with serve_http2(hello) as server, ProxyServer() as one, ProxyServer() as two, transport() as http:
        for proxy in (None, proxy_of(one.url), proxy_of(two.url), None):
            ok(await http.fetch(FetchRequest(server.url("/"), proxy=proxy)))
            assert len(http._pool) <= 2
    assert server.connections == 4


# -- when


def test_which_hosts_are_meant() -> None:
    assert not wants_http2(Settings(), "example.com")
    assert wants_http2(Settings(http2=True), "example.com")
    some = Settings(http2=True, http2_hosts=["Example.com"])
    assert wants_http2(some, "example.com")
    assert wants_http2(some, "WWW.example.com.")
    assert not wants_http2(some, "notexample.com")
    assert not wants_http2(Settings(http2_hosts=["example.com"]), "example.com")


async def test_which_requests_suit() -> None:
    async with transport(http2_hosts=["example.com"]) as http:
        assert http.suits(FetchRequest("https://www.example.com/"))
        assert not http.suits(FetchRequest("http://www.example.com/"))
        assert not http.suits(FetchRequest("https://example.org/"))


async def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "h2" or ".http2" in name]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "h2", None)
    with pytest.raises(SettingsError) as caught:
        Transports(Settings(http2=True), Guard(), SystemClock())
    assert "pip install 'shoal[http2]'" in str(caught.value)
