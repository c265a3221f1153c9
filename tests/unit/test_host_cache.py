"""What a process knows about hosts: records read when they changed, changes that survive a race."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from msgspec.structs import replace

from shoal.fetch.guard import Pin
from shoal.fetch.robots_fetch import RobotsRecord
from shoal.fetch.transport import FetchRequest
from shoal.frontier.clock import FrontierClock
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.values import Claim, HostRecord, JobSpec, JobState
from shoal.hosts.cache import HostCache, HostView
from shoal.hosts.host_state import HostState, OriginState, encode_state, state_of
from shoal.hosts.robots import RobotsFetcher
from shoal.jobs.worker_status import WorkerStatus, encode_status
from shoal.model import Done, Failure, Lease, Outcome, Response, Settlement, Task
from shoal.policy.compose import first_valve
from shoal.policy.protocol import Observation
from shoal.settings import Settings
from shoal.testing import ManualClock
from shoal.testing.conformance.tools import make_task

HOST = "a.test"
TASK = Task("http://a.test/", host=HOST)
ROBOTS = b"User-agent: *\nDisallow: /private\nCrawl-delay: 7\n"


class Contested(MemoryFrontier):
    """Before each of the next `races` updates, somebody else changes the record."""

    races = 0
    reads = 0

    async def host(self, name: str) -> HostRecord | None:
        self.reads += 1
        return await super().host(name)

    async def update_host(self, record: HostRecord) -> bool:
        if self.races:
            self.races -= 1
            current = await super().host(record.name)
            assert current is not None
            assert await super().update_host(current)
        return await super().update_host(record)


class FakeTransport:
    """Answers from a dictionary, after the time the test says."""

    def __init__(self, clock: ManualClock) -> None:
        self.answers: dict[str, Outcome] = {}
        self.asked: list[str] = []
        self.takes = 0.0
        self._clock = clock

    async def fetch(self, request: FetchRequest) -> Outcome:
        self.asked.append(request.url)
        self._clock.advance(self.takes)
        await asyncio.sleep(0)
        return self.answers.get(request.url, Response(request.url, 404, {}, b""))

    async def close(self) -> None:
        pass


class World:
    def __init__(self, **settings: object) -> None:
        self.clock = ManualClock()
        self.frontier_clock = FrontierClock(self.clock)
        self.frontier = Contested(self.clock)
        self.transport = FakeTransport(self.clock)
        self.pauses: list[float] = []
        self.settings = Settings(**{"rate": 2, "per_host": 3, **settings})  # type: ignore[arg-type]
        self.cache = self.make_cache()
        self.robots = self.make_robots(self.cache)

    def make_cache(self) -> HostCache:
        return HostCache(self.frontier, self.settings, self.frontier_clock)

    def make_robots(self, cache: HostCache) -> RobotsFetcher:
        return RobotsFetcher(
            self.transport, cache, self.frontier, self.settings, self.frontier_clock, self._pause
        )

    async def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    async def lease(self, *tasks: Task) -> Lease:
        await self.frontier.open_job(JobSpec("job", valve=first_valve(self.settings)))
        await self.frontier.add("job", tasks or (make_task("http://a.test/"),))
        return await self.claim()

    async def claim(self) -> Lease:
        [lease] = (await self.frontier.claim(Claim("w", ["job"], {"normal": 1}, 1))).leases
        return lease

    async def record(self, host: str = HOST) -> HostRecord:
        record = await self.frontier.host(host)
        assert record is not None
        return record

    def says(self, status: int, body: bytes = b"") -> None:
        url = "http://a.test/robots.txt"
        self.transport.answers[url] = Response(url, status, {}, body)


@pytest.fixture
def world() -> World:
    return World()


# -- looking


async def test_a_record_is_read_again_only_when_it_changed(world: World) -> None:
    lease = await world.lease(make_task("http://a.test/", parent=1), make_task("http://a.test/2", parent=1))
    await world.cache.view(lease)
    await world.cache.view(lease)
    assert world.frontier.reads == 0, "nobody has written anything about it yet"
    assert await world.frontier.update_host(await world.record())
    before = world.frontier.reads
    view = await world.cache.view(replace(lease, host_version=1))
    assert (view.version, world.frontier.reads) == (1, before + 1)


async def test_a_start_url_marks_its_host(world: World) -> None:
    view = await world.cache.view(await world.lease())
    assert view.state == HostState(start=True)
    assert (await world.record()).version == 0, "no page waits for a write"
    await world.cache.flush()
    assert state_of(await world.record()) == view.state
    await world.cache.flush()
    assert (await world.record()).version == 1


async def test_a_start_is_marked_though_another_worker_was_quicker(world: World) -> None:
    await world.cache.view(await world.lease())
    assert await world.frontier.update_host(await world.record())
    await world.cache.flush()
    record = await world.record()
    assert (record.version, state_of(record)) == (2, HostState(start=True))


async def test_where_a_start_url_redirects_to_is_crawled_but_was_not_typed(world: World) -> None:
    """Its address may not be a private one."""
    task = make_task("http://a.test/", hops=("http://b.test/",))
    view = await world.cache.view(await world.lease(task))
    assert view.state == HostState(start=True)
    assert world.cache.pin_of(view) is None


async def test_a_link_marks_nothing(world: World) -> None:
    view = await world.cache.view(await world.lease(make_task("http://a.test/", parent=1)))
    assert view.state == HostState()
    assert (await world.record()).version == 0


# -- hosts that were typed


def typed(url: str = "http://a.test/") -> Task:
    return replace(make_task(url), typed=True)


async def test_what_was_typed_is_typed_for_its_job_alone(world: World) -> None:
    lease = await world.lease(typed())
    assert world.cache.pin_of(await world.cache.view(lease)) == Pin()
    await world.cache.flush()
    later = replace(lease, host_version=1, task=make_task("http://a.test/2", parent=1))
    same, other = (
        world.make_cache(),
        HostCache(world.frontier, world.settings, world.frontier_clock, job="b"),
    )
    assert same.pin_of(await same.view(later)) == Pin(), "another process, or after a restart"
    assert other.pin_of(await other.view(later)) is None


async def test_a_job_that_begins_afresh_has_typed_nothing(world: World) -> None:
    await world.cache.open(5.0)
    lease = await world.lease(typed())
    await world.cache.view(lease)
    await world.cache.flush()
    again = world.make_cache()
    await again.open(6.0)
    later = replace(lease, host_version=1, task=make_task("http://a.test/2", parent=1))
    assert again.pin_of(await again.view(later)) is None


async def test_who_first_wrote_what_a_name_stands_for_is_right(world: World) -> None:
    lease = await world.lease(typed())
    other = world.make_cache()
    for cache in (world.cache, other):
        await cache.view(lease)
    world.cache.pin(HOST, Pin(()))
    other.pin(HOST, Pin(("10.0.0.0/24",)))
    await world.cache.flush()
    await other.flush()
    assert list(state_of(await world.record()).pins.values()) == [Pin(())]
    assert other.pin_of(await other.view(lease)) == Pin(()), "and it is told so"
    other.pin(HOST, Pin(("10.0.0.0/24",)))
    assert other.pin_of(await other.view(lease)) == Pin(()), "it stays so"


async def test_the_pins_of_many_jobs_take_little_room(world: World) -> None:
    await world.lease(typed())
    for n in range(100):
        cache = HostCache(world.frontier, world.settings, world.frontier_clock, job=f"run-{n}")
        lease = Lease(1, typed(), 1e9, (await world.record()).version)
        await cache.view(lease)
        await cache.flush()
    pins = state_of(await world.record()).pins
    assert len(pins) <= 32
    assert "run-99" in pins


async def test_a_mark_of_an_earlier_version_is_no_obstacle(world: World) -> None:
    lease = await world.lease()
    state = msgspec.msgpack.encode({"start": True, "typed": True})
    assert await world.frontier.update_host(replace(await world.record(), state=state))
    view = await world.cache.view(replace(lease, host_version=1))
    assert view.state == HostState(start=True)


# -- changing


@pytest.mark.parametrize("races", [1, 5])
async def test_a_change_that_loses_a_race_is_made_again(world: World, races: int) -> None:
    await world.lease()
    world.frontier.races = races
    view = await world.cache.change(HOST, lambda state: replace(state, good_from=state.good_from + 1))
    assert view.state.good_from == 1
    assert state_of(await world.record()).good_from == 1
    assert view.version == (await world.record()).version == races + 1


async def test_changes_of_two_processes_are_both_kept(world: World) -> None:
    await world.lease()
    other = world.make_cache()
    one = world.cache.change(HOST, lambda state: replace(state, start=True))
    two = other.change(HOST, lambda state: replace(state, good_from=4))
    await asyncio.gather(one, two)
    assert state_of(await world.record()) == HostState(start=True, good_from=4)


# -- robots.txt


async def test_robots_txt_sets_the_valve_for_everybody(world: World) -> None:
    world.says(200, ROBOTS)
    lease = await world.lease()
    before = (await world.record()).valve
    assert (before.interval, before.cap) == (0.5, 1), "one at a time until robots.txt is known"
    view = await world.robots.fetch(lease, since=world.clock.monotonic())
    assert view.robots
    assert not view.robots["http"].allows("http://a.test/private")
    valve = (await world.record()).valve
    assert (valve.interval, valve.cap) == (7.0, 3)
    fresh = await world.make_cache().view(replace(lease, host_version=view.version))
    assert fresh.robots
    assert fresh.robots["http"].delay == 7


async def test_the_next_request_keeps_its_interval_to_a_robots_txt_that_took_its_time(world: World) -> None:
    """The first connection has to be opened, the next request uses it: counted from the claim, it came too soon."""
    world.says(404)
    world.transport.takes = 0.4
    lease = await world.lease()
    began = world.clock.monotonic()
    await world.robots.fetch(lease, since=began)
    await world.frontier.release([lease])
    early = await world.frontier.claim(Claim("w", ["job"], {"normal": 1}, 1))
    assert early.leases == []
    assert world.clock.monotonic() + early.next_due == pytest.approx(began + 0.4 + 0.5)


async def test_a_longer_crawl_delay_counts_from_robots_txt_too(world: World) -> None:
    world.says(200, ROBOTS)
    world.transport.takes = 0.4
    lease = await world.lease()
    began = world.clock.monotonic()
    await world.robots.fetch(lease, since=began)
    await world.frontier.release([lease])
    early = await world.frontier.claim(Claim("w", ["job"], {"normal": 1}, 1))
    assert world.clock.monotonic() + early.next_due == pytest.approx(began + 0.4 + 7)


async def test_without_a_rate_nothing_is_held_back() -> None:
    world = World(rate=0)
    world.transport.takes = 0.4
    lease = await world.lease()
    await world.robots.fetch(lease, since=world.clock.monotonic())
    await world.frontier.release([lease])
    assert await world.claim()


async def test_robots_txt_is_wanted_once_while_it_holds(world: World) -> None:
    world.says(200, ROBOTS)
    lease = await world.lease()
    view = await world.cache.view(lease)
    assert world.robots.is_due(TASK, view)
    view = await world.robots.fetch(lease, since=world.clock.monotonic())
    assert not world.robots.is_due(TASK, view)
    world.clock.advance(25 * 3600)
    assert world.robots.is_due(TASK, view), "a day later it is asked for again"


@pytest.mark.parametrize("jump", [-3600.0, 3600.0])
async def test_a_wall_clock_that_is_set_does_not_change_when_robots_txt_is_wanted(
    world: World, jump: float
) -> None:
    world.transport.answers["http://a.test/robots.txt"] = Failure("timeout")
    lease = await world.lease()
    view = await world.robots.fetch(lease, since=world.clock.monotonic())
    world.clock.jump_wall(jump)
    assert not world.robots.is_due(TASK, view)
    world.clock.advance(2 * world.settings.retry_base)
    assert world.robots.is_due(TASK, view)


async def test_while_one_asks_again_the_others_go_by_the_old_answer(world: World) -> None:
    world.says(200, ROBOTS)
    lease = await world.lease()
    view = await world.robots.fetch(lease, since=world.clock.monotonic())
    world.clock.advance(25 * 3600)
    asking = asyncio.create_task(world.robots.fetch(lease, since=world.clock.monotonic()))
    await asyncio.sleep(0)
    assert not world.robots.is_due(TASK, view)
    await asking
    assert world.transport.asked == ["http://a.test/robots.txt"] * 2


async def test_robots_is_never_wanted_when_switched_off() -> None:
    world = World(robots=False)
    view = await world.cache.view(await world.lease())
    assert not world.robots.is_due(TASK, view)
    assert (await world.record()).valve.cap == 3


async def test_a_silent_robots_txt_is_asked_for_ever_more_rarely(world: World) -> None:
    world.says(503)
    lease = await world.lease()
    waits = []
    for _ in range(9):
        view = await world.robots.fetch(lease, since=world.clock.monotonic())
        assert robots_of(view).verdict == "disallow"
        waits.append(robots_of(view).expires_at - robots_of(view).fetched_at)
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert (await world.record()).valve.cap == 1, "one request finds out whether it is back"
    world.says(200, ROBOTS)
    view = await world.robots.fetch(lease, since=world.clock.monotonic())
    assert view.state.origin("http").silent == 0


async def test_a_host_that_cannot_be_spoken_to_says_so_through_its_pages(world: World) -> None:
    """A refused address is not an unreachable robots.txt, for which one would wait."""
    world.transport.answers["http://a.test/robots.txt"] = Failure("forbidden_address", "a private address")
    view = await world.robots.fetch(await world.lease(), since=world.clock.monotonic())
    assert view.robots
    assert view.robots["http"].allows("http://a.test/")


async def test_a_redirected_robots_txt_pauses_by_the_interval(world: World) -> None:
    url = "http://a.test/robots.txt"
    world.transport.answers[url] = Response(url, 301, {"Location": "/real.txt"}, b"")
    await world.robots.fetch(await world.lease(), since=world.clock.monotonic())
    assert world.transport.asked == [url, "http://a.test/real.txt"]
    assert world.pauses == [0.5]


async def test_a_robots_txt_on_another_host_needs_that_hosts_permission(world: World) -> None:
    url, elsewhere = "http://a.test/robots.txt", "http://b.test/all.txt"
    world.transport.answers[url] = Response(url, 301, {"Location": elsewhere}, b"")
    world.transport.answers[elsewhere] = Response(elsewhere, 200, {}, ROBOTS)
    lease = await world.lease(make_task("http://a.test/"), make_task("http://b.test/"))
    b = await world.record("b.test")
    shut = replace(b.valve, blocked_until=world.clock.time() + 30)
    assert await world.frontier.update_host(replace(b, valve=shut))
    view = await world.robots.fetch(lease, since=world.clock.monotonic())
    assert view.state.robots_missing
    assert robots_of(view).reason == "redirects to b.test, which cannot be asked now"
    assert world.transport.asked == [url]
    world.clock.advance(31)
    view = await world.robots.fetch(lease, since=world.clock.monotonic())
    assert world.transport.asked == [url, url, elsewhere]
    assert view.robots
    assert not view.robots["http"].allows("http://a.test/private")
    assert (await world.record("b.test")).valve.blocked_until == pytest.approx(world.clock.time() + 0.5)


async def test_only_what_is_for_us_is_stored(world: World) -> None:
    others = b"".join(b"User-agent: bot%d\nDisallow: /%d\n" % (n, n) for n in range(10_000))
    world.says(200, others + b"User-agent: shoal\n" + b"".join(b"Disallow: /%d\n" % n for n in range(9_000)))
    await world.robots.fetch(await world.lease(), since=world.clock.monotonic())
    assert len((await world.record()).state) < 60_000


async def test_another_user_agent_asks_for_itself_once(world: World) -> None:
    """And the first keeps its rules: two jobs on one host must not ask by turns for ever."""
    world.says(200, b"User-agent: shoal\nDisallow: /private\n\nUser-agent: other\nDisallow: /open\n")
    lease = await world.lease()
    await world.robots.fetch(lease, since=world.clock.monotonic())
    world.settings = replace(world.settings, user_agent="Other/1.0")
    other = world.make_cache()
    others = world.make_robots(other)
    view = await other.view(replace(lease, host_version=(await world.record()).version))
    assert others.is_due(TASK, view)
    assert not view.robots
    view = await others.fetch(lease, since=world.clock.monotonic())
    assert view.robots
    assert not view.robots["http"].allows("http://a.test/open")
    assert not others.is_due(TASK, view)
    mine = await world.cache.view(replace(lease, host_version=(await world.record()).version))
    assert not world.robots.is_due(TASK, mine)
    assert mine.robots
    assert not mine.robots["http"].allows("http://a.test/private")
    assert mine.robots["http"].allows("http://a.test/open")


async def test_pages_that_are_let_through_at_once_wait_for_one_answer(world: World) -> None:
    world.says(200, ROBOTS)
    lease = await world.lease()
    asks = [world.robots.fetch(lease, since=world.clock.monotonic()) for _ in range(3)]
    views = await asyncio.gather(*asks)
    assert world.transport.asked == ["http://a.test/robots.txt"]
    assert all(view.robots for view in views)


async def test_a_record_of_an_earlier_version_is_asked_for_again(world: World) -> None:
    """It holds the whole text, and not for whom it was read."""
    lease = await world.lease()
    old = {"verdict": "rules", "fetched_at": 0.0, "expires_at": 1e12, "text": "User-agent: *\nDisallow: /"}
    state = msgspec.msgpack.encode({"start": True, "robots": old})
    assert await world.frontier.update_host(replace(await world.record(), state=state))
    view = await world.cache.view(replace(lease, host_version=1))
    assert view.state.start
    assert world.robots.is_due(TASK, view)


async def test_long_records_take_the_room_of_many(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.hosts.cache._CACHED_BYTES", 200_000)
    rules = "\n".join(f"-/{n}" for n in range(9_000))
    state = encode_state(
        HostState(origins={"http": OriginState(RobotsRecord("rules", 0.0, 1e12, agent="shoal", rules=rules))})
    )
    await world.lease(*(make_task(f"http://{n}.test/", parent=1) for n in range(20)))
    for n in range(20):
        record = await world.record(f"{n}.test")
        assert await world.frontier.update_host(replace(record, state=state))
        await world.cache.change(f"{n}.test", lambda state: state)
    views = world.cache._views
    assert 1 < len(views) <= 200_000 // len(state)
    assert sum(view.weight for view in views.values()) == world.cache._cached_bytes <= 200_000


# -- what was seen


def robots_of(view: HostView) -> RobotsRecord:
    record = view.state.origin("http").robots
    assert record is not None
    return record


def seen(world: World, kind: str = "ok", took: float = 1.0) -> Observation:
    now = world.frontier_clock.now()
    return Observation(now - took, now, kind, blames_host=kind != "ok")


async def test_what_moves_the_valve_is_written_with_the_next_beat(world: World) -> None:
    lease = await world.lease(make_task("http://a.test/", parent=1))
    await world.cache.view(lease)
    world.cache.record(HOST, seen(world))
    await world.cache.flush()
    assert (await world.record()).version == 0, "a good page teaches nothing that others must know right away"
    for _ in range(5):
        world.cache.record(HOST, seen(world, "connect"))
    await world.cache.flush()
    record = await world.record()
    assert record.version == 1
    assert record.valve.blocked_until == pytest.approx(world.frontier_clock.now() + 5)
    assert state_of(record).errors == ("connect",) * 5


async def test_good_pages_are_folded_together_as_they_would_be_one_by_one(world: World) -> None:
    lease, together, one_by_one = await world.lease(), world.cache, world.make_cache()
    views = [await cache.view(lease) for cache in (together, one_by_one)]
    first = views[0].policies
    for number in range(60):
        for cache in (together, one_by_one):
            cache.record(HOST, seen(world, "http_429" if number == 20 else "ok", took=0.01 * number))
        one_by_one.no_retry(HOST)  # whoever asks for limits has all folded
        world.clock.advance(2)
    assert len(views[0].unfolded) > 30, "nobody has asked yet"
    assert views[0].policies not in (first, views[1].policies)
    limits = together.limits(lease, views[0])
    assert limits == one_by_one.limits(lease, views[1])
    assert limits is not None
    assert limits.interval is not None
    assert views[0].policies == views[1].policies


async def test_good_pages_that_move_the_valve_are_written_with_the_next_beat(world: World) -> None:
    """A host that complained once may be asked faster again, when it has borne the slower pace."""
    view = await world.cache.view(await world.lease())
    world.cache.record(HOST, seen(world, "http_429"))
    await world.cache.flush()
    slower = (await world.record()).valve.interval
    for _ in range(40):
        world.clock.advance(view.limits.interval or 1.0)
        world.cache.record(HOST, seen(world, took=0.1))
    assert (await world.record()).valve.interval == slower
    await world.cache.flush()
    assert (await world.record()).valve.interval < slower


async def test_the_rest_is_written_after_a_while(world: World) -> None:
    await world.cache.view(await world.lease(make_task("http://a.test/", parent=1)))
    world.cache.record(HOST, seen(world))
    world.clock.advance(4)
    world.cache.record(HOST, seen(world))
    await world.cache.write_back()
    assert (await world.record()).version == 0
    world.clock.advance(1)
    await world.cache.write_back()
    assert state_of(await world.record()).policies
    world.clock.advance(60)
    await world.cache.write_back()
    assert (await world.record()).version == 1, "there was nothing new"


async def test_all_of_it_is_written_in_the_end(world: World) -> None:
    await world.cache.view(await world.lease(make_task("http://a.test/", parent=1)))
    world.cache.record(HOST, seen(world))
    await world.cache.write_back(everything=True)
    assert state_of(await world.record()).policies


@pytest.mark.parametrize("races", [1, 3])
async def test_what_was_seen_survives_a_race(world: World, races: int) -> None:
    await world.cache.view(await world.lease(make_task("http://a.test/", parent=1)))
    for _ in range(5):
        world.cache.record(HOST, seen(world, "connect"))
    world.frontier.races = races
    await world.cache.flush()
    record = await world.record()
    assert record.valve.blocked_until > world.frontier_clock.now()
    assert state_of(record).errors == ("connect",) * 5


async def test_failures_of_two_processes_add_up(world: World) -> None:
    """Each saw three, five open the breaker."""
    lease = await world.lease(make_task("http://a.test/", parent=1))
    other = world.make_cache()
    for cache in (world.cache, other):
        await cache.view(lease)
        for _ in range(3):
            cache.record(HOST, seen(world, "connect"))
    await world.cache.write_back(everything=True)
    await other.write_back(everything=True)
    assert (await world.record()).valve.blocked_until > world.frontier_clock.now()


async def test_news_that_meets_what_was_seen_here_may_move_the_valve(world: World) -> None:
    """The other process has written its three failures; ours are still unwritten when we hear of it."""
    lease = await world.lease(make_task("http://a.test/", parent=1))
    other = world.make_cache()
    for cache in (world.cache, other):
        await cache.view(lease)
        for _ in range(3):
            cache.record(HOST, seen(world, "connect"))
    await other.write_back(everything=True)
    await world.cache.view(replace(lease, host_version=1))
    await world.cache.flush()
    assert (await world.record()).valve.blocked_until > world.frontier_clock.now()


async def test_a_lease_that_is_older_than_what_is_known_needs_no_reading(world: World) -> None:
    """A beat writes and claims together: its leases may carry the version before."""
    lease = await world.lease(make_task("http://a.test/", parent=1))
    await world.cache.view(lease)
    world.cache.record(HOST, seen(world))
    await world.cache.write_back(everything=True)
    reads = world.frontier.reads
    assert (await world.cache.view(lease)).version == 1
    assert world.frontier.reads == reads


async def test_what_is_seen_while_it_is_written_is_not_lost(world: World) -> None:
    await world.cache.view(await world.lease(make_task("http://a.test/", parent=1)))
    for _ in range(3):
        world.cache.record(HOST, seen(world, "connect"))
    update = world.frontier.update_host

    async def slowly(record: HostRecord) -> bool:
        for _ in range(2):
            world.cache.record(HOST, seen(world, "dns"))
        world.frontier.update_host = update  # type: ignore[method-assign]
        return await update(record)

    world.frontier.update_host = slowly  # type: ignore[method-assign]
    await world.cache.write_back(everything=True)
    await world.cache.flush()
    record = await world.record()
    assert record.valve.blocked_until > world.frontier_clock.now(), "five in a row"
    assert state_of(record).errors == ("connect", "connect", "connect", "dns", "dns")


# -- a resumed job


async def test_todays_settings_reach_yesterdays_hosts(world: World) -> None:
    world.says(200, ROBOTS)
    lease = await world.lease(make_task("http://a.test/"), make_task("http://b.test/"))
    await world.robots.fetch(lease, since=world.clock.monotonic())
    world.settings = Settings(rate=0.1, per_host=9)
    await world.make_cache().reconfigure("job")
    a, b = (await world.record()).valve, (await world.record("b.test")).valve
    assert (a.interval, a.cap) == (10.0, 9), "slower than robots.txt asks for, which is fine"
    assert (b.interval, b.cap) == (10.0, 1), "its robots.txt is still not known"


async def test_reconfiguring_survives_a_race(world: World) -> None:
    await world.lease()
    world.settings = Settings(rate=0.1)
    world.frontier.races = 1
    await world.make_cache().reconfigure("job")
    assert (await world.record()).valve.interval == 10.0


async def test_only_so_many_hosts_are_remembered(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.hosts.cache._CACHED", 2)
    await world.lease(*(make_task(f"http://{name}.test/", parent=1) for name in "abc"))
    for name in "abc":
        await world.cache.change(f"{name}.test", lambda state: state)
    assert list(world.cache._views) == ["b.test", "c.test"]


# -- several jobs


class TwoJobs:
    """A gentle and a brisk one, on one host."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.gentle = self.cache("gentle", rate=1.0, per_host=1)
        self.brisk = self.cache("brisk", rate=10.0, per_host=5)

    def cache(self, job: str, **settings: object) -> HostCache:
        changed = replace(self.world.settings, robots=False, **settings)
        return HostCache(self.world.frontier, changed, self.world.frontier_clock, job=job)

    async def begin(self) -> None:
        """Both have pages of the host, and workers; each has said what it allows."""
        for job, cache in (("gentle", self.gentle), ("brisk", self.brisk)):
            await self.world.frontier.open_job(JobSpec(job))
            tasks = [make_task(f"http://a.test/{job}/{n}", parent=1) for n in range(2)]
            await self.world.frontier.add(job, tasks)
            await self.work_on(job)
            await cache.view(Lease(1, TASK, 0.0, (await self.world.record()).version))
            await cache.flush()

    async def work_on(self, job: str) -> None:
        await self.world.frontier.extend(job, 60.0, encode_status(WorkerStatus(job=job)))

    async def goes_on(self) -> tuple[float, int]:
        """The brisk one goes on; what the host's valve is then."""
        self.world.frontier_clock.sync(self.world.clock.time())
        await self.brisk.view(Lease(1, TASK, 0.0, (await self.world.record()).version))
        self.brisk.record(HOST, seen(self.world))
        await self.brisk.write_back(everything=True)
        valve = (await self.world.record()).valve
        return round(valve.interval, 3), valve.cap


