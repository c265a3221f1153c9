"""An afternoon with Shoal, on a terminal: a project, a selector that is mended three times, a page for a test, a crawl
that is killed and goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import msgspec
import pytest

from shoal.frontier import open_frontier
from terminal import DEADLINE, SHOAL, Terminal
from visited_site import VisitedSite, visited_site

LAMPS = 24
BEFORE_THE_KILL = 12  # pages that are answered

SPIDER = """
from shoal import Page, Spider

spider = Spider("lamps", start="{url}/")


@spider.handler
def listing(page: Page):
    yield from page.follow_all("li a", lamp)


@spider.handler(key="name")
def lamp(page: Page):
    yield {{"name": page.text("h1"), "price": {price}}}
"""

TEST = """
from shoal.testing import page

from lamps import lamp


def test_the_page_that_was_kept():
    assert [*lamp(page("tests/pages/lamp.html"))] == [{"name": "Lamp 1", "price": 1.5}]
"""


class LampShop:
    """A shop on loopback. Pages after the first dozen wait for the door."""

    def __init__(self, site: VisitedSite) -> None:
        self.url = site.url
        self.door = Event()
        self.visits: list[str] = []  # without those of robots.txt
        links = "".join(f"<li><a href='/lamp/{n}'>Lamp {n}</a>" for n in range(1, LAMPS + 1))
        site.pages["/"] = f"<ul>{links}</ul>"
        for n in range(1, LAMPS + 1):
            site.pages[f"/lamp/{n}"] = f"<h1>Lamp {n}</h1><b class=price>{n}.50 EUR</b>"
        site.note = self._note  # type: ignore[method-assign]

    def _note(self, path: str) -> None:
        if path != "/robots.txt":
            self.visits.append(path)
        if path.startswith("/lamp/") and int(path.rpartition("/")[2]) > BEFORE_THE_KILL:
            self.door.wait(DEADLINE)


@pytest.fixture
def shop() -> Iterator[LampShop]:
    with visited_site() as site:
        shop = LampShop(site)
        try:
            yield shop
        finally:
            shop.door.set()


def save(path: Path, text: str) -> None:
    """As editors do: the file is the old one or the new one."""
    part = path.with_suffix(".part")
    part.write_text(text)
    part.replace(path)


def rows_in(path: Path) -> list[dict[str, object]]:
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    return [msgspec.json.decode(line) for line in lines if line.endswith(b"\n")]


async def rows_committed(project: Path) -> int:
    async with open_frontier(str(project / ".shoal" / "shoal.db")) as frontier:
        job = await frontier.job("lamps")
        assert job is not None
        return job.counters.items


def test_from_an_empty_folder_to_rows(shop: LampShop, tmp_path: Path) -> None:
    project = tmp_path / "project"

    with Terminal([*SHOAL, "init", "project"], tmp_path) as terminal:
        terminal.expect("shoal try books.py")
        assert terminal.end() == 0
    with Terminal([*SHOAL, "init", "--spider", "lamps", f"{shop.url}/"], project) as terminal:
        terminal.expect("shoal try lamps.py")
        assert terminal.end() == 0

    mend_the_selector(shop, project)
    assert shop.visits == ["/", "/lamp/1"], "nothing is fetched twice"

    with Terminal([*SHOAL, "keep", f"{shop.url}/lamp/1", "--name", "lamp"], project) as terminal:
        terminal.expect("lamp.html")
        assert terminal.end() == 0
    assert shop.visits == ["/", "/lamp/1"], "what was tried is kept without fetching it"
    save(project / "tests" / "test_lamps.py", TEST)
    with Terminal([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], project) as terminal:
        terminal.expect("3 passed")  # with those of the spider that `shoal init` wrote
        assert terminal.end() == 0

    crawl_kill_and_resume(shop, project)
    with Terminal([*SHOAL, "rows", "lamps", "-n", "100"], project) as terminal:
        terminal.expect("Lamp 13")
        assert terminal.end() == 0


def mend_the_selector(shop: LampShop, project: Path) -> None:
    """Three edits while `shoal try` watches."""
    spider = project / "lamps.py"
    save(spider, SPIDER.format(url=shop.url, price='page.text(".prize")'))
    with Terminal([*SHOAL, "try", "lamps.py", "--handler", "lamp", "--watch"], project) as terminal:
        terminal.expect("empty: price")
        terminal.expect("waiting for lamps.py to be saved")
        save(spider, SPIDER.format(url=shop.url, price='page.text(".price")'))
        terminal.expect("1.50 EUR")
        terminal.expect("waiting for lamps.py to be saved")
        save(spider, SPIDER.format(url=shop.url, price='float(page.text(".price"))'))
        terminal.expect("could not convert string to float")
        terminal.expect("waiting for lamps.py to be saved")
        save(spider, SPIDER.format(url=shop.url, price='float(page.text(".price").removesuffix("EUR"))'))
        assert "could not" not in terminal.expect("1 item, ")
        terminal.expect("waiting for lamps.py to be saved")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 0


def crawl_kill_and_resume(shop: LampShop, project: Path) -> None:
    command = [*SHOAL, "crawl", "lamps.py", "--rate", "0"]
    output = project / "lamps.jsonl"
    with Terminal(command, project) as terminal:
        terminal.expect("lamps")
        terminal.until(lambda: len(rows_in(output)) >= BEFORE_THE_KILL // 2)
        os.killpg(terminal.process.pid, signal.SIGKILL)
        assert terminal.end() == -signal.SIGKILL
    committed = rows_in(output)[: asyncio.run(rows_committed(project))]  # those after them are written again
    visited = {f"/lamp/{row['name']}".replace("Lamp ", "") for row in committed}
    shop.visits.clear()
    shop.door.set()
    with Terminal(command, project) as terminal:
        assert terminal.end() == 0, terminal.text
    assert visited.isdisjoint(shop.visits), "what was committed is not fetched again"
    rows = sorted(rows_in(output), key=lambda row: str(row["price"]).zfill(5))
    assert rows == [{"name": f"Lamp {n}", "price": n + 0.5} for n in range(1, LAMPS + 1)]
