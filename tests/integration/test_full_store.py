"""A store whose memory is full: what frees or moves goes on, what is new waits, and nothing is lost."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

import shoal
from e2e.dashboard.viewer import viewing
from shoal.cli import run
from shoal.dashboard.server import Options, dashboard
from shoal.errors import StoreFull
from shoal.frontier.redis.home import RedisFrontier
from shoal.frontier.values import Cursor, DeadFilter
from shoal.jobs.note import write_note
from shoal.model import Dead, Done, Failure, Retry, Row, Settlement
from shoal.settings import Settings
from shoal.sink.jsonl import JsonLines
from shoal.testing import ChaoticWeb, HostProfile
from shoal.testing.conformance.tools import balanced, claim, make_task, settle, spec
from shoal.testing.servers import ValkeyServer

GONE = Dead(Failure("http_404", "gone"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    with ValkeyServer(tmp_path_factory.mktemp("full"), appendonly=True, fsync="always") as server:
        yield server


@pytest.fixture(params=[1, 3], ids=["one shard", "three shards"])
async def frontier(server: ValkeyServer, request: pytest.FixtureRequest) -> AsyncIterator[RedisFrontier]:
    fill(server, full=False)
    server.command("FLUSHALL")
    async with RedisFrontier(f"{server.url}?shards={request.param}") as frontier:
        yield frontier
        fill(server, full=False)


def fill(server: ValkeyServer, *, full: bool = True) -> None:
    """No server has so little memory that it could not answer; it is full all the same."""
    server.command("CONFIG", "SET", "maxmemory", "1" if full else "0")


async def test_what_frees_or_moves_runs_and_what_is_new_waits(
    server: ValkeyServer, frontier: RedisFrontier, tmp_path: Path
) -> None:
    await frontier.open_job(spec())
    await frontier.open_job(spec("other"))
    hosts = [f"h{n}.test" for n in range(4)]
    await frontier.add("job", [make_task(f"http://{host}/{n}") for host in hosts for n in range(5)])
    await frontier.add("other", [make_task(f"http://{host}/other") for host in hosts], Cursor(fed_all=True))
    for lease in (await claim(frontier, 4)).leases:
        await settle(frontier, lease, GONE)
    leases = list((await claim(frontier, 5)).leases)
    fill(server)
    async with asyncio.timeout(30), RedisFrontier(frontier.address) as second:
        assert (await second.room()).share > 1000
        assert [job.spec.name for job in await second.jobs()] == ["job", "other"]
        with pytest.raises(StoreFull, match="no room left"):
            await second.add("job", [make_task("http://new.test/")])
        with pytest.raises(StoreFull):
            await second.open_job(spec("new"))
        assert await second.job("new") is None

        leases += (await claim(second, 2)).leases
        assert await second.extend("w1", 60.0) == len(leases)
        assert await second.release([leases.pop()]) == 1
        assert await settle(second, leases.pop())

        # One call with all sorts: those that add nothing are settled, and the others wait as they are.
        links = tuple(make_task(f"http://{host}/found") for host in hosts)
        journal = JsonLines(tmp_path / "rows.jsonl")
        batch = [
            Settlement(leases[0], Done(), links, rows=(Row(b'"links"\n'),)),
            Settlement(leases[1], Done(), rows=(Row(b'"leaf"\n', key=7),)),
            Settlement(leases[2], GONE),
            Settlement(leases[3], Done()),
        ]
        settled = await second.settle(batch, journal)
        assert (list(settled.accepted), settled.no_room) == ([False, True, False, True], {0, 2})
        assert (tmp_path / "rows.jsonl").read_bytes() == b'"leaf"\n'
        assert {lease.token for lease in await second.held("w1")} == {
            lease.token for lease in (leases[0], leases[2], *leases[4:])
        }
        await balanced(second)

        record = await second.host(hosts[0])
        assert record is not None
        assert await second.update_host(record)
        assert await second.set_note("leader", b"me", 0)
        assert await second.replay(DeadFilter("job", limit=1)) == 1
        assert await second.drop(DeadFilter("job", limit=1)) == 1
        assert len(await second.dead(DeadFilter("job"))) == 2
        await second.set_state("other", "paused")
        await second.open_job(spec("other", priority=3))
        await second.drop_job("other")
        assert await second.job("other") is None
        assert await second.reap() == 0

        waiting = [batch[0], batch[2]]
        assert (await second.settle(waiting, journal)).no_room == {0, 1}
        fill(server, full=False)
        settled = await second.settle(waiting, journal)
        assert (list(settled.accepted), settled.found.new, settled.no_room) == ([True, True], 4, frozenset())
        assert (tmp_path / "rows.jsonl").read_bytes() == b'"leaf"\n"links"\n'
        assert (await second.add("job", [make_task("http://new.test/")])).new == 1
        job = await balanced(second)
        assert job.counters.stale == 0
        journal.close()


def test_every_command_works_in_a_full_store(
    server: ValkeyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    fill(server, full=False)
    server.command("FLUSHALL")

    async def stock() -> None:
        async with RedisFrontier(server.url) as frontier:
            for name in ("books", "films", "plays"):
                note = write_note(b"", Settings(), handlers={"page": ("normal", 0)})
                await frontier.open_job(replace(spec(name), settings=note))
                await frontier.add(name, [make_task(f"http://h{n}.test/") for n in range(5)])
            for lease in (await claim(frontier, 1, jobs=["books"])).leases:
                await settle(frontier, lease, GONE)

    asyncio.run(stock())
    fill(server)
    for command in (
        "status",
        "status books",
        "top",
        "why http://h1.test/ --job books",
        "hosts",
        "hosts block h1.test",
        "hosts unblock h1.test",
        "dead list",
        "dead replay --job books",
        "pause books",
        "resume books",
        "report books",
        "cancel films",
        "cancel books --forget",
    ):
        code = run([*command.split(), "--store", server.url])
        assert code == 0, (command, capfd.readouterr().err)
    capfd.readouterr()
    for command in ("submit http://h.test/", "submit http://h.test/ --job films", "add plays http://h.test/"):
        assert run([*command.split(), "--store", server.url]) == 3
        err = capfd.readouterr().err
        assert err.startswith("shoal: the store has "), err
        assert "takes nothing new above 80% (store_high_water): raise its maxmemory" in err
        assert len(err.splitlines()) == 1
    fill(server, full=False)
    assert run(["submit", "http://h.test/", "--store", server.url]) == 0


PAGES = (
    "/", "/readyz", "/api/overview", "/api/live", "/api/history?job=books", "/api/errors", "/api/workers",
    "/api/flights", "/api/proxies", "/api/events", "/api/why?url=http://h1.test/&job=books", "/api/hosts",
    "/api/hosts/h1.test", "/api/dead",
)  # fmt: skip


async def stock(server: ValkeyServer) -> None:
    async with RedisFrontier(server.url) as frontier:
        for name in ("books", "films"):
            note = write_note(b"", Settings(), handlers={"page": ("normal", 0)})
            await frontier.open_job(replace(spec(name), settings=note))
            await frontier.add(name, [make_task(f"http://h{n}.test/") for n in range(5)])
        for lease in (await claim(frontier, 1, jobs=["books"])).leases:
            await settle(frontier, lease, GONE)


async def test_the_dashboard_of_a_full_store(server: ValkeyServer, caplog: pytest.LogCaptureFixture) -> None:
    """All its pages open, and whoever wants to make room can."""
    fill(server, full=False)
    server.command("FLUSHALL")
    await stock(server)
    fill(server)
    try:
        async with dashboard(Options(server.url, port=0)) as served, viewing(served) as viewer:
            await viewer.log_in()
            for path in PAGES:
                async with viewer.http.get(path) as answer:
                    assert answer.status == 200, (path, await answer.text())
            for path, action, told in (
                ("/api/jobs/books", {"action": "pause"}, 200),
                ("/api/jobs/books", {"action": "resume"}, 200),
                ("/api/jobs/films", {"action": "cancel"}, 200),
                ("/api/hosts/h1.test", {"action": "block"}, 200),
                ("/api/dead", {"action": "drop", "filter": {"job": "books"}}, 200),
            ):
                status, value = await viewer.post(path, **action)
                assert status == told, (path, action, value)
    finally:
        fill(server, full=False)
    assert "Traceback" not in caplog.text
    async with RedisFrontier(server.url) as frontier:
        assert {job.spec.name: job.state for job in await frontier.jobs()} == {
            "books": "running",
            "films": "cancelled",
        }


async def eventually(met: Callable[[], bool], seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while not met():  # noqa: ASYNC110 (the server knows nothing of our events)
            await asyncio.sleep(0.02)


def links_spider(web: ChaoticWeb) -> shoal.Spider:
    spider = shoal.Spider("books", web.start_urls, rate=40, per_host=4, robots=False)

    def page(page: shoal.Page) -> Iterator[object]:
        yield {"url": page.url}
        yield from page.follow_all("a", "page")

    spider.add_handler(page, name="page")
    return spider


async def test_who_waits_is_woken_though_the_store_is_full(
    server: ValkeyServer, frontier: RedisFrontier
) -> None:
    await frontier.open_job(spec())
    await frontier.add("job", [make_task("http://a.test/")])
    [lease] = (await claim(frontier, 1)).leases
    async with RedisFrontier(frontier.address) as second, asyncio.timeout(30):
        fill(server)
        assert not (await claim(second, 5, worker="w2")).leases
        await settle(frontier, lease, Retry(0.2, GONE.failure))
        assert await second.wait(60)
        assert await second.release((await claim(second, 5, worker="w2")).leases) == 1


async def test_a_crawl_stops_before_the_store_is_full_and_goes_on_by_itself(
    server: ValkeyServer, tmp_path: Path
) -> None:
    """The limit falls onto what is used in the middle of a crawl: pages that bring links wait, in good order."""
    fill(server, full=False)
    server.command("FLUSHALL")
    async with ChaoticWeb({f"site-{n}": HostProfile(pages=40) for n in range(4)}) as web:
        output = tmp_path / "books.jsonl"
        crawling = asyncio.create_task(shoal.crawl(links_spider(web), store=server.url, output=output))
        try:
            await eventually(lambda: len(web.hits()) >= 20)
            fill(server)
            await eventually(lambda: quiet(web), 30)
            assert not crawling.done()
            asked = len(web.hits())
            await asyncio.sleep(1.0)
            assert len(web.hits()) == asked, "no page is begun"
            assert asked < 160
        finally:
            fill(server, full=False)
        async with asyncio.timeout(60):
            results = await crawling
        counters = results.view.job.counters
        assert (counters.done, counters.dead, counters.stale, counters.open) == (160, 0, 0, 0)
        assert len(output.read_text().split("\n")) == 161
        again = Counter((hit.host, hit.path) for hit in web.hits())
        assert set(again.values()) == {1}, "what waited was not fetched again"


async def test_a_process_that_ends_while_pages_wait_hands_them_back(
    server: ValkeyServer, tmp_path: Path
) -> None:
    fill(server, full=False)
    server.command("FLUSHALL")
    output = tmp_path / "books.jsonl"
    async with ChaoticWeb({f"site-{n}": HostProfile(pages=20) for n in range(4)}) as web:
        crawling = asyncio.create_task(shoal.crawl(links_spider(web), store=server.url, output=output))
        await eventually(lambda: len(web.hits()) >= 10)
        fill(server)
        await eventually(lambda: quiet(web), 30)
        crawling.cancel()
        async with asyncio.timeout(30):
            await asyncio.wait([crawling])
        async with RedisFrontier(server.url) as frontier:
            job = await balanced(frontier, "books")
            assert (job.counters.leased, job.counters.retried) == (0, 0)
            assert job.counters.done < job.counters.admitted
            assert job.counters.done == job.counters.items == len(output.read_text().splitlines())
        fill(server, full=False)
        async with asyncio.timeout(30):
            results = await shoal.crawl(links_spider(web), store=server.url, output=output)
        assert results.view.job.counters.done == 80
        assert len(set(output.read_text().splitlines())) == 80


async def test_a_server_that_cannot_write_its_disk_is_read_and_takes_no_changes(tmp_path: Path) -> None:
    """MISCONF: what a script changed would be lost with the server."""
    folder = tmp_path / "server"
    with ValkeyServer(folder, settings={"save": "3600 1"}) as server:
        async with RedisFrontier(server.url) as frontier:
            await frontier.open_job(spec())
            await frontier.add("job", [make_task("http://a.test/1")])
            shutil.rmtree(folder)
            server.command("BGSAVE")
            await eventually(lambda: server.command("INFO")["rdb_last_bgsave_status"] == "err")
            async with RedisFrontier(server.url) as second:
                assert (await second.find("job", make_task("http://a.test/1"))).place == "pending"
                with pytest.raises(StoreFull, match="cannot write to its disk, and takes no changes"):
                    await second.add("job", [make_task("http://a.test/2")])
                claiming = asyncio.create_task(claim(second))
                done, _ = await asyncio.wait([claiming], timeout=0.3)
                assert not done
                server.command("CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
                async with asyncio.timeout(30):
                    assert len((await claiming).leases) == 1


CANNOT_WRITE = "cannot write to its disk, and takes no changes"


async def test_commands_and_dashboard_of_a_server_that_cannot_write_its_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """MISCONF: whatever looks works; whatever changes something says in one line why not."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "server"
    with ValkeyServer(folder, settings={"save": "3600 1"}) as server:
        await stock(server)
        shutil.rmtree(folder)
        server.command("BGSAVE")
        await eventually(lambda: server.command("INFO")["rdb_last_bgsave_status"] == "err")
        for commands, code in ((LOOKS, 0), (CHANGES, 3)):
            for command in commands:
                began = time.monotonic()
                got = await asyncio.to_thread(run, [*command.split(), "--store", server.url])
                err = capfd.readouterr().err
                assert got == code, (command, err)
                assert "Traceback" not in err
                assert time.monotonic() - began < 60, command  # and does not wait for room without end
                if code:
                    *warnings, line = err.splitlines()
                    assert CANNOT_WRITE in line, (command, err)
                    assert not warnings or command.startswith("submit"), (command, err)
        async with dashboard(Options(server.url, port=0)) as served, viewing(served) as viewer:
            await viewer.log_in()
            for path in PAGES:
                async with viewer.http.get(path) as answer:
                    assert answer.status == 200, (path, await answer.text())
            status, value = await viewer.post("/api/jobs/books", action="pause")
            assert status == 503, value
            assert CANNOT_WRITE in value["error"]


LOOKS = (
    "status", "status books", "top", "why http://h1.test/ --job books", "hosts", "hosts show h1.test",
    "hosts settings", "dead list", "report books", "store",
)  # fmt: skip
CHANGES = (
    "pause books", "cancel films", "hosts block h1.test", "hosts set h1.test rate=1", "dead replay --job books",
    "dead drop --job books", "add books http://h9.test/", "submit http://h.test/"
)  # fmt: skip


def quiet(web: ChaoticWeb) -> bool:
    """Nothing has been asked for a second."""
    hits = web.hits()
    return bool(hits) and time.monotonic() - max(hit.started for hit in hits) > 1.0
