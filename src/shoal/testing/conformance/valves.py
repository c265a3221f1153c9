"""Hosts and their valves."""

from __future__ import annotations

import itertools

from msgspec.structs import replace

from shoal.frontier.protocol import Frontier
from shoal.testing.conformance.tools import (
    claim,
    make_task,
    settle,
    spec,
    start_job,
    urls_of,
)
from shoal.testing.manual_clock import ManualClock
from shoal.valve import Valve


class Valves:
    async def test_requests_to_a_host_keep_their_interval(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await frontier.open_job(spec(valve=Valve(interval=0.5, cap=10)))
        await frontier.add("job", [make_task(f"http://a.test/{i}") for i in range(4)])
        times: list[float] = []
        for _ in range(4):
            got = await claim(frontier)
            assert len(got.leases) == 1
            times.append(clock.monotonic())
            again = await claim(frontier)
            assert again.leases == []
            if len(times) < 4:
                assert abs(again.next_due - 0.5) < 1e-6
                clock.advance(again.next_due)
        assert all(b - a >= 0.5 - 1e-6 for a, b in itertools.pairwise(times))

    async def test_a_burst_is_allowed_after_a_quiet_spell(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await frontier.open_job(spec(valve=Valve(interval=1.0, burst=3, cap=10)))
        await frontier.add("job", [make_task(f"http://a.test/{i}") for i in range(10)])
        clock.advance(100)
        assert len((await claim(frontier)).leases) == 3
        assert (await claim(frontier)).leases == []
        clock.advance(1.0)
        assert len((await claim(frontier)).leases) == 1

    async def test_a_host_at_its_cap_waits_for_a_settlement(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await start_job(frontier, [make_task(f"http://a.test/{i}") for i in range(3)], valve=Valve(cap=2))
        first = await claim(frontier)
        assert len(first.leases) == 2
        clock.advance(10)
        blocked = await claim(frontier)
        assert blocked.leases == []
        assert blocked.next_due > 10  # nothing but the leases' own deadline
        await settle(frontier, first.leases[0])
        assert len((await claim(frontier)).leases) == 1

    async def test_politeness_is_shared_by_jobs_and_lanes(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        valve = Valve(interval=1.0, cap=1)
        for name in ("one", "two"):
            await frontier.open_job(spec(name, valve))
            await frontier.add(
                name,
                [
                    make_task(f"http://a.test/{name}{i}", lane=lane)
                    for i, lane in enumerate(["normal", "urgent"])
                ],
            )
        total = 0
        for _ in range(4):
            got = await claim(frontier, jobs=["one", "two"], lanes=["normal", "urgent"])
            assert len(got.leases) == 1
            total += 1
            await settle(frontier, got.leases[0])
            assert (await claim(frontier, jobs=["one", "two"], lanes=["normal", "urgent"])).leases == []
            clock.advance(1.0)
        assert total == 4

    async def test_update_host_is_compare_and_set(self, frontier: Frontier) -> None:
        await start_job(frontier, [make_task("http://a.test/")])
        record = await frontier.host("a.test")
        assert record is not None
        assert await frontier.update_host(replace(record, state=b"first"))
        assert not await frontier.update_host(replace(record, state=b"second"))
        now = await frontier.host("a.test")
        assert now is not None
        assert (now.state, now.version) == (b"first", record.version + 1)
        assert await frontier.host("b.test") is None

    async def test_a_lease_tells_the_host_version(self, frontier: Frontier) -> None:
        await start_job(frontier, [make_task("http://a.test/1"), make_task("http://a.test/2")])
        record = await frontier.host("a.test")
        assert record is not None
        assert (await claim(frontier, 1)).leases[0].host_version == record.version
        await frontier.update_host(record)
        assert (await claim(frontier, 1)).leases[0].host_version == record.version + 1

    async def test_a_blocked_host_is_due_when_the_block_ends(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await start_job(frontier, [make_task("http://a.test/1"), make_task("http://b.test/1")])
        record = await frontier.host("a.test")
        assert record is not None
        until = clock.time() + 40
        assert await frontier.update_host(replace(record, valve=replace(record.valve, blocked_until=until)))
        got = await claim(frontier)
        assert urls_of(got.leases) == ["http://b.test/1"]
        assert abs(got.next_due - 40) < 0.01
        clock.advance(40.01)
        assert urls_of((await claim(frontier)).leases) == ["http://a.test/1"]

    async def test_a_longer_interval_counts_from_the_last_request(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await frontier.open_job(spec(valve=Valve(interval=1.0, cap=5)))
        await frontier.add("job", [make_task(f"http://a.test/{i}") for i in range(3)])
        await claim(frontier)
        record = await frontier.host("a.test")
        assert record is not None
        await frontier.update_host(replace(record, valve=replace(record.valve, interval=10.0)))
        clock.advance(9.9)
        assert (await claim(frontier)).leases == []
        clock.advance(0.2)
        assert len((await claim(frontier)).leases) == 1

    async def test_hosts_lists_every_host_of_a_job(self, frontier: Frontier) -> None:
        await frontier.open_job(spec("one"))
        await frontier.open_job(spec("two"))
        await frontier.add("one", [make_task(f"http://h{i}.test/") for i in range(5)])
        await frontier.add("two", [make_task("http://other.test/")])
        assert len([record async for record in frontier.hosts()]) == 6
        assert {record.name async for record in frontier.hosts("two")} == {"other.test"}

    async def test_hosts_are_read_page_by_page_with_what_waits_for_them(self, frontier: Frontier) -> None:
        await frontier.open_job(spec("one"))
        await frontier.open_job(spec("two"))
        await frontier.add("one", [make_task(f"http://h{i % 20}.test/{i}") for i in range(50)])
        await frontier.add("two", [make_task(f"http://h{i}.test/") for i in range(15, 25)])
        for job, expected in (
            ("one", {f"h{i}.test": 3 if i < 10 else 2 for i in range(20)}),
            ("two", {f"h{i}.test": 1 for i in range(15, 25)}),
            (None, {f"h{i}.test": (3 if i < 10 else 2 if i < 20 else 0) + (i >= 15) for i in range(25)}),
        ):
            found: dict[str, int] = {}
            page = await frontier.host_page(job, limit=4)
            while True:
                found |= {record.name: pending for record, pending in page.hosts}
                if not page.after:
                    break
                page = await frontier.host_page(job, page.after, limit=4)
            assert found == expected
