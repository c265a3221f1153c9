"""Attacks with robots.txt: texts that were slow to read and large to keep, and redirects at somebody else."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from benchmarks.fleet.manners import excess

from attacks.stage import RATE, Stage, Villain, html
from lateness import Lateness
from shoal.fetch.robots_fetch import MAX_BYTES
from shoal.frontier import open_frontier

_MEMORY = 200 * 1024 * 1024  # a crawl takes about 80 MB
_RECORD = 150_000  # bytes that a host's record may have, whatever its robots.txt


def many_agents(size: int) -> bytes:
    """As many agents as rules: each agent would get every rule."""
    agents = b"".join(b"User-agent: a%d\n" % n for n in range(size // 34))
    rules = b"".join(b"Disallow: /%d\n" % n for n in range(size // 34))
    return (agents + b"User-agent: *\n" + rules)[:size]


def for_us(size: int) -> bytes:
    """All of it is for us."""
    return b"User-agent: *\n" + b"".join(
        b"Disallow: /*%d*a*a*a$\nAllow: /x/%d\n" % (n, n) for n in range(size // 35)
    )


def stored(store: str, hosts: list[str]) -> list[int]:
    async def sizes() -> list[int]:
        async with open_frontier(store) as frontier:
            records = [await frontier.host(host) for host in hosts]
            return [len(record.state) for record in records if record is not None]

    return asyncio.run(sizes())


@pytest.mark.parametrize(
    ("text", "hosts"),
    [(many_agents(80_000), 1), (many_agents(MAX_BYTES), 10), (for_us(MAX_BYTES), 10)],
    ids=["80 KB", "500 KB of agents", "500 KB for us"],
)
def test_many_agents_and_many_rules(stage: Stage, twice: float, text: bytes, hosts: int) -> None:
    path = "/" + "a" * 1_500
    answers = {"/robots.txt": html(text, "text/plain"), path: html(b"<p>page</p>"), "/7": html(b"<p>no</p>")}
    with Villain(answers, hosts=hosts) as villain:
        urls = [villain.url(path, host) for host in range(hosts)]
        result = stage.crawl(*urls, villain.url("/7"))
        names = [f"{address}:{villain.port}" for address in villain.addresses]
    stage.check_honest(result, at_most=twice)
    assert result.peak_rss < _MEMORY
    assert set(urls) <= set(result.rows)
    if b"Disallow: /7\n" in text:
        assert result.kinds(villain.url("/7")) == {"robots": 1}
    sizes = stored(str(stage.desk.store), names)
    assert len(sizes) == hosts
    assert max(sizes) < _RECORD


def test_a_robots_txt_that_sends_the_crawl_at_an_honest_host(stage: Stage, twice: float) -> None:
    """Twelve hosts redirect theirs to an honest host, each time to another page: it keeps its gap and its pages."""
    victim = stage.web.url("honest-0", "")

    async def redirect(head: bytes, writer: asyncio.StreamWriter) -> None:
        location = f"{victim}/robots.txt?{len(villain.hits)}"
        writer.write(f"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: {location}\r\n\r\n".encode())
        await writer.drain()

    before = len(stage.web.hits())
    with Villain({"/robots.txt": redirect, "/": html(b"<p>page</p>")}, hosts=12) as villain:
        urls = [villain.url("/", host) for host in range(12)]
        with Lateness() as late:
            result = stage.crawl(*urls, options=["-s", "retry_base=0.01", "-s", "max_attempts=1"])
    hits = stage.web.hits()[before:]
    pages = [hit for hit in hits if hit.path.startswith("/p/")]
    took = max(hit.ended for hit in pages) - min(hit.started for hit in hits)
    stage.check_honest(replace(result, seconds=took), at_most=twice)
    visited = [hit for hit in hits if hit.host == "honest-0"]
    visits = [hit for hit in visited if hit.path.startswith("/robots.txt?")]
    assert 1 <= len(visits) <= 1 + (visits[-1].started - visits[0].started) / (10 / RATE)
    # Ten requests a second, whoever sends the crawl there: twelve hosts would send it there at once. One may be too
    # soon, and as many as crawl and server were late.
    assert excess([hit.started for hit in visited], 10) < 1 + 20 * late.seconds
    assert set(result.kinds(*urls)) <= {"robots_unreachable"}
