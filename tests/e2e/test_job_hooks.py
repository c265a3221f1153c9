"""Hooks of processes and jobs, and of dead letters: in one process, in several, in a fleet, and after kill -9."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from aiohttp import web

import shoal
from crash.forking import Forked
from crash.harness import SHOAL, fork
from shoal import JobSummary, Page, Spider
from shoal.errors import JobHookError, SpiderError
from shoal.model import DeadLetter
from shoal.testing.servers import ValkeyServer


@pytest.fixture
async def site() -> AsyncIterator[str]:
    async def answer(request: web.BaseRequest) -> web.Response:
        if request.path == "/gone":
            return web.Response(status=404)
        if request.path == "/":
            return web.Response(
                text="".join(f"<a href='/{n}'>{n}</a>" for n in range(30)), content_type="text/html"
            )
        return web.Response(text="<h1>page</h1>", content_type="text/html")

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


def make(*starts: str, **settings: Any) -> Spider:
    spider = Spider("s", [*starts], **{"rate": 0, "robots": False} | settings)

    @spider.handler
    def row(page: Page) -> Iterator[object]:
        yield {"url": page.url}

    return spider


async def test_all_in_their_order_and_once(site: str, tmp_path: Path) -> None:
    spider = make(f"{site}/a", f"{site}/gone")
    told: list[object] = []

    @spider.on_process_end
    async def close() -> None:
        told.append("process ends")

    @spider.on_process_start
    async def open_() -> None:
        await asyncio.sleep(0)
        told.append("process starts")

    @spider.on_job_start
    def start(job: JobSummary) -> None:
        told.append(("job starts", job.name, job.state, job.done))

    @spider.after_response
    def page(page: Page) -> None:
        told.append("page")

    @spider.on_dead_letter
    async def letter(letter: DeadLetter) -> None:
        await spider.state.change("letters", lambda known: (known or 0) + 1)
        told.append((letter.kind, letter.task.url, letter.task.history[-1].detail[:8]))

    @spider.on_job_end
    async def end(job: JobSummary) -> None:
        assert await spider.state.get("letters") == 1
        told.append(("job ends", job.state, job.done, job.dead, job.rows))

    store = str(tmp_path / "s.db")
    await shoal.crawl(spider, store=store)
    assert told[:2] == ["process starts", ("job starts", "s", "running", 0)]
    assert set(told[2:4]) == {"page", ("http_404", f"{site}/gone", "HTTP 404")}
    assert told[4:] == [("job ends", "finished", 1, 1, 1), "process ends"]
    told.clear()
    await shoal.crawl(spider, store=store)  # it is finished
    assert told == []
    assert (await shoal.add("s", [f"{site}/b"], store=store)).new == 1
    await shoal.crawl(spider, store=store)
    assert told == ["process starts", "page", ("job ends", "finished", 2, 1, 2), "process ends"]
    told.clear()
    await shoal.crawl(spider, store=store, fresh=True)
    assert len(told) == 6, "a job that is made anew has its own"


def fails(*_: object) -> None:
    raise ValueError("no good")


async def hangs(*_: object) -> None:
    await asyncio.Event().wait()


def never_ends(*_: object) -> None:
    while True:
        pass


def yields(*_: object) -> Iterator[None]:
    yield


SAID = {fails: "ValueError: no good", yields: "it is a generator, so nothing of it has run"}


@pytest.mark.parametrize("kind", ["on_process_start", "on_job_start", "on_job_end", "on_process_end"])
@pytest.mark.parametrize("hook", [fails, hangs, never_ends, yields])
async def test_one_that_fails_stops_the_command_and_runs_again(
    site: str, tmp_path: Path, kind: Any, hook: Any
) -> None:
    spider, store = make(f"{site}/a", handler_timeout=0.3), str(tmp_path / "s.db")
    spider.add_hook(kind, hook)
    with pytest.raises(SpiderError) as error:
        await shoal.crawl(spider, store=store, output=tmp_path / "rows.jsonl")
    said = str(error.value)
    assert f"{kind} hook {hook.__name__} (" in said
    assert "test_job_hooks.py:" in said
    assert SAID.get(hook, "did not finish in its time") in said
    assert isinstance(error.value, JobHookError) == kind.startswith("on_job")
    spider.hooks.clear()
    ran: list[str] = []
    spider.add_hook(kind, lambda *_: ran.append(kind))
    await shoal.crawl(spider, store=store, output=tmp_path / "rows.jsonl")
    # A process that only finds the job finished works on no page.
    assert ran == ([] if kind == "on_process_end" else [kind])
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == 1


async def test_a_dead_letter_is_kept_whatever_its_hook_does(
    site: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The end waits for all three, however late each of them is.
    monkeypatch.setattr("shoal.engine.letter_hooks._MORE", 60.0)
    spider = make(f"{site}/gone", handler_timeout=0.3)
    told: list[str] = []
    spider.add_hook("on_dead_letter", fails)
    spider.add_hook("on_dead_letter", hangs)
    spider.add_hook("on_dead_letter", lambda letter: told.append(letter.kind))
    results = await shoal.crawl(spider)
    assert results.view.job.counters.dead == 1
    assert told == ["http_404"]
    said = [record.message for record in caplog.records if getattr(record, "event", "") == "hook_failed"]
    assert [line.partition(" (")[0] for line in said] == [
        "on_dead_letter hook fails",
        "on_dead_letter hook hangs",
    ]


async def test_letters_that_nobody_has_time_for_are_counted(
    site: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.engine.letter_hooks.LETTERS_TOLD", 3)
    monkeypatch.setattr("shoal.engine.letter_hooks._MORE", 0.0)
    spider = make(*(f"{site}/gone?{n}" for n in range(8)), handler_timeout=0.5)
    spider.add_hook("on_dead_letter", hangs)
    results = await shoal.crawl(spider)
    assert results.view.job.counters.dead == 8
    [said] = [record for record in caplog.records if getattr(record, "event", "") == "letters_not_told"]
    assert "on_dead_letter hooks were not told of " in said.message


SPIDER = """
import os, pathlib, time
from shoal import Spider

