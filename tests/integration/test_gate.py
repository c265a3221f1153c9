"""The gate, with real sockets: what gets through, what does not, and what is never shown."""

from __future__ import annotations

import asyncio
import gc
import logging
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

from integration.raw_server import always, by_path, page, serve
from integration.test_guard import FakeDns
from integration.tls_front import tls_front
from shoal.fetch import dialer, resolver
from shoal.fetch.browser import gate
from shoal.fetch.browser.gate import Door, Gate
from shoal.fetch.guard import Guard
from shoal.fetch.proxy.pools import load_pools
from shoal.fetch.proxy.proxy import Proxy
from shoal.model import Failure
from shoal.settings import Settings
from shoal.testing.proxy_server import ProxyServer
from shoal.testing.servers.server_process import free_port

CERTS = Path(__file__).parent / "certs"
LOOPBACK = ["127.0.0.0/8", "::1/128"]
PASSWORD = "hunter2:/@ß"
KINDS: list[Literal["http", "socks5"]] = ["http", "socks5"]


def proxy_of(url: str) -> Proxy:
    return load_pools(Settings(proxies={"pool": [url]}), {})["pool"][0]


@pytest.fixture(autouse=True)
async def nothing_escapes() -> AsyncIterator[None]:
    """No exception reaches the loop, however clients and servers behave."""
    escaped: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: escaped.append(context))
    yield
    gc.collect()  # an exception that nobody asked for is told when its task is forgotten
    await asyncio.sleep(0)
    assert [context for context in escaped if "_front.py" not in str(context)] == []


@asynccontextmanager
async def open_door(
    allow: list[str] | None = None, proxy: str | None = None, **settings: float
) -> AsyncIterator[Door]:
    made = Gate(Guard(LOOPBACK if allow is None else allow), Settings(**settings))  # type: ignore[arg-type]
    async with asyncio.timeout(20):
        try:
            yield await made.open(None if proxy is None else proxy_of(proxy))
        finally:
            await made.close()


class Client:
    """A client that has reached a door."""

    def __init__(self, door: Door, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._login = b64encode(f"{door.username}:{door.password}".encode()).decode()

    async def say(self, text: str | bytes) -> None:
        self.writer.write(text.encode() if isinstance(text, str) else text)
        await self.writer.drain()

    async def ask(self, start: str, *headers: str, body: bytes = b"", known: bool = True) -> None:
        login = [f"Proxy-Authorization: Basic {self._login}"] if known else []
        await self.say("\r\n".join([start, *login, *headers, "", ""]).encode() + body)

    async def head(self) -> bytes:
        return await self.reader.readuntil(b"\r\n\r\n")

    async def answer(self) -> tuple[int, bytes]:
        """The status and the body, whose length the head tells."""
        head = await self.head()
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
        return int(head.split()[1]), await self.reader.readexactly(length)

    async def is_cut(self) -> bool:
        try:
            return await self.reader.read() == b""
        except ConnectionError:
            return True


@asynccontextmanager
async def connection(door: Door) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(door.url.rpartition(":")[2]))
    try:
        yield Client(door, reader, writer)
    finally:
        writer.transport.abort()


async def get(door: Door, url: str, *headers: str, method: str = "GET") -> tuple[int, bytes]:
    """One plain request; status 0 if there is no answer."""
    async with connection(door) as client:
        await client.ask(f"{method} {url} HTTP/1.1", *headers)
        try:
            return await client.answer()
        except (asyncio.IncompleteReadError, ConnectionError):
            return 0, b""


async def tunnel(door: Door, target: str) -> int:
    async with connection(door) as client:
        await client.ask(f"CONNECT {target} HTTP/1.1", f"Host: {target}")
        return (await client.answer())[0]


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.005)


# -- what gets through


