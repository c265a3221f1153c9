"""Slots: who works, who waits, and that a page that comes back has its turn."""

from __future__ import annotations

import asyncio

import pytest

from shoal.fetch import slots as module
from shoal.fetch.slots import PageSlot, Slots, in_the_network, take_slot, waiting

LANE = "normal"


class Freed:
    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


def make(limit: int, *, most_waiting: int = 1_000, freed: Freed | None = None) -> Slots:
    return Slots(limit, per_slot=8, most_waiting=most_waiting, on_free=freed or Freed())


async def settle() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def returning(place: PageSlot) -> asyncio.Task[None]:
    task = asyncio.create_task(place.take())
    await settle()
    return task


# -- counting


async def test_a_page_that_waits_holds_no_slot() -> None:
    freed = Freed()
    slots = make(2, freed=freed)
    one, two = slots.enter(LANE), slots.enter("urgent")
    assert slots.free(2) == 0
    one.give_up()
    one.give_up()
    assert (slots.free(2), slots.working, slots.waiting, freed.times) == (1, 1, 1, 1)
    assert dict(slots.waiting_in) == {LANE: 1}
    two.leave()
    one.leave()
    one.leave()
    assert (slots.free(2), slots.working, slots.waiting) == (2, 0, 0)


async def test_pages_that_wait_are_bounded() -> None:
    slots = make(2)
    for held in range(16):
        slots.enter(LANE).give_up()
        assert slots.free(2) == 2, held
    slots.enter(LANE).give_up()
    assert slots.free(2) == 1
    slots.enter(LANE).give_up()
    assert slots.free(2) == 0
    assert slots.free(1) < 0, "with fewer slots, fewer may wait"


async def test_the_bound_that_open_files_set() -> None:
    slots = make(64, most_waiting=3)
    for _ in range(5):
        slots.enter(LANE).give_up()
    assert slots.free(64) == 62


# -- coming back


async def test_it_comes_back_when_a_slot_is_free_and_in_turn() -> None:
    slots = make(1)
    first, second = slots.enter(LANE), slots.enter(LANE)
    first.give_up()
    second.give_up()
    worker = slots.enter(LANE)
    tasks = [await returning(second), await returning(first)]
    assert not any(task.done() for task in tasks)
    worker.leave()
    assert slots.free(1) == 0, "the slot is the returning page's, though its task has not run yet"
    await settle()
    assert [task.done() for task in tasks] == [True, False], "who asked first"
    second.leave()
    await settle()
    assert tasks[1].done()
    assert (slots.working, slots.waiting) == (1, 0)


async def test_it_keeps_the_slot_that_it_has_taken() -> None:
    slots = make(1)
    place = slots.enter(LANE)
    await place.take()
    place.give_up()
    assert (slots.working, slots.waiting) == (1, 0)


async def test_more_slots_let_pages_come_back() -> None:
    slots = make(1)
    place = slots.enter(LANE)
    place.give_up()
    slots.enter(LANE)
    task = await returning(place)
    assert slots.free(3) == 1
    await settle()
    assert task.done()


@pytest.mark.parametrize("handed_over", [False, True])
async def test_a_page_that_is_cancelled_on_its_way_back_loses_no_slot(handed_over: bool) -> None:
    slots = make(1)
    place = slots.enter(LANE)
    place.give_up()
    worker = slots.enter(LANE)
    task = await returning(place)
    if handed_over:
        worker.leave()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    place.leave()
    worker.leave()
    assert (slots.free(1), slots.working, slots.waiting) == (1, 0, 0)


# -- large bodies


async def grown(place: PageSlot, size: int) -> asyncio.Task[None]:
    task = asyncio.create_task(place.grow(size))
    await settle()
    return task


