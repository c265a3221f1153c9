"""Fetching robots.txt from a real server (faults 12 and 13)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

from integration.raw_server import Answer, RawServer, always, by_path, page, serve
from shoal.clock import SystemClock
from shoal.fetch.guard import Guard
from shoal.fetch.http import HttpTransport
from shoal.fetch.robots_fetch import MAX_BYTES, AnyHost, RobotsRecord, fetch_robots
from shoal.settings import Settings

NOW = 5000.0
RULES = b"User-agent: *\nDisallow: /private\n"


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[HttpTransport]:
    transport = HttpTransport(settings, Guard(["127.0.0.0/8"]), SystemClock())
    try:
        yield transport
    finally:
        await transport.close()


@pytest.fixture
async def http() -> AsyncIterator[HttpTransport]:
    async with opened(Settings()) as transport:
        yield transport


class Pauses:
    def __init__(self) -> None:
        self.count = 0

    async def __call__(self) -> None:
        self.count += 1


async def fetch(http: HttpTransport, server: RawServer, pause: Pauses | None = None) -> RobotsRecord:
    async with asyncio.timeout(30):
        return await fetch_robots(
            http, server.origin, agent="shoal", now=NOW, pause=pause or Pauses(), other_hosts=AnyHost()
        )


def forbids(record: RobotsRecord, path: str) -> bool:
    return not record.allows(f"http://a.example{path}")


async def hang(head: bytes, writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


def status(text: str) -> Answer:
    return always(page(RULES, text))


@pytest.mark.parametrize(
    ("answer", "verdict", "reason"),
    [
        (status("200 OK"), "rules", ""),
        (status("404 Not Found"), "allow", "HTTP 404"),
        (status("401 Unauthorized"), "allow", "HTTP 401"),
        (status("403 Forbidden"), "allow", "HTTP 403"),
        (status("429 Too Many Requests"), "disallow", "HTTP 429"),
        (status("500 Oops"), "disallow", "HTTP 500"),
        (status("503 Later"), "disallow", "HTTP 503"),
        (status("302 Found"), "allow", "a redirect to nowhere"),
        (always(page(b"", "302 Found", Location="gopher://x/")), "allow", "a redirect to nowhere"),
        (always(page(b"", "302 Found", Location="http://[")), "allow", "a redirect to nowhere"),
        (hang, "disallow", "read_timeout"),
        (always(b"", close=True), "disallow", "reset"),
        (always(b"junk\r\n\r\n", close=True), "disallow", "protocol"),
    ],
)
async def test_what_an_answer_means(answer: Answer, verdict: str, reason: str) -> None:
    # Only what never comes is not waited for: a busy machine takes seconds for the others.
    settings = Settings(read_timeout=0.1) if answer is hang else Settings()
    async with serve(answer) as server, opened(settings) as http:
        record = await fetch(http, server)
    assert (record.verdict, record.reason, record.fetched_at) == (verdict, reason, NOW)
    assert record.expires_at == NOW + (60 if verdict == "disallow" else 24 * 3600)
    assert forbids(record, "/private") is (verdict != "allow")
    assert forbids(record, "/open") is (verdict == "disallow")


async def test_nobody_there(http: HttpTransport) -> None:
    async with serve(hang) as server:
        pass
    assert (await fetch(http, server)).verdict == "disallow"


def chain(length: int) -> dict[str, bytes]:
    """/robots.txt redirects to /1, that to /2, … and the last one has the rules."""
    hops = ["/robots.txt", *(f"/{n}" for n in range(1, length + 1))]
    answers = {here: page(b"", "301 Moved", Location=there) for here, there in pairwise(hops)}
    return {**answers, hops[-1]: page(RULES)}


async def test_five_hops_are_followed_with_a_pause_before_each(http: HttpTransport) -> None:
    pauses = Pauses()
    async with serve(by_path(chain(5))) as server:
        record = await fetch(http, server, pauses)
    assert record.verdict == "rules"
    assert forbids(record, "/private")
    assert server.paths == ["/robots.txt", "/1", "/2", "/3", "/4", "/5"]
    assert pauses.count == 5


async def test_six_hops_mean_there_is_none(http: HttpTransport) -> None:
    async with serve(by_path(chain(6))) as server:
        record = await fetch(http, server)
    assert (record.verdict, record.reason) == ("allow", "more than 5 redirects")
    assert len(server.hits) == 6


async def test_a_loop_ends(http: HttpTransport) -> None:
    async with serve(always(page(b"", "302 Found", Location="/robots.txt"))) as server:
        assert (await fetch(http, server)).verdict == "allow"


@pytest.mark.parametrize(
    ("location", "asked"),
    [
        ("/rules?sig=a%2Fb%3D%3D", "/rules?sig=a%2Fb%3D%3D"),
        ("/%7Erobots", "/%7Erobots"),
        ("http:\\\\HOST\\rules", "/rules"),
        ("http:/rules", "/rules"),
    ],
)
async def test_a_redirect_leads_where_browsers_go(http: HttpTransport, location: str, asked: str) -> None:
    """A signature that is written in another way is refused, and then everything would be allowed."""

    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        port = writer.get_extra_info("sockname")[1]
        there = location.replace("HOST", f"127.0.0.1:{port}")
        if head.startswith(b"GET /robots.txt "):
            writer.write(page(b"", "302 Found", Location=there))
        elif head.startswith(f"GET {asked} ".encode()):
            writer.write(page(RULES))
        else:
            writer.write(page(b"", "404 Not Found"))

    async with serve(answer) as server:
        record = await fetch(http, server)
    assert forbids(record, "/private")


async def test_a_redirect_to_another_host_needs_no_pause(http: HttpTransport) -> None:
    pauses = Pauses()
    async with serve(by_path({"/r": page(RULES)}), host="127.0.0.2") as other:
        target = other.url("/r").replace("//", "//joe:secret@")
        async with serve(always(page(b"", "307 Moved", Location=target))) as server:
            record = await fetch(http, server, pauses)
    assert record.verdict == "rules"
    assert pauses.count == 0
    assert b"uthorization" not in other.hits[0]


class Door:
    """Notes who is visited, and how many at once."""

    def __init__(self) -> None:
        self.visits: list[str] = []
        self.open = 0

    async def known(self, url: str) -> RobotsRecord | None:
        return None

    @asynccontextmanager
    async def visit(self, host: str) -> AsyncIterator[bool]:
        self.visits.append(host)
        self.open += 1
        assert self.open == 1, "the one before is left first"
        yield True
        self.open -= 1

    def remember(self, url: str, record: RobotsRecord) -> None:
        pass


async def test_every_other_host_is_visited_and_left_again(http: HttpTransport) -> None:
    pauses, door = Pauses(), Door()
    async with (
        serve(by_path({"/r": page(RULES)}), host="127.0.0.3") as last,
        serve(by_path(dict(_moves({"/a": "/b", "/b": last.url("/r")}))), host="127.0.0.2") as middle,
        serve(by_path(dict(_moves({"/robots.txt": "/x", "/x": middle.url("/a")})))) as first,
    ):
        record = await fetch_robots(
            http, first.origin, agent="shoal", now=NOW, pause=pauses, other_hosts=door, timeout=5
        )
    assert record.verdict == "rules"
    assert door.visits == [middle.origin.removeprefix("http://"), last.origin.removeprefix("http://")]
    assert (door.open, pauses.count) == (0, 2)


def _moves(moves: dict[str, str]) -> Iterator[tuple[str, bytes]]:
    for here, there in moves.items():
        yield here, page(b"", "302 Found", Location=there)


async def test_a_redirect_inside_is_refused() -> None:
    async with serve(always(page(b"", "302 Found", Location="http://127.0.0.7:1/robots.txt"))) as server:
        transport = HttpTransport(Settings(), Guard(allowed=[(server.host, server.port)]), SystemClock())
        record = await fetch(transport, server)
        await transport.close()
    assert (record.verdict, record.reason) == ("disallow", "forbidden_address")


@pytest.mark.parametrize("beyond", [0, 1, 100, 200_000])
async def test_the_first_500_kib_count(http: HttpTransport, beyond: int) -> None:
    last = b"Disallow: /last\n"
    filler = b"#" * (MAX_BYTES - len(RULES) - len(last) - 1) + b"\n"
    async with serve(always(page(RULES + filler + last + b"Disallow: /beyond\n" * beyond))) as server:
        record = await fetch(http, server)
    assert record.verdict == "rules"
    assert len(record.rules) <= MAX_BYTES
    assert forbids(record, "/private")
    assert forbids(record, "/last")
    assert not forbids(record, "/beyond")


async def test_a_rule_cut_in_two_is_dropped(http: HttpTransport) -> None:
    half = b"\nDisallow: /"
    filler = b"#" * (MAX_BYTES - len(RULES) - len(half))
    async with serve(always(page(RULES + filler + half + b"cut\n"))) as server:
        record = await fetch(http, server)
    assert forbids(record, "/private")
    assert not forbids(record, "/open")


BODIES: dict[str, Any] = {
    "BOM": b"\xef\xbb\xbf" + RULES,
    "CRLF": RULES.replace(b"\n", b"\r\n"),
    "lone CR": RULES.replace(b"\n", b"\r"),
    "Latin-1": b"# caf\xe9\n" + RULES,
    "NUL": b"\0\0\n" + RULES,
}


@pytest.mark.parametrize("name", BODIES)
async def test_odd_but_readable(http: HttpTransport, name: str) -> None:
    async with serve(always(page(BODIES[name]))) as server:
        record = await fetch(http, server)
    assert forbids(record, "/private")
    assert not forbids(record, "/open")


async def test_binary_junk_forbids_nothing(http: HttpTransport) -> None:
    async with serve(always(page(bytes(range(256)) * 400))) as server:
        record = await fetch(http, server)
    assert not forbids(record, "/private")
