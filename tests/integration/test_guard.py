"""Which addresses are connected to (fault 15)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from integration.raw_server import always, by_path, page, serve
from shoal.clock import SystemClock
from shoal.errors import SettingsError
from shoal.fetch import resolver
from shoal.fetch.guard import ForbiddenAddressError, Guard
from shoal.fetch.http import HttpTransport
from shoal.fetch.lookups import Found
from shoal.fetch.transport import FetchRequest
from shoal.model import Failure, Response
from shoal.settings import Settings


@asynccontextmanager
async def transport(guard: Guard) -> AsyncIterator[HttpTransport]:
    http = HttpTransport(Settings(), guard, SystemClock())
    try:
        yield http
    finally:
        await http.close()


async def kind_of(guard: Guard, url: str) -> str:
    async with transport(guard) as http, asyncio.timeout(5):
        outcome = await http.fetch(FetchRequest(url))
    return "ok" if isinstance(outcome, Response) else outcome.kind


class FakeDns:
    """Names resolve to what the test says, in turn; the last answer stays."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, names: dict[str, list[list[str]]]) -> None:
        self._names = names
        monkeypatch.setattr(resolver, "make_lookup", lambda *_: self)

    async def ask(self, name: str) -> Found:
        answers = self._names[name]
        return Found(tuple(answers.pop(0) if len(answers) > 1 else answers[0]), ttl=0.0)

    async def close(self) -> None:
        pass


def refused(guard: Guard, address: str, port: int = 80) -> bool:
    try:
        guard.check(address, port)
    except ForbiddenAddressError:
        return True
    return False


# -- addresses

INSIDE = [
    "127.0.0.1",
    "127.8.9.10",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.169.254",
    "168.63.129.16",
    "192.0.0.192",
    "198.18.0.1",
    "224.0.0.1",
    "239.1.2.3",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::1",
    "2002:7f00:1::",
    "2001:0:4136:e378:8000:63bf:80ff:fffe",  # Teredo client 127.0.0.1
    "fe80::1",
    "fe80::1%eth0",
    "fc00::1",
    "fd00:ec2::254",
    "fec0::1",
    "ff02::1",
    "2001:db8::1",
]
OUTSIDE = [
    "1.1.1.1",
    "93.184.216.34",
    "2606:4700::1111",
    "::ffff:1.1.1.1",
    "64:ff9b::101:101",
    "2002:101:101::",
]


@pytest.mark.parametrize("address", INSIDE)
def test_addresses_inside_are_refused(address: str) -> None:
    assert refused(Guard(), address)


@pytest.mark.parametrize("address", OUTSIDE)
def test_public_addresses_are_not(address: str) -> None:
    assert not refused(Guard(), address)


def test_allowed_networks() -> None:
    guard = Guard(["10.0.0.0/8", "192.168.1.5", "fd00::/8"])
    assert not refused(guard, "10.1.2.3")
    assert not refused(guard, "::ffff:10.1.2.3")
    assert not refused(guard, "fd12::1")
    assert not refused(guard, "192.168.1.5")
    assert refused(guard, "192.168.1.6")
    assert refused(guard, "127.0.0.1")


def test_typed_addresses_are_allowed_at_their_port() -> None:
    guard = Guard(allowed=[("127.0.0.1", 8000), ("[::1]", 8001), ("169.254.169.254", 80)])
    assert not refused(guard, "127.0.0.1", 8000)
    assert refused(guard, "127.0.0.1", 8001)
    assert refused(guard, "127.0.0.2", 8000)
    assert not refused(guard, "::1", 8001)
    assert not refused(guard, "169.254.169.254", 80)


@pytest.mark.parametrize("text", ["10.0.0.0/99", "example.com", "", "10.0.0", "::1/200"])
def test_a_network_that_is_none(text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Guard([text])
    assert "allow_network" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert repr(text) in str(caught.value)


def test_no_socket_is_made_for_a_refused_address() -> None:
    info = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 80))
    with pytest.raises(ForbiddenAddressError):
        Guard().socket_factory(info)
    with Guard(["127.0.0.0/8"]).socket_factory(info) as sock:
        assert sock.family == socket.AF_INET


