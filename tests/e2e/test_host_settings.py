"""Settings for a host, by the log of the servers: rate, cap, timeout, headers, robots.txt, lane and pool really hold.

The same crawl is made by one process, by two on one file, and by two workers on Valkey that know the tables from the
job alone.
"""

from __future__ import annotations

import asyncio
import logging
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct

import shoal
from crash.harness import Desk, until
from integration.raw_server import RawServer, by_path, serve
from integration.raw_server import page as answer_of
from lateness import Lateness
from shoal import Page, Request, Spider
from shoal.errors import SettingsError
from shoal.frontier import open_frontier
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import DeadFilter, HostRecord
from shoal.hosts.host_state import state_of
from shoal.hosts.stored_settings import read_stored_settings
from shoal.inspect.actions import set_for_hosts
from shoal.inspect.single_page import look
from shoal.jobs.note import note_of, settings_of
from shoal.settings import HostSettings, Settings
from shoal.testing import ChaoticWeb, Hit, HostProfile, WebProcess
from shoal.testing.proxy_server import ProxyServer
from shoal.testing.servers import ValkeyServer

Cli = Callable[..., tuple[int, str, str]]

PAGES = 9
RATE = 6.0
SECRET = "hunter2-hunter2"
SPIDER = """
from pathlib import Path
from shoal import Spider

spider = Spider("shops", start=Path(__file__).with_name("start.txt"), trust_start=True, lanes={"calm": 1})


@spider.handler
def page(page):
    yield {"url": page.url}
"""
# The timeouts for all hosts would cut the patient one off, and not the impatient one. No other page takes so long, for
# servers and crawls may pause for seconds, and nothing is asked twice.
FLAGS = ("-s", f"rate={RATE:g}", "-s", "per_host=2", "-s", "first_timeout=6", "-s", "min_timeout=6",
         "-s", "total_timeout=6", "-s", "max_attempts=1", "-s", 'lane_caps={"calm": 1}',
         "-s", "domain_rate=0")  # fmt: skip

HOSTS = {
    "usual": HostProfile("fast", pages=PAGES),
    "gentle": HostProfile("fast", pages=PAGES),
    "brisk": HostProfile("fast", pages=4 * PAGES),
    "narrow": HostProfile("slow", pages=PAGES, latency=0.25),
    "wide": HostProfile("slow", pages=2 * PAGES, latency=0.8),
    "open": HostProfile("fast", pages=PAGES, robots="User-agent: *\nDisallow: /\n"),
    "impatient": HostProfile("slow", pages=1, latency=5.0),
    "patient": HostProfile("slow", pages=1, latency=7.0),
    "calm": HostProfile("slow", pages=PAGES, latency=0.3),
}
TABLES: dict[str, dict[str, Any]] = {
    "gentle": {"rate": 2},
    "brisk": {"rate": 24},
    "narrow": {"per_host": 1, "rate": 20},
    "wide": {"per_host": 5, "rate": 20},
    "open": {"robots": False},
    "impatient": {"timeout": 3, "robots": False},
    "patient": {"timeout": 60, "robots": False},
    "calm": {"lane": "calm", "per_host": 4, "rate": 20},
}


class Crawl(Struct, frozen=True):
    web: WebProcess
    hits: list[Hit]
    rows: set[str]
    dead: dict[str, str]
    processes: int
    late: float  # seconds that the machine was late at most
    stalled: float  # … and that it had too little time for all

    def times(self, host: str) -> list[float]:
        return sorted(hit.started for hit in self.hits if hit.host == host)

    def peak(self, host: str) -> int:
        return max(hit.concurrent for hit in self.hits if hit.host == host)


def most_within(times: list[float], span: float) -> int:
    return max(bisect_right(times, at + span) - number for number, at in enumerate(times))


def as_toml(web: WebProcess) -> str:
    lines = []
    for host, table in TABLES.items():
        lines.append(f'[host."{web.addresses[host]}"]')
        lines += [f"{key} = {msgspec.json.encode(value).decode()}" for key, value in table.items()]
    return "\n".join(lines)


