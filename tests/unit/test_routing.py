"""The way of a request: pools, proxies, whose fault a failure is, and what processes tell each other."""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from shoal.errors import SettingsError
from shoal.fetch.proxy.choosing import NoRoute
from shoal.fetch.proxy.pools import load_pools
from shoal.fetch.proxy.routes import Routes
from shoal.fetch.proxy.signs import BAN
from shoal.fetch.transport import FetchRequest
from shoal.frontier.memory import MemoryFrontier
from shoal.hosts.proxy_pools import StoredPools
from shoal.model import Failure, Outcome, Response, Retry, Task
from shoal.policy.load import Traffic
from shoal.policy.proxy_state import PoolState
from shoal.settings import Settings
from shoal.spider.rendering import Rendered, Rendering
from shoal.testing import ManualClock

URL, HOST = "http://a.test/", "a.test"
ONE, TWO, THREE = "dc/one:1", "dc/two:1", "dc/three:1"
DC = {"dc": ["http://one:1", "http://two:1", "http://three:1"]}
OK = Response(URL, 200, {}, b"")

Answer = Callable[[str, FetchRequest], Outcome]


class FakeTransport:
    def __init__(self) -> None:
        self.asked: list[FetchRequest] = []
        self.answer: Answer = lambda via, request: OK

    async def fetch(self, request: FetchRequest) -> Outcome:
        self.asked.append(request)
        return self.answer(self.ways[-1], request)

    async def close(self) -> None: ...

    @property
    def ways(self) -> list[str]:
        return [request.proxy.name if request.proxy else "direct" for request in self.asked]


class World:
    def __init__(
        self, frontier: MemoryFrontier | None = None, clock: ManualClock | None = None, **settings: object
    ):
        self.clock = clock or ManualClock()
        self.frontier = frontier or MemoryFrontier(self.clock)
        self.transport = FakeTransport()
        self.traffic = Traffic()
        settings = {"proxies": DC, "pool": "dc", "pool_strategy": "round_robin", **settings}
        self.routes = Routes(
            self.transport,
            Settings(**settings),  # type: ignore[arg-type]
            StoredPools(self.frontier),
            traffic=self.traffic,
            clock=self.clock,
            rng=random.Random(0),
            now=self.clock.time,
            handlers={"own": "dc"} if settings["proxies"] else {},
        )

    async def fetch(self, **request: object) -> Outcome:
        return await self.routes.fetch(FetchRequest(URL, **request))  # type: ignore[arg-type]

    def fails(self, *kinds: tuple[str, str]) -> None:
        """These proxies fail so."""
        failing = dict(kinds)
        self.transport.answer = lambda via, request: Failure(failing[via], "") if via in failing else OK

    async def states(self) -> dict[str, PoolState]:
        await self.routes.flush(everything=True)
        return await StoredPools(self.frontier).read_all()


def kind_of(outcome: Outcome) -> str:
    return outcome.kind if isinstance(outcome, Failure) else "ok"


# -- ways


async def test_without_proxies_nothing_stands_between() -> None:
    world = World(proxies={}, pool="")
    coroutine = world.routes.fetch(FetchRequest(URL))
    assert coroutine.__qualname__ == "FakeTransport.fetch"
    assert await coroutine is OK


async def test_proxies_take_turns_and_say_who_they_are() -> None:
    world = World()
    answers = [await world.fetch() for _ in range(6)]
    assert sorted(world.transport.ways) == sorted([ONE, TWO, THREE] * 2)
    assert [answer.via for answer in answers] == world.transport.ways


async def test_pools_of_requests_handlers_and_workers() -> None:
    pools = {"dc": ["one:1"], "home": ["two:2"]}
    world = World(proxies=pools, pool="", fallback=[])
    bare = FetchRequest(URL)

    def pool_of(task: Task) -> str | None:
        return world.routes.with_route(bare, task).pool

    assert world.routes.with_route(bare, Task(URL)) is bare
    assert pool_of(Task(URL, handler="own")) == "dc"
    assert pool_of(Task(URL, handler="own", pool="home")) == "home"
    await world.fetch()
    await world.fetch(pool="home")
    await world.fetch(pool="direct")
    assert world.transport.ways == ["direct", "home/two:2", "direct"]
    tied = World(proxies=pools, worker_pool="home")
    await tied.fetch(pool="dc")
    assert tied.transport.ways == ["home/two:2"]


