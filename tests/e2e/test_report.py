"""`shoal report`: one HTML file, true to the store, in which nothing that came from the web is more than text."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from shoal.engine.history import History, HostPast, Slice
from shoal.engine.history_recorder import read_history
from shoal.events import Event, Level
from shoal.frontier import open_frontier
from shoal.frontier.values import Counters, Job, JobSpec
from shoal.model import DeadLetter, Failure, Task
from shoal.report.document import GENERATOR, render
from shoal.report.gathering import Changed, Findings, concerns
from shoal.testing import HostProfile, WebProcess

Cli = Callable[..., tuple[int, str, str]]

EVIL = "<script>alert('&1')</script>"
SPIDER = f"""
from shoal import Spider

spider = Spider("trouble", start=%r, rate=0, robots=False, user_agent="Shoal {EVIL}", max_attempts=2,
                headers={{"Authorization": "Bearer secret-token"}}, retry_base=0.05, breaker_cooldown=0.2)


@spider.handler
def page(page):
    page.count("starts {EVIL}", 1234)
    yield {{"url": page.url}}
    yield from page.follow_all("a", page_of)


@spider.handler(name="page_of")
def page_of(page):
    if page.url.endswith("/3"):
        raise ValueError("no good: {EVIL}")
    yield {{"url": page.url}}
"""


@pytest.fixture(scope="module")
def web() -> Iterator[WebProcess]:
    with WebProcess(
        {"site": HostProfile("fast", pages=30, links=40), "closing": HostProfile("closing")}
    ) as web:
        yield web


class Reader(HTMLParser):
    """The elements, their attributes and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self._silent = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self._silent = tag == "style"

    def handle_endtag(self, tag: str) -> None:
        self._silent = False

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.text += data


def harmless(page: str) -> Reader:
    """Nothing in the page runs, or asks for anything."""
    read = Reader(page)
    assert not {"script", "img", "link", "iframe", "object", "a", "base", "form"} & set(read.tags)
    names = {name for name, _ in read.attributes}
    assert not [name for name in names if name.startswith("on")]
    assert not {"src", "href", "srcset", "action"} & names
    assert not re.search(r"url\(|@import|expression\(", page)
    return read


def test_a_crawl_becomes_a_page(cli: Cli, web: WebProcess, tmp_path: Path) -> None:
    Path("trouble.py").write_text(SPIDER % [web.url("site"), web.url("closing")])
    code, _, err = cli("crawl", "trouble.py", "-o", "rows.jsonl", "-q")
    assert code == 0, err
    assert cli("report", "trouble") == (0, "", "the report is in trouble-report.html\n")
    page = Path("trouble-report.html").read_text("utf-8")
    read = harmless(page)
    for shown in (
        "trouble",
        "finished",
        web.addresses["site"],
        f"no good: {EVIL}",
        "the handler raised an exception",
        f"starts {EVIL}",
        "1,234",
    ):
        assert shown in read.text
    assert f'"Shoal {EVIL}"' in read.text  # a setting that is not at its default
    assert "retry_base" in read.text
    assert page.find("secret-token") == -1
    assert "is cooling down" in read.text
    assert read.tags.count("svg") == 4
    assert len(page) < 300_000

    async def counted() -> tuple[History, Job]:
        async with open_frontier(".shoal/shoal.db") as frontier:
            job = await frontier.job("trouble")
            assert job is not None
            return await read_history(frontier, "trouble"), job

    history, job = asyncio.run(counted())
    total = history.total()
    assert total.pages == job.counters.done + 1  # the page whose handler failed was fetched, too
    assert (total.dead, total.retries) == (job.counters.dead, job.counters.retried)
    assert total.errors["handler"] == 1
    assert history.hosts[web.addresses["site"]].pages == total.pages
    assert f"{job.counters.done} pages" in read.text


