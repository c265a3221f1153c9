"""One look at a whole store: what it adds up, what it costs, and how it is drawn."""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

from shoal.engine.history import History, Slice
from shoal.engine.history_recorder import HistoryRecorder
from shoal.engine.tally import Tally
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.values import Claim, Counters, Job, JobSpec
from shoal.hosts.host_limits import HostRules
from shoal.hosts.host_state import HostState, Manual
from shoal.inspect.event_log import Event
from shoal.inspect.held_back import Holdups, find_holdups
from shoal.inspect.overview import JobView, LaneLoad, Overview, Throttled, look, look_at_flights
from shoal.jobs.note import write_note
from shoal.jobs.worker_status import WorkerStatus, encode_status
from shoal.model import Dead, Done, Failure, Response, Retry, Settlement
from shoal.policy.backpressure import Reason
from shoal.policy.breaker import BreakerState
from shoal.settings import Settings
from shoal.terminal.status_view import Frame, Section, allot, render
from shoal.testing import ManualClock
from shoal.testing.conformance.tools import make_task
from shoal.valve import FOREVER, Valve

SETTINGS = Settings(robots=False)
RULES = HostRules(SETTINGS)


# -- asking sparingly


async def test_what_is_found_out_quickly_is_asked_for_every_few_seconds() -> None:
    clock = ManualClock()
    asked = Throttled(-1, clock=clock.monotonic)
    answers = iter(range(10))

    async def ask() -> int:
        return next(answers)

    assert [await asked.get(ask), await asked.get(ask)] == [0, 0]
    clock.advance(1.9)
    assert await asked.get(ask) == 0
    clock.advance(0.2)
    assert await asked.get(ask) == 1


async def test_what_takes_long_is_asked_for_rarely() -> None:
    clock = ManualClock()
    asked = Throttled(-1, clock=clock.monotonic)
    times = Counter[str]()

    async def ask() -> int:
        times["asked"] += 1
        clock.advance(0.5)
        return times["asked"]

    for _ in range(240):
        await asked.get(ask)
        clock.advance(0.5)
    assert 4 <= times["asked"] <= 6, "120 seconds, half a second each: a fiftieth of the time"


async def test_an_error_is_not_an_answer() -> None:
    asked = Throttled(-1)

    async def fail() -> int:
        raise OSError

    async def answer() -> int:
        return 7

    with pytest.raises(OSError):
        await asked.get(fail)
    assert await asked.get(answer) == 7


async def test_nobody_waits_longer_than_they_have_patience() -> None:
    asked = Throttled(-1, patience=0.01)
    found = asyncio.Event()

    async def ask() -> int:
        await found.wait()
        return 7

    async def ask_again() -> int:
        raise AssertionError("it is being asked already")

    assert await asked.get(ask) == -1
    assert await asked.get(ask_again) == -1
    found.set()
    async with asyncio.timeout(10):
        while await asked.get(ask_again) != 7:
            pass


# -- looking


def status(pid: int, **fields: Any) -> bytes:
    return encode_status(WorkerStatus(pid=pid, node="box", **fields))


async def test_a_look_adds_up_what_is_open() -> None:
    frontier = MemoryFrontier()
    for name in ("books", "prices", "given-up"):
        await frontier.open_job(JobSpec(name))
    await frontier.add("books", [make_task(f"http://h{n}.test/") for n in range(5)])
    await frontier.add("prices", [make_task("http://h1.test/p", lane="urgent")])
    await frontier.add("given-up", [make_task("http://h9.test/")])
    await frontier.set_state("prices", "paused")
    await frontier.set_state("given-up", "cancelled")
    leases = (await frontier.claim(Claim("w", ["books"], {"normal": 3}, 3))).leases
    verdicts = [Done(), Dead(Failure("http_404")), Retry(60.0, Failure("timeout"))]
    await frontier.settle([Settlement(*pair) for pair in zip(leases, verdicts, strict=True)])
    reason = Reason("memory", "memory is short: 70% of the slots in use")
    await frontier.extend("one", 60, status(1, in_flight=4, flights={"normal": 4}, rates={"books": 2.0}))
    await frontier.extend("two", 60, status(2, in_flight=1, flights={"urgent": 1}, pressure=(reason,)))
    seen = await look(frontier)
    assert seen.lanes == {"normal": LaneLoad(2, 4), "urgent": LaneLoad(1, 1)}
    assert (seen.pending, seen.delayed, seen.done, seen.dead) == (3, 1, 1, 1), (
        "what is cancelled is not waited for"
    )
    assert (seen.rate, seen.in_flight, len(seen.workers)) == (2.0, 5, 2)
    [held] = seen.pressure
    assert (held.rule, held.worker, held.sentence) == ("memory", "box/2", reason.sentence)
    assert seen.success is None