async def test_a_pool_that_does_not_exist() -> None:
    failure = await World().fetch(pool="nowhere")
    assert kind_of(failure) == "invalid_request"
    for wrong in (
        {"pool": "x"},
        {"fallback": ["dc", "x"]},
        {"worker_pool": "x"},
        {"challenge_routes": ["pool:x"]},
    ):
        with pytest.raises(SettingsError, match="there is no pool 'x'; proxies has dc, direct"):
            World(**wrong)


# -- faults of proxies


@pytest.mark.parametrize(
    "kind", ["proxy_connect", "proxy_timeout", "proxy_auth", "proxy_refused", "proxy_gateway"]
)
async def test_another_proxy_is_tried_at_once(kind: str) -> None:
    world = World()
    world.fails((ONE, kind), (TWO, kind) if kind != "proxy_gateway" else ("", ""))
    for _ in range(3):
        assert kind_of(await world.fetch()) == "ok"
    assert world.traffic.signals(world.clock.monotonic()).proxy_error_share > 0


async def test_but_not_for_ever() -> None:
    names = [f"p{n}:1" for n in range(8)]
    world = World(proxies={"dc": names})
    world.fails(*((f"dc/{name}", "proxy_connect") for name in names))
    assert kind_of(await world.fetch()) == "proxy_connect"
    assert len(world.transport.asked) == 3
    assert len(set(world.transport.ways)) == 3


async def test_an_exhausted_pool_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    world = World(proxies={"dc": ["one:1"]})
    world.fails((ONE, "proxy_connect"))
    caplog.set_level(logging.WARNING)
    assert [kind_of(await world.fetch()) for _ in range(4)] == ["proxy_connect"] * 2 + ["proxy_wait"] * 2
    assert len(world.transport.asked) == 2
    held = await world.fetch()
    assert isinstance(held, NoRoute)
    assert held.wait == pytest.approx(30)
    assert held == world.routes.no_route_now(Task(URL, host=HOST))
    [record] = caplog.records
    assert (
        "pool dc: every proxy is in quarantine (1 proxy_connect; the next is tried in 30 s)" in record.message
    )
    world.fails()
    world.clock.advance(31)
    assert kind_of(await world.fetch()) == "ok"
    assert caplog.records[-1].message == "pool dc works again"
    assert world.routes.no_route_now(Task(URL, host=HOST)) is None


# -- the proxy's fault or the host's


async def test_one_witness_is_not_enough() -> None:
    world = World()
    for _ in range(3):
        await world.fetch()
    world.transport.answer = lambda via, request: Failure("timeout", "not in time")
    assert kind_of(await world.fetch()) == "proxy_doubt"
    assert kind_of(await world.fetch()) == "timeout", "a second proxy says so"
    assert len(world.transport.asked) == 5, "it may have reached the host, so it is not repeated at once"


async def test_two_are_not_enough_if_nothing_ever_came_through_them() -> None:
    world = World()
    world.transport.answer = lambda via, request: Failure("timeout", "not in time")
    kinds = [kind_of(await world.fetch()) for _ in range(4)]
    assert kinds == ["proxy_doubt", "proxy_doubt", "timeout", "timeout"]
    assert len(set(world.transport.ways[:3])) == 3, "each time another is asked"


@pytest.mark.parametrize("status", [500, 502, 503, 504, 599])
async def test_an_error_of_a_proxy_that_forwards_is_its_own_until_another_says_so(status: int) -> None:
    world = World(proxies={"dc": ["one:1", "two:1", "socks5://three:1"]})
    for _ in range(3):
        await world.fetch()
    answers = {ONE: Response(URL, status, {"Retry-After": "60"}, b"out of order")}
    world.transport.answer = lambda via, request: answers.get(via, OK)
    found = [await world.fetch() for _ in range(9)]
    doubts = [outcome for outcome in found if kind_of(outcome) == "proxy_doubt"]
    assert doubts
    assert {kind_of(outcome) for outcome in found} == {"ok", "proxy_doubt"}
    assert all(isinstance(outcome, Failure) and outcome.status == status for outcome in doubts)
    assert "http_" in doubts[0].detail  # type: ignore[union-attr]
    answers = dict.fromkeys([ONE, TWO, THREE], Response(URL, status, {}, b"out of order"))
    found = [await world.fetch() for _ in range(4)]
    assert any(isinstance(outcome, Response) and outcome.status == status for outcome in found), "the host's"


