"""Settings for hosts in a store and in a job: whose word counts, and that nobody undoes what is newer."""

from __future__ import annotations

import random
from typing import Any

import pytest
from msgspec.structs import replace

from shoal.errors import UsageError
from shoal.fetch.proxy.pool import LocalPools
from shoal.fetch.proxy.routes import Routes
from shoal.fetch.robots_fetch import rules_record
from shoal.fetch.transport import FetchRequest
from shoal.frontier.clock import FrontierClock
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.values import Claim, HostRecord, JobSpec
from shoal.hosts import stored_settings as standing_module
from shoal.hosts.cache import HostCache
from shoal.hosts.host_limits import HostRules
from shoal.hosts.host_state import Ask, HostState, Manual, encode_state, state_of
from shoal.hosts.stored_settings import StoredSettingsCopy, change_stored_settings, read_stored_settings
from shoal.inspect.actions import set_for_hosts
from shoal.inspect.host import rate_source, view_of, with_robots, with_sources
from shoal.jobs.note import write_note
from shoal.model import Failure, Lease, Outcome, Response, Task
from shoal.policy.compose import first_valve
from shoal.policy.concurrency import MOST
from shoal.policy.host_table import HostTable
from shoal.policy.load import Traffic
from shoal.policy.protocol import Observation
from shoal.policy.rate import RateState
from shoal.settings import HostSettings, Settings
from shoal.testing import ManualClock
from shoal.valve import Valve

SHOP = "shop.example"


class World:
    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock()
        self.frontier = MemoryFrontier(self.clock)
        self.settings = Settings(**{"rate": 2, "per_host": 4, "robots": False, **settings})
        self.cache = self.make_cache()

    def make_cache(self, job: str = "job") -> HostCache:
        return HostCache(self.frontier, self.settings, FrontierClock(self.clock), job=job)

    async def add(self, *hosts: str) -> None:
        note = write_note(b"", self.settings)
        await self.frontier.open_job(JobSpec("job", valve=first_valve(self.settings), settings=note))
        await self.frontier.add("job", [Task(f"http://{host}/{n}", host=host, fingerprint=hash((host, n)) >> 2)
                                        for host in hosts for n in range(9)])  # fmt: skip

    async def claim(self) -> list[Lease]:
        return list((await self.frontier.claim(Claim("w", ["job"], {"normal": 9}, 9))).leases)

    async def record(self, host: str = SHOP) -> HostRecord:
        record = await self.frontier.host(host)
        assert record is not None
        return record

    async def valve(self, host: str = SHOP) -> tuple[float, int]:
        valve = (await self.record(host)).valve
        return valve.interval, valve.cap


# -- hosts never met


async def test_a_host_with_a_table_is_never_asked_by_the_rate_of_all() -> None:
    world = World(rate=0, host={SHOP: HostSettings(rate=0.5, per_host=2)})
    await world.add(SHOP, "other.example")
    first = await world.claim()
    assert sorted(lease.task.host for lease in first) == ["other.example", SHOP], (
        "one each, though four may run"
    )
    for lease in first:
        await world.cache.view(lease)
    await world.cache.flush()
    assert await world.valve() == (2.0, 2)
    assert await world.valve("other.example") == (0.0, 4)
    world.clock.advance(1.9)
    assert {lease.task.host for lease in await world.claim()} == {"other.example"}
    world.clock.advance(0.2)
    assert SHOP in {lease.task.host for lease in await world.claim()}


async def test_what_is_set_in_the_store_is_known_before_the_first_request() -> None:
    world = World()
    await set_for_hosts(world.frontier, "*.example", {"rate": 0.5})
    await world.add(SHOP)
    for lease in await world.claim():
        view = await world.cache.view(lease)
        assert view.terms.settings.rate == 0.5
    await world.cache.flush()
    assert await world.valve() == (2.0, 4)


# -- a store's word


