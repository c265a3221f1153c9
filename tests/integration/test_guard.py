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
from shoal.fetch.dns_lookup import Found
from shoal.fetch.guard import METADATA, ForbiddenAddressError, Guard, Pin
from shoal.fetch.http import HttpTransport
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
    async with transport(guard) as http, asyncio.timeout(30):
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
    guard = Guard(allowed=[("127.0.0.1", 8000), ("[::1]", 8001), ("169.254.1.1", 80)])
    assert not refused(guard, "127.0.0.1", 8000)
    assert refused(guard, "127.0.0.1", 8001)
    assert refused(guard, "127.0.0.2", 8000)
    assert not refused(guard, "::1", 8001)
    assert not refused(guard, "169.254.1.1", 80)


@pytest.mark.parametrize("address", sorted(map(str, METADATA)))
def test_metadata_addresses_need_more_than_typing(address: str) -> None:
    guard = Guard(allowed=[(address, 80), (f"[{address}]", 80), ("meta.example", 80)])
    guard.note("meta.example", 80, [address])
    assert refused(guard, address)
    assert not refused(Guard([address]), address)
    with pytest.raises(ForbiddenAddressError) as caught:
        guard.check(address, 80)
    assert f"credentials of a machine; to crawl it, add --allow-network {address}/" in caught.value.advice


@pytest.mark.parametrize("spelling", ["::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::"])
def test_no_spelling_of_a_metadata_address_gets_through(spelling: str) -> None:
    assert refused(Guard(["fd00::/8"], [(spelling, 80), ("169.254.169.254", 80)]), spelling)


@pytest.mark.parametrize("name", ["metadata.google.internal", "Metadata.Google.Internal.", "instance-data"])
def test_nor_by_name_through_a_proxy(name: str) -> None:
    with pytest.raises(ForbiddenAddressError):
        Guard(allowed=[(name, 80)]).check_unresolved(name, 80)
    Guard(["169.254.0.0/16"]).check_unresolved(name, 80)


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


def test_a_typed_name_is_pinned_to_its_first_neighbourhood() -> None:
    """A development server may be started again at the next free address; but not turn into another network."""
    guard = Guard(allowed=[("dev.corp", 80)])
    guard.note("dev.corp", 80, ["10.1.2.3"])
    guard.note("dev.corp", 80, ["10.1.2.77", "10.9.9.9"])
    assert not refused(guard, "10.1.2.3")
    assert not refused(guard, "10.1.2.77")
    assert refused(guard, "10.1.2.78"), "only what the name stands for"
    assert refused(guard, "10.1.2.3", 81)
    with pytest.raises(ForbiddenAddressError) as caught:
        guard.check("10.9.9.9", 80)
    assert caught.value.advice == (
        "10.9.9.9 is a private address, but dev.corp was in 10.1.2.0/24 at first; "
        "to crawl it, add --allow-network 10.9.9.9/32"
    )
    assert guard.pin("Dev.Corp.", 80) == Pin(("10.1.2.0/24",))


def test_a_pin_from_the_store_goes_before_what_was_seen_here() -> None:
    guard = Guard(allowed=[("evil.example", 80)])
    guard.note("evil.example", 80, ["10.0.0.1"])
    assert not refused(guard, "10.0.0.1")
    guard.allow("evil.example", 80, Pin(()))
    with pytest.raises(ForbiddenAddressError) as caught:
        guard.check("10.0.0.1", 80)
    assert "but evil.example was in the public internet at first" in caught.value.advice


def test_a_name_that_turns_does_not_shut_out_the_one_that_may() -> None:
    guard = Guard(allowed=[("dev.corp", 80), ("evil.example", 80)])
    guard.note("dev.corp", 80, ["10.0.0.1"])
    guard.note("evil.example", 80, ["93.184.216.34"])
    guard.note("evil.example", 80, ["10.0.0.1"])
    assert not refused(guard, "10.0.0.1")


def test_what_is_remembered_of_names_is_bounded() -> None:
    guard = Guard(allowed=[("dev.corp", 80)])
    guard.note("dev.corp", 80, [f"10.{n // 250}.{n % 250}.1" for n in range(5_000)])
    pin = guard.pin("dev.corp", 80)
    assert pin is not None
    assert pin.networks is not None
    assert len(pin.networks) == 8
    assert len(guard._stands_for) <= 1_000


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