@pytest.mark.parametrize("url", ["https://a.test/", "http://a.test/"])
async def test_what_comes_out_of_a_tunnel_is_the_hosts_word(url: str) -> None:
    world = World(proxies={"dc": ["socks5://one:1", "socks5://two:1"] if url == URL else ["one:1", "two:1"]})
    world.transport.answer = lambda via, request: Response(url, 503, {}, b"")
    for _ in range(20):
        answer = await world.routes.fetch(FetchRequest(url))
        assert isinstance(answer, Response)
    assert all(not state.hold.strikes for state in (await world.states())["dc"].proxies.values())


async def test_a_page_that_fails_through_two_good_proxies_is_no_longer_in_doubt() -> None:
    """Though other pages of its host are well."""
    world = World()
    for _ in range(3):
        await world.fetch()
    bad = f"{URL}bad"
    world.transport.answer = lambda via, request: Failure("reset", "") if request.url == bad else OK
    task = Task(bad, host=HOST, attempt=1)
    kinds = []
    for _ in range(3):
        outcome = await world.routes.fetch(world.routes.with_route(FetchRequest(bad), task))
        kinds.append(kind_of(outcome))
        if isinstance(outcome, Failure) and outcome.kind == "proxy_doubt":
            task = replace(Retry(0, outcome, counts=False).task(task), attempt=1)
        for _ in range(3):
            await world.fetch()
    assert kinds == ["proxy_doubt", "reset", "reset"]


async def test_a_session_leaves_a_proxy_that_fails() -> None:
    world = World()
    world.fails((ONE, "timeout"), (TWO, "timeout"))
    kinds = [kind_of(await world.fetch(session="me")) for _ in range(8)]
    assert kinds.count("proxy_doubt") <= 2
    assert set(world.transport.ways[3:]) == {THREE}


async def test_a_rendered_page_in_doubt_is_closed() -> None:
    closed = []

    class Closing(Rendered, frozen=True):
        async def close(self) -> None:
            closed.append(self.via)

    world = World()
    world.transport.answer = lambda via, request: Closing(URL, 502, {}, b"")
    outcome = await world.fetch(rendering=Rendering())
    assert kind_of(outcome) == "proxy_doubt"
    assert closed == [outcome.via]


async def test_an_answer_clears_the_host() -> None:
    world = World()
    world.fails((ONE, "reset"))
    kinds = [kind_of(await world.fetch()) for _ in range(30)]
    assert 4 <= kinds.count("proxy_doubt") <= 5
    assert "reset" not in kinds
    assert (await world.states())["dc"].proxies[ONE].hold.reason == "reset", "it is in quarantine"


async def test_the_only_witness_is_believed() -> None:
    world = World(proxies={"dc": ["one:1"]})
    world.fails((ONE, "timeout"))
    assert kind_of(await world.fetch()) == "timeout"
    world.fails((ONE, "proxy_gateway"))
    assert kind_of(await world.fetch()) == "connect"


async def test_a_host_that_two_proxies_cannot_reach_is_down() -> None:
    world = World()
    for _ in range(3):
        await world.fetch()
    world.transport.answer = lambda via, request: Failure("proxy_gateway", "HTTP 502")
    assert kind_of(await world.fetch()) == "connect"
    assert len(world.transport.asked) == 5
    assert not any(proxy.hold.strikes for proxy in (await world.states())["dc"].proxies.values())


# -- bans


def banned(*ways: str) -> Task:
    history = tuple(Failure(BAN, "HTTP 403", attempt=n, via=way) for n, way in enumerate(ways, 1))
    return Task(URL, host=HOST, attempt=len(ways) + 1, history=history)