async def test_a_worker_that_has_not_heard_of_it_does_not_undo_it() -> None:
    world = World()
    await world.add(SHOP)
    [lease] = await world.claim()
    await world.cache.view(lease)
    await set_for_hosts(world.frontier, SHOP, {"rate": 0.5, "pool": "gold"})
    assert (await world.valve())[0] == 2.0
    world.cache._to_flush.add(SHOP)  # whatever it saw
    await world.cache.flush()
    assert (await world.valve())[0] == 2.0
    assert world.cache.own(SHOP).pool == "gold", "and it has heard of it now"


async def test_a_host_that_came_while_it_was_being_set_follows_soon() -> None:
    world = World()
    await world.add(SHOP)
    [lease] = await world.claim()
    await world.cache.view(lease)
    # As if the walk over known hosts had missed it:
    await change_stored_settings(world.frontier, lambda tables: {**tables, SHOP: HostSettings(rate=0.5)})
    world.clock.advance(3)
    await world.cache.write_back()
    view = await world.cache.view(lease)
    assert view.terms.settings.rate == 0.5
    await world.cache.flush()
    assert (await world.valve())[0] == 2.0


async def test_older_words_never_win() -> None:
    world = World()
    await set_for_hosts(world.frontier, SHOP, {"rate": 1})
    copy = StoredSettingsCopy(world.frontier)
    await copy.refresh(0.0, older_than=1)
    newer = HostState(manual=Manual(rate=0.1, version=7))
    assert copy.applied(SHOP, newer) is newer
    older = copy.applied(SHOP, HostState(manual=Manual(rate=0.1, blocked_until=9.0)))
    assert (older.manual.rate, older.manual.blocked_until, older.manual.version) == (1, 9.0, 1)
    assert copy.applied("other.example", HostState()) == HostState(), "nothing is written for nothing"


async def test_it_is_read_again_only_when_it_is_old() -> None:
    world = World()
    copy = StoredSettingsCopy(world.frontier)
    await copy.refresh(0.0, older_than=2)
    await set_for_hosts(world.frontier, SHOP, {"rate": 1})
    await copy.refresh(1.0, older_than=2)
    assert not copy.table
    await copy.refresh(2.0, older_than=2)
    assert copy.table.of(SHOP).rate == 1


async def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing_module, "HOST_TABLES", 2)
    frontier = MemoryFrontier(ManualClock())
    for host in ("a.example", "b.example", "a.example"):
        await set_for_hosts(frontier, host, {"rate": 1})
    with pytest.raises(UsageError, match=r"3 hosts and patterns .* at most 2 may"):
        await set_for_hosts(frontier, "c.example", {"rate": 1})
    await set_for_hosts(frontier, "a.example", {"rate": None})
    assert (await set_for_hosts(frontier, "c.example", {"rate": 1})).settings == HostSettings(rate=1)


async def test_words_of_another_version() -> None:
    frontier = MemoryFrontier(ManualClock())
    await frontier.set_note(
        "host-settings", standing_module._encode({"a.b": {"rate": 1.0, "mood": "good", "timeout": "?"}}), 0
    )
    assert (await read_stored_settings(frontier)).tables == {"a.b": HostSettings(rate=1.0)}
    await frontier.set_note("host-settings", b"\xff", 1)
    assert (await read_stored_settings(frontier)).tables == {}


async def test_a_pool_that_this_worker_lacks_is_waited_for() -> None:
    """Not buried, and not asked without a proxy."""
    clock = ManualClock()
    asked: list[str] = []

    class Watched:
        async def fetch(self, request: FetchRequest) -> Outcome:
            asked.append(request.url)
            return Response(request.url, 404, {}, b"")

        async def close(self) -> None: ...

    routes = Routes(Watched(), Settings(), LocalPools(), traffic=Traffic(), clock=clock,
                    rng=random.Random(0), now=clock.time, own=lambda host: HostSettings(pool="gold"))  # fmt: skip
    outcome = await routes.fetch(FetchRequest(f"http://{SHOP}/"))
    assert isinstance(outcome, Failure)
    assert (outcome.kind, asked) == ("proxy_wait", [])
    assert "no pool 'gold'" in outcome.detail