@pytest.fixture(scope="module", params=["one process", "two processes", "fleet"])
def crawl(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, valkey_server: ValkeyServer
) -> Iterator[Crawl]:
    folder = tmp_path_factory.mktemp("host-settings")
    with WebProcess(HOSTS) as web, Desk(folder) as desk, Lateness() as late:
        desk.file("shops.py", SPIDER)
        urls = [web.url(host, f"/p/{n}") for n in range(40) for host in HOSTS if n < HOSTS[host].pages]
        desk.file("start.txt", "\n".join(urls) + "\n")
        desk.file("tables.toml", as_toml(web))
        store = str(folder / ".shoal/shoal.db")
        if request.param == "fleet":
            store = f"{valkey_server.url}?prefix=host-settings"
            job = ("submit", "shops.py", "--store", store, "--config", "tables.toml", "-o", "shops.jsonl")
            desk.finish(*job, *FLAGS)
            workers = [
                desk.start("worker", "shops.py", "--store", store, "--until-done", *FLAGS) for _ in range(2)
            ]
            assert [worker.code() for worker in workers] == [0, 0]
        else:
            many = ("--processes", "2") if request.param == "two processes" else ()
            desk.finish("crawl", "shops.py", "--config", "tables.toml", "-o", "shops.jsonl", *FLAGS, *many)
        rows = {
            msgspec.json.decode(line)["url"] for line in (folder / "shops.jsonl").read_bytes().splitlines()
        }
        dead = asyncio.run(_dead(store))
        processes = 1 if request.param == "one process" else 2
        yield Crawl(web, web.hits(), rows, dead, processes, late.seconds, late.stalled)


async def _dead(store: str) -> dict[str, str]:
    async with open_frontier(store) as frontier:
        return {letter.task.url: letter.kind for letter in await frontier.dead(DeadFilter())}


def test_rates(crawl: Crawl) -> None:
    """Robots.txt included, and for hosts that nobody had met: from the very first request on."""
    for host, rate in (("usual", RATE), ("gentle", 2.0), ("brisk", 24.0)):
        times = crawl.times(host)
        for span in (1.0, 2.0):
            assert most_within(times, span) <= span * rate + 2, (host, times)
        # And what is allowed is used: the server may be late, and so may we.
        took = times[-1] - times[0] - crawl.stalled
        assert took < (len(times) - 1) / (rate / 3), (host, times)
    brisk = crawl.times("brisk")
    assert brisk[-1] - brisk[0] - crawl.stalled < len(brisk) / (RATE + 2)


def test_caps(crawl: Crawl) -> None:
    assert crawl.peak("narrow") == 1
    assert 2 < crawl.peak("wide") <= 5


def test_timeouts(crawl: Crawl) -> None:
    web = crawl.web
    assert crawl.dead[web.url("impatient")] == "timeout"
    (hit,) = [hit for hit in crawl.hits if hit.host == "impatient"]
    # No longer than its page would have taken, or that would have come; the server may have read it late.
    assert hit.ended - hit.started > 1.0 - crawl.late
    assert web.url("patient") in crawl.rows


def test_robots(crawl: Crawl) -> None:
    asked = {hit.host for hit in crawl.hits if hit.path == "/robots.txt"}
    assert asked == set(HOSTS) - {"open", "impatient", "patient"}
    assert {url for url in crawl.rows if crawl.web.addresses["open"] in url} == crawl.web.pages_of("open")


def test_lanes(crawl: Crawl) -> None:
    """The lane has a cap of one page in a process."""
    assert crawl.peak("calm") <= crawl.processes


def test_nothing_else_is_lost(crawl: Crawl) -> None:
    expected = {url for host in HOSTS if host != "impatient" for url in crawl.web.pages_of(host)}
    assert crawl.rows == expected
    assert crawl.dead == {crawl.web.url("impatient"): "timeout"}


# -- headers


def spider_of(start: list[str | Request], **settings: Any) -> Spider:
    spider = Spider("shops", start, **{"rate": 0, "retry_base": 0.02, **settings})

    @spider.handler
    def page(page: Page) -> Iterator[object]:
        yield {"url": page.url}

    return spider