async def test_pages_that_wait_share_the_room_for_large_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROOM", 1000)
    slots = make(1)
    first, second, third = (slots.enter(LANE) for _ in range(3))
    for place in (first, second):
        place.give_up()
    assert (await grown(first, 600)).done()
    assert (await grown(first, 700)).done()
    task = await grown(second, 400)
    assert not task.done(), "it needs a slot"
    third.leave()
    await settle()
    assert task.done()
    assert (slots.working, slots.waiting) == (1, 1)
    first.leave()
    second.give_up()
    assert (slots.working, slots.waiting) == (0, 1), "there is room again"
    second.leave()
    assert slots._room == 1000


async def test_a_page_keeps_its_slot_while_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROOM", 1000)
    monkeypatch.setattr(module, "PATIENCE", 0.01)
    freed = asyncio.Event()
    slots = Slots(9, per_slot=8, most_waiting=9, on_free=freed.set)
    large, other = slots.enter(LANE), slots.enter(LANE)
    await large.grow(900)
    large.give_up()
    freed.clear()
    await other.grow(200)
    other.give_up()
    assert (slots.working, slots.waiting) == (1, 1)
    large.leave()
    async with asyncio.timeout(60):
        await freed.wait()
    assert (slots.working, slots.waiting) == (0, 1), "it has tried again"
    other.leave()
    assert slots._room == 1000


# -- as pages use it


async def test_without_a_place_nothing_happens() -> None:
    with waiting(), in_the_network():
        await take_slot()


async def test_a_lookup_gives_the_slot_up_at_once() -> None:
    slots = make(1)
    place = slots.enter(LANE)
    place.occupy()
    with waiting():
        assert slots.waiting == 1
    assert slots.working == 1
    with waiting():
        slots.enter(LANE)
    assert (slots.working, slots.waiting) == (1, 1), "somebody else has it now; it goes on without"


async def test_a_slow_answer_gives_it_up_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.01)
    freed = asyncio.Event()
    slots = Slots(1, per_slot=8, most_waiting=9, on_free=freed.set)
    place = slots.enter(LANE)
    place.occupy()
    async with asyncio.timeout(60):
        with in_the_network():
            assert slots.working == 1
            await freed.wait()
            with waiting():
                freed.clear()
            assert slots.working == 1, "a name that was found: it has a slot again"
            await freed.wait()
        assert slots.waiting == 1
        await take_slot()
    assert (slots.working, slots.waiting) == (1, 0)


async def test_while_the_loop_is_late_nobody_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page waits for our own processor then, and more pages would make all of them slower."""
    monkeypatch.setattr(module, "PATIENCE", 0.01)
    clock = [0.0]
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: clock[0])
    slots = make(1)
    slots.enter(LANE).give_up_later()
    clock[0] += 0.01 + 2 * module.LATE
    await settle()
    assert slots.working == 1
    clock[0] += 0.011
    await settle()
    assert slots.waiting == 1, "it is not late any more"


async def test_each_page_is_given_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though one timer is for all."""
    clock = [0.0]
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: clock[0])
    gave_up: list[PageSlot] = []
    monkeypatch.setattr(PageSlot, "give_up", lambda page: gave_up.append(page))
    slots = make(9)
    first, quick, again, late, last = (slots.enter(LANE) for _ in range(5))
    for page in (first, quick, again):
        page.give_up_later()
    quick.stay()
    clock[0] = 0.02
    for page in (late, again, last):
        page.give_up_later()
    for clock[0], wanted in (
        (0.04, []),
        (0.051, [first]),
        (0.06, [first]),
        (0.071, [first, late, again, last]),
    ):
        await settle()
        assert gave_up == wanted


async def test_a_quick_answer_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.0)
    slots = make(1)
    slots.enter(LANE).occupy()
    with in_the_network():
        pass
    await settle()
    assert slots.working == 1


async def test_held_back_there_is_less_in_flight_though_it_only_waits() -> None:
    slots = make(limit=4)
    places = [slots.enter("normal") for _ in range(4)]
    for place in places:
        place.give_up()
    assert (slots.free(4), slots.free(2)) == (4, -2), "of four in flight, two may be"
    for place in places[:3]:
        place.leave()
    assert slots.free(2) == 1
    assert slots.free(4) == 4
