"""Asking for a page: what is asked first, what is not asked at all, and what an answer teaches about the host."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from pages import Pages
from shoal.fetch.transport import FetchRequest
from shoal.frontier.clock import FrontierClock
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.values import Claim, DeadFilter, JobSpec
from shoal.hosts.cache import HostCache
from shoal.hosts.host_state import HostState, state_of
from shoal.model import Dead, Failure, Lease, Outcome, Response, Retry, Settlement, Task
from shoal.policy.compose import first_valve
from shoal.policy.load import Traffic
from shoal.settings import Settings
from shoal.testing import ManualClock
from shoal.testing.conformance.tools import make_task
from shoal.valve import Valve

HOST, URL = "a.test", "http://a.test/"
ROBOTS = "http://a.test/robots.txt"


class FakeTransport:
    """Every answer takes `takes` seconds; an unanswered request takes as long as it is given."""

    def __init__(self, clock: ManualClock) -> None:
        self.answer: Callable[[str], Outcome] = lambda url: Response(url, 200, {}, b"x" * 600)
        self.asked: list[FetchRequest] = []
        self.takes = 0.1
        self._clock = clock

    async def fetch(self, request: FetchRequest) -> Outcome:
        self.asked.append(request)
        outcome = self.answer(request.url)
        silent = isinstance(outcome, Failure) and outcome.kind == "timeout"
        took = request.total_timeout if silent and request.total_timeout else self.takes
        self._clock.advance(took)
        return replace(outcome, elapsed=took)

    async def close(self) -> None:
        pass

    @property
    def paths(self) -> list[str]:
        return [request.url.removeprefix("http://a.test") for request in self.asked]


class World:
    def __init__(self, **settings: object) -> None:
        self.settings = Settings(**{"rate": 0, "robots": False, "challenges": [], **settings})  # type: ignore[arg-type]
        self.clock = ManualClock()
        self.frontier_clock = FrontierClock(self.clock)
        self.frontier = MemoryFrontier(self.clock)
        self.transport = FakeTransport(self.clock)
        self.traffic = Traffic()
        self.hosts = HostCache(self.frontier, self.settings, self.frontier_clock)
        self.pages = Pages(
            self.settings,
            self.frontier,
            self.hosts,
            self.transport,
            self.frontier_clock,
            traffic=self.traffic,
        )

    async def leases(self, count: int, *tasks: Task) -> list[Lease]:
        """Of a host on which so many may run."""
        valve = replace(first_valve(self.settings), cap=count)
        await self.frontier.open_job(JobSpec("job", valve=valve))
        await self.frontier.add("job", tasks or [make_task(f"{URL}{n}", parent=1) for n in range(count)])
        return await self.claim(count)

    async def claim(self, count: int) -> list[Lease]:
        claimed = await self.frontier.claim(Claim("w", ["job"], {"normal": count}, count))
        self.frontier_clock.sync(claimed.now)
        return list(claimed.leases)

    async def ask(self, lease: Lease) -> Response | Settlement | None:
        return await self.pages.ask(lease)

    async def state(self) -> HostState:
        record = await self.frontier.host(HOST)
        assert record is not None
        return state_of(record)

    async def valve(self) -> Valve:
        record = await self.frontier.host(HOST)
        assert record is not None
        return record.valve

    async def dead(self) -> int:
        return len(await self.frontier.dead(DeadFilter("job")))

    def fails(self, kind: str) -> None:
        self.transport.answer = lambda url: Failure(kind, "it failed")

    def says(self, status: int, **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.transport.answer = lambda url: Response(url, status, named, b"")


def failure_of(answer: Response | Settlement | None) -> Failure:
    assert isinstance(answer, Settlement)
    return answer.verdict.failure


# -- what comes first


async def test_a_page() -> None:
    world = World()
    [lease] = await world.leases(1)
    answer = await world.ask(lease)
    assert isinstance(answer, Response)
    assert world.transport.paths == ["/0"]


async def test_the_first_permission_is_for_robots_txt() -> None:
    world = World(robots=True)
    [lease] = await world.leases(1)
    assert await world.ask(lease) is None
    assert world.transport.paths == ["/robots.txt"]


async def test_a_robots_txt_that_cannot_be_had_is_held_against_the_host() -> None:
    world = World(robots=True)
    world.fails("connect")
    [lease] = await world.leases(1)
    answer = await world.ask(lease)
    assert isinstance(answer, Settlement)
    assert isinstance(answer.verdict, Retry)
    assert failure_of(answer).kind == "connect", "what kept us from it, not what we wanted there"
    await world.hosts.write_back(everything=True)
    assert (await world.state()).errors == ("connect",)


async def test_what_robots_txt_forbids_is_buried() -> None:
    world = World(robots=True)
    world.transport.answer = lambda url: Response(url, 200, {}, b"User-agent: *\nDisallow: /1")
    first, second = await world.leases(2)
    assert await world.ask(first) is None
    assert failure_of(await world.ask(second)).kind == "robots"


# -- a host that was given up

GIVE_UP = {"breaker_failures": 1, "breaker_probes": 1, "breaker_cooldown": 5, "breaker_give_up": 100}


async def given_up(world: World) -> list[Lease]:
    """Leases that were given after the host had failed once too often."""
    world.fails("connect")
    opening, *_ = await world.leases(9)
    await world.ask(opening)
    await world.hosts.flush()
    world.clock.advance(6)
    probe = replace(opening, host_version=1)
    await world.ask(probe)
    await world.hosts.flush()
    assert (await world.state()).given_up
    assert (await world.valve()).cap == world.settings.concurrency, "burying need not be slow"
    await world.frontier.add("job", [make_task(f"{URL}late/{n}", parent=1) for n in range(5)])
    return await world.claim(5)


@pytest.mark.parametrize("robots", [True, False])
async def test_tasks_of_a_host_that_was_given_up_are_buried_unfetched(robots: bool) -> None:
    world = World(**GIVE_UP)
    leases = await given_up(world)
    world.settings = replace(world.settings, robots=robots)
    asked = len(world.transport.asked)
    for lease in leases:
        answer = await world.ask(lease)
        assert isinstance(answer, Settlement)
        assert isinstance(answer.verdict, Dead)
        assert failure_of(answer).kind == "host_down"
        assert "the last: connect" in failure_of(answer).detail
    assert len(world.transport.asked) == asked


async def test_when_it_may_be_probed_again_the_leases_for_burial_go_back() -> None:
    world = World(**GIVE_UP)
    leases = await given_up(world)
    asked = len(world.transport.asked)
    world.clock.advance(101)
    assert [await world.ask(lease) for lease in leases] == [None] * 5
    await world.hosts.flush()
    assert [await world.ask(lease) for lease in leases] == [None] * 5, "they are still the same leases"
    await world.frontier.release(leases)
    assert (await world.valve()).cap == 1
    assert len(world.transport.asked) == asked


async def test_another_process_gives_them_back_too() -> None:
    """Though it never knew the host while it was given up."""
    world = World(**GIVE_UP)
    leases = await given_up(world)
    world.clock.advance(101)
    await world.ask(leases[0])
    await world.hosts.flush()
    world.hosts = HostCache(world.frontier, world.settings, world.frontier_clock)
    assert (await world.hosts.view(leases[1])).state.good_from == leases[1].host_version + 1
    assert world.hosts.limits(leases[1], await world.hosts.view(leases[1])) is None


async def test_pages_of_a_host_that_answers_again_come_back() -> None:
    world = World(**GIVE_UP)
    pipeline = world.pages.pipeline
    for lease in await given_up(world):
        answer = await world.ask(lease)
        assert isinstance(answer, Settlement)
        await world.frontier.settle([answer])
    assert await world.dead() == 5
    await pipeline.write_back()
    assert await world.dead() == 5, "it is too early for a probe"
    world.clock.advance(101)
    await pipeline.write_back(everything=True)
    assert await world.dead() == 5, "a process that ends begins nothing"
    await pipeline.write_back()
    assert await world.dead() == 4, "one page finds out"

    [stale, *_] = await world.claim(1)
    assert await world.ask(stale) is None
    await pipeline.flush()
    await world.frontier.release([stale])
    world.clock.advance(1)
    world.says(200)
    [probe] = await world.claim(1)
    assert isinstance(await world.ask(probe), Response)
    saved = world.frontier.saved()
    await pipeline.flush()
    assert await world.dead() == 0

    world.frontier.go_back(saved)
    await pipeline.flush()
    assert await world.dead() == 4, "nobody has said that the store went back"
    await pipeline.forget()
    await pipeline.flush()
    assert await world.dead() == 0


# -- timeouts


async def test_the_timeout_is_the_hosts() -> None:
    world = World(first_timeout=7, min_timeout=1)
    world.transport.takes = 1.0
    leases = await world.leases(30)
    for lease in leases:
        await world.ask(lease)
    timeouts = [request.total_timeout for request in world.transport.asked]
    assert timeouts[0] == 7
    assert timeouts[-1] == pytest.approx(3.0, rel=0.01)


async def test_a_page_that_was_cut_off_gets_twice_the_time() -> None:
    world = World(min_timeout=1, total_timeout=9)
    world.transport.takes = 0.1
    history = (Failure("timeout", elapsed=2.0), Failure("http_500", elapsed=8.0))
    plain, patient, most = await world.leases(
        3,
        make_task(f"{URL}0", parent=1),
        make_task(f"{URL}1", parent=1, history=history),
        make_task(f"{URL}2", parent=1, history=(Failure("read_timeout", elapsed=6.0),)),
    )
    for lease in (plain, plain, patient, most):
        await world.ask(lease)
    assert [request.total_timeout for request in world.transport.asked[1:]] == [1, 4, 9]


# -- retries


async def test_a_failure_is_repeated() -> None:
    world = World()
    world.says(503)
    [lease] = await world.leases(1)
    answer = await world.ask(lease)
    assert isinstance(answer, Settlement)
    assert isinstance(answer.verdict, Retry)


async def test_a_host_without_retries_left_has_its_failures_buried() -> None:
    """Exactly: also those that were under way together."""
    world = World(retry_budget=0, retry_budget_floor=2)
    world.says(503)
    leases = await world.leases(4)
    answers = [await world.ask(lease) for lease in leases]
    verdicts = [answer.verdict for answer in answers if isinstance(answer, Settlement)]
    assert [type(verdict) for verdict in verdicts] == [Retry, Retry, Dead, Dead]
    assert "no retries left for this host (retry_budget 0)" in failure_of(answers[2]).detail


async def test_the_whole_crawl_has_a_budget_too() -> None:
    world = World(policies=[], retry_budget=0, retry_budget_floor=2)
    world.says(503)
    answers = [await world.ask(lease) for lease in await world.leases(3)]
    assert isinstance(answers[2], Settlement)
    assert isinstance(answers[2].verdict, Dead)
    assert failure_of(answers[2]).detail.endswith("(too many retries in the whole crawl (retry_budget 0))")


# -- what it teaches


async def test_a_retry_after_blocks_the_host() -> None:
    world = World()
    world.says(429, Retry_After="30")
    [lease] = await world.leases(1)
    await world.ask(lease)
    await world.hosts.flush()
    assert (await world.valve()).blocked_until == pytest.approx(world.frontier_clock.now() + 30)


async def test_failures_open_the_breaker_for_everybody() -> None:
    world = World(breaker_failures=3, breaker_cooldown=5)
    world.fails("connect")
    leases = await world.leases(3)
    for lease in leases:
        await world.ask(lease)
    await world.hosts.flush()
    assert (await world.valve()).blocked_until == pytest.approx(world.frontier_clock.now() + 5)
    assert (await world.state()).errors == ("connect",) * 3


async def test_backpressure_hears_of_every_fetch() -> None:
    world = World()
    world.says(503)
    for lease in await world.leases(4):
        await world.ask(lease)
    signals = world.traffic.signals(world.clock.monotonic())
    assert signals.fetches == pytest.approx(4, rel=0.05)
    assert signals.retry_share == 1.0


# -- names


@pytest.mark.parametrize("robots", [False, True])
async def test_a_name_that_was_not_looked_up_costs_no_attempt(robots: bool) -> None:
    """Its domain was busy. That says nothing about the host."""
    world = World(robots=robots, retry_base=1.0)
    (lease,) = await world.leases(1)
    world.fails("dns_wait")
    answer = await world.ask(lease)
    assert isinstance(answer, Settlement)
    assert isinstance(answer.verdict, Retry)
    assert not answer.verdict.counts
    assert answer.verdict.after >= 0.9
    assert answer.verdict.failure.kind == "dns_wait"
    await world.hosts.write_back(everything=True)
    assert (await world.valve()).blocked_until == 0.0
    assert not (await world.state()).errors


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        *[(kind, kind) for kind in ("dns", "connect", "connect_timeout", "read_timeout", "timeout", "reset")],
        *[(kind, "robots_unreachable") for kind in ("truncated", "protocol", "encoding")],
    ],
)
async def test_what_is_told_when_robots_txt_cannot_be_had(kind: str, told: str) -> None:
    world = World(robots=True)
    (lease,) = await world.leases(1)
    world.fails(kind)
    failure = failure_of(await world.ask(lease))
    assert (failure.kind, failure.detail) == (told, "robots.txt cannot be fetched: it failed")


async def test_a_robots_txt_on_a_busy_host_costs_no_attempt_for_a_while() -> None:
    """Neither the page nor its host is to blame; but nobody waits for ever."""
    world = World(robots=True, rate=2, retry_base=0.01)
    target = "http://b.test/all.txt"
    world.transport.answer = lambda url: Response(url, 301, {"Location": target}, b"")
    [lease] = await world.leases(1, make_task(URL, parent=1), make_task("http://b.test/", parent=1))
    b = await world.frontier.host("b.test")
    assert b is not None
    assert await world.frontier.update_host(replace(b, valve=replace(b.valve, blocked_until=1e12)))
    endings = []
    for _ in range(12):
        ending = await world.ask(lease)
        assert isinstance(ending, Settlement)
        assert isinstance(ending.verdict, Retry)
        assert ending.verdict.failure.kind == "robots_unreachable"
        assert "redirects to b.test" in ending.verdict.failure.detail
        endings.append(ending.verdict.counts)
        world.clock.advance(61)
    assert endings == [False] * 8 + [True] * 4
    assert set(world.transport.paths) == {"/robots.txt"}