GENTLE, BRISK = (1.0, 1), (0.1, 5)


@pytest.fixture
async def jobs(world: World) -> TwoJobs:
    jobs = TwoJobs(world)
    await jobs.begin()
    return jobs


async def test_the_strictest_of_the_jobs_on_a_host_holds(world: World, jobs: TwoJobs) -> None:
    assert await jobs.goes_on() == GENTLE
    for _ in range(5):  # for as long as it has work there
        world.clock.advance(1000)
        await jobs.work_on("gentle")
        await jobs.work_on("brisk")
        assert await jobs.goes_on() == GENTLE
    assert set(state_of(await world.record()).asks) == {"gentle", "brisk"}


@pytest.mark.parametrize("state", ["finished", "cancelled", "paused"])
async def test_a_job_that_does_not_run_holds_nobody_up(world: World, jobs: TwoJobs, state: JobState) -> None:
    assert await jobs.goes_on() == GENTLE
    await world.frontier.set_state("gentle", state)
    world.clock.advance(6)
    assert await jobs.goes_on() == BRISK
    assert set(state_of(await world.record()).asks) == {"brisk"}


async def test_nor_does_one_whose_workers_died(world: World, jobs: TwoJobs) -> None:
    world.clock.advance(59)
    assert await jobs.goes_on() == GENTLE, "they may be about to come back"
    world.clock.advance(6)
    await jobs.work_on("brisk")
    assert await jobs.goes_on() == BRISK


async def test_nor_one_that_has_no_page_left_there(world: World, jobs: TwoJobs) -> None:
    while leases := (await world.frontier.claim(Claim("gentle", ["gentle"], {"normal": 9}, 9))).leases:
        await world.frontier.settle([Settlement(lease, Done()) for lease in leases])
        world.clock.advance(2)
    await jobs.work_on("gentle")
    assert await jobs.goes_on() == GENTLE, "it may have found more"
    world.clock.advance(61)
    await jobs.work_on("gentle")
    assert await jobs.goes_on() == BRISK
    # When it has more, its word counts again.
    await world.frontier.add("gentle", [make_task("http://a.test/more", parent=1)])
    await jobs.gentle.view(Lease(1, TASK, 0.0, (await world.record()).version))
    await jobs.gentle.flush()
    assert await jobs.goes_on() == GENTLE
