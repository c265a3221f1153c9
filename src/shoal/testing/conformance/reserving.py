"""Turns for requests inside a page."""

from __future__ import annotations

import itertools

import pytest
from msgspec.structs import replace

from shoal.errors import UsageError
from shoal.frontier.protocol import Frontier
from shoal.model import Done, Settlement
from shoal.testing.conformance.tools import claim, counted, make_task, settle, spec, start_job
from shoal.testing.manual_clock import ManualClock
from shoal.valve import DomainLimit, Valve


class Reserving:
    async def test_turns_and_claims_keep_the_interval_together(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        tasks = [make_task(f"http://a.test/{i}") for i in range(4)]
        await start_job(frontier, tasks, valve=Valve(interval=1.0, cap=10))
        times: list[float] = []
        for _ in range(3):
            turns = [await frontier.reserve("job", "a.test", 60) for _ in range(2)]
            assert all(turn.taken for turn in turns)
            times += [clock.monotonic() + turn.wait for turn in turns]
            nothing = await claim(frontier)
            assert nothing.leases == []
            clock.advance(nothing.next_due)
            assert len((await claim(frontier)).leases) == 1
            times.append(clock.monotonic())
        assert times == sorted(times)
        assert all(abs(b - a - 1.0) < 1e-6 for a, b in itertools.pairwise(times))
        await counted(frontier)

    async def test_turns_use_up_a_burst(self, frontier: Frontier, clock: ManualClock) -> None:
        await start_job(frontier, [], valve=Valve(interval=1.0, burst=3, cap=10))
        waits = [(await frontier.reserve("job", "a.test", 60)).wait for _ in range(5)]
        assert waits == pytest.approx([0, 0, 0, 1, 2], abs=1e-6)
        clock.advance(100)
        assert (await frontier.reserve("job", "a.test", 60)).wait == 0

    async def test_a_blocked_host_gives_turns_after_its_block(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await start_job(frontier, [make_task("http://a.test/")], valve=Valve(interval=1.0))
        record = await frontier.host("a.test")
        assert record is not None
        valve = replace(record.valve, blocked_until=await frontier.now() + 40)
        assert await frontier.update_host(replace(record, valve=valve))
        waits = [(await frontier.reserve("job", "a.test", 60)).wait for _ in range(2)]
        assert waits == pytest.approx([40, 41], abs=0.01)

    async def test_a_turn_too_far_away_is_not_taken(self, frontier: Frontier, clock: ManualClock) -> None:
        await start_job(frontier, [], valve=Valve(interval=10.0))
        assert (await frontier.reserve("job", "a.test", 5)).taken
        before = await frontier.host("a.test")
        for _ in range(3):
            turn = await frontier.reserve("job", "a.test", 5)
            assert not turn.taken
            assert abs(turn.wait - 10) < 0.01
        assert await frontier.host("a.test") == before
        clock.advance(6)
        assert (await frontier.reserve("job", "a.test", 5)).taken

    async def test_an_unknown_host_gets_the_valve_of_the_job(self, frontier: Frontier) -> None:
        valve = Valve(interval=2.0, burst=2, cap=3)
        await start_job(frontier, [], valve=valve)
        turn = await frontier.reserve("job", "new.test", 60)
        record = await frontier.host("new.test")
        assert record is not None
        assert (turn.interval, turn.host_version) == (2.0, record.version)
        assert (record.valve.interval, record.valve.burst, record.valve.cap) == (2.0, 2, 3)
        with pytest.raises(UsageError, match="no job named 'other'"):
            await frontier.reserve("other", "new.test", 60)

    async def test_a_turn_tells_the_host_version(self, frontier: Frontier) -> None:
        await start_job(frontier, [make_task("http://a.test/")])
        record = await frontier.host("a.test")
        assert record is not None
        assert await frontier.update_host(record)
        assert (await frontier.reserve("job", "a.test", 60)).host_version == record.version + 1

    async def test_a_turn_does_not_count_as_in_flight(self, frontier: Frontier, clock: ManualClock) -> None:
        tasks = [make_task(f"http://a.test/{i}") for i in range(3)]
        await start_job(frontier, tasks, valve=Valve(interval=1.0, cap=1))
        [lease] = (await claim(frontier)).leases
        waits = [(await frontier.reserve("job", "a.test", 60)).wait for _ in range(2)]
        assert waits == pytest.approx([1, 2], abs=1e-6)  # though the host is at its cap
        record = await frontier.host("a.test")
        assert record is not None
        assert record.valve.in_flight == 1
        await settle(frontier, lease)
        clock.advance(2.9)
        assert (await claim(frontier)).leases == []
        clock.advance(0.2)
        assert len((await claim(frontier)).leases) == 1

    async def test_turns_keep_the_interval_of_the_domain(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        tasks = [make_task(f"http://n{i}.wild.test/") for i in range(2)]
        await start_job(
            frontier, tasks, valve=Valve(interval=0.1, cap=5), domain=DomainLimit(interval=2.0, cap=9)
        )
        waits = [(await frontier.reserve("job", f"n{i}.wild.test", 60)).wait for i in range(3)]
        assert waits == pytest.approx([0, 2, 4], abs=1e-6)
        clock.advance(5.9)
        assert (await claim(frontier)).leases == []
        clock.advance(0.2)
        assert len((await claim(frontier)).leases) == 1
        assert abs((await frontier.reserve("job", "n2.wild.test", 60)).wait - 2) < 1e-6

    async def test_a_host_met_by_a_turn_first_shares_its_domain(self, frontier: Frontier) -> None:
        await frontier.open_job(spec(valve=Valve(interval=0.1, cap=5), domain=DomainLimit(interval=2.0)))
        assert (await frontier.reserve("job", "one.wild.test", 60)).wait == 0
        await frontier.reserve("job", "two.wild.test", 60)
        assert (await frontier.reserve("job", "one.wild.test", 60)).wait > 1.9

    # -- turns that are given back

    async def test_a_page_that_sent_nothing_gives_its_turn_back(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        tasks = [make_task(f"http://a.test/{i}") for i in range(20)]
        await start_job(frontier, tasks, valve=Valve(interval=10.0, cap=1))
        for _ in range(19):
            clock.advance(0.01)
            [lease] = (await claim(frontier)).leases
            settled = await frontier.settle([Settlement(lease, Done(), unsent=True)])
            assert list(settled.accepted) == [True]
        [lease] = (await claim(frontier)).leases  # this one is sent
        assert await settle(frontier, lease)
        await frontier.add("job", [make_task("http://a.test/more")])
        nothing = await claim(frontier)
        assert nothing.leases == []
        assert nothing.next_due == pytest.approx(10.0, abs=1e-3)
        record = await frontier.host("a.test")
        assert record is not None
        assert record.valve.in_flight == 0
        assert record.valve.hold < 1  # how long a page without a request took says nothing about the host
        assert (await counted(frontier)).counters.done == 20

    async def test_a_turn_is_not_given_back_if_others_went_since(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        tasks = [make_task(f"http://a.test/{i}") for i in range(4)]
        await start_job(frontier, tasks, valve=Valve(interval=10.0, cap=10))
        [first] = (await claim(frontier)).leases
        clock.advance(10.0)
        [second] = (await claim(frontier)).leases
        clock.advance(1.0)
        await frontier.settle([Settlement(first, Done(), unsent=True)])
        nothing = await claim(frontier)
        assert nothing.leases == []
        assert nothing.next_due == pytest.approx(9.0, abs=1e-3)
        await frontier.settle([Settlement(second, Done(), unsent=True)])  # the last one to go
        assert len((await claim(frontier)).leases) == 1

    async def test_a_reservation_after_it_keeps_the_turn(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        tasks = [make_task(f"http://a.test/{i}") for i in range(2)]
        await start_job(frontier, tasks, valve=Valve(interval=10.0, cap=10))
        [lease] = (await claim(frontier)).leases
        assert (await frontier.reserve("job", "a.test", 60)).wait == pytest.approx(10.0, abs=1e-3)
        await frontier.settle([Settlement(lease, Done(), unsent=True)])
        nothing = await claim(frontier)
        assert nothing.leases == []
        assert nothing.next_due == pytest.approx(20.0, abs=1e-3)

    async def test_a_stale_settlement_gives_no_turn_back(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        tasks = [make_task(f"http://a.test/{i}") for i in range(2)]
        await start_job(frontier, tasks, valve=Valve(interval=10.0, cap=10))
        [lease] = (await claim(frontier)).leases
        assert await settle(frontier, lease)
        settled = await frontier.settle([Settlement(lease, Done(), unsent=True)])
        assert list(settled.accepted) == [False]
        assert (await claim(frontier)).leases == []

    async def test_the_domain_gets_its_turn_back(self, frontier: Frontier, clock: ManualClock) -> None:
        tasks = [make_task(f"http://{host}.c.test/{i}") for i in range(3) for host in "ab"]
        limit = DomainLimit(interval=10.0)
        await start_job(frontier, tasks, valve=Valve(interval=1.0, cap=10), domain=limit)
        for _ in range(5):
            clock.advance(1.0)
            [lease] = (await claim(frontier)).leases
            await frontier.settle([Settlement(lease, Done(), unsent=True)])
        clock.advance(1.0)
        [lease] = (await claim(frontier)).leases
        assert await settle(frontier, lease)
        await frontier.add("job", [make_task("http://a.c.test/more")])
        clock.advance(1.0)
        nothing = await claim(frontier)
        assert nothing.leases == []
        assert nothing.next_due == pytest.approx(9.0, abs=1e-3)

    async def test_tasks_beyond_the_valve_cost_no_turn_and_no_place(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        """A home may give none of them."""
        tasks = [make_task(f"http://a.test/{i}") for i in range(10)]
        await start_job(frontier, tasks, valve=Valve(interval=10.0, cap=1))
        leases = (await claim(frontier, ahead=5)).leases
        ahead = [lease for lease in leases if lease.ahead]
        [first] = [lease for lease in leases if not lease.ahead]
        assert len(ahead) in (0, 5)
        assert (await claim(frontier, ahead=5)).leases == []
        await counted(frontier)
        done, back = ahead[:3], ahead[3:]
        settled = await frontier.settle([Settlement(lease, Done(), unsent=True) for lease in done])
        assert all(settled.accepted)
        assert await frontier.release(back) == len(back)
        record = await frontier.host("a.test")
        assert record is not None
        assert record.valve.in_flight == 1
        nothing = await claim(frontier, ahead=5)
        assert nothing.leases == []
        assert await settle(frontier, first)
        nothing = await claim(frontier, ahead=5)
        assert nothing.leases == []
        assert nothing.next_due == pytest.approx(10.0, abs=1e-3)
        clock.advance(10.0)
        again = (await claim(frontier, 100, ahead=100)).leases
        assert [lease.task.attempt for lease in again] == [1] * len(again)
        assert sum(not lease.ahead for lease in again) == 1
        counters = (await counted(frontier)).counters
        assert (counters.leased, counters.done) == (len(again), 1 + len(done))

    async def test_tasks_beyond_the_valve_come_back_when_their_worker_is_lost(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        tasks = [make_task(f"http://a.test/{i}") for i in range(4)]
        await start_job(frontier, tasks, valve=Valve(interval=1.0, cap=1))
        await claim(frontier, ahead=3, lease_seconds=5.0)
        clock.advance(6.0)
        await frontier.reap()
        record = await frontier.host("a.test")
        assert record is not None
        assert record.valve.in_flight == 0
        job = await counted(frontier)
        assert job.counters.leased == 0
        assert job.counters.open == 4
