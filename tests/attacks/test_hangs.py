"""Pages that hold a process for ever: it is ended from outside, they end as `hung`, and everything else goes on."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from attacks.stage import LOOPBACK, RATE, Villain, honest_pages, html
from crash.fleet import SQLITE, Fleet
from crash.harness import ROWS, SHOAL, UNHURRIED, Desk, Process, alive, environment, family_of, until
from shoal.frontier.values import DeadFilter
from shoal.testing import WebProcess
from shoal.testing.servers import ValkeyServer

# Nothing in Python can interrupt these: one waits in the kernel, the others hold the interpreter's lock, one of them
# without taking a processor from the other tests. All pages wait first, so that many are under way when one of them
# hangs.
SPIDER = f"""
import asyncio, ctypes, re, time
from pathlib import Path
from shoal import Spider

c, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(100)
spider = Spider("site", start=Path(__file__).with_name("start.txt"), rate={RATE}, per_host=10, robots=False,
                min_timeout=30, allow_network=["{LOOPBACK}"])


@spider.handler
async def page(page):
    await asyncio.sleep(0.05)
    if not page.url.endswith("/calm"):
        Path(__file__).with_name("met").touch()
    if page.url.endswith("/sleep"):
        time.sleep(600)
    if page.url.endswith("/regex"):
        re.match(r"(a+)+$", "a" * 60 + "b")
    if page.url.endswith("/mutex"):
        c.pthread_mutex_lock(mutex)
        c.pthread_mutex_lock(mutex)  # for ever
    yield {{"url": page.url}}
    for request in page.follow_all("a"):
        yield request