async def test_a_tunnel() -> None:
    async with serve(always(page(b"hello"))) as server, open_door() as door, connection(door) as client:
        await client.ask(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1")
        assert (await client.answer())[0] == 200
        for path in ("/a", "/b"):
            await client.say(f"GET {path} HTTP/1.1\r\n\r\n")
            assert await client.answer() == (200, b"hello")
        assert door.wire_bytes == 2 * len(page(b"hello"))
        assert door.last_failure("127.0.0.1", server.port) is None
    assert server.paths == ["/a", "/b"]
    assert server.connections == 1


async def test_plain_requests_one_after_another() -> None:
    async with serve(always(page(b"hello", X_Own="kept"))) as server, open_door() as door:
        async with connection(door) as client:
            for path in ("/a?b=%2F", ""):
                await client.ask(
                    f"GET {server.origin}{path} HTTP/1.1",
                    "Accept: x",
                    "Proxy-Connection: keep-alive",
                    "Cookie: a=b",
                )
                assert await client.answer() == (200, b"hello")
        assert door.wire_bytes > 2 * len(b"hello")
    assert server.paths == ["/a?b=%2F", "/"]
    assert server.connections == 1
    for head in server.hits:
        assert b"Accept: x\r\n" in head
        assert b"Cookie: a=b\r\n" in head
        assert f"Host: 127.0.0.1:{server.port}\r\n".encode() in head
        assert b"roxy" not in head, "what is for the gate stays there"


async def test_a_client_that_turns_to_another_host() -> None:
    async with (
        serve(always(page(b"one"))) as one,
        serve(always(page(b"two")), host="127.0.0.2") as two,
        open_door() as door,
        connection(door) as client,
    ):
        for server, text in ((one, b"one"), (two, b"two"), (one, b"one")):
            await client.ask(f"GET {server.url('/')} HTTP/1.1")
            assert await client.answer() == (200, text)


CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: t\r\n\r\n"
)


async def test_framings_of_answers() -> None:
    answers = {
        "/chunked": CHUNKED,
        "/hints": b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n" + page(b"late"),
        "/none": b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
        "/bare": b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
        "/head": b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n",
        "/last": page(b"last"),
    }
    async with serve(by_path(answers)) as server, open_door() as door, connection(door) as client:
        await client.ask(f"GET {server.url('/chunked')} HTTP/1.1")
        assert await client.head() == CHUNKED.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
        assert await client.reader.readuntil(b"Trailer: t\r\n\r\n") == CHUNKED.partition(b"\r\n\r\n")[2]
        await client.ask(f"GET {server.url('/hints')} HTTP/1.1")
        assert await client.answer() == (200, b"late")
        await client.ask(f"GET {server.url('/none')} HTTP/1.1")
        assert b" 304 " in await client.head()
        await client.ask(f"HEAD {server.url('/head')} HTTP/1.1")
        assert b"Content-Length: 4" in await client.head()
        await client.ask(f"GET {server.url('/bare')} HTTP/1.1")
        assert await client.answer() == (200, b"ok")
        await client.ask(f"GET {server.url('/last')} HTTP/1.1", "Connection: close")
        assert b"\r\nConnection: close\r\n" in await client.head()
        assert await client.reader.read() == b"last"
    assert server.connections == 1


@pytest.mark.parametrize("framing", ["Content-Length: 5", "Transfer-Encoding: chunked"])
async def test_a_framing_is_not_only_for_this_connection(framing: str) -> None:
    """A server may say so, and the client would wait for an end that does not come."""
    name = framing.partition(":")[0]
    body = b"hello" if name == "Content-Length" else b"5\r\nhello\r\n0\r\n\r\n"
    head = f"HTTP/1.1 200 OK\r\n{framing}\r\nConnection: keep-alive, {name}\r\n\r\n"
    async with serve(always(head.encode() + body)) as server, open_door() as door, connection(door) as client:
        await client.ask(f"GET {server.url('/')} HTTP/1.1")
        assert framing.encode() in await client.head()
        assert await client.reader.readexactly(len(body)) == body


