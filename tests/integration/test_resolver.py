"""Names to addresses, by a real name server on loopback: deadlines, caps, what is kept, and the system's own names."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from shoal.errors import SettingsError
from shoal.fetch import dns_lookup
from shoal.fetch import resolver as module
from shoal.fetch.ares_lookup import AresLookup
from shoal.fetch.dialer import HostConnector
from shoal.fetch.dns_lookup import Found, Lookup, SystemLookup, UnresolvedError
from shoal.fetch.guard import Guard
from shoal.fetch.resolver import Resolver, domain_of
from shoal.fetch.slots import Slots
from shoal.settings import Settings
from shoal.testing.servers.names import SILENT, Answer, NameServer, Records

DEADLINE = 20.0
HERE = ("127.0.0.1",)


@asynccontextmanager
async def resolver_at(
    names: NameServer, *, ipv6: bool = False, dns_timeout: float = 5.0
) -> AsyncIterator[Resolver]:
    settings = Settings(dns_timeout=dns_timeout, dns_servers=[names.address])
    resolver = Resolver(settings, AresLookup([names.address], dns_timeout, ipv6=ipv6))
    try:
        async with asyncio.timeout(DEADLINE):
            yield resolver
    finally:
        await resolver.close()


@asynccontextmanager
async def resolver_by(lookup: Lookup, **settings: Any) -> AsyncIterator[Resolver]:
    resolver = Resolver(Settings(**settings), lookup)
    try:
        async with asyncio.timeout(DEADLINE):
            yield resolver
    finally:
        await resolver.close()


async def why_not(resolver: Resolver, name: str) -> str:
    with pytest.raises(UnresolvedError) as raised:
        await resolver.resolve(name)
    return raised.value.why


class Held:
    """Lookups that stay under way until they are let go; then each finds what the test says."""

    def __init__(self, finds: Callable[[str], Found] | None = None) -> None:
        self.go = asyncio.Event()
        self.asked: list[str] = []
        self.running: Counter[str] = Counter()
        self.peak: Counter[str] = Counter()
        self._finds = finds or (lambda name: Found(HERE, 60.0))

    async def ask(self, name: str) -> Found:
        self.asked.append(name)
        for key in ("all", domain_of(name)):
            self.running[key] += 1
            self.peak[key] = max(self.peak[key], self.running[key])
        try:
            await self.go.wait()
        finally:
            for key in ("all", domain_of(name)):
                self.running[key] -= 1
        return self._finds(name)

    async def close(self) -> None:
        pass


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


# -- what a name server may say


async def test_both_families() -> None:
    with NameServer({"a.example": Records(["127.0.0.2", "127.0.0.3", "::1"])}) as names:
        async with resolver_at(names, ipv6=True) as resolver:
            assert set(await resolver.resolve("a.example")) == {"127.0.0.2", "127.0.0.3", "::1"}
        async with resolver_at(names, ipv6=False) as resolver:
            assert await resolver.resolve("A.Example.") == ("127.0.0.2", "127.0.0.3")
    assert Counter(kind for _, kind in names.asked) == {"A": 2, "AAAA": 1}, "no way to IPv6, no question"


@pytest.mark.parametrize("silent", ["A", "AAAA"])
async def test_a_server_that_answers_one_question_only(silent: str) -> None:
    """Some answer for IPv4 and drop what they do not know. Waiting for the rest would cost a timeout a name."""
    addresses = ["127.0.0.2"] if silent == "AAAA" else ["::1"]
    with NameServer({"half.example": Records(addresses, silent=(silent,))}) as names:
        async with resolver_at(names, ipv6=True, dns_timeout=60.0) as resolver:
            assert list(await resolver.resolve("half.example")) == addresses


@pytest.mark.parametrize("ipv6", [True, False])
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("nxdomain", "no_such_name"),
        (Records([]), "no_such_name"),
        ("servfail", "failed"),
        ("garbage", "failed"),
        ("truncated", "failed"),
        (SILENT, "unanswered"),
    ],
)
async def test_no_address(answer: Answer, why: str, ipv6: bool) -> None:
    patience = 0.3 if answer is SILENT else 30.0  # an answer may come late on a busy machine
    with NameServer({"x.example": answer}) as names:
        async with resolver_at(names, ipv6=ipv6, dns_timeout=patience) as resolver:
            assert await why_not(resolver, "x.example") == why


@pytest.mark.parametrize(
    "name", ["a..example", "a" * 70 + ".example", "x." * 130 + "example", "-", "a b.example"]
)
async def test_what_is_no_name(name: str) -> None:
    with NameServer({}) as names:
        async with resolver_at(names) as resolver:
            assert await why_not(resolver, name) == "no_such_name"


async def test_only_ipv4_though_both_are_asked_for() -> None:
    with NameServer({"v4.example": Records(["127.0.0.2"])}) as names:
        async with resolver_at(names, ipv6=True) as resolver:
            assert await resolver.resolve("v4.example") == ("127.0.0.2",)


# -- a second opinion: the system's own


def system(name: str) -> set[str] | None:
    try:
        infos = socket.getaddrinfo(name, 80, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    except socket.gaierror:
        return None
    return {str(info[4][0]) for info in infos}


def names_of_this_machine() -> list[str]:
    with open("/etc/hosts", encoding="utf-8") as file:
        lines = [line.partition("#")[0].split() for line in file]
    return sorted({name for line in lines for name in line[1:]})


@pytest.mark.parametrize("make", [SystemLookup, lambda: AresLookup([], 5.0)])
async def test_local_names_are_what_the_system_says(make: Callable[[], Lookup]) -> None:
    async with resolver_by(make()) as resolver:
        for name in ["localhost", "LOCALHOST", "sub.localhost", *names_of_this_machine()]:
            expected = system(name)
            if expected is None:
                assert await why_not(resolver, name) == "no_such_name"
            else:
                assert set(await resolver.resolve(name)) == expected, name


@pytest.mark.parametrize("literal", ["127.0.0.1", "::1", "10.1.2.3", "127.1", "0x7f.1", "2130706433"])
async def test_addresses_are_themselves(literal: str) -> None:
    async with resolver_by(Held()) as resolver:
        (address,) = await resolver.resolve(literal)
        assert {address} == system(literal)


async def test_localhost_is_not_asked_of_other_servers() -> None:
    with NameServer({"*.localhost": Records(["10.0.0.1"]), "localhost": Records(["10.0.0.1"])}) as names:
        async with resolver_at(names) as resolver:
            assert "127.0.0.1" in await resolver.resolve("localhost")
    assert not names.asked


async def test_without_c_ares_the_system_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "shoal.fetch.ares_lookup")
    monkeypatch.setitem(sys.modules, "aiodns", None)
    resolver = Resolver(Settings())
    assert "127.0.0.1" in await resolver.resolve("localhost")
    await resolver.close()
    with pytest.raises(SettingsError, match="needs the package aiodns"):
        Resolver(Settings(dns_servers=["9.9.9.9"]))


@pytest.mark.parametrize(
    "server", ["", "nine.example", "9.9.9.9:x", "9.9.9.9:99999", "::1:", "[::1", "1.2.3"]
)
async def test_what_is_no_name_server(server: str) -> None:
    with pytest.raises(SettingsError, match="dns_servers: "):
        Resolver(Settings(dns_servers=[server]))


@pytest.mark.parametrize("server", ["9.9.9.9", "127.0.0.1:5353", "::1", "[::1]", "[::1]:5353"])
async def test_how_name_servers_are_written(server: str) -> None:
    await Resolver(Settings(dns_servers=[server])).close()
    await AresLookup([server], 1.0).close()


# -- what is kept


async def test_answers_are_kept_and_shared() -> None:
    lookup = Held()
    async with resolver_by(lookup) as resolver:
        asking = [asyncio.create_task(resolver.resolve(n)) for n in ("A.example", "a.example.", "a.example")]
        await settle()
        lookup.go.set()
        assert await asyncio.gather(*asking) == [HERE] * 3
        assert await resolver.resolve("a.example") == HERE
    assert lookup.asked == ["a.example"]


async def test_whoever_gives_up_leaves_the_lookup_to_the_others() -> None:
    lookup = Held()
    async with resolver_by(lookup) as resolver:
        first, second = [asyncio.create_task(resolver.resolve("a.example")) for _ in range(2)]
        await settle()
        first.cancel()
        await settle()
        lookup.go.set()
        assert await second == HERE
        assert first.cancelled()
    assert lookup.asked == ["a.example"]


@pytest.mark.parametrize(("ttl", "kept"), [(0, 30.0), (300, 300.0), (10**9, 3600.0)])
async def test_how_long_an_address_is_kept(ttl: int, kept: float) -> None:
    now = 1000.0
    with NameServer({"a.example": Records(["127.0.0.2"], ttl=ttl)}) as names:
        async with resolver_at(names) as resolver:
            resolver._now = lambda: now
            await resolver.resolve("a.example")
            assert resolver._known["a.example"].until == now + kept


@pytest.mark.parametrize(("answer", "kept"), [("nxdomain", 60.0), ("servfail", 5.0)])
async def test_how_long_a_no_is_kept(answer: Answer, kept: float) -> None:
    now = [1000.0]
    with NameServer({"x.example": answer}) as names:
        async with resolver_at(names) as resolver:
            resolver._now = lambda: now[0]
            await why_not(resolver, "x.example")
            asked = len(names.asked)
            now[0] += kept - 0.1
            await why_not(resolver, "x.example")
            assert len(names.asked) == asked
            names.answers["x.example"] = Records(["127.0.0.2"])
            now[0] += 0.2
            if answer == "servfail":  # c-ares itself keeps "no such name"
                assert await resolver.resolve("x.example") == ("127.0.0.2",)


async def test_no_more_is_kept_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ENTRIES", 10)
    lookup = Held(lambda name: _unresolved("unanswered") if "silent" in name else Found(HERE, 60.0))
    lookup.go.set()
    async with resolver_by(lookup) as resolver:
        for n in range(50):
            await resolver.resolve(f"a{n}.example")
            await why_not(resolver, f"x.silent{n}.example")
        assert len(resolver._known) == 10
        assert len(resolver._domains) <= 11
        assert not resolver._asking


def _unresolved(why: dns_lookup.Why) -> Found:
    raise UnresolvedError(why, why)


# -- caps


async def test_lookups_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AT_ONCE", 40)
    lookup = Held()
    async with resolver_by(lookup) as resolver:
        evil = [asyncio.create_task(resolver.resolve(f"n{n}.evil.example")) for n in range(200)]
        await settle()
        assert lookup.running["evil.example"] == 32
        good = [asyncio.create_task(resolver.resolve(f"www.good{n}.example")) for n in range(60)]
        await settle()
        assert lookup.running["all"] == 40, "what one domain holds leaves room for the others"
        lookup.go.set()
        ends = await asyncio.gather(*evil, *good, return_exceptions=True)
    refused = [end for end in ends if isinstance(end, UnresolvedError)]
    assert len(refused) == 200 - 32 - 64
    assert {end.why for end in refused} == {"busy"}
    assert lookup.peak["all"] == 40
    assert len(lookup.asked) == 32 + 64 + 60


def test_whose_name_servers() -> None:
    names: Mapping[str, str] = {
        "a.b.evil.example": "evil.example",
        "x.co.uk": "x.co.uk",
        "shop.myshopify.com": "shop.myshopify.com",  # hosted shops count apart
        "localhost": "localhost",
        "co.uk": "co.uk",
    }
    assert {name: domain_of(name) for name in names} == names


async def test_a_domain_that_never_answers_is_left_alone() -> None:
    now = [1000.0]
    answers = {"*.evil.example": SILENT, "good.example": Records(["127.0.0.2"])}
    with NameServer(answers) as names:
        # A busy machine takes a second for the names that are answered.
        async with resolver_at(names, dns_timeout=2.0) as resolver:
            resolver._now = lambda: now[0]
            tries = [asyncio.create_task(why_not(resolver, f"n{n}.evil.example")) for n in range(90)]
            assert set(await asyncio.gather(*tries)) == {"unanswered"}
            asked = {name for name, _ in names.asked}
            assert 32 <= len(asked) < 32 + 16, "of those that waited for a place, most were not asked for"
            assert await why_not(resolver, "more.evil.example") == "unanswered"
            assert ("more.evil.example", "A") not in names.asked
            assert await resolver.resolve("good.example") == ("127.0.0.2",)
            names.answers["*.evil.example"] = Records(["127.0.0.9"])
            now[0] += 60.0
            assert await resolver.resolve("more.evil.example") == ("127.0.0.9",)
            assert await resolver.resolve("last.evil.example") == ("127.0.0.9",), "it has answered again"


async def test_one_lookup_at_a_time_shows_whether_a_domain_is_back() -> None:
    now = [1000.0]
    lookup = Held(lambda name: _unresolved("unanswered"))
    lookup.go.set()
    async with resolver_by(lookup) as resolver:
        resolver._now = lambda: now[0]
        for n in range(16):
            await why_not(resolver, f"n{n}.evil.example")
        now[0] += 30.0
        lookup.go.clear()
        probe = asyncio.create_task(why_not(resolver, "probe.evil.example"))
        await settle()
        assert await why_not(resolver, "other.evil.example") == "unanswered"
        assert lookup.asked[-1] == "probe.evil.example"
        lookup.go.set()
        await probe
        now[0] += 20.0
        assert await why_not(resolver, "third.evil.example") == "unanswered"
        assert lookup.asked[-1] == "probe.evil.example", "it is left alone for twice as long"


# -- whom it serves


async def test_a_page_holds_no_slot_while_its_name_is_looked_up() -> None:
    lookup = Held()
    slots = Slots(1, per_slot=8, most_waiting=99, on_free=lambda: None)

    async def page() -> None:
        slots.enter("normal").occupy()
        await resolver.resolve("a.example")

    async with resolver_by(lookup) as resolver:
        pages = [asyncio.create_task(page()) for _ in range(5)]
        await settle()
        assert (slots.working, slots.waiting) == (0, 5)
        lookup.go.set()
        await asyncio.gather(*pages)
        assert (slots.working, slots.waiting) == (1, 4)


async def test_the_guard_is_told() -> None:
    guard = Guard(allowed=[("wiki.corp", 80)])
    with NameServer({"wiki.corp": Records(["127.0.0.2"])}) as names:
        async with resolver_at(names) as resolver:
            found = await HostConnector(guard, resolver).addresses("wiki.corp", 80)
            assert [(one[0], one[4]) for one in found] == [(socket.AF_INET, ("127.0.0.2", 80))]
            guard.check("127.0.0.2", 80)


async def test_nothing_is_left_behind() -> None:
    lookup = Held()
    before = asyncio.all_tasks()
    async with resolver_by(lookup) as resolver:
        asking = asyncio.create_task(resolver.resolve("a.example"))
        await settle()
    await asyncio.gather(asking, return_exceptions=True)
    assert asyncio.all_tasks() == before