async def test_the_success_is_that_of_the_last_minutes() -> None:
    clock = ManualClock()
    frontier = MemoryFrontier(clock)
    await frontier.open_job(JobSpec("books"))
    tally, now = Tally(), await frontier.now()
    recorder = HistoryRecorder(frontier, "books", tally, lambda: now)
    await recorder.open()
    tally.failed("h.test", Failure("timeout", elapsed=1.0), retry=True)
    await recorder.write_if_due(everything=True)
    now += 1000
    clock.advance(1000)
    for _ in range(9):
        tally.fetched("h.test", Response("", 200, {}, b""))
        tally.handled("h.test")
    tally.failed("h.test", Failure("timeout", elapsed=1.0), retry=True)
    await recorder.write_if_due(everything=True)
    seen = await look(frontier)
    assert seen.success == pytest.approx(0.9)
    assert seen.past.total().pages == 9


class Counting:
    """A frontier that counts what is asked of it."""

    def __init__(self, frontier: MemoryFrontier) -> None:
        self._frontier = frontier
        self.asked: Counter[str] = Counter()

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        self.asked[verb] += 1
        found: Callable[..., Any] = getattr(self._frontier, verb)
        return found


async def test_a_look_costs_about_a_dozen_reads_however_many_hosts_there_are() -> None:
    home = MemoryFrontier()
    await home.open_job(JobSpec("books"))
    await home.add("books", [make_task(f"http://h{n}.test/") for n in range(300)])
    await home.extend("one", 60, status(1, rates={"books": 2.0}))
    frontier: Any = Counting(home)
    first = await look(frontier)
    assert frontier.asked["queues"] == 1
    assert len(first.jobs[0].slow) == 20
    frontier.asked.clear()
    again = await look(frontier)
    assert again.jobs[0].eta == pytest.approx(150, rel=0.1)
    assert frontier.asked.total() <= 12, frontier.asked
    assert not frontier.asked.keys() & {"queues", "hosts", "host", "host_queues"}


@pytest.mark.parametrize(
    ("in_flight", "counters", "pace"),
    [
        (63, Counters(100, pending=37, leased=63), "the slots set the pace: 63 of 64 slots are used"),
        (
            2,
            Counters(100, pending=98, leased=2),
            "the limits of the hosts set the pace: 2 of 64 slots are used",
        ),
        (0, Counters(3, delayed=3), "what is left waits for its next try"),
        (2, Counters(2, leased=2), ""),
    ],
)
def test_what_sets_the_pace(in_flight: int, counters: Counters, pace: str) -> None:
    jobs = [JobView(Job(JobSpec("shop"), "running", counters, 0.0))]
    worker = WorkerStatus(slots=64, in_flight=in_flight)
    assert Overview(0.0, jobs, [worker], (), None).pace.startswith(pace)
    assert bool(Overview(0.0, jobs, [worker], (), None).pace) == bool(pace)
    held = WorkerStatus(slots=64, in_flight=in_flight, pressure=(Reason("memory", "it is short"),))
    assert not Overview(0.0, jobs, [held], (), None).pace, "a rule says more"


def test_the_progress_of_a_job_counts_what_is_through() -> None:
    def progress(max_pages: int = 0, **counters: int) -> float | None:
        return JobView(Job(JobSpec("x", max_pages=max_pages), "running", Counters(**counters), 0.0)).progress

    assert progress() is None
    assert progress(pending=6, leased=1, done=2, dead=1) == 0.3
    assert progress(100, pending=600, done=50) == 0.5, "the budget ends it before its queue does"
    assert progress(done=4, dead=1) == 1.0


# -- what holds it back