async def test_a_refused_page_goes_another_way() -> None:
    world = World(fallback=["dc", "home"], proxies={**DC, "home": ["four:4"]})
    task = banned(ONE)
    request = world.routes.with_route(FetchRequest(URL), task)
    assert request.avoid == (ONE,)
    for _ in range(6):
        await world.routes.fetch(request)
    assert set(world.transport.ways) == {TWO, THREE}
    assert world.routes.has_other_route(Task(URL, host=HOST, attempt=1), ONE)
    assert world.routes.has_other_route(task, TWO), "two of this pool are enough, but there is another pool"
    everywhere = world.routes.with_route(FetchRequest(URL), banned(ONE, TWO, THREE))
    assert (await world.routes.fetch(everywhere)).via == "home/four:4"
    assert not world.routes.has_other_route(banned(ONE, TWO), "home/four:4")


async def test_refused_by_two_is_refused() -> None:
    world = World()
    assert world.routes.has_other_route(Task(URL, host=HOST, attempt=1), ONE)
    assert not world.routes.has_other_route(banned(ONE), TWO)
    assert not world.routes.has_other_route(Task(URL, host=HOST, attempt=1), ""), "not through a proxy at all"


async def test_a_page_had_elsewhere_proves_the_ban() -> None:
    world = World()
    for _ in range(2):
        world.routes.record_page(banned(ONE), replace(OK, via=TWO))
    for _ in range(6):
        await world.fetch()
    assert ONE not in world.transport.ways
    pair = (await world.states())["dc"].proxies[ONE].hosts[HOST]
    assert pair.hold.reason == "banned"


async def test_a_host_that_refuses_us_directly_gets_a_proxy() -> None:
    world = World(pool="", fallback=["direct", "dc"])
    await world.fetch()
    for _ in range(2):
        world.routes.record_page(banned("direct"), replace(OK, via=ONE))
    await world.fetch()
    await world.routes.fetch(FetchRequest("http://b.test/"))
    first, second, third = world.transport.ways
    assert (first, third) == ("direct", "direct")
    assert second in (ONE, TWO, THREE)


async def test_costs_decide_between_pools() -> None:
    pools = {"dc": ["one:1"], "home": ["two:2"]}
    world = World(proxies=pools, pool="", fallback=["dc", "home"], pool_costs={"dc": 1, "home": 4})
    await world.fetch()
    world.transport.answer = lambda via, request: Response(URL, 429, {}, b"") if via == ONE else OK
    for _ in range(30):
        await world.fetch()
    assert world.transport.ways[0] == ONE
    assert world.transport.ways[-1] == "home/two:2", "what is cheap but seldom works is dear"


async def test_a_refused_robots_txt_is_asked_for_by_another_proxy() -> None:
    """A 403 would mean that everything is allowed."""
    world = World()
    world.transport.answer = lambda via, request: Response(URL, 403 if via == TWO else 200, {}, b"")
    for _ in range(3):
        answer = await world.routes.fetch(FetchRequest(f"{URL}robots.txt"))
        assert isinstance(answer, Response)
        assert answer.status == 200


# -- an attempt that does not count


def test_an_attempt_is_given_back() -> None:
    task = Task(URL, attempt=2, history=(Failure("timeout", attempt=1),))
    again = Retry(5, Failure("proxy_wait", "first"), counts=False).task(task)
    assert (again.attempt, [failure.kind for failure in again.history]) == (1, ["timeout", "proxy_wait"])
    claimed = replace(again, attempt=2)
    again = Retry(5, Failure("proxy_wait", "second"), counts=False).task(claimed)
    assert [failure.detail for failure in again.history] == ["", "second"], "only the last is kept"
    world = World()
    mixed = replace(again, attempt=3, history=(Failure(BAN, attempt=2, via=ONE), again.history[-1]))
    assert world.routes.with_route(FetchRequest(URL), mixed).avoid == (ONE,)


# -- together


async def test_processes_share_what_they_know() -> None:
    one = World()
    two = World(one.frontier, one.clock)
    one.fails((ONE, "proxy_auth"))
    for _ in range(3):
        await one.fetch()
    await one.routes.flush(everything=True)
    for _ in range(6):
        await two.fetch()
    assert ONE not in two.transport.ways
    states = await two.states()
    assert states["dc"].proxies[TWO].requests == sum(
        TWO in way for way in one.transport.ways + two.transport.ways
    )