# -- who is the strictest, and is said to be


NO_STANDING = HostTable({})


def seen(rules: HostRules, state: HostState, standing: HostTable = NO_STANDING) -> tuple[float, int, str]:
    record = rules.applied(HostRecord(SHOP, Valve()), state, 0.0)
    sight = with_robots(view_of(record, rules, 0.0), rules)
    return record.valve.interval, record.valve.cap, rate_source(with_sources(sight, rules, standing))


def test_the_strictest_holds_and_is_named() -> None:
    table = {SHOP: HostSettings(rate=0.5, per_host=3, where="shoal.toml")}
    rules = HostRules(Settings(rate=4, host=table), "mine")
    by_table = "set for this host in shoal.toml"
    assert seen(rules, HostState()) == (2.0, 1, by_table)
    known = HostState().with_origin(
        "http", HostState().origin("http").with_robots(rules_record("", "shoal", 0.0))
    )
    assert seen(rules, known) == (2.0, 3, by_table)

    other = replace(known, asks={"other": Ask(5.0, 1, 0.0)})
    assert seen(rules, other) == (5.0, 1, "job other allows no more")
    milder = replace(known, asks={"other": Ask(0.1, 9, 0.0)})
    assert seen(rules, milder) == (2.0, 3, by_table)

    by_hand = replace(other, manual=Manual(rate=1.0, per_host=8, version=1))
    standing = HostTable({"*.example": HostSettings(rate=1.0, per_host=8)})
    assert seen(rules, by_hand, standing) == (1.0, 8, "set for *.example in this store, by hand")

    delay = rules_record("User-agent: *\nCrawl-delay: 9", "shoal", 0.0)
    robots = by_hand.with_origin("http", by_hand.origin("http").with_robots(delay))
    assert seen(rules, robots) == (9.0, 8, "Crawl-delay of robots.txt")
    not_asked = replace(robots, manual=Manual(rate=1.0, robots=False))
    assert seen(rules, not_asked)[0] == 1.0

    complaints = RateState(pace=0.125, complaints=2, status="429")
    slowed = rules.policies.encode({**rules.policies.initial(), "rate": complaints})
    assert seen(rules, replace(known, policies=slowed)) == (8.0, 3, "slowed down by the policy rate")
    plain = HostRules(Settings(rate=4, robots=False))
    assert seen(plain, HostState()) == (0.25, 2, "setting rate")


def test_a_job_says_what_its_tables_allow() -> None:
    rules = HostRules(Settings(rate=4, host={SHOP: HostSettings(rate=0.5)}), "mine")
    asks = {host: rules.asked(host, HostState(), 0.0).asks["mine"] for host in (SHOP, "other.example")}
    assert {host: (ask.interval, ask.cap) for host, ask in asks.items()} == {
        SHOP: (2.0, MOST),
        "other.example": (0.25, MOST),
    }
    changed = HostRules(Settings(rate=4, host={SHOP: HostSettings(rate=1)}), "mine")
    assert not changed.has_asked(SHOP, HostState(asks={"mine": asks[SHOP]}))
    assert changed.has_asked("other.example", HostState(asks={"mine": asks["other.example"]}))


def test_more_at_once_than_at_other_hosts_is_a_matter_of_policies_too() -> None:
    """They begin with the host's own numbers: else a cap of eight would fall to one of two after a complaint."""
    rules = HostRules(Settings(per_host=2, robots=False, host={SHOP: HostSettings(per_host=8)}))
    terms = rules.terms(rules.own(SHOP))
    assert rules.terms(rules.own(SHOP)) is terms, "made once"
    overloaded = Observation(0.0, 1.0, "http_503", blames_host=True)
    cut = terms.policies.observe(terms.policies.initial(), [overloaded])
    assert terms.policies.limits(cut, 0.0).cap == 4
    record = HostRecord(SHOP, Valve(), encode_state(HostState(policies=terms.policies.encode(cut))))
    assert rules.applied(record, state_of(record), 0.0).valve.cap == 4
