"""One bad URL is met first, in fourteen ways. The other pages of its host are had wherever a browser would get them.

Names are looked up at a name server of our own, and ports 80 and 443 of each name lead to free ports: so the crawls
have http and https of one host, and need no rights.
"""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import struct
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiohappyeyeballs import AddrInfoType

import shoal
from lateness import Lateness
from shoal import Page, Request, Spider
from shoal.fetch import resolver
from shoal.fetch.dialer import HostConnector
from shoal.frontier import open_frontier
from shoal.frontier.values import DeadFilter
from shoal.model import DeadLetter
from shoal.testing.servers.names import NameServer, Records
from shoal.testing.servers.valkey import ValkeyServer

Figure = Callable[[str, object], None]
CERTS = Path(__file__).parents[1] / "integration" / "certs"
PAGES = 20
IMPATIENT = {"timeout": 0.5}  # for hosts that hang
QUICK: dict[str, Any] = {
    "rate": 50,
    "per_host": 2,
    "max_attempts": 3,
    "retry_base": 0.01,
    "retry_cap": 0.02,
    # The hosts are in the same loop: while that stands still, whoever answers is not to be cut off.
    **dict.fromkeys(("min_timeout", "first_timeout", "total_timeout"), 30.0),
    "breaker_cooldown": 0.1,
    "any_host": True,
    "allow_network": ["127.0.0.0/8"],
}
TRUSTED = "elsewhere.example"  # the name that our certificate is for


class Hit(NamedTuple):
    host: str
    scheme: str
    path: str
    at: float


Bad = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while not writer.is_closing():
        writer.write(b"X-More: " + b"x" * 8000 + b"\r\n")
        await writer.drain()


def says(answer: bytes) -> Bad:
    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    return say


def answer(status: str, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


GOOD = answer("200 OK", b"<title>good</title>", "Content-Type: text/html")
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n"
GZIPPED = (
    b"Content-Encoding: gzip\r\nContent-Length: 40\r\n\r\n"
    + gzip.compress(b"<title>good</title>")[:9]
    + b"!" * 31
)
BAD: dict[str, Bad] = {
    "reset": reset,
    "hang": hang,
    "500": says(answer("500 Oops")),
    "403": says(answer("403 No")),
    "truncated": says(HEAD + b"Transfer-Encoding: chunked\r\n\r\n400\r\nhalf"),
    "length": says(HEAD + b"Content-Length: 400\r\n\r\nhalf"),
    "header": endless,
    "gzip": says(HEAD + GZIPPED),
    "redirect": says(answer("302 Found", b"", "Location: http://nowhere.example/")),
}


class World:
    """Hosts under names of their own."""

    def __init__(self, names: NameServer) -> None:
        self.names = names
        self.hits: list[Hit] = []
        self.ports: dict[tuple[str, int], int] = {}  # what a port of a name leads to
        self.bad: dict[tuple[str, str], Bad] = {}  # by host and path
        self._servers: list[asyncio.Server] = []

    async def serve(self, host: str, scheme: str = "http") -> None:
        self.names.answers[host] = Records(["127.0.0.1"])
        tls = None
        if scheme == "https":
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(CERTS / "elsewhere.pem", CERTS / "elsewhere.key")

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
                self.hits.append(Hit(host, scheme, path, time.monotonic()))
                do = self.bad.get((host, path))
                await (do(reader, writer) if do is not None else says(self.usual(path))(reader, writer))
            except (OSError, asyncio.IncompleteReadError):
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
        self._servers.append(server)
        port = 443 if scheme == "https" else 80
        self.ports[host, port] = server.sockets[0].getsockname()[1]
        self.ports.setdefault((host, 523 - port), CLOSED)

    def usual(self, path: str) -> bytes:
        return answer("404 Not Found") if path == "/robots.txt" else GOOD

    async def addresses(self, connector: HostConnector, host: str, port: int) -> list[AddrInfoType]:
        found = await _addresses(connector, host, port)
        theirs = self.ports.get((host, port), port)
        return [(*info[:4], (info[4][0], theirs, *info[4][2:])) for info in found]  # type: ignore[misc]

    def close(self) -> None:
        for server in self._servers:
            server.close()


CLOSED = 1  # a port where nobody listens
_addresses = HostConnector.addresses


@asynccontextmanager
async def a_world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTS / "elsewhere.pem"))
    with NameServer({}) as names:
        world = World(names)
        monkeypatch.setattr(
            HostConnector, "addresses", lambda connector, *where: world.addresses(connector, *where)
        )
        try:
            yield world
        finally:
            world.close()