async def test_the_hosts_that_hold_it_back_say_why() -> None:
    clock = ManualClock()
    frontier = MemoryFrontier(clock)
    valve = Valve(interval=0.5)
    await frontier.open_job(JobSpec("books", valve=valve, settings=write_note(b"", SETTINGS)))
    await frontier.add("books", [make_task(f"http://long.test/{n}") for n in range(100)])
    await frontier.add("books", [make_task(f"http://{name}.test/") for name in ("open", "by-hand", "down")])
    now = await frontier.now()
    await remember(
        frontier,
        "open.test",
        HostState(),
        **{"breaker@http": BreakerState("open", now + 40, reason="it is ill")},
    )
    by_hand = Manual(blocked_until=FOREVER, reason="nightly backup")
    await remember(frontier, "by-hand.test", HostState(manual=by_hand))
    found = await find_holdups(frontier, await look(frontier), 5.0)
    why = {one.host.name: one.why for one in found.hosts}
    assert [*why][:3] == ["by-hand.test", "long.test", "open.test"]
    assert why["long.test"] == "100 pages to go, 2 a second at most"
    assert why["by-hand.test"] == "is blocked by hand until it is unblocked (nightly backup)"
    assert why["open.test"].startswith("is cooling down: it is ill, next probe in 40 s")
    assert found.conditions == {"healthy": 2, "cooling down": 1, "blocked": 1}
    through = {one.host.name: one.through - now for one in found.hosts}
    assert (through["long.test"], through["by-hand.test"]) == (pytest.approx(50), math.inf)


async def test_a_reason_does_not_repeat_the_name_that_stands_beside_it() -> None:
    frontier = MemoryFrontier()
    settings = write_note(b"", Settings())  # which ask for robots.txt
    await frontier.open_job(JobSpec("books", valve=Valve(interval=0.5), settings=settings))
    await frontier.add("books", [make_task(f"http://a.test/{n}") for n in range(100)])
    [host] = (await find_holdups(frontier, await look(frontier), 5.0)).hosts
    assert (host.host.name, host.why) == ("a.test", "robots.txt comes first: it has not been asked for yet")


async def test_a_store_with_nothing_to_do_has_no_holdups() -> None:
    frontier = MemoryFrontier()
    await frontier.open_job(JobSpec("books"))
    await frontier.add("books", [make_task("http://h.test/")])
    await frontier.set_state("books", "cancelled")
    assert (await find_holdups(frontier, await look(frontier), 5.0)).hosts == ()


async def remember(frontier: MemoryFrontier, host: str, state: HostState, **policies: object) -> None:
    record, now = await frontier.host(host), await frontier.now()
    assert record is not None
    encoded = RULES.policies.encode({**RULES.policies.initial(), **policies})
    state = replace(state, policies=encoded)
    assert await frontier.update_host(RULES.applied(record, state, now))


# -- drawing


def drawn(frame: Frame, width: int, height: int | None) -> list[str]:
    console = Console(width=width, height=height or 1000, force_terminal=False, color_system=None)
    with console.capture() as capture:
        console.print(render(frame, width, height))
    return capture.get().splitlines()


def section(rows: int, least: int = 2) -> Section:
    return Section(rows, least, lambda _: "")


@pytest.mark.parametrize(
    ("rows", "lines", "given"),
    [
        ((5, 5), None, [5, 5]),
        ((5, 5), 20, [5, 5]),
        ((5, 5), 8, [2, 2]),
        ((5, 5), 10, [3, 3]),
        ((1, 5), 10, [1, 5]),
        ((5, 5), 5, [3, 0]),
        ((5, 0, 5), 11, [4, 0, 3]),
        ((5, 5), 2, [0, 0]),
        ((5, 5), -3, [0, 0]),
    ],
)
def test_the_room_is_shared_out(rows: tuple[int, ...], lines: int | None, given: list[int]) -> None:
    sections = [section(n) for n in rows]
    assert allot(sections, lines) == given
    assert lines is None or sum(2 + n for n in given if n) <= max(lines, 0)


def busy_frame() -> Frame:
    now = 1_800_000_000.0
    jobs = [
        JobView(
            Job(
                JobSpec(f"a-job-with-a-rather-long-name-{n}"), "running", Counters(9000, 4000, done=5000), now
            ),
            12.0,
            3600.0,
            3,
        )
        for n in range(30)
    ]
    workers = [
        WorkerStatus(
            pid=4000 + n, node="machine.example", slots=64, pressure=(Reason("memory", "it is short " * 9),)
        )
        for n in range(40)
    ]
    events = [Event("job_started", "info", "job x starts " * 12, {}, now - n, n) for n in range(50)]
    past = History(slices={int(now) - n: Slice(pages=n % 7) for n in range(5, 300)})
    lanes = {f"lane-{n}": LaneLoad(10**6, 5) for n in range(9)}
    overview = Overview(now, jobs, workers, (), None, lanes, 0.93, past)
    return Frame("redis://valkey.example:6379/0", overview, Holdups(), events, live="top")