async def test_an_answer_that_ends_with_its_connection() -> None:
    body = b"x" * 300_000
    answer = always(b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n\r\n" + body, close=True)
    async with serve(answer) as server, open_door() as door, connection(door) as client:
        await client.ask(f"GET {server.url('/')} HTTP/1.1")
        assert b"\r\nConnection: close\r\n" in await client.head()
        assert await client.reader.read() == body


async def test_bodies_of_requests() -> None:
    received: list[bytes] = []

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        end = b"0\r\n\r\n" if b"chunked" in head else b"end"
        received.append(await reader.readuntil(end))
        writer.write(page())
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    origin = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    long = b"y" * 50_000 + b"end"
    async with server, open_door() as door, connection(door) as client:
        await client.ask(f"POST {origin}/ HTTP/1.1", f"Content-Length: {len(long)}", body=long)
        assert await client.answer() == (200, b"hello")
        await client.ask(
            f"POST {origin}/ HTTP/1.1", "Transfer-Encoding: chunked", body=b"2\r\nab\r\n0\r\n\r\n"
        )
        assert await client.answer() == (200, b"hello")
    assert received == [long, b"2\r\nab\r\n0\r\n\r\n"]


async def test_much_goes_through() -> None:
    body = bytes(20_000_000)
    async with serve(always(page(body))) as server, open_door() as door, connection(door) as client:
        await client.ask(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1")
        await client.head()
        await client.say("GET / HTTP/1.1\r\n\r\n")
        assert await client.answer() == (200, body)


async def test_one_side_may_be_done_before_the_other() -> None:
    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"got " + await reader.read())
        writer.close()

    server = await asyncio.start_server(late, "127.0.0.1", 0)
    async with server, open_door() as door, connection(door) as client:
        await client.ask(f"CONNECT 127.0.0.1:{server.sockets[0].getsockname()[1]} HTTP/1.1")
        await client.head()
        await client.say("all")
        client.writer.write_eof()
        assert await client.reader.read() == b"got all"


async def test_a_tunnel_ends_with_its_last_byte() -> None:
    """The far side sends much and leaves; who reads slowly still gets all of it."""
    body = bytes(3_000_000)

    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(body)
        writer.close()

    server = await asyncio.start_server(leave, "127.0.0.1", 0)
    async with server, open_door() as door, connection(door) as client:
        await client.ask(f"CONNECT 127.0.0.1:{server.sockets[0].getsockname()[1]} HTTP/1.1")
        await client.head()
        await asyncio.sleep(0.05)
        received = await client.reader.read()
        assert received == body
        client.writer.close()
        await until(lambda: not door._connections_open)


async def test_what_is_said_before_the_tunnel_stands() -> None:
    async with serve(always(page())) as server, open_door() as door, connection(door) as client:
        await client.ask(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1", body=b"GET /early HTTP/1.1\r\n\r\n")
        assert (await client.answer())[0] == 200
        assert await client.answer() == (200, b"hello")
    assert server.paths == ["/early"]


async def test_who_does_not_read_holds_the_far_side_back() -> None:
    sent = 0

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        try:
            while True:
                writer.write(bytes(100_000))
                await writer.drain()
                sent += 100_000
        except OSError:
            pass

    server = await asyncio.start_server(pour, "127.0.0.1", 0)
    async with server, open_door() as door:
        async with connection(door) as client:
            await client.ask(f"CONNECT 127.0.0.1:{server.sockets[0].getsockname()[1]} HTTP/1.1")
            await client.head()
            before = -1
            while sent != before:
                before = sent
                await asyncio.sleep(0.2)
            assert 0 < sent < 50_000_000
            await client.reader.readexactly(sent + 1_000_000)
        await until(lambda: not door._connections_open)


async def test_a_client_that_leaves_before_the_tunnel_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    dialling_now, go_on = asyncio.Event(), asyncio.Event()
    connect = dialer.streams

    async def slowly(*args: Any, **options: Any) -> Any:
        dialling_now.set()
        await go_on.wait()
        return await connect(*args, **options)

    monkeypatch.setattr(dialer, "streams", slowly)
    async with serve(always(page())) as server, open_door() as door:
        async with connection(door) as client:
            await client.ask(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1")
            await dialling_now.wait()
        go_on.set()
        await until(lambda: not door._connections_open)


# -- who gets through


@pytest.mark.parametrize("login", ["", "Basic", "Basic c2hvYWw6d3Jvbmc=", "Bearer x", "Basic \xff"])
async def test_no_password_no_passage(login: str) -> None:
    async with serve(always(page())) as server, open_door() as door:
        header = [f"Proxy-Authorization: {login}"] if login else []
        for start in (
            f"CONNECT 127.0.0.1:{server.port} HTTP/1.1",
            f"GET {server.url('/')} HTTP/1.1",
            "GET / HTTP/1.1",
        ):
            async with connection(door) as client:
                await client.ask(start, *header, known=False)
                head = await client.head()
                assert head.startswith(b"HTTP/1.1 407 ")
                assert b"\r\nProxy-Authenticate: Basic " in head
        assert door.last_failure("127.0.0.1", server.port) is None
    assert server.connections == 0


async def test_who_is_asked_may_answer_on_the_same_connection() -> None:
    async with serve(always(page())) as server, open_door() as door, connection(door) as client:
        await client.ask(f"POST {server.url('/')} HTTP/1.1", "Content-Length: 3", body=b"abc", known=False)
        assert (await client.answer())[0] == 407
        await client.ask(f"GET {server.url('/')} HTTP/1.1")
        assert (await client.answer())[0] == 200
        await client.ask(f"GET {server.url('/')} HTTP/1.1", known=False)
        assert (await client.answer())[0] == 407, "with every request"
    assert server.connections == 1


async def test_doors_have_passwords_of_their_own() -> None:
    made = Gate(Guard(LOOPBACK), Settings())
    try:
        one, two = await made.open(None), await made.open(None)
        assert one.password != two.password
        assert one.url != two.url
        assert one.url.startswith("http://127.0.0.1:")
    finally:
        await made.close()


# -- where to

SPELLINGS = [
    "127.0.0.1",
    "localhost",
    "0x7f.1",
    "2130706433",
    "0177.0.0.1",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::]",
]


@pytest.mark.parametrize("host", SPELLINGS)
async def test_no_spelling_of_loopback_gets_through(host: str) -> None:
    async with serve(always(page())) as server, open_door(allow=[]) as door:
        assert await tunnel(door, f"{host}:{server.port}") == 502
        last_failure = door.last_failure(host, server.port)
        assert last_failure is not None
        assert last_failure.kind in ("forbidden_address", "invalid_url")
        assert await get(door, f"http://{host}:{server.port}/") == (0, b"")
    assert server.connections == 0


async def test_the_trouble_says_how_to_allow_it() -> None:
    async with open_door(allow=[]) as door:
        await tunnel(door, "127.0.0.1:1")
        last_failure = door.last_failure("127.0.0.1", 1)
    assert last_failure is not None
    assert "--allow-network 127.0.0.1/32" in last_failure.detail


async def test_a_name_that_turns_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """DNS rebinding: whatever a name stood for when it was looked at, the address that is connected to is checked."""
    monkeypatch.setattr(resolver, "_SHORTEST", 0)
    async with serve(always(page())) as server:
        guard = Guard(allowed=[("evil.example", server.port)])
        guard.note("evil.example", server.port, ["93.184.216.34"])
        FakeDns(monkeypatch, {"evil.example": [["127.0.0.1"]], "other.example": [["::1", "10.0.0.1"]]})
        made = Gate(guard, Settings(connect_timeout=5))
        try:
            door = await made.open(None)
            for host in ("evil.example", "other.example"):
                assert await tunnel(door, f"{host}:{server.port}") == 502
                assert kind(door.last_failure(host, server.port)) == "forbidden_address"
        finally:
            await made.close()
    assert server.connections == 0


async def test_a_name_that_the_user_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve(always(page())) as server:
        FakeDns(monkeypatch, {"wiki.corp": [["127.0.0.1"]], "Wiki.Corp.": [["127.0.0.1"]]})
        made = Gate(Guard(allowed=[("wiki.corp", server.port)]), Settings())
        try:
            door = await made.open(None)
            assert await tunnel(door, f"wiki.corp:{server.port}") == 200
            assert (await get(door, f"http://Wiki.Corp.:{server.port}/"))[0] == 200
            assert await tunnel(door, "wiki.corp:1") == 502
            assert kind(door.last_failure("WIKI.corp.", 1)) == "forbidden_address"
        finally:
            await made.close()


def kind(failure: Failure | None) -> str | None:
    return None if failure is None else failure.kind


# -- what goes wrong


async def test_nobody_there() -> None:
    port = free_port()
    async with open_door() as door:
        assert await tunnel(door, f"127.0.0.1:{port}") == 502
        last_failure = door.last_failure("127.0.0.1", port)
        assert kind(last_failure) == "connect"
        assert await get(door, f"http://127.0.0.1:{port}/") == (0, b"")


async def test_a_name_that_nobody_knows() -> None:
    async with open_door() as door:
        assert await tunnel(door, "no-such-host.invalid:443") == 502
        assert kind(door.last_failure("no-such-host.invalid", 443)) == "dns"


async def test_no_connection_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(dialer.aiohappyeyeballs, "start_connection", never)
    async with open_door(connect_timeout=0.05) as door:
        assert await tunnel(door, "127.0.0.1:80") == 502
        assert kind(door.last_failure("127.0.0.1", 80)) == "connect_timeout"


async def test_trouble_ends_when_the_target_is_reached() -> None:
    async with serve(always(page())) as server, open_door(allow=[]) as door:
        await tunnel(door, f"127.0.0.1:{server.port}")
        assert door.last_failure("127.0.0.1", server.port) is not None
        door._dialer._guard.allow("127.0.0.1", server.port)
        assert await tunnel(door, f"127.0.0.1:{server.port}") == 200
        assert door.last_failure("127.0.0.1", server.port) is None


async def test_troubles_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "_MAX_FAILURES", 3)
    async with open_door(allow=[]) as door:
        for port in range(1, 6):
            await tunnel(door, f"127.0.0.1:{port}")
        assert [door.last_failure("127.0.0.1", port) is not None for port in range(1, 6)] == [
            False,
            False,
            True,
            True,
            True,
        ]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"", "reset"),
        (b"HTTP/1.1 200 OK\r\nX: ", "protocol"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "protocol"),
        (b"HTTP/1.1 101 Switching\r\n\r\n", "protocol"),
        (b"HTTP/1.1 407 Who\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n", "protocol"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000, "protocol"),
        (b"HTTP/1.1 200 " + b"x" * 200_000, "protocol"),
    ],
)
async def test_servers_that_do_not_speak_http(answer: bytes, expected: str) -> None:
    async with serve(always(answer, close=True)) as server, open_door() as door:
        assert await get(door, server.url("/")) == (0, b"")
        assert kind(door.last_failure("127.0.0.1", server.port)) == expected


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc",
    ],
)
async def test_a_body_that_ends_early_ends_early(answer: bytes) -> None:
    async with serve(always(answer, close=True)) as server, open_door() as door, connection(door) as client:
        await client.ask(f"GET {server.url('/')} HTTP/1.1")
        await client.head()
        assert answer.endswith(await client.reader.read())


