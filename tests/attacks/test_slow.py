"""Slow ones: name servers that never answer, and hosts that send a byte now and then. The others keep their pace."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from attacks.stage import (
    HONEST_HOSTS,
    HONEST_PAGES,
    NOT_FOUND,
    Result,
    Speech,
    Stage,
    Villain,
    honest_web,
    html,
)
from crash.harness import Desk
from shoal.testing.servers.names import SILENT, Answer, NameServer, Records

MB = 1024 * 1024
SHOPS = 20
DRIPPERS = 1500
SLOW = 100  # hosts of each kind; 360 pages at most wait in the network, and then nobody gets in


@contextmanager
def second_stage(stage: Stage, folder: Path) -> Iterator[Stage]:
    """For a control: hundreds of pages more are work, even if they are quick. On a busy machine, what counts is that
    slow ones cost no more."""
    folder = folder / "control"
    folder.mkdir()
    with Desk(folder) as desk:
        yield Stage(desk, stage.web)


def follow_links_to_evil_names(stage: Stage, answer: Answer) -> tuple[Result, list[str], set[str]]:
    """A crawl with a page that links to 2,000 names in one domain, of which a name server says so. Honest hosts by name
    come with it. What came of it, the honest pages by name, and the evil names that were asked for."""
    links = b"".join(b'<a href="http://n%d.evil.example/">x</a>' % n for n in range(2000))
    shop = html(b"<title>open</title>")
    with Villain({"/trap": html(links), "/shop": shop, "/robots.txt": NOT_FOUND}) as villain:
        shops = [f"http://www.shop{n}.example:{villain.port}/shop" for n in range(SHOPS)]
        names = {f"www.shop{n}.example": Records([villain.addresses[0]]) for n in range(SHOPS)}
        with NameServer({**names, "*.evil.example": answer}) as server:
            result = stage.crawl(
                villain.url("/trap"),
                start=shops,
                options=(
                    *("-s", "any_host=true", "-s", f"max_pages={1 + SHOPS + HONEST_HOSTS * HONEST_PAGES}"),
                    # A busy machine takes a second for the names that do exist.
                    *("-s", f"dns_servers={server.address}", "-s", "dns_timeout=3", "-s", "max_attempts=1"),
                ),
            )
    assert result.code == 0, result.err
    return result, shops, {name for name, _ in server.asked if name.endswith("evil.example")}


def test_two_thousand_names_whose_name_servers_never_answer(
    stage: Stage, twice: float, tmp_path: Path
) -> None:
    result, shops, asked = follow_links_to_evil_names(stage, SILENT)
    if result.seconds > twice:
        with second_stage(stage, tmp_path) as control:
            twice = 2 * follow_links_to_evil_names(control, "nxdomain")[0].seconds
    stage.check_honest(result, at_most=twice)
    assert set(shops) <= set(result.rows), result.err
    assert 0 < len(asked) < 200, "a domain that never answers is left alone"
    assert result.kinds().keys() == {"dns"}
    assert result.peak_rss < 300 * MB


async def drip(_: bytes, writer: asyncio.StreamWriter) -> None:
    """A byte now and then: never silent, never done."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5000\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(1.2)


async def drip_headers(_: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(1.2)


async def say_nothing(_: bytes, __: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def answer_late(_: bytes, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(6)
    writer.write(html(b"<title>late</title>"))


def visit_many_hosts(stage: Stage, body: Speech | bytes, head: Speech | bytes) -> Result:
    """A crawl of many hosts that answer so, listed before the honest ones."""
    with Villain({"/body": body, "/head": head, "/robots.txt": NOT_FOUND}, hosts=DRIPPERS) as villain:
        urls = [villain.url(("/body", "/head")[n % 2], n) for n in range(DRIPPERS)]
        result = stage.crawl(*urls, options=("-s", "max_attempts=1"))
    assert result.code == 0, result.err
    return result


def beside_a_control(folder: Path, stage: Stage) -> tuple[Result, Result]:
    """The same crawl, and one of hosts that are quick, at the same time: then the machine is as busy for both. On a
    busy one, quick hosts seem to take as long as slow ones, and wait for their turn among them."""
    folders = folder / "again", folder / "control"
    for one in folders:
        one.mkdir()
    with (
        Desk(folders[0]) as desk,
        Desk(folders[1]) as control,
        honest_web() as web,  # each has its own: the time is that of its requests
        ThreadPoolExecutor(2) as threads,
    ):
        again = threads.submit(visit_many_hosts, Stage(desk, stage.web), drip, drip_headers)
        usual = threads.submit(visit_many_hosts, Stage(control, web), html(b"quick"), html(b"quick"))
        return again.result(), usual.result()


def test_a_thousand_and_a_half_hosts_that_drip_are_listed_first(
    stage: Stage, twice: float, tmp_path: Path
) -> None:
    result = visit_many_hosts(stage, drip, drip_headers)
    if result.seconds > twice:
        result, usual = beside_a_control(tmp_path, stage)
        twice = 2 * usual.seconds
    stage.check_honest(result, at_most=twice)
    assert result.kinds().keys() == {"too_slow"}, "as far as they are listed"
    assert f"too_slow {DRIPPERS:,}" in result.err
    assert result.peak_rss < 300 * MB


def test_hosts_that_are_slow_in_other_ways(stage: Stage, twice: float) -> None:
    """Some never answer, of some it is robots.txt that drips, and some take long. Those are obtained, all of them."""
    with (
        Villain({"/": say_nothing, "/robots.txt": say_nothing}, hosts=SLOW) as silent,
        Villain({"/robots.txt": drip}, hosts=SLOW) as dripping,
        Villain({"/": answer_late, "/robots.txt": NOT_FOUND}, hosts=SLOW) as late,
    ):
        urls = [villain.url("/", n) for villain in (silent, dripping, late) for n in range(SLOW)]
        # Silence ends it, and not first_timeout at the same moment.
        result = stage.crawl(*urls, options=("-s", "max_attempts=1", "-s", "read_timeout=9"))
        assert result.code == 0, result.err
        stage.check_honest(result, at_most=twice)
        assert {late.url("/", n) for n in range(SLOW)} <= set(result.rows), result.err
    assert f"read_timeout {SLOW}" in result.err, result.err  # of robots.txt
    assert f"too_slow {SLOW}" in result.err, result.err