@pytest.mark.parametrize(("width", "height"), [(80, 24), (140, 40), (60, 14), (40, 8), (20, 5), (300, 100)])
def test_it_fits_the_screen(width: int, height: int) -> None:
    lines = drawn(busy_frame(), width, height)
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    assert "q leaves" in lines[0]
    if height >= 24:
        text = "\n".join(lines)
        for word in ("93.0 % success", "a-job-with", "held back", "lane-1", "worker (", "job x starts", "█"):
            assert word in text


@pytest.mark.slow
def test_a_pipe_gets_every_job_and_the_latest_events() -> None:
    lines = drawn(busy_frame(), 120, None)
    assert sum("a-job-with" in line for line in lines) == 30
    assert sum("job x starts" in line for line in lines) == 12


def test_only_a_fleet_misses_its_coordinator() -> None:
    frame = busy_frame()
    assert "coordinator" not in "\n".join(drawn(frame, 140, 40))
    fleet = [replace(worker, spiders=("books",)) for worker in frame.overview.workers]
    frame = replace(frame, overview=replace(frame.overview, workers=fleet))
    assert "no coordinator: start one with" in "\n".join(drawn(frame, 140, 40))
    assert "no coordinator: start one with: shoal coordinator FILE.py" in "\n".join(drawn(frame, 80, 40))


async def test_pages_in_flight_are_shown_without_secrets() -> None:
    clock = ManualClock()
    frontier = MemoryFrontier(clock)
    await frontier.open_job(JobSpec("books", valve=Valve(cap=9)))
    await frontier.add("books", [make_task(f"http://me:secret@h{n}.test/{n}") for n in range(3)])
    leases = (await frontier.claim(Claim("w1", ["books"], {"normal": 9}, 9))).leases
    await frontier.extend("w1", 60, encode_status(WorkerStatus(pid=7, node="far")))
    clock.advance(42)
    found = await look_at_flights(frontier, 2)
    assert [(one.url, one.pid, one.machine, one.seconds, one.attempt, one.lane) for one in found] == [
        (lease.task.url.replace("me:secret@", ""), 7, "far", 42.0, 1, "normal") for lease in leases[:2]
    ]
    frame = Frame("store", await look(frontier), flights=found)
    for width in (60, 120):
        lines = "\n".join(drawn(frame, width, 40))
        assert re.search(r"books +42 s .*http://h0\.test/0", lines)
        assert "secret" not in lines
    clock.advance(60)
    [gone, _] = await look_at_flights(frontier, 2)
    assert (gone.pid, gone.worker) == (0, "w1")


def test_several_versions_are_shown_side_by_side() -> None:
    frame = busy_frame()
    versions = [replace(worker, version="0.1.0") for worker in frame.overview.workers]
    frame = replace(frame, overview=replace(frame.overview, workers=versions))
    assert "version" not in "\n".join(drawn(frame, 140, 60))
    versions[:3] = [replace(worker, version="0.2.0") for worker in versions[:3]]
    lines = "\n".join(drawn(frame, 140, 60))
    assert "several versions of Shoal work here: 37 workers of 0.1.0, 3 workers of 0.2.0" in lines
    assert re.search(r"worker \(\d+ of 40\) +machine +version", lines)


def test_an_empty_store_says_what_to_do() -> None:
    overview = Overview(0.0, (), (), (), None)
    lines = drawn(Frame("empty.db", overview), 80, 24)
    assert lines[-1].strip() == "no jobs in this store yet; start one with: shoal crawl URL"


def test_words_from_elsewhere_are_text() -> None:
    frame = busy_frame()
    hostile = "\x1b[2J[red]no[/red]"
    job = frame.overview.jobs[0]
    job = replace(job, job=replace(job.job, spec=JobSpec(hostile), state="paused"), trouble=hostile)
    events = [Event("job_started", "error", hostile, {}, 0.0, 1)]
    frame = replace(frame, overview=replace(frame.overview, jobs=[job]), events=events, trouble=hostile)
    text = "\n".join(drawn(frame, 120, None))
    assert "\x1b" not in text
    assert text.count("\ufffd[2J[red]no[/red]") == 5


async def test_a_worker_that_fell_silent_is_shown_as_such() -> None:
    clock = ManualClock()
    frontier = MemoryFrontier(clock)
    await frontier.open_job(JobSpec("books"))
    said = WorkerStatus(pid=7, node="far", jobs=("books",), rates={"books": 5.0}, slots=9)
    await frontier.extend("w1", 60, encode_status(said))
    assert (await look(frontier)).rate == 5.0
    clock.advance(20)
    overview = await look(frontier)
    assert overview.rate == 0.0
    assert "silent 20 s" in "\n".join(drawn(Frame("store", overview), 100, 30))