async def test_a_kept_connection_that_the_server_has_ended() -> None:
    async with serve(always(page(), close=True)) as server, open_door() as door, connection(door) as client:
        for _ in range(3):
            await client.ask(f"GET {server.url('/')} HTTP/1.1")
            try:
                assert await client.answer() == (200, b"hello")
            except asyncio.IncompleteReadError:
                break  # not noticed in time: a client asks again, as it knows that this may happen
        assert door.last_failure("127.0.0.1", server.port) is None


BAD = [
    "GET / HTTP/1.1",
    "GET https://127.0.0.1/ HTTP/1.1",
    "GET ftp://127.0.0.1/ HTTP/1.1",
    "GET http://user:pw@127.0.0.1/ HTTP/1.1",
    "GET http://127.0.0.1:99999/ HTTP/1.1",
    "GET http://127.0.0.1:0/ HTTP/1.1",
    "GET http:/// HTTP/1.1",
    "CONNECT 127.0.0.1 HTTP/1.1",
    "CONNECT 127.0.0.1:x HTTP/1.1",
    "CONNECT [fe80::1%25eth0]:80 HTTP/1.1",
    "CONNECT a b:80 HTTP/1.1",
    "CONNECT http://127.0.0.1:80/ HTTP/1.1",
    "nonsense",
]


