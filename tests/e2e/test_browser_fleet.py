"""Several processes with a browser lane: who opens which page, signals and kills; and nothing is left of any browser.

Whatever a crawl starts has a folder for temporary files that it got from its test. By that its processes are known.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from crash.fleet import Fleet
from crash.harness import ROWS, Desk, Process, alive, children_of, kill_if_alive, parse_rows, until
from shoal.fetch.browser.executable import available
from shoal.settings import Settings
from shoal.testing import HostProfile, WebProcess
from shoal.testing.servers import ValkeyServer
from which_browser import FULL

pytestmark = pytest.mark.skipif(not available(Settings()), reason="no browser")

PAGES = 6
SPIDER = """
import asyncio, os
from pathlib import Path
from shoal import Spider

spider = Spider("site", start=Path(__file__).with_name("start.txt"), trust_start=True, robots=False, rate=0,
                per_host=6, browser_tabs=2, browser_wait="h1", browser_path={browser!r}, handler_timeout=310,
                retry_base=0.05, challenge_routes=["lane:browser"])


@spider.handler(key="url", {options})
async def page(page):
    {waits}
    yield {{"url": page.url, "title": page.text("title"), "worker": os.getpid(), "in_browser": page.in_browser}}
    for link in page.follow_all("nav a"):
        yield link
"""


def spider_of(*, lane: str = "", pause: float = 0.0, holds: bool = False, browser: str = "") -> str:
    """`pause`: seconds that a handler leaves its tab open. With `holds`, all but the first page are open until there is
    a file `released`, and used once more."""
    options, waits = f"lane={lane!r}" if lane else "", "pass"
    if pause:
        waits = f'await page.evaluate("new Promise(done => setTimeout(done, {pause * 1000}))")'
    if holds:
        waits = 'while page.task.depth and not Path("released").exists(): await asyncio.sleep(0.02)\n'
        waits += '    await page.evaluate("1")'
    return SPIDER.format(options=options, waits=waits, browser=browser)


class Temporary:
    """The folder for temporary files of everything that a test starts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def processes(self) -> dict[int, str]:
        """Those that have it, or a folder in it as browsers do: their names."""
        marks = [f"\0TMPDIR={self.folder}{end}".encode() for end in "\0/"]
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    words = b"\0" + (entry / "environ").read_bytes()
                    if any(mark in words for mark in marks) and alive(int(entry.name)):
                        found[int(entry.name)] = (entry / "comm").read_text().strip()
                except OSError:
                    continue  # it has just ended
        return found

    def browsers(self) -> list[int]:
        return [pid for pid, name in self.processes().items() if "chrom" in name]

    def is_clean(self) -> None:
        """Within a moment nothing runs any more, and no file is left."""
        until(lambda: not self.processes(), f"no process, of {self.processes()}")
        until(lambda: not os.listdir(self.folder), f"no file, of {os.listdir(self.folder)}")


@pytest.fixture
def web() -> Iterator[WebProcess]:
    with WebProcess(
        {"site": HostProfile("scripted", pages=PAGES, links=6, shells_at="/app/")}, seed=8
    ) as web:
        yield web


@pytest.fixture
def temporary(web: WebProcess, monkeypatch: pytest.MonkeyPatch) -> Iterator[Temporary]:
    with TemporaryDirectory(prefix="shoal-") as folder:  # with a short name: browsers put sockets there
        temporary = Temporary(Path(folder))
        monkeypatch.setenv("TMPDIR", folder)
        yield temporary
        for pid in temporary.processes():  # of a test that failed
            kill_if_alive(pid)


@pytest.fixture
def desk(tmp_path: Path, temporary: Temporary) -> Iterator[Desk]:
    (tmp_path / "desk").mkdir()
    with Desk(tmp_path / "desk", fresh=True) as desk:  # /proc tells with which environment a program began
        yield desk


def titles(web: WebProcess) -> dict[str, str]:
    """What is to be found, as the plain form of each page says it."""
    site = web.site_of("site")
    found = {}
    for number in range(site.pages):
        text = site.html(number).decode()
        found[web.url("site", site.path(number))] = text.partition("<title>")[2].partition("</title>")[0]
    return found


def check(rows: list[dict[str, Any]], web: WebProcess) -> None:
    assert len(rows) == PAGES, "every page once"
    assert {row["url"]: row["title"] for row in rows} == titles(web)


# -- a fleet of which one has a browser


def test_pages_go_to_the_worker_that_has_a_browser(
    desk: Desk, web: WebProcess, temporary: Temporary, valkey: ValkeyServer
) -> None:
    fleet = Fleet(desk, f"{valkey.url}?prefix=browser-fleet")
    desk.file("site.py", spider_of())
    fleet.start_at(web.url("site"))
    blind = fleet.worker("-s", "browser_path=/no/such/browser", "--concurrency", "4")
    fleet.submit("-s", "browser_path=/where/it/is/on/another/machine")
    until(lambda: _rows(desk), "pages of the first")
    sighted = fleet.worker("--concurrency", "4")
    job = fleet.finishes()
    rows = _rows(desk)
    check(rows, web)
    assert (job.counters.dead, job.counters.done) == (0, PAGES)
    shells = web.shells_of("site")
    assert {row["url"] for row in rows if row["in_browser"]} >= shells
    assert {row["worker"] for row in rows if row["in_browser"]} == {sighted.worker}
    assert blind.worker in {row["worker"] for row in rows}, "it served plain pages"
    for worker in (blind, sighted):
        worker.signal(signal.SIGTERM)
    assert [worker.code() for worker in (blind, sighted)] == [0, 0]
    temporary.is_clean()


