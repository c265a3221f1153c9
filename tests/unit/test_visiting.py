"""Asking a host without a lease: its limits hold, for everybody (ADR 0016)."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from msgspec.structs import replace

from shoal.fetch.robots_fetch import RobotsRecord
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.values import Claim, HostRecord, JobSpec
from shoal.hosts.host_limits import HostRules
from shoal.hosts.host_state import HostState, OriginState, encode_state, state_of
from shoal.hosts.robots import RobotsVisits
from shoal.model import Lease
from shoal.settings import Settings
from shoal.testing import ManualClock
from shoal.testing.conformance.tools import make_task
from shoal.valve import Valve

HOST = "b.test"
SETTINGS = Settings(rate=2, per_host=2)


class World:
    def __init__(self, settings: Settings = SETTINGS) -> None:
        self.clock = ManualClock()
        self.frontier = MemoryFrontier(self.clock)
        self.visitor = self.make_visitor(settings)

    def make_visitor(self, settings: Settings = SETTINGS) -> RobotsVisits:
        interval = 1 / settings.rate if settings.rate else 0.0
        return RobotsVisits(self.frontier, settings, self.clock.time, self.sleep, lambda host: interval)

    async def sleep(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await asyncio.sleep(0)

    async def fill(self, pages: int = 5, **valve: float) -> None:
        first = Valve(**{"interval": 0.5, "cap": 2, **valve})  # type: ignore[arg-type]
        await self.frontier.open_job(JobSpec("job", valve=first))
        await self.frontier.add("job", [make_task(f"http://{HOST}/{n}") for n in range(pages)])

    async def claim(self) -> list[Lease]:
        return list((await self.frontier.claim(Claim("w", ["job"], {"normal": 9}, 9))).leases)

    async def record(self) -> HostRecord:
        record = await self.frontier.host(HOST)
        assert record is not None
        return record


@pytest.fixture
def world() -> World:
    return World()


async def test_nobody_else_is_let_through_until_an_interval_after_the_visit(world: World) -> None:
    await world.fill()
    async with world.visitor.visit(HOST) as permitted:
        assert permitted
        world.clock.advance(3)
        assert await world.claim() == [], "the valve is shut"
    assert await world.claim() == []
    world.clock.advance(0.49)
    assert await world.claim() == []
    world.clock.advance(0.02)
    assert len(await world.claim()) == 1


async def test_a_visit_keeps_the_gap_to_what_was_claimed_before(world: World) -> None:
    await world.fill()
    assert len(await world.claim()) == 1
    before = world.clock.time()
    async with world.visitor.visit(HOST) as permitted:
        assert permitted
        assert world.clock.time() - before >= 0.5 - 1e-9


async def test_what_is_claimed_while_the_valve_is_being_shut_is_seen(world: World) -> None:
    """Between the look at the record and the shutting, a worker was quicker. Claims do not change the version."""
    await world.fill()
    update = world.frontier.update_host

    async def late(record: HostRecord) -> bool:
        world.frontier.update_host = update  # type: ignore[method-assign]
        assert len(await world.claim()) == 1
        return await update(record)

    world.frontier.update_host = late  # type: ignore[method-assign]
    before = world.clock.time()
    async with world.visitor.visit(HOST) as permitted:
        assert permitted
        assert world.clock.time() - before >= 0.5 - 1e-9


async def test_a_visit_waits_for_a_place_and_gives_up_in_time(world: World) -> None:
    await world.fill(cap=1)
    [lease] = await world.claim()
    async with world.visitor.visit(HOST) as permitted:
        assert not permitted
    assert (await world.record()).valve.blocked_until <= world.clock.time() + 0.5, "the valve is open again"
    await world.frontier.release([lease])
    world.clock.advance(60)
    async with world.visitor.visit(HOST) as permitted:
        assert permitted


async def test_a_host_is_visited_once_in_ten_intervals(world: World) -> None:
    await world.fill()
    visits = []
    for _ in range(100):
        async with world.make_visitor().visit(HOST) as permitted:
            if permitted:
                visits.append(world.clock.time())
        world.clock.advance(0.1)
    assert len(visits) >= 2
    assert min(after - before for before, after in pairwise(visits)) >= 5.0


@pytest.mark.parametrize("interval", [0.0, 0.5])
async def test_visits_take_a_tenth_of_a_hosts_time_at_most(world: World, interval: float) -> None:
    """Also where there is no rate, and also of visits that did not come about: here the host is never free."""
    await world.fill(pages=3, cap=1, interval=interval)
    assert len(await world.claim()) == 1
    shut, began = 0.0, world.clock.time()
    for _ in range(200):
        async with world.make_visitor().visit(HOST) as permitted:
            assert not permitted
            record = await world.record()
            if record.valve.blocked_until > world.clock.time() + 10:
                shut += 5.0  # its patience is at an end
        world.clock.advance(1)
    assert 10 < shut < 0.12 * (world.clock.time() - began)


async def test_two_at_once_are_not_both_permitted(world: World) -> None:
    await world.fill()

    async def visit() -> bool:
        async with world.make_visitor().visit(HOST) as permitted:
            await asyncio.sleep(0)
            return permitted

    assert sorted(await asyncio.gather(visit(), visit(), visit())) == [False, False, True]


@pytest.mark.parametrize("state", [HostState(given_up=True), HostState(visits_from=1e17)])
async def test_not_now(world: World, state: HostState) -> None:
    await world.fill()
    assert await world.frontier.update_host(replace(await world.record(), state=encode_state(state)))
    async with world.visitor.visit(HOST) as permitted:
        assert not permitted


async def test_a_blocked_host_is_not_visited_and_stays_blocked(world: World) -> None:
    await world.fill(blocked_until=1e12)
    async with world.visitor.visit(HOST) as permitted:
        assert not permitted
    assert (await world.record()).valve.blocked_until == 1e12


async def test_whoever_computes_the_valve_anew_leaves_it_shut(world: World) -> None:
    await world.fill()
    rules = HostRules(SETTINGS, "job")
    async with world.visitor.visit(HOST):
        record = await world.record()
        assert await world.frontier.update_host(rules.applied(record, state_of(record), world.clock.time()))
        assert await world.claim() == []


async def test_a_visit_that_dies_leaves_it_shut_for_a_while_only(world: World) -> None:
    await world.fill()
    await world.visitor.visit(HOST).__aenter__()
    world.clock.advance(SETTINGS.total_timeout + 6)
    assert await world.claim()


async def test_hosts_without_a_record_get_one_visit_an_interval(world: World) -> None:
    visits = 0
    for _ in range(40):
        async with world.make_visitor().visit("nobody.test") as permitted:
            visits += permitted
        world.clock.advance(0.05)
    assert visits == 4, "two seconds at two a second"


async def test_without_a_rate_there_is_no_limit() -> None:
    world = World(Settings(rate=0))
    for _ in range(3):
        async with world.visitor.visit("nobody.test") as permitted:
            assert permitted


async def test_an_answer_that_is_in_the_hosts_record_is_known(world: World) -> None:
    await world.fill()
    url, now = f"http://{HOST}/robots.txt", world.clock.time()
    assert await world.visitor.known(url) is None
    rules = RobotsRecord("rules", now, now + 100, agent="shoal", rules="-/x")
    state = encode_state(HostState(origins={"http": OriginState(rules)}))
    assert await world.frontier.update_host(replace(await world.record(), state=state))
    assert await world.visitor.known(url) == rules
    assert await world.visitor.known(f"http://{HOST}/other.txt") is None
    assert await world.make_visitor(Settings(user_agent="Other/1")).known(url) is None
    world.clock.advance(101)
    assert await world.visitor.known(url) is None


async def test_what_many_redirect_to_is_remembered(world: World) -> None:
    now = world.clock.time()
    rules = RobotsRecord("rules", now, now + 100, agent="shoal")
    for n in range(1_000):
        world.visitor.remember(f"http://{HOST}/{n}", rules)
    assert await world.visitor.known(f"http://{HOST}/999") == rules
    assert await world.visitor.known(f"http://{HOST}/0") is None, "but not without end"