@pytest.mark.parametrize("start", BAD)
async def test_what_is_not_for_a_proxy(start: str) -> None:
    async with open_door() as door, connection(door) as client:
        await client.ask(start)
        assert (await client.head()).startswith(b"HTTP/1.1 400 ")
        assert await client.reader.read() == b""


async def _nothing(client: Client, origin: str) -> None:
    pass


async def _half_a_head(client: Client, origin: str) -> None:
    await client.say("GET http://127.0.0.1/ HT")


async def _an_endless_line(client: Client, origin: str) -> None:
    await client.say(b"x" * 200_000)


async def _an_endless_head(client: Client, origin: str) -> None:
    await client.say(b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 100_000)


async def _no_header(client: Client, origin: str) -> None:
    await client.ask(f"GET {origin}/ HTTP/1.1", "no header")


async def _two_framings(client: Client, origin: str) -> None:
    await client.ask(
        f"POST {origin}/ HTTP/1.1", "Content-Length: 3", "Transfer-Encoding: chunked", body=b"0\r\n\r\n"
    )


async def _two_lengths(client: Client, origin: str) -> None:
    await client.ask(f"POST {origin}/ HTTP/1.1", "Content-Length: 3", "Content-Length: 4", body=b"abc")


async def _an_unknown_coding(client: Client, origin: str) -> None:
    smuggled = f"GET {origin}/smuggled HTTP/1.1\r\n\r\n".encode()
    coding = ("Transfer-Encoding: chunked, identity", f"Content-Length: {len(smuggled)}")
    await client.ask(f"POST {origin}/ HTTP/1.1", *coding, body=smuggled)
    assert await client.is_cut()


