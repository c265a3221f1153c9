"""Leases: expiry, heartbeats, release."""

from __future__ import annotations

from shoal.frontier.protocol import (
    DeadFilter,
    Frontier,
)
from shoal.model import Retry
from shoal.testing.clock import ManualClock
from shoal.testing.conformance.tools import (
    FAILED,
    claim,
    counted,
    make_task,
    settle,
    spec,
)


class Leases:
    async def test_an_expired_lease_is_given_to_another_with_one_more_attempt(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task("http://a.test/")])
        [lease] = (await claim(frontier, lease_seconds=60)).leases
        clock.advance(59)
        assert (await claim(frontier, worker="w2")).leases == []
        clock.advance(2)
        [again] = (await claim(frontier, worker="w2")).leases
        assert again.task.attempt == 2
        assert again.token != lease.token
        assert [failure.kind for failure in again.task.history] == ["worker_lost"]

    async def test_heartbeats_keep_a_lease(self, frontier: Frontier, clock: ManualClock) -> None:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task("http://a.test/")])
        [lease] = (await claim(frontier, lease_seconds=60)).leases
        for _ in range(5):
            clock.advance(40)
            assert await frontier.extend("w1", 60) == 1
            assert await frontier.reap() == 0
        assert await settle(frontier, lease)
        assert await frontier.extend("w1", 60) == 0

    async def test_a_worker_is_known_until_it_falls_silent(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await frontier.extend("w1", 60, b"well")
        clock.advance(30)
        await frontier.extend("w2", 60, b"busy")
        assert {record.name: record.status for record in await frontier.workers()} == {
            "w1": b"well",
            "w2": b"busy",
        }
        clock.advance(31)
        assert [record.name for record in await frontier.workers()] == ["w2"]

    async def test_a_page_that_kills_every_worker_is_buried(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await frontier.open_job(spec(max_attempts=3))
        await frontier.add("job", [make_task("http://a.test/poison")])
        for attempt in (1, 2, 3):
            [lease] = (await claim(frontier, worker=f"w{attempt}", lease_seconds=10)).leases
            assert lease.task.attempt == attempt
            clock.advance(11)
        assert (await claim(frontier)).leases == []
        [letter] = await frontier.dead(DeadFilter(kind="worker_lost"))
        assert len(letter.task.history) == 3
        assert (await counted(frontier)).counters.dead == 1

    async def test_pages_that_died_together_are_given_back_apart(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task(f"http://a.test/{i}") for i in range(20)])
        assert len((await claim(frontier, lease_seconds=10)).leases) == 20
        clock.advance(11)
        assert len((await claim(frontier, lease_seconds=10)).leases) == 20  # once is no suspicion
        clock.advance(11)
        together: list[int] = []
        while sum(together) < 20 and len(together) < 1000:
            got = await claim(frontier, lease_seconds=1000)
            together.append(len(got.leases))
            clock.advance(max(got.next_due, 0.01))
        assert sum(together) == 20
        assert max(together) <= 2
        await counted(frontier)

    async def test_released_tasks_are_pending_again_and_unharmed(self, frontier: Frontier) -> None:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task("http://a.test/")])
        leases = (await claim(frontier)).leases
        assert await frontier.release(leases) == 1
        assert await frontier.release(leases) == 0
        assert not await settle(frontier, leases[0])
        [again] = (await claim(frontier)).leases
        assert again.task.attempt == 1
        await counted(frontier)

    async def test_wall_clock_jumps_change_nothing(self, frontier: Frontier, clock: ManualClock) -> None:
        await frontier.open_job(spec())
        await frontier.add("job", [make_task("http://a.test/1"), make_task("http://a.test/2")])
        one, two = (await claim(frontier)).leases
        await settle(frontier, one, Retry(600.0, FAILED))
        for jump in (3600.0, -7200.0):
            clock.jump_wall(jump)
            assert await frontier.reap() == 0
            assert (await claim(frontier)).leases == []
        assert await settle(frontier, two)
