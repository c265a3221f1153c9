"""Who is woken in a fleet: one, and never only one that is dead, frozen or busy."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from lateness import Lateness
from shoal.frontier.redis.home import RedisFrontier
from shoal.frontier.values import Claim, Claimed, Cursor
from shoal.model import Done, Retry, Settlement
from shoal.testing.conformance.tools import FAILED, claim, make_task, settle, spec
from shoal.testing.servers import ValkeyServer
from shoal.valve import FOREVER, Valve

_number = itertools.count()


@pytest.fixture(params=["", "&shards=3"])
def store(valkey_server: ValkeyServer, request: pytest.FixtureRequest) -> str:
    return f"{valkey_server.url}?prefix=watch{next(_number)}{request.param}"


class Worker:
    """Waits as an engine does, and notes how often it was called."""

    def __init__(self, frontier: RedisFrontier, name: str) -> None:
        self.frontier, self.name = frontier, name
        self.last = Claimed((), FOREVER)
        self.got: list[str] = []

    async def look(self, limit: int = 10) -> Claimed:
        self.last = await claim(self.frontier, limit, worker=self.name)
        self.got += [lease.task.url for lease in self.last.leases]
        return self.last

    async def called(self, seconds: float) -> bool:
        """Whether it is to look within that time: the store calls it, or has told it when the next host is due."""
        now, again = time.monotonic(), FOREVER if self.last.again is None else self.last.again
        until = now + min(seconds, again)
        while (left := until - time.monotonic()) > 0:
            if await self.frontier.wait(left) and time.monotonic() < until:
                return True
        return again <= seconds


@asynccontextmanager
async def fleet(store: str, count: int, interval: float = 0.0) -> AsyncIterator[list[Worker]]:
    """So many workers that have looked once, in this order, and found nothing."""
    async with AsyncExitStack() as stack:
        frontiers = [await stack.enter_async_context(RedisFrontier(store)) for _ in range(count)]
        await frontiers[0].open_job(spec(valve=Valve(interval=interval, cap=5)))
        workers = [Worker(frontier, f"w{n}") for n, frontier in enumerate(frontiers)]
        for worker in workers:
            await worker.frontier.wait(0.05)  # what was said of the job
            assert not (await worker.look()).leases
        yield workers


async def those_called(workers: Sequence[Worker], seconds: float = 0.3) -> list[str]:
    called = await asyncio.gather(*(worker.called(seconds) for worker in workers))
    return [worker.name for worker, was in zip(workers, called, strict=True) if was]


async def test_one_is_woken_and_takes_it(store: str) -> None:
    async with fleet(store, 4) as workers:
        await workers[3].frontier.add("job", [make_task("http://a.test/")])
        assert await those_called(workers) == ["w0"]
        assert len((await workers[0].look()).leases) == 1


async def test_what_one_cannot_take_goes_to_the_next(store: str) -> None:
    async with fleet(store, 3) as workers:
        await workers[2].frontier.add("job", [make_task(f"http://h{n}.test/") for n in range(4)])
        assert await workers[0].called(1)
        assert len((await workers[0].look(limit=3)).leases) == 3
        assert await workers[1].called(1)
        assert len((await workers[1].look(limit=3)).leases) == 1
        assert await those_called(workers[2:]) == []


async def test_who_got_something_lets_another_look_next(store: str) -> None:
    """At the time when the host is due, without asking before."""
    with Lateness() as machine:
        async with fleet(store, 3, interval=0.4) as workers:
            await workers[0].frontier.add("job", [make_task(f"http://a.test/{n}") for n in range(3)])
            assert await workers[0].called(1.5)
            began = time.monotonic()
            first = await workers[0].look()
            looked = time.monotonic()
            assert len(first.leases) == 1
            assert 0.35 - (looked - began) < first.next_due < 0.45  # it is counted from the end of the look
            assert first.again is not None
            assert first.again > first.next_due  # somebody else looks then
            assert await workers[1].called(1.5)
            called = time.monotonic()
            assert len((await workers[1].look()).leases) == 1
            assert await workers[2].called(1.5)
    assert called - began > 0.35
    assert called - looked < 0.55 + machine.seconds


async def test_a_dead_one_is_passed_over(store: str) -> None:
    async with fleet(store, 3) as workers:
        for worker in workers[:2]:
            await worker.frontier._link.close()  # as the kernel does when a process is killed
        await workers[2].frontier.add("job", [make_task("http://a.test/")])
        assert await workers[2].called(1)
        assert len((await workers[2].look()).leases) == 1


async def test_a_frozen_one_holds_nobody_up_for_long(store: str) -> None:
    """It hears nothing while it sleeps; another one looks by itself, and from then on is the one to be told."""
    async with fleet(store, 3) as workers:
        await workers[2].frontier.add(
            "job", [make_task("http://a.test/")]
        )  # and nobody reads what w0 was told
        others = workers[1:]
        assert all(worker.last.again is not None and worker.last.again <= 2.3 for worker in others)
        await asyncio.sleep(0.2)
        assert len((await workers[1].look()).leases) == 1
        await workers[2].frontier.add("job", [make_task("http://a.test/2")])
        assert await those_called(others, 0.3) == ["w2"]


async def test_a_busy_one_lets_another_look(store: str) -> None:
    async with fleet(store, 2) as workers:
        await workers[1].frontier.add("job", [make_task("http://a.test/")])
        assert await workers[0].called(1)
        busy = asyncio.create_task(workers[0].frontier.wait(5))  # it has no room, and does not claim
        assert await workers[1].called(1)
        assert len((await workers[1].look()).leases) == 1
        busy.cancel()


async def test_one_that_leaves_hands_its_turn_on(store: str) -> None:
    async with fleet(store, 1) as [stays]:
        async with RedisFrontier(store) as leaving:
            await leaving.extend("leaving", 60.0)
            first = Worker(leaving, "leaving")
            await stays.frontier.wait(0)
            await stays.frontier.add("job", [make_task("http://a.test/")])
            await stays.look()  # so it is behind the other
            await first.look()
            await stays.look()
            await stays.frontier.add("job", [make_task("http://b.test/")])
        assert await stays.called(1)


async def test_retries_and_places_that_are_given_back_wake_somebody(store: str) -> None:
    async with fleet(store, 2) as workers:
        await workers[1].frontier.add("job", [make_task("http://a.test/")])
        assert await workers[0].called(1)
        [lease] = (await workers[0].look()).leases
        await workers[0].frontier.settle([Settlement(lease, Retry(0.3, FAILED))])
        began = time.monotonic()
        assert await those_called(workers, 1.0) != []
        assert time.monotonic() - began > 0.2
        assert len((await workers[1].look()).leases + (await workers[0].look()).leases) == 1


async def test_a_page_budget_that_has_room_again_wakes_somebody(valkey_server: ValkeyServer) -> None:
    store = f"{valkey_server.url}?prefix=watch{next(_number)}"
    async with RedisFrontier(store) as one, RedisFrontier(store) as two:
        await one.open_job(spec(max_pages=1))
        await one.add("job", [make_task("http://a.test/"), make_task("http://b.test/")])
        first, second = Worker(one, "w1"), Worker(two, "w2")
        [lease] = (await first.look()).leases
        assert not (await second.look()).leases
        await one.settle([Settlement(lease, Retry(60, FAILED))])
        assert await those_called([first, second], 0.5)


async def test_work_for_a_lane_wakes_those_that_serve_it(store: str) -> None:
    async with fleet(store, 1) as workers, RedisFrontier(store) as other:
        browser = Worker(other, "browser")
        browser.last = await claim(other, 5, worker="browser", lanes={"browser": 5})
        await other.add("job", [make_task("http://a.test/", lane="browser")])
        assert await those_called([*workers, browser]) == ["browser"]


async def test_nobody_is_called_when_pages_are_done(store: str) -> None:
    async with fleet(store, 3, interval=5.0) as workers:
        await workers[2].frontier.add("job", [make_task(f"http://a.test/{n}") for n in range(2)])
        assert await workers[0].called(1)
        await workers[0].look()
        [lease] = workers[0].last.leases
        await settle(workers[0].frontier, lease, Done())
        assert await those_called(workers) == []


async def test_the_dead_are_forgotten(valkey_server: ValkeyServer) -> None:
    """Also where nothing is ever due, so that nobody notices them: what the store knows of who waits runs out."""
    prefix = f"watch{next(_number)}"
    tag = f"{{{prefix}:0}}:"
    async with fleet(f"{valkey_server.url}?prefix={prefix}", 3) as workers:
        names = [worker.frontier._shards.name for worker in workers]
        [group] = valkey_server.command("HKEYS", f"{tag}watch")
        sleepers = f"{tag}sleepers:{group.decode()}"
        for key in (sleepers, *(f"{tag}sleeps:{name}" for name in names)):
            assert 60 < valkey_server.command("TTL", key) <= 120
        valkey_server.command("DEL", f"{tag}sleeps:{names[0]}")  # as it goes by itself in two minutes
        valkey_server.command("EXPIRE", f"{tag}sleeps:{names[1]}", 50)
        valkey_server.command(
            "HSET", f"{tag}watch", ",77,", b"\0" * 8 + b"gone"
        )  # the last of a group has gone
        await workers[1].look()
        assert valkey_server.command("ZRANGE", sleepers, 0, -1) == [name.encode() for name in names[1:]]
        assert valkey_server.command("HKEYS", f"{tag}watch") == [group]
        assert valkey_server.command("TTL", f"{tag}sleeps:{names[1]}") > 60


async def test_who_ends_leaves_nothing_behind(valkey_server: ValkeyServer) -> None:
    prefix = f"watch{next(_number)}"
    async with fleet(f"{valkey_server.url}?prefix={prefix}&shards=2", 2) as workers:
        assert valkey_server.command("KEYS", f"{{{prefix}:*sleep*")
        await workers[0].frontier.add("job", [make_task("http://a.test/")])
    for kind in ("*sleep*", "*watch*"):
        assert valkey_server.command("KEYS", f"{{{prefix}:{kind}") == []


async def test_workers_of_an_older_version_wake_all(valkey_server: ValkeyServer) -> None:
    """They know one channel only."""
    prefix = f"watch{next(_number)}"
    async with fleet(f"{valkey_server.url}?prefix={prefix}", 2) as workers:
        valkey_server.command("PUBLISH", f"{prefix}:wake", "1")
        assert await those_called(workers) == ["w0", "w1"]


async def test_who_could_take_more_of_one_lane_is_not_told_to_wait(store: str) -> None:
    """Its other lane is full: when that has room again it may ask, whosever turn it is."""
    async with fleet(store, 1) as [other], RedisFrontier(store) as frontier:
        tasks = [make_task(f"http://{lane}{n}.test/", lane=lane) for lane in ("a", "b") for n in range(2)]
        await other.frontier.add("job", tasks)
        claimed = await frontier.claim(Claim("w", ["job"], {"a": 1, "b": 5}, 9, 60.0))
        assert len(claimed.leases) == 3
        assert claimed.again is None


async def test_jobs_are_told_of(store: str) -> None:
    async with RedisFrontier(store) as one, RedisFrontier(store) as two:
        for act in (
            lambda: one.open_job(spec(), "start"),
            lambda: one.add("job", [make_task("http://a.test/")], Cursor("start", fed_all=True)),
            lambda: one.set_state("job", "paused"),
            lambda: one.drop_job("job"),
        ):
            news = two.news.count
            await act()
            await two.news.after(news, 60.0)
            assert two.news.count > news
