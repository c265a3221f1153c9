"""Ways into private networks: another job's typed host, a name that changes its address, start files, metadata."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import shoal
from attacks.stage import Stage, Villain, html
from integration.raw_server import always, by_path, page, serve
from shoal import Results, Spider
from shoal.fetch import resolver
from shoal.fetch.dns_lookup import Found
from shoal.fetch.guard import Guard
from shoal.frontier import open_frontier
from shoal.frontier.values import DeadFilter
from shoal.model import DeadLetter
from shoal.testing.servers import ValkeyServer


@pytest.fixture(params=["sqlite", "valkey"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    valkey: ValkeyServer = request.getfixturevalue("valkey")
    return valkey.url


async def crawl(start: Any, store: str, job: str, **settings: object) -> Results:
    spider = Spider(
        job, start, **{"rate": 0, "robots": False, "max_attempts": 1, "breaker_cooldown": 0.05, **settings}
    )
    spider.add_handler(lambda page: {"url": page.url}, name="page")
    async with asyncio.timeout(20):
        return await shoal.crawl(spider, store=store, job=job)


async def letters(store: str, job: str) -> list[DeadLetter]:
    async with open_frontier(store) as frontier:
        return list(await frontier.dead(DeadFilter(job=job)))


async def test_a_host_that_one_job_typed_is_closed_to_the_redirects_of_another(store: str) -> None:
    async with (
        serve(always(page(b"<p>secret</p>")), host="127.0.0.3") as inside,
        serve(always(page(b"", "302 Found", Location=inside.url("/secret"))), host="127.0.0.2") as evil,
    ):
        urls = [inside.url("/1"), inside.url("/2")]
        mine = await crawl(urls, store, "mine", max_pages=1, per_host=1)
        assert mine.view.job.counters.done == 1
        other = await crawl(evil.url("/"), store, "other")
        assert (other.items, len(inside.hits)) == ([], 1), "it never got there"
        again = await crawl(urls, store, "mine")
    assert again.view.job.counters.done == 2, "and the job that typed it goes on"
    [letter] = await letters(store, "other")
    assert letter.kind == "forbidden_address"
    assert "--allow-network 127.0.0.3/32" in letter.task.history[-1].detail


class FakeLookup:
    """Names stand for what the test says."""

    names: dict[str, str] = {}  # noqa: RUF012

    async def ask(self, name: str) -> Found:
        return Found((self.names[name],), ttl=0.0)

    async def close(self) -> None:
        pass


async def test_a_name_that_changes_its_address_over_a_restart(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the next address of its network it may, for servers are started again; elsewhere not."""
    monkeypatch.setattr(resolver, "make_lookup", lambda *_: FakeLookup())
    async with serve(always(page(b"<p>dev</p>")), host="127.0.5.1") as dev:
        urls = [f"http://dev.corp:{dev.port}/{n}" for n in range(3)]
        async with (
            serve(always(page(b"<p>dev</p>")), host="127.0.5.9", port=dev.port) as moved,
            serve(always(page(b"<p>inside</p>")), host="127.0.6.1", port=dev.port) as inside,
        ):
            for pages, address in enumerate(("127.0.5.1", "127.0.5.9", "127.0.6.1"), 1):
                FakeLookup.names = {"dev.corp": address}
                await crawl(urls, store, "dev", max_pages=pages, per_host=1)
    assert (len(dev.hits), len(moved.hits), inside.connections) == (1, 1, 0)
    [letter] = await letters(store, "dev")
    detail = letter.task.history[-1].detail
    assert detail.startswith("127.0.6.1 is a loopback address, but dev.corp was in 127.0.5.0/24 at first")


async def test_a_name_that_was_public_when_the_job_began(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody connects to the public address: in the first run there is no network."""
    monkeypatch.setattr(resolver, "make_lookup", lambda *_: FakeLookup())
    async with serve(always(page(b"<p>inside</p>")), host="127.0.6.1") as inside:
        url = f"http://evil.example:{inside.port}/"
        FakeLookup.names = {"evil.example": "93.184.216.34"}
        with monkeypatch.context() as patched:
            patched.setattr(Guard, "socket_factory", _no_socket)
            await crawl([url], store, "evil")
        async with open_frontier(store) as frontier:
            assert await frontier.replay(DeadFilter(job="evil")) == 1
        FakeLookup.names = {"evil.example": "127.0.6.1"}
        await crawl([url], store, "evil")
    assert inside.connections == 0
    [letter] = await letters(store, "evil")
    assert letter.kind == "forbidden_address"
    assert "but evil.example was in the public internet at first" in letter.task.history[-1].detail


def _no_socket(guard: Guard, addr_info: object) -> Any:
    raise OSError(101, "no network in tests")


async def test_metadata_is_refused_although_typed(tmp_path: Path) -> None:
    store = str(tmp_path / "store.db")
    await crawl(["http://169.254.169.254/latest/meta-data/"], store, "cloud")
    [letter] = await letters(store, "cloud")
    assert letter.kind == "forbidden_address"
    assert "--allow-network 169.254.169.254/32" in letter.task.history[-1].detail


@pytest.mark.parametrize("trusted", [False, True])
async def test_a_start_function_is_not_typed_unless_it_is_trusted(tmp_path: Path, trusted: bool) -> None:
    store = str(tmp_path / "store.db")
    async with serve(by_path({"/": page(b"<p>x</p>")})) as server:
        results = await crawl(lambda: [server.url("/")], store, "listed", trust_start=trusted)
    assert len(results.items) == trusted
    assert bool(server.connections) == trusted


def test_lines_of_a_file_reach_no_private_host(stage: Stage, twice: float) -> None:
    """The honest hosts are typed, on loopback; the file names one more, which is not."""
    with Villain({"/secret": html(b"<p>secret</p>")}) as villain:
        stage.desk.file("urls.txt", f"{villain.url('/secret')}\n")
        result = stage.crawl(options=["-i", "urls.txt"], allow="10.0.0.0/8")
        assert villain.hits == []
    [letter] = result.letters
    assert (letter["kind"], letter["url"]) == ("forbidden_address", villain.url("/secret"))
    assert "--allow-network 127.9.0.1/32, or -s trust_start=true for all start URLs" in str(letter)
    stage.check_honest(result, at_most=twice)
