"""Leases: expiry, heartbeats, release."""

from __future__ import annotations

from shoal.engine.lost_workers import report_loss
from shoal.frontier.loss import Loss
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import DeadFilter
from shoal.model import Retry
from shoal.testing.conformance.tools import (
    FAILED,
    claim,
    counted,
    make_task,
    settle,
    spec,
    start_job,
)
from shoal.testing.manual_clock import ManualClock


class Leases:
    async def test_an_expired_lease_is_given_to_another_with_one_more_attempt(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await start_job(frontier, [make_task("http://a.test/")])
        [lease] = (await claim(frontier, lease_seconds=60)).leases
        clock.advance(59)
        assert (await claim(frontier, worker="w2")).leases == []
        clock.advance(2)
        [again] = (await claim(frontier, worker="w2")).leases
        assert again.task.attempt == 2
        assert again.token != lease.token
        assert [failure.kind for failure in again.task.history] == ["worker_lost"]

    async def test_heartbeats_keep_a_lease(self, frontier: Frontier, clock: ManualClock) -> None:
        await start_job(frontier, [make_task("http://a.test/")])
        [lease] = (await claim(frontier, lease_seconds=60)).leases
        for _ in range(5):
            clock.advance(40)
            assert await frontier.extend("w1", 60) == 1
            assert await frontier.reap() == 0
        assert await settle(frontier, lease)
        assert await frontier.extend("w1", 60) == 0

    async def test_a_heartbeat_never_makes_a_lease_end_sooner(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        """A lease may be longer than heartbeats ask for, so that it outlasts the request for its page."""
        await start_job(frontier, [make_task("http://a.test/"), make_task("http://b.test/")])
        [long] = (await claim(frontier, limit=1, lease_seconds=60)).leases
        assert len((await claim(frontier, limit=1, lease_seconds=5)).leases) == 1
        assert await frontier.extend("w1", 10) == 2
        clock.advance(11)
        await frontier.reap()
        assert [lease.token for lease in await frontier.held("w1")] == [long.token]
        clock.advance(48)
        await frontier.reap()
        assert [lease.token for lease in await frontier.held("w1")] == [long.token]
        clock.advance(2)
        await frontier.reap()
        assert not await frontier.held("w1")

    async def test_a_worker_without_pages_is_heard_too(self, frontier: Frontier) -> None:
        await frontier.open_job(spec())
        assert await frontier.extend("w1", 60, b"idle", []) == 0
        assert [record.name for record in await frontier.workers()] == ["w1"]
        await frontier.add("job", [make_task("http://a.test/")])
        [lease] = (await claim(frontier, worker="w1")).leases
        assert await frontier.extend("w1", 60, b"busy", [lease.token]) == 1

    async def test_a_lease_that_its_worker_does_not_name_runs_out(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await start_job(frontier, [make_task(f"http://{host}.test/") for host in "abc"])
        one, two, three = (await claim(frontier, 3, lease_seconds=60)).leases
        clock.advance(40)
        assert await frontier.extend("w1", 60, tokens={one.token, three.token, 7}) == 2
        clock.advance(40)
        await frontier.reap()
        assert {lease.token for lease in await frontier.held("w1")} == {one.token, three.token}
        assert not await settle(frontier, two)
        assert await frontier.extend("w1", 60, tokens=()) == 0
        clock.advance(21)
        await frontier.reap()
        assert await frontier.held("w1") == []

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
        await start_job(frontier, [make_task("http://a.test/poison")], max_attempts=3)
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
        await start_job(frontier, [make_task(f"http://a.test/{i}") for i in range(20)])
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
        assert max(together) == 1
        await counted(frontier)

    async def test_released_tasks_are_pending_again_and_unharmed(self, frontier: Frontier) -> None:
        await start_job(frontier, [make_task("http://a.test/")])
        leases = (await claim(frontier)).leases
        assert await frontier.release(leases) == 1
        assert await frontier.release(leases) == 0
        assert not await settle(frontier, leases[0])
        [again] = (await claim(frontier)).leases
        assert again.task.attempt == 1
        await counted(frontier)

    async def test_wall_clock_jumps_change_nothing(self, frontier: Frontier, clock: ManualClock) -> None:
        await start_job(frontier, [make_task("http://a.test/1"), make_task("http://a.test/2")])
        one, two = (await claim(frontier)).leases
        await settle(frontier, one, Retry(600.0, FAILED))
        for jump in (3600.0, -7200.0):
            clock.jump_wall(jump)
            assert await frontier.reap() == 0
            assert (await claim(frontier)).leases == []
        assert await settle(frontier, two)

    # -- a worker that was lost, as whoever saw it die reports it

    async def test_pages_in_flight_are_told_from_the_oldest(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        for job in ("job", "other"):
            await frontier.open_job(spec(job))
        assert await frontier.flights(10) == []
        began = await frontier.now()
        for n, job in enumerate(("job", "other", "job", "job")):
            await frontier.add(job, [make_task(f"http://h{n}.test/")])
            await claim(frontier, worker=f"w{n % 2}", jobs=(job,))
            clock.advance(1)
        found = await frontier.flights(10)
        assert [one.lease.task.url for one in found] == [f"http://h{n}.test/" for n in range(4)]
        assert [one.worker for one in found] == ["w0", "w1", "w0", "w1"]
        assert [round(one.since - began) for one in found] == [0, 1, 2, 3]
        assert {(one.lease.task.attempt, one.lease.task.lane) for one in found} == {(1, "normal")}
        assert await frontier.flights(2) == found[:2]
        assert await frontier.flights(10, "job") == [found[0], *found[2:]]
        assert await frontier.flights(10, "nobody") == []
        assert await settle(frontier, found[0].lease)
        assert await frontier.flights(10) == found[1:]

    async def test_what_a_worker_holds(self, frontier: Frontier) -> None:
        await start_job(frontier, [make_task(f"http://{host}.test/") for host in "abc"])
        mine = (await claim(frontier, 2, worker="w1")).leases
        theirs = (await claim(frontier, worker="w2")).leases
        held = await frontier.held("w1")
        assert {lease.token: lease.task for lease in held} == {lease.token: lease.task for lease in mine}
        assert await settle(frontier, mine[0])
        assert [lease.token for lease in await frontier.held("w1")] == [mine[1].token]
        assert len(await frontier.held("w2")) == len(theirs) == 1
        assert await frontier.held("nobody") == []

    async def test_a_page_that_hung_spends_an_attempt_and_the_others_none(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await start_job(frontier, [make_task(f"http://a.test/{n}") for n in range(5)], max_attempts=2)
        for attempt in (1, 2):
            leases = (await claim(frontier, worker=f"w{attempt}")).leases
            [guilty] = [lease for lease in leases if lease.task.url == "http://a.test/3"]
            assert [lease.task.attempt for lease in leases] == [1, 1, 1, attempt, 1]
            loss = Loss(f"w{attempt}", guilty.token, 3.0, "the stack")
            assert await report_loss(frontier, loss) == 5
            assert await report_loss(frontier, loss) == 0, "there is nothing left to take back"
            assert not await settle(frontier, leases[0])
            clock.advance(4)
        leases = (await claim(frontier)).leases
        assert [lease.task.attempt for lease in leases] == [1, 1, 1, 1]
        assert not any(lease.task.history for lease in leases)
        [letter] = await frontier.dead(DeadFilter(kind="hung"))
        assert [failure.kind for failure in letter.task.history] == ["hung", "hung"]
        assert letter.snapshot is not None
        assert letter.snapshot.traceback == "the stack"
        await counted(frontier)

    async def test_of_a_worker_that_died_by_itself_all_pages_are_suspects(self, frontier: Frontier) -> None:
        await start_job(frontier, [make_task(f"http://a.test/{n}") for n in range(3)])
        await claim(frontier, worker="w1", lease_seconds=3600)
        assert await report_loss(frontier, Loss("w1", exit=-9)) == 3
        again = (await claim(frontier, worker="w2")).leases
        assert [lease.task.attempt for lease in again] == [2, 2, 2]
        assert {lease.task.history[0].kind for lease in again} == {"worker_lost"}
        await counted(frontier)
