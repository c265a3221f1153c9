"""Pages that dead workers hold: what is said while they keep the places of their hosts."""

from __future__ import annotations

import pytest

from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.values import Claim, JobSpec
from shoal.inspect.held_back import find_holdups
from shoal.inspect.held_pages import HeldPages
from shoal.inspect.json_form import overview_dict
from shoal.inspect.lookup import look_at_host
from shoal.inspect.overview import Overview, look
from shoal.inspect.why import answers_about
from shoal.jobs.note import write_note
from shoal.jobs.worker_status import WorkerStatus, encode_status
from shoal.settings import Settings
from shoal.terminal.status_view import Frame, render
from shoal.testing import ManualClock
from shoal.testing.conformance.tools import make_task
from shoal.valve import Valve

CAP = 8
SETTINGS = Settings(robots=False, rate=150.0, per_host=CAP)
SENTENCE = "8 pages are held by workers that are gone or silent; they are handed out again in at most 41 s"


def status(in_flight: int = 0, pid: int = 0, **fields: int) -> bytes:
    """Of a worker of another machine, whose process nobody here can look for."""
    said = WorkerStatus(pid, node="far", jobs=("shop",), in_flight=in_flight, slots=64, lanes=("normal",))
    return encode_status(said)


async def crawl(clock: ManualClock, held: int = CAP) -> MemoryFrontier:
    """One host with 1,000 pages, of which a worker took some that was killed 19 seconds ago."""
    frontier = MemoryFrontier(clock)
    valve = Valve(interval=1 / 150, cap=CAP)
    await frontier.open_job(JobSpec("shop", valve=valve, settings=write_note(b"", SETTINGS)))
    await frontier.add("shop", [make_task(f"http://shop.test/{n}") for n in range(1000)])
    while held:
        claimed = await frontier.claim(Claim("dead", ["shop"], {"normal": held}, held, lease_seconds=60))
        held -= len(claimed.leases)
        clock.advance(1 / 150)
    clock.advance(19)
    return frontier


async def test_places_held_by_the_dead_are_the_reason() -> None:
    clock = ManualClock()
    frontier = await crawl(clock)
    await frontier.extend("alive", 60, status())
    overview = await look(frontier)
    assert overview.pace == SENTENCE
    assert overview.in_flight == overview.jobs[0].job.counters.leased == CAP
    [host] = (await find_holdups(frontier, overview, 5.0)).hosts
    assert host.why == SENTENCE
    shown = overview_dict(overview, await find_holdups(frontier, overview, 5.0))
    assert (shown["pace"], shown["slowest_hosts"][0]["needs"]) == (SENTENCE, None)
    assert needs(await drawn(frontier, overview)) == "-"
    view, _ = await look_at_host(frontier, "shop.test")
    assert view.held is not None
    assert view.held.pages == CAP
    assert view.held.until - view.now == pytest.approx(41, abs=0.5)


async def test_why_says_who_has_the_places_and_promises_no_time() -> None:
    clock = ManualClock()
    frontier = await crawl(clock)
    await frontier.extend("alive", 60, status())
    [answer] = await answers_about(frontier, "http://shop.test/999", None)
    first, turn = [cause.sentence for cause in answer.causes]
    assert first == f"not fetched yet: host shop.test: {SENTENCE}"
    assert turn == "then it waits for its host's turn: 991 URLs before it"


async def test_it_is_as_usual_once_the_leases_have_run_out() -> None:
    clock = ManualClock()
    frontier = await crawl(clock)
    clock.advance(45)
    await frontier.extend("alive", 60, status(in_flight=1))
    [lease] = (await frontier.claim(Claim("alive", ["shop"], {"normal": 1}, 1))).leases
    overview = await look(frontier)
    assert overview.pace.startswith("the limits of the hosts set the pace: 1 of 64 slots are used")
    assert "held" not in overview.pace
    [host] = (await find_holdups(frontier, overview, 5.0)).hosts
    assert host.why == "999 pages to go, 150 a second at most"
    assert needs(await drawn(frontier, overview)) != "-"
    await frontier.release([lease])


async def test_a_worker_that_is_heard_holds_its_pages_itself() -> None:
    """What it says is a moment old: it has taken pages since."""
    clock = ManualClock()
    frontier = await crawl(clock)
    await frontier.extend("dead", 60, status(in_flight=2))  # it is not
    overview = await look(frontier)
    assert (overview.held, overview.in_flight) == ({}, 2)
    assert overview.pace.startswith("the limits of the hosts set the pace: 2 of 64 slots are used")


async def test_a_worker_that_fell_silent_does_not_count_as_being_at_work() -> None:
    clock = ManualClock()
    frontier = await crawl(clock)
    await frontier.extend("dead", 60, status(in_flight=CAP, pid=7))
    clock.advance(19)
    await frontier.extend("alive", 60, status(pid=8))
    overview = await look(frontier)
    assert overview.pace == SENTENCE
    assert overview.in_flight == CAP, "each is counted once"
    [answer] = await answers_about(frontier, "http://shop.test/0", None)
    assert answer.causes[0].sentence.startswith("its worker cannot be heard: it was taken 38 s ago")


async def test_places_that_are_left_are_used() -> None:
    """Some of the places are held: the others go on, and the sentence tells both."""
    clock = ManualClock()
    frontier = await crawl(clock, held=3)
    await frontier.extend("alive", 60, status())
    while sum(job.counters.leased for job in await frontier.jobs()) < CAP:
        await frontier.claim(Claim("alive", ["shop"], {"normal": 1}, 1))
        clock.advance(1 / 150)
    await frontier.extend("alive", 60, status(in_flight=5))
    overview = await look(frontier)
    limits, _, held = overview.pace.partition("; ")
    assert limits.startswith("the limits of the hosts set the pace: 5 of 64 slots are used")
    assert (
        held
        == "3 pages are held by workers that are gone or silent; they are handed out again in at most 41 s"
    )
    [host] = (await find_holdups(frontier, overview, 5.0)).hosts
    assert host.why == "992 pages to go, 150 a second at most"


@pytest.mark.parametrize(
    ("held", "words"),
    [
        (HeldPages(1, 70.0), "1 page is held by {}; it is handed out again in at most 60 s"),
        (HeldPages(2, 10.5), "2 pages are held by {}; they are handed out again at any moment"),
        (HeldPages(2, 3.0), "2 pages are held by {}; they are handed out again at any moment"),
    ],
)
def test_the_sentence(held: HeldPages, words: str) -> None:
    assert held.sentence(10.0) == words.format("workers that are gone or silent")


async def drawn(frontier: MemoryFrontier, overview: Overview) -> list[str]:
    from rich.console import Console

    console = Console(width=160, force_terminal=False, color_system=None)
    frame = Frame("store", overview, await find_holdups(frontier, overview, 5.0))
    with console.capture() as capture:
        console.print(render(frame, 160))
    return capture.get().splitlines()


def needs(lines: list[str]) -> str:
    """The column of the host's row."""
    return next(line for line in lines if line.startswith("shop.test")).split()[3]