async def test_who_writes_second_folds_into_what_the_first_wrote() -> None:
    one = World()
    two = World(one.frontier, one.clock)
    for world in (one, two):
        for _ in range(6):
            await world.fetch()
    for world in (one, two, one):
        await world.routes.flush(everything=True)
    assert [proxy.requests for proxy in (await one.states())["dc"].proxies.values()] == [4, 4, 4]


async def test_only_one_process_has_the_probe() -> None:
    worlds = [World(proxies={"dc": ["one:1"]})]
    worlds += [World(worlds[0].frontier, worlds[0].clock, proxies={"dc": ["one:1"]}) for _ in range(3)]
    worlds[0].fails((ONE, "proxy_auth"))
    await worlds[0].fetch()
    await worlds[0].routes.flush(everything=True)
    for world in worlds[1:]:
        assert kind_of(await world.fetch()) == "proxy_wait"
    worlds[0].clock.advance(31)
    pending = [world.routes._choose(FetchRequest(URL), HOST, []) for world in worlds]
    found = [await one for one in pending]
    assert [isinstance(one, str) for one in found].count(True) == 1


# -- what is configured


def test_addresses_from_files_and_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "pool.txt"
    file.write_text("# ours\nhttp://me:p%40ss@one:1\n\nsocks5://two\n")
    settings = Settings(proxies={"dc": [f"file:{file}", "env:MORE", "three:3"]})
    pool = load_pools(settings, {"MORE": "https://four:4  http://you:pw@one:1"})["dc"]
    assert [(proxy.scheme, proxy.address) for proxy in pool] == [
        ("http", "one:1"),
        ("socks5", "two:1080"),
        ("https", "four:4"),
        ("http", "one:1#2"),
        ("http", "three:3"),
    ]
    assert pool[0].login() == (b"me", b"p@ss")
    assert "p@ss" not in repr(pool)
    assert pool[3].name == "dc/one:1#2"


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ([], "is empty"),
        (["http://ok:1", "ftp://u:hunter2@h:1"], "entry 2: is not a proxy's address: its scheme"),
        (["socks4://u:hunter2@h:1"], "entry 1: is not a proxy's address: its scheme"),
        (["http://u:hunter2@"], "its host or its port (1 to 65535) cannot be read"),
        (["http://u:hunter2@h:99999999"], "its host or its port (1 to 65535) cannot be read"),
        (["http://u:hunter2@h:65536"], "its host or its port (1 to 65535) cannot be read"),
        (["http://u:hunter2@h:http"], "its host or its port (1 to 65535) cannot be read"),
        (["h:1:u:hunter2"], "its host or its port (1 to 65535) cannot be read"),
        (["http://u:hunter2@h:0"], "its port is not one of 1 to 65535"),
        (["http://u:hun/ter2@h:1"], "its host or its port (1 to 65535) cannot be read"),
        (["http://u:hunter2@h:1/path"], "it has a path"),
        (["http://u:hunter2@h:1?session=hunter2"], "it has a path or a query"),
        (["http://u:hunter2@exa mple:1"], "its host is no name"),
        (["http://u:hunter2@-:1"], "its host is no name"),
        (["http://u:hunter2@a..b:1"], "its host is no name"),
        (["http:///"], "it names no host"),
        ([""], "it names no host"),
        (["file:/no/such/file"], "/no/such/file cannot be read"),
        (["env:NOPE"], "has no variable NOPE"),
    ],
)
def test_what_is_wrong_is_told_without_secrets(entries: list[str], told: str) -> None:
    with pytest.raises(SettingsError, match=r"write http|cannot be read|has no variable") as error:
        load_pools(Settings(proxies={"dc": entries}), {})
    assert told in str(error.value)
    assert str(error.value).startswith("proxies: pool 'dc'")
    assert "\n" not in str(error.value)
    assert not re.search("hun|ter2", str(error.value))


def test_settings_do_not_show_their_secrets() -> None:
    settings = Settings(
        proxies={"dc": ["http://u:hunter2@h:1"]}, headers={"Authorization": "hunter2"}, rate=7
    )
    assert repr(settings) == "Settings(rate=7, headers=…, proxies=…)"


def test_a_proxy_without_a_host_is_refused_in_words() -> None:
    with pytest.raises(SettingsError, match="is not a proxy's address"):
        load_pools(Settings(proxies={"p": ["http://[]@"]}), {})