# -- fetching


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "0x7f.1", "2130706433", "0177.0.0.1", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]"],
)
async def test_no_spelling_of_loopback_gets_through(host: str) -> None:
    async with serve(always(page())) as server:
        assert await kind_of(Guard(), f"http://{host}:{server.port}/") in ("forbidden_address", "invalid_url")
    assert server.connections == 0


async def test_the_failure_says_how_to_allow_it() -> None:
    async with transport(Guard()) as http:
        outcome = await http.fetch(FetchRequest("http://127.0.0.1:1/"))
    assert isinstance(outcome, Failure)
    assert outcome.kind == "forbidden_address"
    assert "--allow-network 127.0.0.1/32" in outcome.detail


async def test_a_start_url_may_be_local() -> None:
    async with serve(always(page())) as server:
        guard = Guard(allowed=[("127.0.0.1", server.port)])
        assert await kind_of(guard, server.url()) == "ok"


async def test_a_start_name_may_be_local(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeDns(monkeypatch, {"wiki.corp": [["127.0.0.1"]], "other.corp": [["127.0.0.1"]]})
    async with serve(always(page())) as server, serve(always(page())) as neighbour:
        guard = Guard()
        assert await kind_of(guard, f"http://wiki.corp:{server.port}/") == "forbidden_address"
        guard.allow("Wiki.Corp.", server.port)
        assert await kind_of(guard, f"http://wiki.corp:{server.port}/") == "ok"
        assert await kind_of(guard, f"http://wiki.corp:{neighbour.port}/") == "forbidden_address"
        assert await kind_of(guard, f"http://other.corp:{neighbour.port}/") == "forbidden_address"
    assert neighbour.connections == 0


async def test_a_name_with_only_local_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeDns(monkeypatch, {"inside.example": [["10.0.0.1", "::1", "127.0.0.1"]]})
    async with transport(Guard()) as http:
        outcome = await http.fetch(FetchRequest("http://inside.example/"))
    assert isinstance(outcome, Failure)
    assert outcome.kind == "forbidden_address"


async def test_a_public_name_cannot_turn_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """DNS rebinding, of a name the user typed: it was public, so it stays outside."""
    async with serve(always(page())) as server:
        guard = Guard(allowed=[("evil.example", server.port)])
        guard.note("evil.example", server.port, ["93.184.216.34"])
        FakeDns(monkeypatch, {"evil.example": [["127.0.0.1"]]})
        assert await kind_of(guard, f"http://evil.example:{server.port}/") == "forbidden_address"
    assert server.connections == 0


def test_no_name_stands_for_a_metadata_address() -> None:
    guard = Guard(allowed=[("evil.example", 80)])
    guard.note("evil.example", 80, ["169.254.169.254"])
    assert refused(guard, "169.254.169.254")


def test_a_name_that_is_public_and_private_is_public() -> None:
    guard = Guard(allowed=[("both.example", 80)])
    guard.note("both.example", 80, ["93.184.216.34", "10.0.0.1"])
    assert refused(guard, "10.0.0.1")


async def test_a_redirect_inside_is_refused() -> None:
    async with serve(always(page())) as inside:
        answer = page(b"", "302 Found", Location=inside.url("/secret"))
        guard = Guard()
        async with serve(by_path({"/": answer}), host="127.0.0.3") as site, transport(guard) as http:
            guard.allow("127.0.0.3", site.port)
            first = await http.fetch(FetchRequest(site.url()))
            assert isinstance(first, Response)
            second = await http.fetch(FetchRequest(first.headers["Location"]))
        assert isinstance(second, Failure)
        assert second.kind == "forbidden_address"
    assert inside.connections == 0
