"""The reference home goes back: what it forgets, and what it must not."""

from __future__ import annotations

from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.values import HUSH, Cursor
from shoal.model import Done, Row, Settlement
from shoal.testing import ManualClock
from shoal.testing.conformance.tools import ListJournal, claim, counted, make_task, settle, spec
from shoal.valve import Valve

A, B = make_task("http://a.test/1"), make_task("http://b.test/1")


async def test_what_was_answered_since_has_not_happened() -> None:
    frontier, journal = MemoryFrontier(ManualClock()), ListJournal()
    await frontier.open_job(spec())
    await frontier.add("job", [A], Cursor(fed=1))
    [lease] = (await claim(frontier)).leases
    before, saved = await counted(frontier), frontier.saved()

    await frontier.settle([Settlement(lease, Done(), (B,), (Row(b"row\n", 7),))], journal)
    await frontier.add("job", [], Cursor(fed=2, fed_all=True))
    await frontier.set_note("note", b"", 0)
    frontier.go_back(saved)

    assert await counted(frontier) == before
    assert await frontier.host("b.test") is None
    assert await frontier.note("note") is None
    assert await frontier.journal_length("job", "list") is None
    assert await settle(frontier, lease, None, B)  # the lease is held again
    assert (await counted(frontier)).counters.admitted == 2


async def test_it_may_go_back_to_the_same_moment_twice() -> None:
    frontier = MemoryFrontier(ManualClock())
    await frontier.open_job(spec())
    saved = frontier.saved()
    for _ in range(2):
        assert (await frontier.add("job", [A])).new == 1
        frontier.go_back(saved)
    assert (await counted(frontier)).counters.admitted == 0


async def test_an_epoch_and_a_token_come_once() -> None:
    clock = ManualClock()
    frontier = MemoryFrontier(clock)
    await frontier.open_job(spec())
    await frontier.add("job", [A])
    saved, epoch = frontier.saved(), frontier.epoch
    [first] = (await claim(frontier)).leases

    frontier.go_back(saved)
    assert frontier.epoch != epoch
    clock.advance(HUSH)
    [second] = (await claim(frontier)).leases
    assert second.task == first.task
    assert second.token != first.token
    assert not await settle(frontier, first)
    assert await settle(frontier, second)


async def test_no_host_is_asked_before_its_interval_is_over() -> None:
    """Not one either that it has not heard of any more."""
    clock = ManualClock()
    frontier = MemoryFrontier(clock)
    await frontier.open_job(spec(valve=Valve(interval=10.0, cap=5)))
    saved = frontier.saved()
    await frontier.add("job", [A, B])
    assert len((await claim(frontier)).leases) == 2

    clock.advance(1.0)
    frontier.go_back(saved)
    await frontier.add("job", [A, B])
    assert (await claim(frontier)).next_due == 10.0
    clock.advance(9.9)
    assert not (await claim(frontier)).leases
    clock.advance(0.1)
    assert len((await claim(frontier)).leases) == 2


async def test_nothing_is_claimed_before_all_workers_can_have_heard_of_it() -> None:
    clock = ManualClock()
    frontier = MemoryFrontier(clock)
    await frontier.open_job(spec())
    await frontier.add("job", [A])
    frontier.go_back(frontier.saved())
    assert (await claim(frontier)).next_due == HUSH


async def test_a_feeder_of_another_epoch_is_told_to_read_again() -> None:
    frontier = MemoryFrontier(ManualClock())
    await frontier.open_job(spec())
    epoch = frontier.epoch
    frontier.go_back(frontier.saved())
    assert (await frontier.add("job", [A], Cursor(fed=1), epoch=epoch)).outdated
    assert (await counted(frontier)).fed == 0
    assert (await frontier.add("job", [A], Cursor(fed=1), epoch=frontier.epoch)).new == 1


async def test_a_settlement_of_another_epoch_changes_nothing() -> None:
    """The page has left a link out that was known when it was made."""
    frontier, journal = MemoryFrontier(ManualClock()), ListJournal()
    await frontier.open_job(spec())
    await frontier.add("job", [A])
    [lease] = (await claim(frontier)).leases
    before, epoch = await counted(frontier), frontier.epoch
    frontier.go_back(frontier.saved())
    batch = [Settlement(lease, Done(), rows=(Row(b"row\n"),))]

    settled = await frontier.settle(batch, journal, epoch=epoch)
    assert (settled.accepted, settled.outdated) == ([False], {0})
    assert await counted(frontier) == before
    assert journal.data == b""
    settled = await frontier.settle(batch, journal, epoch=frontier.epoch)
    assert (settled.accepted, settled.outdated) == ([True], frozenset())
