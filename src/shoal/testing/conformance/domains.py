"""Hosts of one registrable domain have a limit together."""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from shoal.admit.identity import registrable_domain
from shoal.frontier.protocol import Frontier
from shoal.model import Moved, Task
from shoal.testing.conformance.tools import claim, counted, make_task, settle, spec, start_job
from shoal.testing.manual_clock import ManualClock
from shoal.valve import DomainLimit, Valve

PACED = Valve(interval=0.05, cap=5)


def wild(hosts: int, pages: int = 1, **fields: object) -> list[Task]:
    return [
        make_task(f"http://n{host}.wild.test/{page}", **fields)
        for page in range(pages)
        for host in range(hosts)
    ]


class Domains:
    async def test_requests_to_all_hosts_of_a_domain_keep_its_interval(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await start_job(frontier, wild(30, 2), valve=PACED, domain=DomainLimit(interval=0.5))
        served: Counter[str] = Counter()
        for _ in range(30):
            got = await claim(frontier)
            assert len(got.leases) == 1
            served[got.leases[0].task.host] += 1
            again = await claim(frontier)
            assert again.leases == []
            assert abs(again.next_due - 0.5) < 1e-6
            await settle(frontier, got.leases[0])
            clock.advance(0.5)
        assert len(served) == 30  # each in its turn

    async def test_places_are_shared_by_the_hosts_of_a_domain(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await start_job(frontier, wild(20), domain=DomainLimit(cap=3))
        first = await claim(frontier, 2)
        second = await claim(frontier)
        assert (len(first.leases), len(second.leases)) == (2, 1)
        clock.advance(10)
        full = await claim(frontier)
        assert full.leases == []
        assert full.next_due > 10  # nothing but the leases' own deadline
        await settle(frontier, first.leases[0])
        assert len((await claim(frontier)).leases) == 1
        assert await frontier.release(second.leases) == 1
        assert len((await claim(frontier)).leases) == 1
        clock.advance(60)  # all leases run out
        assert len((await claim(frontier)).leases) == 3
        record = await frontier.host("n0.wild.test")
        assert record is not None
        assert record.domain is not None
        assert (record.domain.name, record.domain.in_flight) == ("wild.test", 3)
        await counted(frontier)

    async def test_a_crowded_domain_delays_no_other(self, frontier: Frontier, clock: ManualClock) -> None:
        await start_job(frontier, wild(200), valve=PACED, domain=DomainLimit(interval=10.0, cap=1))
        await frontier.add("job", [make_task(f"http://honest{i}.test/{n}") for i in range(5) for n in (1, 2)])
        for _ in range(2):
            got = await claim(frontier, 6)
            crowd = [lease for lease in got.leases if lease.task.host.endswith("wild.test")]
            assert len(got.leases) - len(crowd) == 5
            assert len(crowd) <= 1
            clock.advance(0.05)

    async def test_what_belongs_to_nobody_in_common_has_no_limit_in_common(self, frontier: Frontier) -> None:
        await frontier.open_job(spec(domain=DomainLimit(interval=1.0, cap=1)))
        hosts = [
            *(
                "one.github.io",
                "two.github.io",
                "one.myshopify.com",
                "two.myshopify.com",
                "a.co.uk",
                "b.co.uk",
            ),
            *(
                "127.0.0.1:81",
                "127.0.0.1:82",
                "[::1]:81",
                "[::1]:82",
                "localhost:81",
                "localhost:82",
                "server",
            ),
        ]
        await frontier.add("job", [make_task(f"http://{host}/") for host in hosts])
        assert len((await claim(frontier)).leases) == len(hosts)

    async def test_a_single_host_has_its_own_limit_only(self, frontier: Frontier, clock: ManualClock) -> None:
        await frontier.open_job(spec(valve=PACED, domain=DomainLimit(interval=10.0)))
        await frontier.add("job", [make_task(f"http://www.wild.test/{i}") for i in range(4)])
        first = await claim(frontier)
        assert (len(first.leases), (await frontier.host("www.wild.test")).domain) == (1, None)  # type: ignore[union-attr]
        clock.advance(0.05)
        second = (await claim(frontier)).leases
        assert len(second) == 1
        # Its page leads to a second host, by a link and by a redirect: from now on they share.
        await settle(frontier, first.leases[0], None, make_task("http://cdn.wild.test/"))
        await settle(frontier, second[0], Moved(make_task("http://other.wild.test/")))
        clock.advance(0.05)
        assert len((await claim(frontier)).leases) == 1
        clock.advance(0.05)
        assert (await claim(frontier)).leases == []
        clock.advance(10)
        assert len((await claim(frontier)).leases) == 1

    async def test_leases_from_before_the_second_host_count(self, frontier: Frontier) -> None:
        await frontier.open_job(spec(domain=DomainLimit(cap=3)))
        await frontier.add("job", [make_task(f"http://www.wild.test/{i}") for i in range(2)])
        first = (await claim(frontier)).leases
        await frontier.add("job", wild(5))
        got = (await claim(frontier)).leases
        assert (len(first), len(got)) == (2, 1)
        for lease in [*first, *got]:
            await settle(frontier, lease)
        assert len((await claim(frontier)).leases) == 3

    async def test_the_strictest_of_the_running_jobs_holds(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await frontier.open_job(spec("lax", PACED))
        await frontier.open_job(spec("strict", PACED, domain=DomainLimit(interval=1.0, cap=2)))
        await frontier.open_job(spec("elsewhere", PACED, domain=DomainLimit(interval=9.0, cap=1)))
        await frontier.add("lax", wild(8))
        await frontier.add("strict", [make_task(f"http://n{i}.wild.test/strict") for i in range(8)])
        await frontier.add("elsewhere", [make_task("http://a.elsewhere.test/")])
        jobs = ["lax", "strict"]
        assert len((await claim(frontier, jobs=jobs)).leases) == 1
        clock.advance(1.0)
        assert len((await claim(frontier, jobs=jobs)).leases) == 1
        clock.advance(1.0)
        assert (await claim(frontier, jobs=jobs)).leases == []  # two are in flight
        await frontier.set_state("strict", "paused")
        await frontier.reap()
        clock.advance(60.0)  # their leases run out
        assert len((await claim(frontier, jobs=jobs)).leases) == 8

    async def test_a_paused_job_keeps_nobody_waiting(self, frontier: Frontier, clock: ManualClock) -> None:
        limit = DomainLimit(interval=1.0)
        for name in ("paused", "running"):
            await frontier.open_job(spec(name, PACED, domain=limit))
        await frontier.add("paused", wild(20))
        assert len((await claim(frontier, jobs=["paused"])).leases) == 1
        await frontier.set_state("paused", "paused")
        await frontier.add("running", [make_task(f"http://m{i}.wild.test/") for i in range(3)])
        for _ in range(3):
            clock.advance(1.0)
            assert len((await claim(frontier, jobs=["paused", "running"])).leases) == 1
        clock.advance(1.0)
        await frontier.set_state("paused", "running")
        assert len((await claim(frontier, jobs=["paused", "running"])).leases) == 1

    async def test_lanes_share_the_limit_and_each_comes_forward(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        await frontier.open_job(spec(valve=PACED, domain=DomainLimit(interval=1.0)))
        await frontier.add("job", [*wild(5, lane="urgent"), *wild(5, 2, lane="normal")[5:]])
        lanes: Counter[str] = Counter()
        for _ in range(10):
            got = (await claim(frontier, lanes=["urgent", "normal"])).leases
            assert len(got) == 1
            lanes[got[0].task.lane] += 1
            await settle(frontier, got[0])
            clock.advance(1.0)
        assert lanes == {"urgent": 5, "normal": 5}

    async def test_nobody_is_forgotten_and_nobody_asks_in_vain(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        """Whoever sleeps as long as the frontier says takes one page with each claim."""
        await frontier.open_job(spec(valve=replace(PACED, cap=1), domain=DomainLimit(interval=0.3, cap=2)))
        await frontier.add("job", wild(25, 2))
        in_vain = 0
        for _ in range(50):
            got = await claim(frontier, 10)
            in_vain += not got.leases
            for lease in got.leases:
                await settle(frontier, lease)
            if not got.leases:
                clock.advance(got.next_due)
            else:
                clock.advance(0.3)
        assert (await counted(frontier)).counters.done == 50
        assert in_vain == 0

    async def test_a_host_that_steps_back_makes_room_for_the_next(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        """A host comes forward when its domain allows a request. If it cannot go after all, another must."""
        await start_job(frontier, wild(4), valve=PACED, domain=DomainLimit(interval=1.0))
        assert len((await claim(frontier)).leases) == 1
        await frontier.add("job", [make_task("http://honest.test/1")])
        clock.advance(1.0)
        await claim(frontier, 1)  # whoever it takes, one of the crowd may have come forward
        clock.advance(1.0)
        for number in range(4):
            record = await frontier.host(f"n{number}.wild.test")
            assert record is not None
            if number != 3:
                blocked = replace(record.valve, blocked_until=clock.time() + 1000)
                assert await frontier.update_host(replace(record, valve=blocked))
        got = (await claim(frontier)).leases
        assert "http://n3.wild.test/0" in [lease.task.url for lease in got]

    async def test_a_host_without_a_rate_is_held_to_the_places_alone(self, frontier: Frontier) -> None:
        await start_job(frontier, wild(10, 2), domain=DomainLimit(interval=10.0, cap=7))
        assert len((await claim(frontier)).leases) == 7

    async def test_dropping_a_job_empties_its_places_in_the_domain(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        for name in ("one", "two"):
            await frontier.open_job(spec(name, domain=DomainLimit(cap=2)))
        await frontier.add("one", wild(10))
        assert len((await claim(frontier, jobs=["one"])).leases) == 2
        await frontier.add("two", wild(10))
        assert (await claim(frontier, jobs=["two"])).leases == []
        await frontier.drop_job("one")
        assert len((await claim(frontier, jobs=["two"])).leases) == 2

    async def test_the_domain_is_told_with_the_host(self, frontier: Frontier) -> None:
        await frontier.open_job(spec(valve=PACED, domain=DomainLimit(interval=1.0)))
        await frontier.add("job", [*wild(3), make_task("http://honest.test/")])
        got = await claim(frontier)
        domains = {record.name: record.domain async for record in frontier.hosts()}
        assert domains.pop("honest.test") is None
        for name, domain in domains.items():
            assert domain is not None
            assert (domain.name, domain.in_flight) == (registrable_domain(name), 1)
            assert abs(domain.next_at - got.now - 1.0) < 1e-6
