"""Pages of hosts that were given up, in a store that goes back: what was brought back is dead again."""

from __future__ import annotations

from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.values import HUSH, Cursor
from shoal.hosts.given_up import KIND, GivenUpPages
from shoal.model import Dead, Failure, Task
from shoal.testing import ManualClock
from shoal.testing.conformance.tools import claim, counted, make_task, settle, spec


async def dead_pages(frontier: MemoryFrontier, *urls: str) -> list[Task]:
    await frontier.open_job(spec())
    await frontier.add("job", [make_task(url) for url in (*urls, "http://other.test/")], Cursor(fed_all=True))
    leases = [lease for lease in (await claim(frontier)).leases if lease.task.host == "down.test"]
    for lease in leases:
        await settle(frontier, lease, Dead(Failure(KIND, "given up")))
    return [lease.task for lease in leases]


async def dead(frontier: MemoryFrontier) -> int:
    return (await counted(frontier)).counters.dead


async def test_pages_of_a_host_that_answered_come_back_again() -> None:
    frontier = MemoryFrontier(ManualClock())
    buried = GivenUpPages(frontier)
    for task in await dead_pages(frontier, "http://down.test/1", "http://down.test/2"):
        buried.bury(task, 5.0)
    saved = frontier.saved()
    buried.answered("down.test")
    await buried.replay()
    assert await dead(frontier) == 0

    frontier.go_back(saved)
    buried.forget()
    await buried.replay()
    assert await dead(frontier) == 0


async def test_pages_of_a_host_that_was_given_up_again_stay_where_they_are() -> None:
    clock = ManualClock()
    frontier = MemoryFrontier(clock)
    buried = GivenUpPages(frontier)
    [task] = await dead_pages(frontier, "http://down.test/1")
    buried.answered("down.test")
    await buried.replay()
    clock.advance(HUSH)
    [lease] = (await claim(frontier)).leases
    await settle(frontier, lease, Dead(Failure(KIND, "given up")))
    buried.bury(task, 5.0)

    buried.forget()
    await buried.replay()
    assert await dead(frontier) == 1


async def test_a_probe_that_was_forgotten_is_made_again() -> None:
    frontier = MemoryFrontier(ManualClock())
    buried = GivenUpPages(frontier)
    [task, *_] = await dead_pages(frontier, "http://down.test/1", "http://down.test/2")
    buried.bury(task, 5.0)
    saved = frontier.saved()
    await buried.probe(6.0)
    assert await dead(frontier) == 1

    frontier.go_back(saved)
    await buried.probe(6.0)
    assert await dead(frontier) == 2, "nobody has said that the store went back"
    buried.forget()
    await buried.probe(6.0)
    assert await dead(frontier) == 1
