"""`shoal quality`: what it says of alarms, what is accepted, and alarms that two processes find at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import msgpack
from msgspec.structs import replace

from shoal.cli import run
from shoal.frontier import open_frontier
from shoal.frontier.clock import FrontierClock
from shoal.frontier.compare_and_set import change_host
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.values import Claim, HostRecord, JobSpec
from shoal.hosts.cache import HostCache
from shoal.hosts.host_state import HostState, encode_state, state_of
from shoal.inspect.quality import accept_quality
from shoal.model import Row
from shoal.policy.compose import first_valve
from shoal.policy.quality import NO_QUALITY, Quality, observe
from shoal.policy.quality_alarms import alarms
from shoal.policy.quality_sample import PageSample, samples_of
from shoal.settings import Settings
from shoal.testing import ManualClock
from shoal.testing.conformance.tools import make_task

Cli = Callable[..., tuple[int, str, str]]


def page(price: object, run: int, **more: bool) -> PageSample:
    data = json.dumps({"name": "Thing", "price": price}).encode()
    [sample] = samples_of("shop", "product", [Row(data, table="product")])
    return replace(sample, job=run, at=1e9 + run, **more)


def known(*prices: object) -> Quality:
    """After a run of twenty usual pages, and a second one with these."""
    quality = NO_QUALITY
    for sample in [*(page(20, 1) for _ in range(20)), *(page(price, 2) for price in prices)]:
        quality = observe(quality, sample)
    return quality


async def put(frontier: MemoryFrontier, host: str, quality: Quality) -> None:
    def fold(record: HostRecord) -> HostRecord:
        return replace(record, state=encode_state(HostState(quality=dict(quality))))

    await frontier.add("job", [make_task(f"http://{host}/")])
    await change_host(frontier, host, fold)


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Cli:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")

    async def store() -> None:
        async with open_frontier("s.db") as frontier:
            await frontier.open_job(JobSpec("job", valve=first_valve(Settings(rate=0))))
            await put(frontier, "bare.test", known(*[None] * 9))  # type: ignore[arg-type]
            await put(frontier, "cents.test", known(*[2000] * 9))  # type: ignore[arg-type]
            await put(frontier, "fine.test", known(*[21] * 9))  # type: ignore[arg-type]

    asyncio.run(store())

    def cli(*argv: str) -> tuple[int, str, str]:
        code = run(["quality", *argv, "--store", "s.db"])
        return code, *capfd.readouterr()

    return cli


def test_the_alarms_of_all_hosts(cli: Cli) -> None:
    code, out, _ = cli()
    assert code == 0
    assert "bare.test" in out
    assert "is empty on 9 of 9 pages; it was filled on 100 %" in out
    assert "cents.test" in out
    assert "is about 1,985 on the latest pages; it was 20" in out
    assert "fine.test" not in out
    assert "shoal quality accept HOST --store s.db: it is right as it is" in out
    found = json.loads(cli("--json")[1])
    told = [(host["host"], one["field"], one["alarm"]) for host in found for one in host["fields"]]
    assert [one for one in sorted(told) if one[2]] == [
        ("bare.test", "price", "empty"),
        ("cents.test", "price", "large"),
    ]


def test_one_host(cli: Cli) -> None:
    code, out, _ = cli("show", "http://cents.test/")
    assert code == 0
    assert out.startswith("cents.test\n")
    assert "(rows)" in out
    assert "field price of handler product is about 1,985 on the latest pages" in out
    assert "since" in out
    assert json.loads(cli("show", "fine.test", "--json")[1])["learning"] is False
    code, _, err = cli("show", "nobody.test")
    assert (code, err.count("\n")) == (2, 1)
    assert "nobody.test" in err


def test_what_is_accepted_is_no_alarm_any_more(cli: Cli) -> None:
    code, _, err = cli("accept", "bare.test", "--field", "name")
    assert code == 2
    assert err.startswith("shoal: bare.test has no quality alarm of name; shoal quality show bare.test")
    assert cli("accept", "bare.test", "--handler", "other")[0] == 2
    code, out, err = cli("accept", "bare.test", "--handler", "product", "--field", "price")
    assert code == 0
    assert "bare.test: field price of handler product is accepted as it is now\n" in out + err
    assert "shoal rejected replay --host bare.test --store s.db" in out + err
    assert "bare.test" not in cli()[1]
    assert cli("accept", "bare.test")[0] == 2, "there is none left"
    assert cli("accept", "cents.test")[0] == 0
    assert cli()[1] == "no alarm: 9 fields of 3 hosts are as they were\n"


def test_a_store_in_which_nothing_is_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    async def store() -> None:
        async with open_frontier("s.db") as frontier:
            await frontier.open_job(JobSpec("job", valve=first_valve(Settings())))

    asyncio.run(store())
    assert run(["quality", "--store", "s.db"]) == 0
    assert capfd.readouterr().out.startswith("nothing is watched yet")


# -- two processes


class Two:
    """Two processes that know the same host."""

    async def begin(self) -> None:
        clock = ManualClock()
        self.frontier = MemoryFrontier(clock)
        settings = Settings(rate=0)
        await self.frontier.open_job(JobSpec("job", valve=first_valve(settings)))
        await put(self.frontier, "a.test", known(20))
        [lease] = (await self.frontier.claim(Claim("w", ["job"], {"normal": 1}, 1))).leases
        self.caches = [HostCache(self.frontier, settings, FrontierClock(clock), job="job") for _ in range(2)]
        for cache in self.caches:
            await cache.view(lease)

    def see(self, cache: HostCache, price: object, pages: int) -> None:
        for _ in range(pages):
            cache.record_rows("a.test", [page(price, 3)])

    async def stored(self) -> Quality:
        record = await self.frontier.host("a.test")
        assert record is not None
        return state_of(record).quality


async def test_what_two_processes_see_adds_up_to_one_alarm() -> None:
    """None of them has seen enough for an alarm; the one that writes second adds its pages to those of the first."""
    two = Two()
    await two.begin()
    for cache in two.caches:
        two.see(cache, None, 5)
        assert alarms(cache.quality("a.test")) == []
    for cache in two.caches:
        await cache.write_back(everything=True)
    [alarm] = alarms(await two.stored())
    assert alarm.sentence == (
        "field price of handler product is empty on 10 of 10 pages; it was filled on 100 %"
    )
    assert alarms(two.caches[1].quality("a.test")) == [alarm]


async def test_an_alarm_that_both_find_is_one() -> None:
    two = Two()
    await two.begin()
    for cache in two.caches:
        two.see(cache, None, 9)
    await asyncio.gather(*(cache.write_back(everything=True) for cache in two.caches))
    [alarm] = alarms(await two.stored())
    assert "on 18 of 18 pages" in alarm.sentence


async def test_what_a_person_accepts_meanwhile_is_not_undone() -> None:
    """A process that knows the alarm, and has seen more such pages, writes after the person."""
    two = Two()
    await two.begin()
    one = two.caches[0]
    two.see(one, None, 9)
    await one.write_back(everything=True)
    two.see(one, None, 3)
    await accept_quality(two.frontier, "a.test")
    await one.write_back(everything=True)
    assert alarms(await two.stored()) == []
    assert alarms(one.quality("a.test")) == []
    assert len(msgpack.encode(await two.stored())) < 300