async def crawl(
    world: World, tmp_path: Path, start: Sequence[str | Request], *, store: str = "", **settings: Any
) -> tuple[Counter[str], list[DeadLetter]]:
    """How many pages of each host were fetched, and the dead letters."""
    spider = Spider("bad", start, **{**QUICK, "dns_servers": [world.names.address], **settings})
    spider.add_handler(url_of)
    store = store or str(tmp_path / "store.db")
    async with asyncio.timeout(120):  # a busy machine takes its time
        results = await shoal.crawl(spider, store=store)
    async with open_frontier(store) as frontier:
        letters = list(await frontier.dead(DeadFilter()))
    return Counter(row["url"].split("/")[2] for row in results), letters


def url_of(page: Page) -> dict[str, str]:
    return {"url": page.url}


def pages(origin: str, first: str = "") -> list[str]:
    return [first or f"{origin}/bad", *(f"{origin}/{n}" for n in range(PAGES))]


async def _mend_name(world: World, name: str) -> None:
    """After it could not be looked up twice, which may be of one page."""
    while [asked for asked, _ in world.names.asked].count(name) < 2 * 2:  # noqa: ASYNC110 (A and AAAA; the server has a thread of its own)
        await asyncio.sleep(0.01)
    world.names.answers[name] = Records(["127.0.0.1"])


async def test_the_others_are_had(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, record_property: Figure
) -> None:
    """Without robots.txt and one at a time, so that the bad URL is the first that is ever asked of its host. Only the
    one that hangs is cut off: whoever answers is heard, however late."""
    async with a_world(monkeypatch) as world:
        start: list[str | Request] = []
        for kind, bad in BAD.items():
            await world.serve(f"{kind}.example")
            world.bad[f"{kind}.example", "/bad"] = bad
            first, *others = pages(f"http://{kind}.example")
            start += [Request(first, timeout=0.5) if kind == "hang" else first, *others]
        await world.serve(TRUSTED, "https")
        start += pages(f"https://{TRUSTED}", first=f"http://{TRUSTED}/bad")
        await world.serve("tls.example", "https")
        await world.serve("tls.example", "http")
        start += pages("http://tls.example", first="https://tls.example/bad")
        await world.serve("dns.example")
        world.names.answers["dns.example"] = "servfail"
        start += pages("http://dns.example")
        monkeypatch.setattr(resolver, "_FAILED", 0.05)  # seconds that it is remembered
        mending = asyncio.create_task(_mend_name(world, "dns.example"))
        had, letters = await crawl(world, tmp_path, start, robots=False, per_host=1, max_attempts=5)
        await mending
    hosts = [*(f"{kind}.example" for kind in BAD), TRUSTED, "tls.example", "dns.example"]
    record_property("pages had", {host: had[host] for host in hosts})
    died = {letter.task.url: letter.kind for letter in letters}
    assert {host: had[host] for host in hosts} == dict.fromkeys(hosts, PAGES) | {"dns.example": PAGES + 1}
    assert died == {
        "http://reset.example/bad": "reset",
        "http://hang.example/bad": "timeout",
        "http://500.example/bad": "http_500",
        "http://403.example/bad": "http_403",
        "http://truncated.example/bad": "truncated",
        "http://length.example/bad": "truncated",
        "http://header.example/bad": "protocol",
        "http://gzip.example/bad": "encoding",
        "http://nowhere.example/": "dns",
        f"http://{TRUSTED}/bad": "connect",
        "https://tls.example/bad": "tls",
    }


# -- robots.txt


def at_first(times: int, bad: Bad, then: bytes) -> Bad:
    left = iter(range(times))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await (bad if next(left, None) is not None else says(then))(reader, writer)

    return answer