def authorised(server: RawServer) -> list[str]:
    """The paths that were asked for with the secret."""
    return [path for path, head in zip(server.paths, server.hits, strict=True) if SECRET.encode() in head]


def everything_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def test_headers_go_to_their_host_and_nowhere_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not after a redirect of a page, nor of robots.txt."""
    caplog.set_level(logging.DEBUG)
    async with serve(by_path({"/caught": answer_of(b"x")}), host="127.0.0.2") as other:
        away = {
            "/robots.txt": answer_of(b"", "302 Found", Location=other.url("/robots.txt")),
            "/there": answer_of(b"", "302 Found", Location=other.url("/caught")),
            "/gone": answer_of(b"", "404 Not Found"),
            "/page": answer_of(b"x"),
        }
        async with serve(by_path(away)) as shop:
            host = {f"{shop.host}:{shop.port}": {"headers": {"Authorization": SECRET, "X-Own": "1"}}}
            urls: list[str | Request] = [shop.url("/page"), shop.url("/there"), shop.url("/gone")]
            urls += [other.url("/direct"), Request(shop.url("/page?own"), headers={"authorization": "mine"})]
            store = tmp_path / "store.db"
            spider = spider_of(urls, host=host, headers={"x-own": "0"})
            await shoal.crawl(spider, store=str(store), output=str(tmp_path / "rows.jsonl"))
            assert sorted(authorised(shop)) == ["/gone", "/page", "/robots.txt", "/there"]
            (own,) = [head for head in shop.hits if b"?own" in head]
            assert own.lower().count(b"authorization") == own.lower().count(b"x-own") == 1
            assert b"mine" in own
        assert authorised(other) == []
        assert "/caught" in other.paths
    assert SECRET.encode() not in everything_in(tmp_path)
    assert SECRET not in caplog.text
    async with open_frontier(str(store)) as frontier:
        (job,) = await frontier.jobs()
        noted = settings_of(job.spec)
    assert noted is not None
    assert [table.headers for table in noted.host.values()] == [{"Authorization": "…", "X-Own": "…"}]


async def test_a_look_at_one_page_goes_by_them_too() -> None:
    """`shoal fetch`, which is how somebody tries a table out."""
    forbidden = {"/robots.txt": answer_of(b"User-agent: *\nDisallow: /"), "/page": answer_of(b"x")}
    async with serve(by_path(forbidden)) as shop:
        table = HostSettings(headers={"Authorization": SECRET}, robots=False)
        seen = await look(shop.url("/page"), Settings(host={f"{shop.host}:{shop.port}": table}))
    assert (seen.kind, authorised(shop), shop.paths) == ("ok", ["/page"], ["/page"])


async def test_a_pool_of_its_own(tmp_path: Path) -> None:
    hosts = {"a": HostProfile(pages=3), "b": HostProfile(pages=3)}
    async with ChaoticWeb(hosts) as web, ProxyServer("http") as proxy:
        urls: list[str | Request] = [web.url(host, f"/p/{n}") for n in range(3) for host in hosts]
        host = {web.addresses["a"]: {"pool": "gold"}}
        spider = spider_of(urls, host=host, proxies={"gold": [proxy.url]}, allow_network=["127.0.0.0/8"])
        results = await shoal.crawl(spider, store=str(tmp_path / "store.db"))
        assert results.view.job.counters.done == 6
        assert Counter(proxy.passed) == {web.addresses["a"]: 4}  # robots.txt, too


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (
            {"pool": "gold"},
            "[host.\"shop.example\"] pool: there is no pool 'gold'; proxies has direct, silver",
        ),
        (
            {"lane": "quick"},
            "[host.\"shop.example\"] lane: there is no lane 'quick'; there are urgent, normal",
        ),
    ],
)
async def test_pools_and_lanes_that_do_not_exist(table: dict[str, Any], words: str) -> None:
    spider = spider_of(
        ["http://shop.example/"], host={"shop.example": table}, proxies={"silver": ["127.0.0.1:9"]}
    )
    with pytest.raises(SettingsError) as raised:
        await shoal.crawl(spider)
    assert str(raised.value).startswith(f"spider: {words}")


def test_a_mistake_in_a_table_is_one_line(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "shoal.toml").write_text('[host."shop.example"]\nlane = "quick"\n')
    code, out, err = cli("crawl", "http://shop.example/")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert err.startswith(
        "shoal: shoal.toml: [host.\"shop.example\"] lane: there is no lane 'quick'; there are urgent"
    )


# -- by hand


async def record_of(frontier: Frontier, host: str) -> HostRecord:
    record = await frontier.host(host)
    assert record is not None
    return record


@pytest.mark.parametrize("home", ["sqlite", "valkey"])
async def test_set_by_hand_for_hosts_that_nobody_has_met(
    home: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Before the crawl; and while it runs, for one that it knows."""
    store = str(tmp_path / "store.db") if home == "sqlite" else str(request.getfixturevalue("valkey").url)
    hosts = {"new": HostProfile(pages=8), "slowed": HostProfile(pages=200), "other": HostProfile(pages=8)}
    with Lateness() as machine:
        async with ChaoticWeb(hosts) as web:
            new, slowed = web.addresses["new"], web.addresses["slowed"]
            async with open_frontier(store) as frontier:
                await set_for_hosts(frontier, new, {"rate": 2.5, "robots": False})
                urls: list[str | Request] = [
                    web.url(host, f"/p/{n}") for n in range(60) for host in hosts if n < hosts[host].pages
                ]
                crawling = asyncio.create_task(shoal.crawl(spider_of(urls, rate=20), store=store))
                async with asyncio.timeout(60):
                    while len(web.hits_of("slowed")) < 10:  # noqa: ASYNC110
                        await asyncio.sleep(0.02)
                    done = await set_for_hosts(frontier, slowed, {"rate": 4})
                    assert done.hosts == 1
                    at = time.monotonic() + 0.1
                    await asyncio.sleep(1.9)
                    late = [hit.started for hit in web.hits_of("slowed") if hit.started > at]
                    assert len(late) <= 4 * (time.monotonic() - at) + 2, "four a second, and not twenty"
                    await set_for_hosts(frontier, slowed, {"rate": None})
                    await crawling
                assert state_of(await record_of(frontier, new)).manual.rate == 2.5
                assert (await read_stored_settings(frontier)).tables.keys() == {new}
            times = sorted(hit.started for hit in web.hits_of("new"))
            assert not [hit for hit in web.hits_of("new") if hit.path == "/robots.txt"]
            assert len(times) == 8
            assert most_within(times, 1.0) <= 4
            others = sorted(hit.started for hit in web.hits_of("other"))
    assert others[-1] - others[0] < 1.5 + machine.stalled


