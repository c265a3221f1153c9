"""`shoal why` on a store: where a URL is, in one line, and by the settings of its own crawl."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

import shoal
from shoal import Page, Spider
from shoal.admit.identity import fingerprint
from shoal.fetch.robots_fetch import RobotsRecord
from shoal.frontier import open_frontier
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import Claim, Cursor, JobSpec
from shoal.hosts.host_state import HostState, OriginState, encode_state
from shoal.jobs.worker_status import WorkerStatus, encode_status
from shoal.model import Dead, Done, Failure, Retry, Settlement, Task, Verdict
from shoal.policy.backpressure import Reason
from shoal.testing import HostProfile, WebProcess
from shoal.valve import Valve

Cli = Callable[..., tuple[int, str, str]]

STORE = ".shoal/shoal.db"


@pytest.fixture
def cli(cli: Cli, tmp_path: Path) -> Cli:
    (tmp_path / ".shoal").mkdir()
    return cli


def fill(what: Callable[[Frontier], Awaitable[None]]) -> None:
    async def do() -> None:
        async with open_frontier(STORE) as frontier:
            await frontier.open_job(JobSpec("books", valve=Valve(interval=0.5, cap=10)))
            await what(frontier)

    asyncio.run(do())


def why(cli: Cli, url: str, *options: str) -> Any:
    code, out, err = cli("why", url, *options, "--json")
    assert (code, err) == (0, "")
    (answer,) = msgspec.json.decode(out)
    return answer


def task(path: str) -> Task:
    url = f"http://a.example/{path}"
    return Task(url, host="a.example", fingerprint=fingerprint(url))


async def one_of_each(frontier: Frontier) -> None:
    """A page done, one delayed, one dead, one left waiting behind another."""
    verdicts: dict[str, Verdict] = {
        "done": Done(),
        "later": Retry(60.0, Failure("http_503", "HTTP 503")),
        "dead": Dead(Failure("http_404", "HTTP 404\x1b[2J")),
    }
    await frontier.open_job(JobSpec("books", valve=Valve(cap=10)))
    await frontier.add("books", [task(name) for name in verdicts])
    claimed = await frontier.claim(Claim("w", ["books"], {"normal": 3}, 3))
    for lease in claimed.leases:
        await frontier.settle([Settlement(lease, verdicts[lease.task.url.rpartition("/")[2]])])
    await frontier.add("books", [task("first"), task("waiting")], Cursor(fed_all=True))


def test_where_a_url_is(cli: Cli) -> None:
    fill(one_of_each)
    places = {
        name: why(cli, f"http://a.example/{name}")["place"]
        for name in ("done", "later", "dead", "waiting", "x")
    }
    assert places == {
        "done": "done",
        "later": "delayed",
        "dead": "dead",
        "waiting": "pending",
        "x": "unknown",
    }
    assert why(cli, "http://a.example/later")["answer"].startswith("retry in ")
    assert "failed with http_503" in why(cli, "http://a.example/later")["answer"]
    waiting = why(cli, "http://a.example/waiting")
    assert [cause["name"] for cause in waiting["causes"]] == ["no_worker", "robots_first", "turn"]
    assert "1 URL before it" in waiting["causes"][-1]["sentence"]


def test_what_is_printed_is_harmless_and_says_what_to_do(cli: Cli) -> None:
    fill(one_of_each)
    code, out, err = cli("why", "http://a.example/dead")
    assert (code, err) == (0, "")
    assert "dead: http_404 after 1 attempt" in out
    number = out.partition("shoal dead show ")[2].split()[0]
    assert cli("dead", "show", number)[0] == 0
    assert "\x1b" not in out


def test_a_page_is_found_in_any_spelling(cli: Cli) -> None:
    fill(one_of_each)
    code, out, _ = cli("why", "HTTP://user:secret@A.example:80/x/../done?utm_source=mail#top")
    assert code == 0
    assert "http://a.example/done?utm_source=mail  as it is sent · job books" in out
    assert "done: fetched" in out
    assert "secret" not in out


def test_a_robots_txt_that_forbids(cli: Cli) -> None:
    async def forbid(frontier: Frontier) -> None:
        await frontier.add("books", [task("private/1")])
        record = await frontier.host("a.example")
        assert record is not None
        rules = RobotsRecord("rules", 0.0, 1e12, agent="shoal", rules="-/private/")
        state = encode_state(HostState(origins={"http": OriginState(rules)}))
        assert await frontier.update_host(replace(record, state=state))

    fill(forbid)
    answer = why(cli, "http://a.example/private/1")
    assert "robots" in [cause["name"] for cause in answer["causes"]]


def test_a_lane_that_backpressure_has_paused(cli: Cli) -> None:
    full = Reason("queue_full", "queue holds 20,400 URLs (high water 20,000): discovery and feeding paused")
    status = WorkerStatus(1, "books", 0, ("discovery",), frozenset({"discovery"}), (full,))

    async def paused(frontier: Frontier) -> None:
        await frontier.add("books", [replace(task("found"), lane="discovery")])
        await frontier.extend("w", 3600, encode_status(status))

    fill(paused)
    sentences = [cause["sentence"] for cause in why(cli, "http://a.example/found")["causes"]]
    assert f"lane discovery is paused: {full.sentence}" in sentences


def test_of_several_jobs_those_answer_that_know_the_url(cli: Cli) -> None:
    async def two_jobs(frontier: Frontier) -> None:
        await frontier.add("books", [task("1")])
        await frontier.open_job(JobSpec("films"))
        await frontier.add("films", [task("2")])

    fill(two_jobs)
    assert why(cli, "http://a.example/1")["job"] == "books"
    assert why(cli, "http://a.example/2")["job"] == "films"
    assert why(cli, "http://a.example/2", "--job", "books")["place"] == "unknown"


def test_an_unfinished_crawl_explains_itself_by_its_own_settings(cli: Cli) -> None:
    """The settings of the spider are known to who asks, though only the store is at hand."""

    def page(page: Page) -> Any:
        yield from page.follow_all("a")

    with WebProcess({"site": HostProfile("fast", pages=30)}) as web:
        spider = Spider("own", web.url("site"), rate=0, max_pages=3, deny=["/p/29$"])
        spider.add_handler(page)
        shoal.run(spider, store=STORE)
        denied = why(cli, web.url("site", "/p/29"))
        assert "scope: deny" in denied["answer"]
        assert "scope: host" in why(cli, "https://elsewhere.example/")["answer"]
        answers = [why(cli, web.url("site", f"/p/{n}")) for n in range(29)]
    assert sum(answer["place"] == "done" for answer in answers) == 3
    budget = [answer["answer"] for answer in answers if answer["place"] == "pending"]
    assert budget
    assert all("job own has its 3 pages (max_pages)" in answer for answer in budget)


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (("http://a b/",), 2, "is not a URL"),
        (("ftp://a.example/",), 2, "only http and https"),
        (("http://a.example/", "--job", "films"), 2, "no job 'films' in this store; there is: books"),
        (("http://a.example/", "--store", "none.db"), 3, "there is no store at none.db"),
    ],
)
def test_mistakes_are_told_in_one_line(cli: Cli, argv: tuple[str, ...], code: int, words: str) -> None:
    fill(one_of_each)
    got, out, err = cli("why", *argv)
    assert (got, out, len(err.splitlines())) == (code, "", 1)
    assert words in err