def _rows(desk: Desk) -> list[dict[str, Any]]:
    path = desk.folder / "site.jsonl"
    return parse_rows(path.read_bytes()) if path.exists() else []


# -- several processes of one crawl


def command(desk: Desk, web: WebProcess, *options: str, processes: int = 2) -> tuple[str, ...]:
    desk.file("start.txt", f"{web.url('site')}\n")
    return ("crawl", "site.py", "-o", ROWS, "--processes", str(processes), "-s", "concurrency=12", *options)


def test_a_browser_that_is_killed_leaves_nothing_behind(
    desk: Desk, web: WebProcess, temporary: Temporary
) -> None:
    desk.file("site.py", spider_of(lane="browser", holds=True, browser=FULL))
    crawl = desk.start(*command(desk, web, processes=1))
    with_tabs_open(desk, crawl, temporary, 2)
    for pid in temporary.browsers():
        kill_if_alive(pid)
    desk.file("released", "")
    assert crawl.code() == 0, crawl.err
    check(desk.rows(), web)
    assert desk.job().counters.dead == 0
    temporary.is_clean()


def test_a_browser_that_does_not_start_says_why(
    desk: Desk, web: WebProcess, temporary: Temporary, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = temporary.folder / ("long" * 25)  # no socket can have such a name
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    desk.file("site.py", spider_of(lane="browser", browser=FULL))
    crawl = desk.run(*command(desk, web, "-s", "max_attempts=1", processes=1))
    if not FULL:  # a headless shell needs no socket
        check(desk.rows(), web)
    else:
        assert "does not start: Socket path too long" in crawl.err


def with_tabs_open(desk: Desk, process: Process, temporary: Temporary, tabs: int) -> None:
    def holds() -> bool:
        assert process.running, process.err
        jobs = desk.ask(lambda frontier: frontier.jobs()) if desk.store.exists() else ()
        return any(job.counters.leased >= tabs and job.counters.done for job in jobs)

    until(holds, f"{tabs} tabs at once")
    assert temporary.browsers()


def visits(web: WebProcess) -> Counter[str]:
    return Counter(hit.path for hit in web.hits_of("site") if "/data/" not in hit.path)


def test_pages_in_open_tabs_are_finished(desk: Desk, web: WebProcess, temporary: Temporary) -> None:
    desk.file("site.py", spider_of(lane="browser", pause=4.0))  # the signal comes before the last page begins
    crawl = desk.start(*command(desk, web))
    with_tabs_open(desk, crawl, temporary, 3)
    crawl.signal(signal.SIGTERM)
    assert crawl.code() == 0, crawl.err
    temporary.is_clean()
    counters = desk.job().counters
    assert (counters.leased, counters.retried, counters.dead) == (0, 0, 0)
    assert 0 < counters.done < PAGES
    assert len({row["worker"] for row in desk.rows()}) == 2
    assert all(row["in_browser"] for row in desk.rows())
    desk.file("site.py", spider_of(lane="browser"))
    desk.finish(*command(desk, web, processes=1))
    check(desk.rows(), web)
    assert set(visits(web).values()) == {1}, "no page is opened twice"
    temporary.is_clean()


def test_pages_that_take_too_long_are_handed_back(desk: Desk, web: WebProcess, temporary: Temporary) -> None:
    desk.file("site.py", spider_of(lane="browser", pause=300.0))
    crawl = desk.start(*command(desk, web, "-s", "grace=0.5"))
    until(lambda: visits(web) or not crawl.running, "a page")
    crawl.signal(signal.SIGTERM)
    assert crawl.code() == 0, crawl.err  # sooner than the page would be done
    temporary.is_clean()
    counters = desk.job().counters
    assert (counters.leased, counters.done, counters.dead, counters.open) == (0, 0, 0, 1)
    desk.file("site.py", spider_of(lane="browser"))
    desk.finish(*command(desk, web, "--depth", "0", processes=1))
    assert desk.urls() == [web.url("site")]


def test_a_killed_process_takes_its_browser_with_it(
    desk: Desk, web: WebProcess, temporary: Temporary
) -> None:
    desk.file("site.py", spider_of(lane="browser", holds=True))
    crawl = desk.start(*command(desk, web))
    with_tabs_open(desk, crawl, temporary, 3)
    victim = until(lambda: next(filter(_has_browser, crawl.children()), 0), "a child with a browser")
    family = _descent(victim)
    os.kill(victim, signal.SIGKILL)
    until(lambda: not any(map(alive, family)), f"the end of {family}")
    desk.file("released", "")
    assert crawl.code() == 0, crawl.err
    check(desk.rows(), web)
    assert desk.job().counters.dead == 0
    temporary.is_clean()


def _has_browser(pid: int) -> bool:
    return any("chrom" in name for name in _descent(pid).values())


def _descent(pid: int) -> dict[int, str]:
    """All processes below, with their names."""
    found: dict[int, str] = {}
    left = [pid]
    while left:
        below = children_of(left.pop())
        left += below
        for child in below:
            with suppress(OSError):  # it has just ended
                found[child] = Path(f"/proc/{child}/comm").read_text().strip()
    return found


def test_a_killed_crawl_takes_its_browser_with_it(desk: Desk, web: WebProcess, temporary: Temporary) -> None:
    desk.file("site.py", spider_of(lane="browser", holds=True))
    crawl = desk.start(*command(desk, web, processes=1))
    with_tabs_open(desk, crawl, temporary, 2)
    crawl.kill()
    temporary.is_clean()
    desk.file("site.py", spider_of(lane="browser"))
    desk.finish(*command(desk, web, processes=1))
    check(desk.rows(), web)
    temporary.is_clean()
