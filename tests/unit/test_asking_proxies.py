"""Asking for a page through proxies: what is tried another way, what waits without losing an attempt, who is blamed."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from pages import Pages
from shoal.fetch.proxy.pool import LocalPools
from shoal.fetch.proxy.routes import Routes
from shoal.fetch.transport import FetchRequest
from shoal.frontier.clock import FrontierClock
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.values import Claim, JobSpec
from shoal.hosts.cache import HostCache
from shoal.hosts.host_state import HostState, state_of
from shoal.model import Dead, Failure, Lease, Outcome, Response, Retry, Settlement
from shoal.policy.compose import first_valve
from shoal.policy.load import Traffic
from shoal.settings import Settings
from shoal.testing import ManualClock
from shoal.testing.conformance.tools import make_task

HOST, URL = "a.test", "http://a.test/"
ONE, TWO = "dc/one:1", "dc/two:1"


class FakeTransport:
    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.answer: Callable[[str], Outcome] = lambda via: Response(URL, 200, {}, b"x" * 600)

    async def fetch(self, request: FetchRequest) -> Outcome:
        via = request.proxy.name if request.proxy is not None else "direct"
        self.asked.append((via, request.url))
        return replace(self.answer(via), elapsed=0.1)

    async def close(self) -> None: ...


class World:
    def __init__(self, **settings: object) -> None:
        given = {"rate": 0, "robots": False, "pool": "dc", "proxies": {"dc": ["one:1", "two:1"]}, **settings}
        self.settings = Settings(**given)  # type: ignore[arg-type]
        self.clock, rng = ManualClock(), random.Random(0)
        self.frontier_clock = FrontierClock(self.clock)
        self.frontier, self.transport, self.traffic = MemoryFrontier(self.clock), FakeTransport(), Traffic()
        self.routes = Routes(
            self.transport,
            self.settings,
            LocalPools(),
            traffic=self.traffic,
            clock=self.clock,
            rng=rng,
            now=self.frontier_clock.now,
        )
        self.hosts = HostCache(self.frontier, self.settings, self.frontier_clock)
        self.pages = Pages(
            self.settings,
            self.frontier,
            self.hosts,
            self.routes,
            self.frontier_clock,
            traffic=self.traffic,
            rng=rng,
            routes=self.routes,
        )

    async def add(self, max_attempts: int = 5) -> None:
        spec = JobSpec("job", valve=replace(first_valve(self.settings), cap=9), max_attempts=max_attempts)
        await self.frontier.open_job(spec)
        await self.frontier.add("job", [make_task(f"{URL}1", parent=1)])

    async def claim(self) -> Lease:
        claimed = await self.frontier.claim(Claim("w", ["job"], {"normal": 1}, 1))
        self.frontier_clock.sync(claimed.now)
        [lease] = claimed.leases
        return lease

    async def ask(self, lease: Lease) -> Response | Settlement | None:
        return await self.pages.ask(lease)

    async def settle(self, lease: Lease, answer: Response | Settlement | None) -> None:
        """And wait until the task is due again."""
        assert isinstance(answer, Settlement)
        assert isinstance(answer.verdict, Retry)
        await self.frontier.settle([Settlement(lease, answer.verdict)])
        self.clock.advance(answer.verdict.after + 0.01)

    async def state(self) -> HostState:
        await self.hosts.write_back(everything=True)
        record = await self.frontier.host(HOST)
        assert record is not None
        return state_of(record)


def verdict_of(answer: Response | Settlement | None) -> Retry | Dead:
    assert isinstance(answer, Settlement)
    return answer.verdict


def forbidden(via: str) -> Response:
    return Response(URL, 403, {}, b"no")


def captcha(via: str) -> Response:
    return Response(URL, 403, {"cf-mitigated": "challenge"}, b"Just a moment...")


@pytest.mark.parametrize("answer", [forbidden, captcha])
async def test_what_is_refused_is_tried_another_way(answer: Callable[[str], Response]) -> None:
    world = World()
    await world.add()
    world.transport.answer = answer
    lease = await world.claim()
    first = await world.ask(lease)
    verdict = verdict_of(first)
    assert isinstance(verdict, Retry)
    assert verdict.failure.kind == "proxy_ban"
    assert verdict.failure.via == world.transport.asked[0][0]
    assert (await world.state()).errors == (), "nothing is held against the host"
    await world.settle(lease, first)
    world.transport.answer = lambda via: Response(URL, 200, {}, b"x" * 600)
    again = await world.ask(await world.claim())
    assert isinstance(again, Response)
    assert {via for via, _ in world.transport.asked} == {ONE, TWO}


async def test_what_every_way_refuses_is_judged_as_ever() -> None:
    world = World()
    await world.add()
    world.transport.answer = forbidden
    lease = await world.claim()
    await world.settle(lease, await world.ask(lease))
    verdict = verdict_of(await world.ask(await world.claim()))
    assert isinstance(verdict, Dead)
    assert verdict.failure.kind == "http_403"
    assert verdict.failure.via in (ONE, TWO)


async def test_without_proxies_a_403_is_a_403() -> None:
    world = World(proxies={}, pool="")
    await world.add()
    world.transport.answer = forbidden
    assert verdict_of(await world.ask(await world.claim())).failure.kind == "http_403"


async def test_statuses_that_a_handler_wants_are_no_bans() -> None:
    world = World(handle_status=[403], challenges=[])
    await world.add()
    world.transport.answer = forbidden
    assert isinstance(await world.ask(await world.claim()), Response)


@pytest.mark.parametrize("robots", [False, True])
async def test_pages_wait_for_a_proxy_without_losing_attempts(robots: bool) -> None:
    world = World(robots=robots)
    await world.add(max_attempts=2)
    world.transport.answer = lambda via: Failure("proxy_connect", "refused")
    for _ in range(10):
        lease = await world.claim()
        assert lease.task.attempt == 1
        answer = await world.ask(lease)
        verdict = verdict_of(answer)
        assert isinstance(verdict, Retry)
        assert not verdict.counts
        await world.settle(lease, answer)
    assert len(world.transport.asked) < 20, "most of the time nobody is asked"
    assert verdict.failure.kind.startswith("proxy")
    assert (await world.state()).errors == ()
    assert world.traffic.signals(world.clock.monotonic()).retry_share == 0


async def test_the_last_attempt_is_not_spent_on_a_proxy() -> None:
    world = World(max_attempts=1)
    await world.add(max_attempts=1)
    world.transport.answer = lambda via: Failure("proxy_auth", "407")
    lease = await world.claim()
    answer = await world.ask(lease)
    assert verdict_of(answer).failure.kind == "proxy_auth"
    await world.settle(lease, answer)
    again = await world.claim()
    assert (again.task.id, again.task.attempt) == (lease.task.id, 1)


async def test_a_proxys_fault_is_not_the_hosts() -> None:
    world = World()
    await world.add()
    world.transport.answer = lambda via: Failure("reset", "gone")
    lease = await world.claim()
    answer = await world.ask(lease)
    assert verdict_of(answer).failure.kind == "proxy_doubt"
    assert (await world.state()).errors == ()
    await world.settle(lease, answer)
    kinds = {verdict_of(answer).failure.kind}
    for _ in range(3):
        lease = await world.claim()
        answer = await world.ask(lease)
        kinds.add(verdict_of(answer).failure.kind)
        await world.settle(lease, answer)
    assert "reset" in kinds, "when another proxy has met the same"
    assert "reset" in (await world.state()).errors


SEVEN = [f"p{n}:1" for n in range(7)]


async def test_pages_lose_no_attempt_by_bad_proxies() -> None:
    """Six of seven fail, each in its own way: none is asked twice for the page, and the first attempt is still the
    first when the good one is found."""
    world = World(proxies={"dc": SEVEN}, retry_budget=0.0, retry_budget_floor=0)
    bad: list[Outcome] = [Failure(kind, "") for kind in ("timeout", "reset", "truncated", "tls", "too_slow")]
    bad.append(Response(URL, 502, {}, b"squid"))
    ways = dict(zip((f"dc/{name}" for name in SEVEN), bad, strict=False))
    world.transport.answer = lambda via: ways.get(via, Response(URL, 200, {}, b"x" * 600))
    await world.add(max_attempts=2)
    for _ in range(7):
        lease = await world.claim()
        answer = await world.ask(lease)
        if isinstance(answer, Response):
            break
        await world.settle(lease, answer)
    assert isinstance(answer, Response)
    assert lease.task.attempt <= 2
    assert len({via for via, _ in world.transport.asked}) == len(world.transport.asked)
    assert (await world.state()).errors == ()


async def test_but_not_for_ever() -> None:
    world = World(proxies={"dc": SEVEN})
    world.transport.answer = lambda via: Failure("reset", "")
    await world.add(max_attempts=2)
    verdicts = []
    for _ in range(12):
        lease = await world.claim()
        answer = await world.ask(lease)
        verdicts.append(verdict_of(answer))
        if lease.task.attempt == 2:
            break
        await world.settle(lease, answer)
    assert 4 <= len(verdicts) <= 8, verdicts
    assert verdicts[-1].failure.kind == "reset", "five have seen the same: it is the host's fault"


@pytest.mark.parametrize("max_attempts", [1, 2])
async def test_the_last_attempt_is_not_lost_by_a_bad_proxy(max_attempts: int) -> None:
    world = World(proxies={"dc": ["one:1", "two:1", "three:1"]}, max_attempts=max_attempts)
    good = Response(URL, 200, {}, b"x" * 600)
    world.transport.answer = lambda via: good if via == "dc/three:1" else Response(URL, 503, {}, b"mine")
    await world.add(max_attempts=max_attempts)
    for _ in range(3):
        lease = await world.claim()
        answer = await world.ask(lease)
        if isinstance(answer, Response):
            break
        await world.settle(lease, answer)
    assert isinstance(answer, Response)
    assert lease.task.attempt == 1


@pytest.mark.parametrize("status", [502, 503])
async def test_robots_txt_is_asked_for_through_another_before_a_host_is_closed(status: int) -> None:
    world = World(robots=True, proxies={"dc": ["one:1", "two:1", "three:1"]})
    world.transport.answer = lambda via: Response(
        URL, 200 if via == "dc/three:1" else status, {}, b"User-agent: *\nDisallow: /private\n" + b" " * 600
    )
    await world.add()
    lease = await world.claim()
    assert await world.ask(lease) is None, "its robots.txt was read with this permission"
    state = await world.state()
    [origin] = state.origins.values()
    assert origin.robots is not None
    assert origin.robots.verdict == "rules"
    assert state.errors == ()
    asked = [url for _, url in world.transport.asked]
    assert set(asked) == {f"{URL}robots.txt"}
    assert len(asked) <= 3


async def test_a_robots_txt_that_no_proxy_gets_is_the_hosts_affair() -> None:
    world = World(robots=True)
    world.transport.answer = lambda via: Response(URL, 503, {}, b"")
    await world.add()
    answer = await world.ask(await world.claim())
    assert verdict_of(answer).failure.kind == "robots_unreachable"
    assert {via for via, _ in world.transport.asked} == {ONE, TWO}
