"""Where a URL is, and what waits for a host."""

from __future__ import annotations

from msgspec.structs import replace

from shoal.admit.identity import fingerprint, host_key
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import DeadFilter, HostQueue, Whereabouts
from shoal.model import Dead, Failure, Moved, Retry, Task
from shoal.testing.conformance.tools import FAILED, claim, make_task, settle, spec, start_job
from shoal.testing.manual_clock import ManualClock

URL = "http://a.test/wanted"


async def find(frontier: Frontier, url: str = URL, job: str = "job") -> Whereabouts:
    return await frontier.find(job, make_task(url))


class Finding:
    async def test_a_url_never_admitted_is_unknown(self, frontier: Frontier) -> None:
        await frontier.open_job(spec())
        await frontier.open_job(spec("other"))
        assert (await find(frontier)).place == "unknown"
        await frontier.add("other", [make_task(URL)])
        await frontier.add("job", [make_task(URL + "/too")])
        assert (await find(frontier)).place == "unknown"
        assert (await find(frontier, job="other")).place == "pending"

    async def test_a_pending_task_tells_how_many_go_before_it(self, frontier: Frontier) -> None:
        await start_job(frontier, [make_task(f"http://a.test/{n}") for n in range(3)])
        await frontier.add("job", [make_task(URL), make_task("http://a.test/late")])
        await frontier.add("job", [make_task("http://b.test/"), make_task("http://a.test/x", lane="urgent")])
        assert (await find(frontier)).ahead == 3
        await frontier.add("job", [make_task("http://a.test/first", priority=1)])
        found = await find(frontier)
        assert (found.place, found.ahead) == ("pending", 4)
        assert found.task is not None
        assert (found.task.url, found.task.lane, found.task.handler) == (URL, "normal", "page")

    async def test_what_lies_beyond_the_scan_is_pending_somewhere(self, frontier: Frontier) -> None:
        await start_job(frontier, [make_task(f"http://a.test/{n}") for n in range(5)])
        await frontier.add("job", [make_task(URL)])
        assert await frontier.find("job", make_task(URL), scan=5) == Whereabouts("pending", ahead=5)
        assert (await frontier.find("job", make_task(URL), scan=6)).task is not None

    async def test_a_leased_task_tells_who_has_it(self, frontier: Frontier, clock: ManualClock) -> None:
        await start_job(frontier, [make_task(URL)])
        start = await frontier.now()
        await claim(frontier, worker="w7", lease_seconds=60)
        clock.advance(20)
        await frontier.extend("w7", 60)
        found = await find(frontier)
        assert (found.place, found.worker) == ("leased", "w7")
        assert abs(found.since - start) < 0.01
        assert abs(found.deadline - start - 80) < 0.01
        assert found.task is not None
        assert found.task.attempt == 1

    async def test_a_delayed_task_tells_when_and_why(self, frontier: Frontier, clock: ManualClock) -> None:
        await start_job(frontier, [make_task(URL)])
        [lease] = (await claim(frontier)).leases
        await settle(frontier, lease, Retry(30.0, FAILED))
        found = await find(frontier)
        assert found.place == "delayed"
        assert abs(found.due - await frontier.now() - 30) < 0.01
        assert found.task is not None
        assert [failure.kind for failure in found.task.history] == [FAILED.kind]
        clock.advance(31)
        await claim(frontier)
        assert (await find(frontier)).place == "leased"

    async def test_a_dead_task_names_its_letter(self, frontier: Frontier) -> None:
        await start_job(frontier, [make_task(URL)])
        [lease] = (await claim(frontier)).leases
        await settle(frontier, lease, Dead(Failure("http_404")))
        found = await find(frontier)
        [letter] = await frontier.dead(DeadFilter())
        assert (found.place, found.since) == ("dead", letter.at)
        assert found.task == letter.task
        await frontier.replay(DeadFilter())
        assert (await find(frontier)).place == "pending"

    async def test_a_settled_task_is_done(self, frontier: Frontier) -> None:
        await start_job(frontier, [make_task(URL)])
        [lease] = (await claim(frontier)).leases
        await settle(frontier, lease)
        assert await find(frontier) == Whereabouts("done")

    async def test_a_redirected_url_is_where_its_task_is(self, frontier: Frontier) -> None:
        target = "http://a.test/target"
        await start_job(frontier, [make_task(URL)])
        [lease] = (await claim(frontier)).leases
        await settle(frontier, lease, Moved(_redirected(lease.task, target)))
        for url in (URL, target):
            found = await find(frontier, url)
            assert found.place == "pending"
            assert found.task is not None
            assert found.task.url == target

    async def test_a_page_is_found_in_any_spelling(self, frontier: Frontier) -> None:
        published, asked = "http://a.test/?b=2&a=1", "http://a.test/?a=1&b=2"
        target = "http://a.test/target"
        await start_job(frontier, [make_task(published, fingerprint=fingerprint(asked))])
        assert (await find(frontier, asked)).place == "pending"
        [lease] = (await claim(frontier)).leases
        assert (await find(frontier, asked)).place == "leased"
        moved = replace(_redirected(lease.task, target), trail=(fingerprint(asked),))
        await settle(frontier, lease, Moved(moved))
        assert (await find(frontier, asked)).place == "pending"
        [lease] = (await claim(frontier)).leases
        assert lease.task.trail == moved.trail
        await settle(frontier, lease, Retry(30.0, FAILED))
        assert (await find(frontier, asked)).place == "delayed"
        found = await find(frontier, target)
        assert found.task is not None
        assert found.task.url == target

    async def test_a_dead_page_is_found_in_any_spelling(self, frontier: Frontier) -> None:
        published, asked = "http://a.test/?b=2&a=1", "http://a.test/?a=1&b=2"
        await start_job(frontier, [make_task(published, fingerprint=fingerprint(asked))])
        [lease] = (await claim(frontier)).leases
        await settle(frontier, lease, Dead(Failure("http_404")))
        found = await find(frontier, asked)
        assert found.place == "dead"
        assert found.task is not None
        assert found.task.url == published

    async def test_the_queues_of_a_host(self, frontier: Frontier) -> None:
        await frontier.open_job(spec("one"))
        await frontier.open_job(spec("two"))
        await frontier.add("one", [make_task(f"http://a.test/{n}") for n in range(3)])
        await frontier.add("one", [make_task("http://a.test/u", lane="urgent"), make_task("http://b.test/")])
        await frontier.add("two", [make_task("http://a.test/1"), make_task("http://a.test/2")])
        [lease] = (await claim(frontier, 1, jobs=["two"])).leases
        await settle(frontier, lease, Retry(30.0, FAILED))
        assert list(await frontier.host_queues("a.test")) == [
            HostQueue("one", "normal", 3, 0),
            HostQueue("one", "urgent", 1, 0),
            HostQueue("two", "normal", 1, 1),
        ]
        assert list(await frontier.host_queues("nowhere.test")) == []


def _redirected(task: Task, url: str) -> Task:
    return replace(
        task, url=url, host=host_key(url), hops=(*task.hops, task.url), fingerprint=fingerprint(url)
    )