async def test_a_robots_txt_that_cannot_be_had_forbids_everything_until_it_can_be_had(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """RFC 9309, 2.3.1.4. It is asked for again and again within the job, and the failure has its name."""
    fails = {"500": BAD["500"], "hang": hang, "reset": reset}
    async with a_world(monkeypatch) as world:
        start = []
        for kind, bad in fails.items():
            for host in (f"{kind}.example", f"{kind}-once.example"):
                await world.serve(host)
                start += [f"http://{host}/{n}" for n in range(PAGES)]
            world.bad[f"{kind}.example", "/robots.txt"] = bad
            world.bad[f"{kind}-once.example", "/robots.txt"] = at_first(2, bad, answer("404 Not Found"))
        hosts = dict.fromkeys(("hang.example", "hang-once.example"), IMPATIENT)
        had, letters = await crawl(world, tmp_path, start, max_attempts=5, breaker_probes=3, host=hosts)
        hits = world.hits
    assert had == {f"{kind}-once.example": PAGES for kind in fails}
    for kind, named in {"500": "robots_unreachable", "hang": "timeout", "reset": "reset"}.items():
        its = [letter for letter in letters if letter.task.host == f"{kind}.example"]
        assert len(its) == PAGES
        assert {letter.kind for letter in its} <= {named, "host_down"}
        tried = [
            past
            for letter in its
            for past in letter.task.history
            if past.kind not in ("host_down", "origin_wait")
        ]
        assert {past.kind for past in tried} == {named}
        assert all(past.detail.startswith("robots.txt cannot be fetched: ") for past in tried)
        asked = [hit.path for hit in hits if hit.host == f"{kind}.example"]
        assert set(asked) == {"/robots.txt"}
        assert 3 <= len(asked) <= 12


@pytest.mark.parametrize("status", ["429 Slow down", "503 Busy"])
async def test_a_robots_txt_that_asks_for_rest_gets_it(
    status: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with a_world(monkeypatch) as world:
        await world.serve("busy.example")
        world.bad["busy.example", "/robots.txt"] = at_first(
            1, says(answer(status, b"", "Retry-After: 1")), answer("404 Not Found")
        )
        had, letters = await crawl(world, tmp_path, [f"http://busy.example/{n}" for n in range(3)])
        (first, second, *_) = world.hits
    assert (had["busy.example"], letters) == (3, [])
    assert (first.path, second.path) == ("/robots.txt", "/robots.txt")
    assert second.at - first.at >= 1.0


async def test_what_keeps_us_from_a_host_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And not that its robots.txt cannot be fetched, which nobody can do anything about."""
    async with a_world(monkeypatch) as world:
        await world.serve("gone.example")
        await world.serve("refused.example")
        world.ports["refused.example", 80] = CLOSED
        world.names.answers["gone.example"] = "nxdomain"
        start = ["http://gone.example/", "http://refused.example/"]
        had, letters = await crawl(world, tmp_path, start, max_attempts=2)
    assert not had
    found = {letter.task.host: letter for letter in letters}
    assert {host: letter.kind for host, letter in found.items()} == {
        "gone.example": "dns",
        "refused.example": "connect",
    }
    assert "gone.example cannot be resolved" in found["gone.example"].task.history[-1].detail
    assert "no connection to refused.example" in found["refused.example"].task.history[-1].detail


# -- one host, two origins


async def test_http_and_https_of_a_host_share_its_limits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with a_world(monkeypatch) as world:
        await world.serve(TRUSTED, "http")
        await world.serve(TRUSTED, "https")
        start = [f"{scheme}://{TRUSTED}/{n}" for n in range(8) for scheme in ("http", "https")]
        with Lateness() as late:
            had, letters = await crawl(world, tmp_path, start, rate=10)
        hits = world.hits
    assert (had[TRUSTED], letters) == (16, [])
    assert Counter((hit.scheme, hit.path == "/robots.txt") for hit in hits) == {
        ("http", True): 1,
        ("https", True): 1,
        ("http", False): 8,
        ("https", False): 8,
    }, "each origin has a robots.txt of its own"
    # A busy machine may let the server see the first late; with a limit for each origin, it would take half as long.
    assert hits[-1].at - hits[0].at >= 0.1 * (len(hits) - 1) - 0.6 - late.seconds


async def test_rules_of_one_origin_do_not_bind_the_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with a_world(monkeypatch) as world:
        await world.serve(TRUSTED, "http")
        await world.serve(TRUSTED, "https")
        rules = answer("200 OK", b"User-agent: *\nDisallow: /private", "Content-Type: text/plain")
        world.bad[TRUSTED, "/robots.txt"] = at_first(1, says(rules), answer("404 Not Found"))
        start = [f"{scheme}://{TRUSTED}/{path}" for path in ("a", "private") for scheme in ("http", "https")]
        had, letters = await crawl(world, tmp_path, start, per_host=1)
    assert had[TRUSTED] == 3
    assert [(letter.task.url, letter.kind) for letter in letters] == [(f"http://{TRUSTED}/private", "robots")]


async def test_a_dead_origin_does_not_hold_its_sister_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Half of the links still say http, where nobody listens any more."""
    async with a_world(monkeypatch) as world:
        await world.serve(TRUSTED, "https")
        start = [f"{scheme}://{TRUSTED}/{n}" for n in range(PAGES) for scheme in ("http", "https")]
        had, letters = await crawl(world, tmp_path, start, robots=False)
    assert had[TRUSTED] == PAGES
    assert len(letters) == PAGES
    assert {past.kind for letter in letters for past in letter.task.history} == {
        "connect",
        "host_down",
        "origin_wait",
    }
    assert {letter.task.url.partition(":")[0] for letter in letters} == {"http"}


# -- hosts that are dead, or are not


@pytest.fixture
def others_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that failed waits for longer than a busy machine needs to get to the next one."""
    monkeypatch.setattr("shoal.policy.retry.backoff", lambda attempt, base, cap, rng: RETRY)


RETRY = 3.0


@pytest.mark.usefixtures("others_first")
@pytest.mark.parametrize(("home", "many"), [("sqlite", 5000), ("valkey", 500)])
async def test_a_host_that_never_answers_ends_after_a_few_different_pages(
    home: str,
    many: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    valkey: ValkeyServer,
    record_property: Figure,
) -> None:
    async with a_world(monkeypatch) as world:
        await world.serve("dead.example")
        start = [f"http://dead.example/{n}" for n in range(many)]
        world.bad |= {("dead.example", f"/{n}"): reset for n in range(many)}
        began = time.monotonic()
        store = valkey.url if home == "valkey" else str(tmp_path / "store.db")
        had, letters = await crawl(world, tmp_path, start, store=store, robots=False, per_host=1)
        took, asked = time.monotonic() - began, [hit.path for hit in world.hits]
    record_property(f"a dead host of {many} pages", f"{len(asked)} requests, {took:.1f} s")
    assert not had
    assert len(letters) == many
    assert len(asked) == len(set(asked)) == 5, "each probe by another page"
    assert Counter(letter.kind for letter in letters)["host_down"] >= many - 5


@pytest.mark.usefixtures("others_first")
async def test_its_pages_come_back_when_it_answers_within_the_job(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_world(monkeypatch) as world:
        await world.serve("ill.example")
        await world.serve("well.example")
        enough_to_be_given_up = at_first(5, reset, GOOD)
        world.bad |= {("ill.example", f"/{n}"): enough_to_be_given_up for n in range(PAGES)}
        start = [f"http://ill.example/{n}" for n in range(PAGES)]
        start += [f"http://well.example/{n}" for n in range(60)]
        had, letters = await crawl(
            world, tmp_path, start, robots=False, per_host=1, rate=20, breaker_give_up=0.5
        )
        asked = Counter(hit.path for hit in world.hits if hit.host == "ill.example")
    assert "host ill.example is given up" in caplog.text
    assert had == {"ill.example": PAGES, "well.example": 60}
    assert letters == []
    assert sum(asked.values()) == PAGES + 5