async def test_a_job_that_is_submitted_again_brings_its_new_tables(tmp_path: Path) -> None:
    with WebProcess({"shop": HostProfile(pages=40)}) as web, Desk(tmp_path) as desk:
        desk.file("shops.py", SPIDER)
        desk.file("start.txt", "\n".join(web.url("shop", f"/p/{n}") for n in range(40)) + "\n")
        shop = web.addresses["shop"]
        submit = ("submit", "shops.py", "--store", "s.db", "-o", "shops.jsonl")
        desk.file("slow.toml", f'[host."{shop}"]\nrate = 1\n')
        desk.file("quick.toml", f'[host."{shop}"]\nrate = 30\n')
        desk.finish(*submit, "--config", "slow.toml")
        desk.start("worker", "shops.py", "--store", "s.db")
        await asyncio.to_thread(until, lambda: len(web.hits()) >= 3, "the first pages")
        desk.finish(*submit, "--config", "quick.toml")
        await asyncio.to_thread(until, lambda: len(web.hits()) == 41, "all pages", 20)
        async with open_frontier(str(tmp_path / "s.db")) as frontier:
            (job,) = await frontier.jobs()
        settings = note_of(job.spec).settings
        assert settings is not None
        assert settings["host"] == {shop: {"rate": 30.0, "where": "quick.toml"}}