def test_a_file_that_is_no_report_is_left_alone(cli: Cli, web: WebProcess) -> None:
    cli("crawl", web.url("site"), "--job", "odd/../<name>", "--rate", "0", "-q")
    assert cli("report", "odd/../<name>")[0] == 0
    [first] = Path().glob("*-report.html")
    harmless(first.read_text("utf-8"))
    assert cli("report", "odd/../<name>")[0] == 0  # over itself
    Path("mine.html").write_text("<p>precious</p>")
    code, _, err = cli("report", "odd/../<name>", "-o", "mine.html")
    assert code == 2
    assert err == (
        "shoal: mine.html is there already, and is no report: choose another file with -o, or use --force\n"
    )
    assert Path("mine.html").read_text() == "<p>precious</p>"
    assert cli("report", "odd/../<name>", "-o", "mine.html", "--force")[0] == 0
    assert GENERATOR in Path("mine.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("report", "nothing"), 2, "no job 'nothing' in this store; there is: known"),
        (("report", "known", "-o", "no/such/place.html"), 3, "cannot write the report to no/such/place.html"),
        (("report", "known", "-o", "."), 2, ". cannot be written over: Is a directory"),
        (("report", "known", "--store", "elsewhere.db"), 3, "there is no store at elsewhere.db"),
    ],
)
def test_mistakes_are_told_in_one_line(cli: Cli, words: tuple[str, ...], code: int, said: str) -> None:
    async def make() -> None:
        async with open_frontier(".shoal/shoal.db") as frontier:
            await frontier.open_job(JobSpec("known"))

    asyncio.run(make())
    found, out, err = cli(*words)
    assert (found, out) == (code, "")
    assert said in err
    assert err.count("\n") == 1


def test_a_job_that_did_nothing_has_a_report(cli: Cli) -> None:
    async def make() -> None:
        async with open_frontier(".shoal/shoal.db") as frontier:
            await frontier.open_job(JobSpec("idle"))

    asyncio.run(make())
    assert cli("report", "idle")[0] == 0
    read = harmless(Path("idle-report.html").read_text("utf-8"))
    assert "Nothing is known of what happened over time." in read.text


def test_a_crawl_of_one_page() -> None:
    """Its numbers agree with their nouns, and its plots show it."""
    history = History().added(
        1000, Slice(1, 1, 0, 0, 900, {}, (0, 1)), {"a.example": HostPast(1, 0, 0.5, "")}
    )
    job = Job(JobSpec("one"), "finished", Counters(admitted=1, done=1, items=250), 1000.0, 1000.2)
    page = render(Findings(job, history, letters=(), events=(), settings=None, output="", now=2000.0))
    read = harmless(page)
    for shown in ("1 page", "of 1 admitted", "250 a page", "of 1 attempt", "in 1 fetch"):
        assert f"{shown}s" not in read.text
        assert shown in read.text
    assert "rows in" not in read.text  # they were printed
    lines = re.findall(r'<path class="line \w+" d="M([\d.]+) [\d.]+L([\d.]+) ', page)
    assert lines == [("0.0", "1000.0")] * 4  # pages, and three percentiles


def test_what_happened_to_others_meanwhile_is_not_told() -> None:
    history = History().added(1000, Slice(1, 1, 0, 0, 9, {}, ()), {"own.example": HostPast(1, 0, 0.5, "")})
    job = Job(JobSpec("mine"), "finished", Counters(), 1000.0, 1010.0)

    def told(
        at: float = 1005.0, name: str = "breaker_opened", level: Level = "warning", **fields: str
    ) -> bool:
        return concerns(Event(name, level, "", dict(fields), at=at), job, history, now=2000.0)

    assert told(host="own.example")
    assert not told(host="other.example")
    assert told(job="mine", host="other.example")
    assert not told(job="other", host="own.example")
    assert told(name="store_lost")
    assert not told(at=900.0)
    assert not told(at=1020.0)
    assert not told(name="breaker_closed", level="info", host="own.example")


def test_whatever_the_store_holds_is_text() -> None:
    """A store may be written by anybody's spider; a host, a kind or a message need not be what they should be."""
    evil = f'{EVIL}"><img src=x onerror=alert(1)> http://me:pass@a.example/ \u202e\x1b[2J'
    history = History()
    for second in range(900):
        history = history.added(
            1000 + second, Slice(3, 4, 1, 1, 900, {evil: 1}, (0, 1, 2)), {evil: HostPast(3, 1, 0.5, evil)}
        )
    task = Task(evil, id=7, job=evil, history=(Failure(evil, evil, at=1.0, attempt=1),))
    findings = Findings(
        job=Job(JobSpec(evil, spider=evil), "running", Counters(admitted=9, done=5, dead=4), 1000.0),
        history=history,
        letters=[DeadLetter(task, evil, 1200.0)],
        events=[Event("job_stuck", "warning", evil, {"others": 3}, at=1300.0)],
        settings=[Changed(evil, [evil], {evil: evil})],
        output=evil,
        now=2000.0,
    )
    page = render(findings)
    read = harmless(page)
    assert read.text.count(EVIL) >= 10
    leaked = [bad for bad in ("me:pass", "\x1b", "\u202e") if bad in page]
    assert leaked == []
    assert "2,700" in read.text  # pages of the host
    assert len(page) < 400_000