HERE = pathlib.Path(__file__).parent

def note(what):
    with open(HERE / "told.txt", "a") as file:
        file.write(f"{what} {os.getpid()}\\n")

class Noting:
    def __init__(self, mark="plugin"):
        self.mark = mark
    def on_process_start(self):
        note("process-start")
    def on_process_end(self):
        note("process-end")
    async def before_request(self, request):
        request.headers["X-Mark"] = self.mark
    def on_item(self, item, page):
        return {**item, "mark": self.mark}

spider = Spider("shop", [os.environ["SITE"] + "/"], rate=0, robots=False)

@spider.handler
def listing(page):
    yield from page.follow_all("a", row)

@spider.handler(key="url")
def row(page):
    yield {"url": page.url}

@spider.on_job_start
def begin(job):
    note("job-start")

@spider.on_job_end
def end(job):
    note(f"job-end:{job.rows}")
    while (HERE / "wait").exists():
        time.sleep(0.01)
"""


class Desk:
    """A folder with the spider, and commands run in it."""

    def __init__(self, folder: Path, site: str) -> None:
        self.folder = folder
        (folder / "shop.py").write_text(SPIDER)
        (folder / "shoal.toml").write_text(
            'plugins = ["shop_plugin:Noting"]\nallow_network = ["127.0.0.0/8"]\nlease = 2\n'
            '[plugin_options."shop_plugin:Noting"]\nmark = "toml"\n'
        )
        (folder / "shop_plugin.py").write_text(
            SPIDER.split("spider = Spider")[0]  # the same helper and class, in a module of its own
        )
        self.environ = {**os.environ, "SITE": site}
        self._numbers = itertools.count()

    def start(self, *command: str) -> Forked:
        return self._start(command)[0]

    def _start(self, command: tuple[str, ...]) -> tuple[Forked, Path]:
        """With the file of what it says."""
        log = self.folder / f"{next(self._numbers)}.log"
        return fork([*SHOAL, *command], self.folder, self.environ, log), log

    async def run(self, *command: str) -> tuple[int, str]:
        process, log = self._start(command)
        try:
            await comes_to_end(process)
        finally:
            process.kill()
        return process.wait(), log.read_text()

    def told(self) -> Counter[str]:
        file = self.folder / "told.txt"
        return (
            Counter(line.split()[0] for line in file.read_text().splitlines()) if file.exists() else Counter()
        )

    def pids(self, what: str) -> list[int]:
        lines = (self.folder / "told.txt").read_text().splitlines()
        return [int(line.split()[1]) for line in lines if line.startswith(what)]

    def rows(self, name: str = "shop.jsonl") -> list[str]:
        return (self.folder / name).read_text().splitlines()

    async def until(self, what: str, count: int = 1) -> None:
        try:
            async with asyncio.timeout(60):  # it is told by processes that may be killed
                while self.told()[what] < count:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
        except TimeoutError:
            pytest.fail(f"{what} was not told {count} times, but {dict(self.told())}")


async def comes_to_end(process: Forked) -> None:
    async with asyncio.timeout(60):
        while process.poll() is None:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.fixture
def desk(tmp_path: Path, site: str) -> Desk:
    return Desk(tmp_path, site)


async def test_two_processes_run_the_hooks_of_a_job_once(desk: Desk) -> None:
    # Neither is taken for dead, which would be replaced.
    code, said = await desk.run("crawl", "shop.py", "--processes", "2", "-q", "-s", "lease=60")
    assert code == 0, said
    assert desk.told() == {"process-start": 2, "process-end": 2, "job-start": 1, "job-end:30": 1}
    assert len(desk.rows()) == 30
    assert all('"mark":"toml"' in row for row in desk.rows())


async def test_killed_in_its_last_hook_the_same_command_runs_it_again(desk: Desk) -> None:
    (desk.folder / "wait").touch()
    crawl = desk.start("crawl", "shop.py", "-q")
    try:
        await desk.until("job-end:30")
    finally:
        os.kill(desk.pids("job-end")[0], signal.SIGKILL)
        crawl.kill()
        crawl.wait()
    (desk.folder / "wait").unlink()
    code, said = await desk.run("crawl", "shop.py", "-q")
    assert code == 0, said
    assert desk.told()["job-end:30"] >= 2
    assert desk.told()["job-start"] == 1
    ends = desk.told()["job-end:30"]
    assert (await desk.run("crawl", "shop.py", "-q"))[0] == 0
    assert desk.told()["job-end:30"] == ends
    assert len(desk.rows()) == 30


async def test_a_fleet_runs_them_once_and_after_a_kill_again(desk: Desk, valkey_server: ValkeyServer) -> None:
    (desk.folder / "wait").touch()
    store = ("--store", f"{valkey_server.url}?prefix=hooks-{uuid4().hex}")
    code, said = await desk.run("submit", "shop.py", *store, "-o", "rows.jsonl")
    assert code == 0, said
    workers = [desk.start("worker", "shop.py", *store, "--until-done") for _ in range(2)]
    try:
        await desk.until("job-end:30")
        os.kill(desk.pids("job-end")[0], signal.SIGKILL)
        await desk.until("job-end:30", 2)  # by the one that is left, or the one that replaces it
        (desk.folder / "wait").unlink()
        for worker in workers:
            await comes_to_end(worker)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    assert desk.told()["job-start"] == 1
    ends = desk.told()["job-end:30"]
    code, said = await desk.run("worker", "shop.py", *store, "--until-done")
    assert code == 0, said
    assert desk.told()["job-end:30"] == ends
    assert len(desk.rows("rows.jsonl")) == 30


@pytest.mark.parametrize(
    ("plugins", "said"),
    [
        ("nowhere:Class", "plugins: 'nowhere:Class' cannot be imported: ModuleNotFoundError"),
        ("nobody", "plugins: no plugin named 'nobody' is installed"),
    ],
)
async def test_a_plugin_that_is_not_there_is_one_line_and_exit_2(desk: Desk, plugins: str, said: str) -> None:
    (desk.folder / "shoal.toml").unlink()
    code, printed = await desk.run("crawl", "shop.py", "-q", "-s", f"plugins={plugins}")
    assert code == 2
    assert said in printed
    assert len(printed.strip().splitlines()) == 1
    assert not (desk.folder / "told.txt").exists()


async def test_a_fleet_pauses_a_job_whose_start_fails_and_goes_on(desk: Desk) -> None:
    failing = SPIDER.replace(
        '    note("job-start")', '    note("job-start")\n    (HERE / "table").read_text()'
    )
    (desk.folder / "shop.py").write_text(failing)
    assert (await desk.run("submit", "shop.py"))[0] == 0
    code, said = await desk.run("worker", "shop.py", "--until-done")
    assert code == 1
    assert "job shop is paused: on_job_start hook begin (shop.py:" in said
    assert "FileNotFoundError" in said
    (desk.folder / "table").touch()
    assert (await desk.run("resume", "shop"))[0] == 0
    code, said = await desk.run("worker", "shop.py", "--until-done")
    assert code == 0, said
    assert desk.told()["job-start"] == 2
    assert desk.told()["job-end:30"] == 1
    assert len(desk.rows()) == 30


async def test_killed_in_the_middle_of_an_item_hook(desk: Desk) -> None:
    (desk.folder / "shop.py").write_text(
        SPIDER
        + """
@spider.on_item
def die_once(item, page):
    if page.url.endswith("/7") and not (HERE / "died").exists():
        (HERE / "died").touch()
        os.kill(os.getpid(), 9)
"""
    )
    code, said = await desk.run("crawl", "shop.py", "--processes", "2", "-q")
    assert code == 0, said
    assert (desk.folder / "died").exists()
    told = desk.told()
    assert (told["job-start"], told["job-end:30"]) == (1, 1)
    assert told["process-start"] == told["process-end"] + 1 == 3
    assert len(set(desk.rows())) == len(desk.rows()) == 30


async def test_rejected_items_are_told_too(site: str) -> None:
    spider = Spider("s", [f"{site}/a"], rate=0, robots=False)
    told: list[tuple[str, str]] = []

    @spider.handler(key="sku")
    def row(page: Page) -> Iterator[object]:
        yield {"sku": "1"}
        yield {"no": "key"}

    @spider.on_dead_letter
    def letter(letter: DeadLetter) -> None:
        told.append((letter.kind, letter.task.url))

    results = await shoal.crawl(spider)
    assert list(results) == [{"sku": "1"}]
    assert told == [("rejected", f"{site}/a")]