async def _half_a_body(client: Client, origin: str) -> None:
    await client.ask(f"POST {origin}/ HTTP/1.1", "Content-Length: 30", body=b"abc")


async def _a_broken_chunk(client: Client, origin: str) -> None:
    await client.ask(f"POST {origin}/ HTTP/1.1", "Transfer-Encoding: chunked", body=b"-1\r\nabc\r\n")


async def _leaves_early(client: Client, origin: str) -> None:
    await client.ask(f"GET {origin}/ HTTP/1.1")


@pytest.mark.parametrize(
    "habit",
    [
        _nothing,
        _half_a_head,
        _an_endless_line,
        _an_endless_head,
        _no_header,
        _two_framings,
        _two_lengths,
        _an_unknown_coding,
        _half_a_body,
        _a_broken_chunk,
        _leaves_early,
    ],
)
async def test_clients_that_misbehave(habit: Callable[[Client, str], Awaitable[None]]) -> None:
    """They are cut off; the next one is served."""
    async with serve(always(page(bytes(3_000_000)))) as server, open_door() as door:
        for leave in (False, True):
            async with connection(door) as client:
                try:
                    await habit(client, server.origin)
                    if not leave:
                        client.writer.write_eof()
                        await client.reader.read()
                except OSError:
                    pass
        assert (await get(door, server.url("/")))[0] == 200
        await until(lambda: not door._connections_open)


async def test_connections_are_bounded() -> None:
    made = Gate(Guard(LOOPBACK), Settings())
    try:
        door = await made.open(None, connections=2)
        async with connection(door), connection(door):
            await until(lambda: len(door._connections_open) == 2)
            async with connection(door) as third:
                assert await third.is_cut()
    finally:
        await made.close()