"""
LINES = {"/sleep": "time.sleep(600)", "/regex": "re.match(", "/mutex": "# for ever"}
# Longer than a busy machine holds up a handler that is well; a process may be silent for two seconds more.
BRIEF = ("-s", "handler_timeout=4")
LONG = ("-s", "first_timeout=300", "-s", "total_timeout=300", "-s", "read_timeout=300")
BODY = html(b"<p>looks harmless")


async def hold(head: bytes, writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


@pytest.fixture
def villain() -> Iterator[Villain]:
    with Villain({"/sleep": BODY, "/regex": BODY, "/mutex": BODY, "/calm": BODY, "/hold": hold}) as villain:
        yield villain


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with Desk(tmp_path) as desk:
        yield desk


def targets(villain: Villain, *hanging: str) -> list[str]:
    return [villain.url(path) for path in (*hanging, "/calm")]


def fleet_of(desk: Desk, store: str, *urls: str) -> Fleet:
    fleet = Fleet(desk, store)
    desk.file("site.py", SPIDER)
    fleet.start_at(*urls)
    return fleet


def check(
    fleet: Fleet, web: WebProcess, villain: Villain, rows: list[str], attempts: int, *hanging: str
) -> None:
    """Everything was obtained but the two pages, which lie in the dead letters with the line that hung."""
    assert set(Counter(rows).values()) == {1}
    assert set(rows) == honest_pages(web) | {villain.url("/calm")}
    letters = {letter.task.url: letter for letter in fleet.ask(lambda frontier: frontier.dead(DeadFilter()))}
    assert set(letters) == {villain.url(path) for path in hanging}
    for path in hanging:
        letter, code = letters[villain.url(path)], LINES[path]
        line = next(number for number, line in enumerate(SPIDER.splitlines(), 1) if code in line)
        assert [failure.kind for failure in letter.task.history] == ["hung"] * attempts
        assert f"in page ({fleet.desk.folder}/site.py:{line})" in letter.task.history[-1].detail
        assert letter.snapshot is not None
        assert f'site.py", line {line} in page' in letter.snapshot.traceback
    counters = fleet.job().counters
    assert counters.retried == 2 * (attempts - 1), "the pages beside them have spent no attempt"


@pytest.mark.parametrize(("processes", "attempts", "page"), [("1", 1, "/regex"), ("2", 2, "/mutex")])
def test_a_crawl_outlives_its_hanging_pages(
    desk: Desk, web: WebProcess, villain: Villain, processes: str, attempts: int, page: str
) -> None:
    hanging = ("/sleep", page)
    fleet = fleet_of(desk, SQLITE, *web.start_urls, *targets(villain, *hanging))
    process = desk.finish(
        *("crawl", "site.py", "-o", ROWS, "--processes", processes, *BRIEF),
        *("-s", f"max_attempts={attempts}"),
    )
    check(fleet, web, villain, desk.urls(), attempts, *hanging)
    assert process.err.count("it was ended and is started again") == 2 * attempts, process.err


def test_a_fleet_outlives_its_hanging_pages(
    desk: Desk, web: WebProcess, villain: Villain, valkey: ValkeyServer
) -> None:
    """Two plain workers on Valkey, which take their patience from the job. What a dead one held is not kept until its
    leases run out."""
    hanging = ("/sleep", "/mutex")
    fleet = fleet_of(desk, valkey.url, *web.start_urls, *targets(villain, *hanging))
    fleet.submit("-s", "max_attempts=1", *BRIEF)
    fleet.coordinator()
    workers = [fleet.worker("--no-coordinator", "-s", "lease=600") for _ in range(2)]
    fleet.finishes()
    check(fleet, web, villain, fleet.urls(), 1, *hanging)
    for worker in workers:
        worker.signal(signal.SIGTERM)
        assert worker.code() == 0, worker.err


# -- ending a command that hangs


def hanging(desk: Desk, villain: Villain, *command: str) -> Process:
    """A command that has met a page that it never gets out of. Its patience with handlers is longer than ours."""
    fleet = fleet_of(desk, SQLITE, villain.url("/mutex"))
    if command[0] != "crawl":
        fleet.submit()
    process = desk.start(*command, "-s", "grace=0.5", "-s", "handler_timeout=300")
    until((desk.folder / "met").exists, "the page that hangs")
    return process


COMMANDS = [
    ("crawl", "site.py", "-o", ROWS),
    ("crawl", "site.py", "-o", ROWS, "--processes", "2"),
    ("worker", "site.py"),
    ("up", "site.py", "-n", "2"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_that_hangs_ends_when_it_is_told_to(
    desk: Desk, villain: Villain, command: tuple[str, ...]
) -> None:
    process = hanging(desk, villain, *command)
    family = family_of(process.pid)
    process.signal(signal.SIGTERM)
    process.code()
    assert not any(alive(pid) for pid in family)
    fleet = Fleet(desk, SQLITE)
    fleet.ask(lambda frontier: frontier.reap())
    assert fleet.job().counters.leased == 0


@pytest.mark.parametrize("command", COMMANDS[:2], ids=" ".join)
def test_a_killed_parent_takes_a_hanging_child_along(
    desk: Desk, villain: Villain, command: tuple[str, ...]
) -> None:
    process = hanging(desk, villain, *command)
    family = family_of(process.pid)
    assert family
    os.kill(process.pid, signal.SIGKILL)
    until(lambda: not any(alive(pid) for pid in family), "the end of the family")


# -- what must not be taken for a hang, and what must


def test_a_process_that_was_stopped_is_ended_and_replaced(desk: Desk, web: WebProcess) -> None:
    """It cannot even write down its stack."""
    fleet_of(desk, SQLITE, *web.start_urls)
    process = desk.start("crawl", "site.py", "-o", ROWS, *BRIEF)
    until(desk.size, "the first rows")
    os.kill(process.worker, signal.SIGSTOP)
    assert process.code() == 0, process.err
    assert process.err.count("it was ended and is started again") == 1
    assert set(desk.urls()) == honest_pages(web)
    assert len(desk.urls()) == len(honest_pages(web))


def test_a_command_that_slept_as_a_whole_goes_on(desk: Desk, web: WebProcess, villain: Villain) -> None:
    """As after Ctrl-Z and fg: nobody knows how long it was. Not even the handler that it slept in is late."""
    fleet_of(desk, SQLITE, *web.start_urls, villain.url("/calm"))
    desk.file(
        "site.py",
        SPIDER.replace(
            'if page.url.endswith("/sleep"):',
            """if page.url.endswith("/calm"):
        Path("begun").touch()
        while not Path("go").exists():
            time.sleep(0.001)
        time.sleep(0.5)
    if page.url.endswith("/sleep"):""",
        ),
    )
    # A busy machine needs seconds to see that it has begun.
    process = desk.start("crawl", "site.py", "-o", ROWS, "-s", "handler_timeout=5")
    until((desk.folder / "begun").exists, "the handler")
    process.freeze()
    desk.file("go", "")
    asleep = time.monotonic()
    until(lambda: time.monotonic() > asleep + 7.5, "longer than a process may be silent")
    process.thaw()
    assert process.code() == 0, process.err
    assert "ended" not in process.err
    assert "interrupting" not in process.err
    assert set(desk.urls()) == honest_pages(web) | {villain.url("/calm")}, desk.dead()


def test_a_slow_reader_of_its_output_is_waited_for(desk: Desk, web: WebProcess) -> None:
    """As `shoal crawl … 2>&1 | less`: the loop stands still for as long as the reader likes."""
    desk.file("site.py", SPIDER.replace('yield {"url"', 'print("x" * 100_000); yield {"url"'))
    desk.file("start.txt", "\n".join(web.start_urls) + "\n")
    # A busy machine needs a second for what the others print.
    command = [*SHOAL, "crawl", "site.py", "-o", ROWS, "-q", "-s", "handler_timeout=3"]
    with subprocess.Popen(command, cwd=desk.folder, env=environment(), stderr=subprocess.PIPE) as crawl:
        until((desk.folder / "met").exists, "the first page")
        began = time.monotonic()
        until(lambda: time.monotonic() > began + 6, "longer than a process may be silent")
        assert crawl.stderr is not None
        said = crawl.stderr.read()
        assert b"x\n" in said
        assert b"was ended" not in said
    assert crawl.returncode == 0, said
    # The one that printed may be out of its time. Those that waited beside it are not.
    letters = desk.dead()
    assert [letter["kind"] for letter in letters] in ([], ["handler_timeout"])
    lost = tuple(f"{letter['url'].removesuffix('/p/0')}/" for letter in letters)
    assert sorted(desk.urls()) == sorted(url for url in honest_pages(web) if not url.startswith(lost))


def test_a_start_function_may_take_its_time(desk: Desk, villain: Villain) -> None:
    text = SPIDER.replace('Path(__file__).with_name("start.txt")', "start").replace(
        "spider = ", f"def start():\n    time.sleep(7)\n    yield {villain.url('/calm')!r}\n\nspider = "
    )
    desk.file("site.py", text)
    process = desk.finish("crawl", "site.py", "-o", ROWS, *BRIEF)
    assert desk.urls() == [villain.url("/calm")]
    assert "ended" not in process.err


def test_what_was_only_in_memory_is_not_begun_again(desk: Desk, villain: Villain) -> None:
    fleet_of(desk, SQLITE, villain.url("/sleep"))
    process = desk.run("crawl", "site.py", "-o", ROWS, "--store", ":memory:", *BRIEF)
    assert process.code() == 1
    [line] = [line for line in process.err.splitlines() if line.startswith("shoal:")]
    assert re.search(r"hung for \d+ s, and what it had done was only in memory", line)
    assert 'site.py", line' in process.err, "the stack is shown"


def test_fresh_is_not_fresh_again_after_a_hang(desk: Desk, villain: Villain) -> None:
    fleet_of(desk, SQLITE, villain.url("/sleep"), villain.url("/calm"))
    desk.finish("crawl", "site.py", "-o", ROWS, "--fresh", "-s", "max_attempts=1", *BRIEF)
    assert desk.urls() == [villain.url("/calm")]
    assert [letter["kind"] for letter in desk.dead()] == ["hung"]


def test_one_ctrl_c_counts_once(desk: Desk, villain: Villain) -> None:
    """The terminal sends it to guardian and child alike."""
    fleet_of(desk, SQLITE, villain.url("/hold"))
    process = desk.start(
        "crawl", "site.py", "-o", ROWS, "-s", "grace=300", *LONG, program=("setsid", *UNHURRIED)
    )
    until(lambda: ("127.9.0.1", "/hold") in villain.hits, "the page")
    os.killpg(process.pid, signal.SIGINT)
    until(lambda: "once more to hand them back at once" in process.err, "the answer to the signal")
    os.killpg(process.pid, signal.SIGINT)
    assert process.code() == 0, process.err  # sooner than the grace is over
    counters = Fleet(desk, SQLITE).job().counters
    assert (counters.pending, counters.leased, counters.done) == (1, 0, 0)