async def test_idle_connections_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "_IDLE", 0.2)
    async with serve(always(page())) as server, open_door(total_timeout=0.2) as door:
        async with connection(door) as silent:
            assert await silent.is_cut()
        async with connection(door) as client:
            await client.ask(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1")
            await client.head()
            assert await client.is_cut()


# -- the end


async def test_a_closed_door_cuts_its_connections() -> None:
    made = Gate(Guard(LOOPBACK), Settings())
    async with serve(always(page())) as server:
        try:
            door, other = await made.open(None), await made.open(None)
            async with (
                connection(door) as tunnelled,
                connection(door) as plain,
                connection(door) as silent,
                connection(other) as stays,
            ):
                await tunnelled.ask(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1")
                await tunnelled.head()
                await plain.ask(f"GET {server.url('/')} HTTP/1.1")
                await plain.answer()
                await door.close()
                await door.close()
                for client in (tunnelled, plain, silent):
                    assert await client.is_cut()
                with pytest.raises(OSError):
                    await asyncio.open_connection("127.0.0.1", int(door.url.rpartition(":")[2]))
                await stays.ask(f"GET {server.url('/')} HTTP/1.1")
                assert (await stays.answer())[0] == 200
        finally:
            await made.close()


# -- by a proxy


@pytest.mark.parametrize("kind_", KINDS)
async def test_through_a_proxy(kind_: Literal["http", "socks5"]) -> None:
    async with (
        serve(always(page(b"hello"))) as server,
        ProxyServer(kind_, user="u", password=PASSWORD) as proxy,
        open_door(proxy=proxy.url) as door,
    ):
        async with connection(door) as client:
            await client.ask(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1")
            assert (await client.answer())[0] == 200
            await client.say("GET /tunnelled HTTP/1.1\r\n\r\n")
            assert await client.answer() == (200, b"hello")
        async with connection(door) as client:
            for path in ("/a", "/b"):
                await client.ask(f"GET {server.url(path)} HTTP/1.1")
                assert await client.answer() == (200, b"hello")
        assert proxy.connections == 2, "kept for the second request"
        assert set(proxy.passed) == {f"127.0.0.1:{server.port}"}
        mine = door.password
    assert server.paths == ["/tunnelled", "/a", "/b"]
    token = b64encode(f"shoal:{mine}".encode())
    for head in (*proxy.heads, *server.hits):
        assert token not in head, "the door's password stays at the door"
    assert all(b"roxy-" not in head for head in server.hits)


async def test_hints_without_end() -> None:
    hint = b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n"
    async with (
        serve(always(hint * 1_000 + page())) as server,
        open_door() as door,
        connection(door) as client,
    ):
        await client.ask(f"GET {server.url('/')} HTTP/1.1")
        assert await client.reader.read() == b""
        assert kind(door.last_failure("127.0.0.1", server.port)) == "flood"


async def test_through_a_proxy_with_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        serve(always(page())) as server,
        ProxyServer("http", user="u", password="p") as proxy,
        tls_front(proxy.port) as port,
    ):
        url = f"https://u:p@127.0.0.1:{port}"
        async with open_door(proxy=url) as door:
            assert await tunnel(door, f"127.0.0.1:{server.port}") == 502
            assert kind(door.last_failure("127.0.0.1", server.port)) == "proxy_connect", (
                "a certificate nobody vouches for"
            )
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTS / "loopback.pem"))
        async with open_door(proxy=url) as door, connection(door) as client:
            await client.ask(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1")
            assert (await client.answer())[0] == 200
            await client.say("GET / HTTP/1.1\r\n\r\n")
            assert await client.answer() == (200, b"hello")
            client.writer.write_eof()
            assert await client.reader.read() == b""
            assert (await get(door, server.url("/")))[0] == 200


@pytest.mark.parametrize("kind_", KINDS)
async def test_a_proxy_leads_nowhere_inside(kind_: Literal["http", "socks5"]) -> None:
    async with (
        serve(always(page())) as server,
        ProxyServer(kind_) as proxy,
        open_door(allow=[], proxy=proxy.url) as door,
    ):
        for host in ("127.0.0.1", "localhost", "[::1]", "0x7f.1", "127.1", "2130706433", "017700000001."):
            assert await tunnel(door, f"{host}:{server.port}") == 502
            assert kind(door.last_failure(host, server.port)) == "forbidden_address"
            assert await get(door, f"http://{host}:{server.port}/") == (0, b"")
    assert proxy.connections == 0


async def test_a_kept_proxy_connection_leads_nowhere_inside_either() -> None:
    async with serve(always(page())) as server, ProxyServer("http") as proxy:
        made = Gate(Guard(allowed=[("127.0.0.1", server.port)]), Settings())
        try:
            door = await made.open(proxy_of(proxy.url))
            async with connection(door) as client:
                await client.ask(f"GET {server.url('/')} HTTP/1.1")
                assert (await client.answer())[0] == 200
                await client.ask("GET http://127.0.0.2/ HTTP/1.1")
                assert await client.is_cut()
        finally:
            await made.close()
    assert len(proxy.heads) == 1


Breaks = Callable[[ProxyServer], None]


def _wrong_password(proxy: ProxyServer) -> None:
    proxy.password = "changed"


def _gateway(proxy: ProxyServer) -> None:
    proxy.habit = "gateway"


def _closing(proxy: ProxyServer) -> None:
    proxy.habit = "closing"


@pytest.mark.parametrize("kind_", KINDS)
@pytest.mark.parametrize(
    ("breaks", "expected"),
    [
        (_wrong_password, {"proxy_auth"}),
        (_gateway, {"proxy_gateway"}),
        (_closing, {"proxy_gateway", "proxy_connect"}),
    ],
)
async def test_proxies_that_fail(
    kind_: Literal["http", "socks5"], breaks: Breaks, expected: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with (
        ProxyServer(kind_, user="u", password=PASSWORD) as proxy,
        open_door(proxy=proxy.url, connect_timeout=5) as door,
    ):
        breaks(proxy)
        assert await tunnel(door, "127.0.0.1:443") == 502
        last_failure = door.last_failure("127.0.0.1", 443)
        assert last_failure is not None
        assert last_failure.kind in expected
        shown = f"{last_failure!r} {door!r} {caplog.text}"
        assert "hunter2" not in shown
        assert door.password not in shown


async def test_a_proxy_that_refuses_to_forward() -> None:
    async with ProxyServer("http", user="u", password="p") as proxy, open_door(proxy=proxy.url) as door:
        _wrong_password(proxy)
        assert await get(door, "http://127.0.0.1:81/") == (0, b"")
        assert kind(door.last_failure("127.0.0.1", 81)) == "proxy_auth"


@pytest.mark.parametrize("kind_", KINDS)
async def test_a_dead_proxy(kind_: Literal["http", "socks5"]) -> None:
    async with open_door(proxy=f"{kind_}://u:hunter2@127.0.0.1:{free_port()}") as door:
        for ask in (tunnel(door, "127.0.0.1:443"), get(door, "http://127.0.0.1:443/")):
            await ask
            last_failure = door.last_failure("127.0.0.1", 443)
            assert last_failure is not None
            assert last_failure.kind == "proxy_connect"
            assert "hunter2" not in repr(last_failure)


@pytest.mark.parametrize("kind_", KINDS)
async def test_a_proxy_that_is_silent(kind_: Literal["http", "socks5"]) -> None:
    async with (
        ProxyServer(kind_, habit="silent") as proxy,
        open_door(proxy=proxy.url, connect_timeout=0.2) as door,
    ):
        assert await tunnel(door, "127.0.0.1:443") == 502
        assert kind(door.last_failure("127.0.0.1", 443)) in ("proxy_timeout", "proxy_gateway")


async def test_secrets_are_not_shown() -> None:
    made = Gate(Guard(LOOPBACK), Settings())
    try:
        door = await made.open(proxy_of("http://u:hunter2@127.0.0.1:9"))
        shown = f"{made!r} {door!r} {door._dialer!r} {door.url}"
        assert "hunter2" not in shown
        assert door.password not in shown
    finally:
        await made.close()
