"""Crawls behind a login: every page comes, whoever fetches it and whatever ends the session; and nobody tells the
password."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import shoal
from crash.harness import Desk, until
from e2e.members_site import PAGES, PASSWORDS, Members, serving
from shoal import OutgoingRequest, Page, Request, Spider
from shoal.engine import logins
from shoal.errors import SpiderError
from shoal.frontier import open_frontier
from shoal.frontier.values import DeadFilter
from shoal.spider.login import LoginFailed, LoginSession
from shoal.testing.servers import ValkeyServer

WANTED = sorted(f"/p/{number}" for number in range(PAGES))
FAST = {"rate": 0, "per_host": 4, "retry_base": 0.05}

SPIDER = """
from shoal import Spider

spider = Spider("members", start="{url}home", rate=0, per_host=4, retry_base=0.05, settle_delay=0)


@spider.login("form#login", accounts=[{accounts}])
async def login(session):
    page = await session.fetch("{url}login")
    name = session.account["name"]
    await session.submit_form(page, "#login", {{"user": name, "password": session.account["password"]}})


@spider.handler
def home(page):
    yield from page.follow_all("a.p", item)


@spider.handler
def item(page):
    yield {{"url": page.text("h1")}}
"""

# Without @spider.login: the handler of the login page sends its form.
BY_HAND = """
from shoal import Spider

spider = Spider("members", start="{url}login", rate=0, per_host=4)


@spider.handler
def login(page):
    yield page.submit_form("#login", {{"user": "anna", "password": "annas-secret-7"}}, home)


@spider.handler
def home(page):
    yield from page.follow_all("a.p", item)


@spider.handler
def item(page):
    yield {{"url": page.text("h1")}}
"""


# The product, with less patience for whoever died while it logged in.
IMPATIENT = (
    sys.executable,
    "-c",
    "from shoal.engine import logins; logins._LEASE = 2.0; from shoal.cli import main; main()",
)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """For crawls in this process: a page looks sooner whether it may log in again."""
    monkeypatch.setattr(logins, "_WAIT", 0.1)


def account(name: str) -> str:
    return repr({"name": name, "password": PASSWORDS[name]})


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with Desk(tmp_path) as desk:
        yield desk


def spider_for(
    site: Members, *, sign: object = "form#login", password: str = "", **settings: object
) -> Spider:
    spider = Spider("members", start=f"{site.url}home", **{**FAST, **settings})

    @spider.login(sign)  # type: ignore[arg-type]
    async def login(session: LoginSession) -> None:
        page = await session.fetch(f"{site.url}login")
        fields = {"user": "anna", "password": password or PASSWORDS["anna"]}
        await session.submit_form(page, "#login", fields)

    @spider.handler
    def home(page: Page) -> object:
        yield from page.follow_all("a.p", item)

    @spider.handler
    def item(page: Page) -> object:
        yield {"url": page.text("h1"), "session": page.task.session}

    return spider


async def rows_of(spider: Spider) -> list[str]:
    results = await shoal.crawl(spider)
    return sorted(row["url"] for row in results.items)


@pytest.mark.parametrize("outsiders", ["redirect", "elsewhere", "form", "401"])
async def test_a_site_that_logs_everyone_out_now_and_then(outsiders: str) -> None:
    with serving(Members(outsiders=outsiders, requests=7)) as site:
        assert await rows_of(spider_for(site)) == WANTED
        assert set(site.at_once.values()) == {1}
        # A page that was sent elsewhere before the login looks logged out there after it.
        spare = site.ended if outsiders == "elsewhere" else 0
        assert site.logins["anna"] <= site.ended + 1 + spare


async def test_a_function_or_a_url_tells_that_one_is_logged_out() -> None:
    with serving(Members(outsiders="form", requests=7)) as site:
        assert await rows_of(spider_for(site, sign=lambda page: "members only" in page.html)) == WANTED
    with serving(Members(outsiders="elsewhere", requests=7)) as site:
        spider = spider_for(site, sign=None)
        assert spider.logs_in is not None
        function, spider.logs_in = spider.logs_in.function, None
        spider.login(logged_out_url="/welcome$")(function)
        assert await rows_of(spider) == WANTED


@pytest.mark.parametrize(
    ("store", "by_hand"), [("sqlite", False), ("valkey", False), ("valkey", True)], ids=str
)
def test_a_fleet_has_one_session(
    desk: Desk, store: str, by_hand: bool, request: pytest.FixtureRequest
) -> None:
    where: ValkeyServer | None = request.getfixturevalue("valkey") if store == "valkey" else None
    address = where.url if where is not None else "fleet.db"
    with serving(Members(pause=0.02, requests=0 if by_hand else 7)) as site:
        text = BY_HAND if by_hand else SPIDER
        desk.file("members.py", text.format(url=site.url, accounts=account("anna")))
        workers = [
            desk.start("worker", "members.py", "--store", address, "-s", "concurrency=2") for _ in range(3)
        ]
        submit = ("submit", "members.py", "--store", address, "-o", "rows.jsonl", "--wait", "-q")
        desk.finish(*submit)
        assert desk.urls() == WANTED, [worker.err for worker in workers]
        assert site.at_once["anna"] == 1
        assert site.logins["anna"] <= site.ended + 1


@pytest.mark.parametrize("by_hand", [False, True])
def test_two_processes_killed_and_resumed(desk: Desk, by_hand: bool) -> None:
    with serving(Members(pause=0.05)) as site:
        text = BY_HAND if by_hand else SPIDER
        desk.file("members.py", text.format(url=site.url, accounts=account("anna")))
        command = ("crawl", "members.py", "-o", "rows.jsonl", "-q", "-s", "processes=2")
        for pages in (3, 8):
            crawl = desk.start(*command)
            until(lambda: len(site.pages) > pages, "some pages")  # noqa: B023
            crawl.kill()
        desk.finish(*command)
        assert desk.urls() == WANTED
        assert site.logins == {"anna": 1}, "the session goes on"


def test_a_process_killed_while_it_logs_in_is_replaced(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Members()) as site:
        site.login_pause = 2.0
        desk.file("members.py", SPIDER.format(url=site.url, accounts=account("anna")))
        command = ("crawl", "members.py", "-o", "rows.jsonl", "-q")
        crawl = desk.start(*command, program=IMPATIENT)
        until(lambda: site.at_once["anna"], "a login that is under way")
        crawl.kill()
        site.login_pause = 0.0
        desk.finish(*command, program=IMPATIENT)
        assert desk.urls() == WANTED


@pytest.mark.parametrize("key", ["", "correct horse battery"])
def test_no_password_is_anywhere_and_with_a_key_no_cookie(desk: Desk, key: str) -> None:
    if key:
        pytest.importorskip("cryptography")
    with serving(Members(requests=9)) as site:
        desk.file("members.py", SPIDER.format(url=site.url, accounts=account("anna")))
        desk.file("shoal.toml", f'session_key = "{key}"\n')
        desk.finish("crawl", "members.py", "-o", "rows.jsonl", "--log-level", "debug", "-s", "lease=5")
        assert desk.urls() == WANTED
        assert not found(desk, PASSWORDS["anna"])
        assert not found(desk, key or "not a key")
        cookies = {secret for secret in site.secrets if found(desk, secret)}
        assert bool(cookies) != bool(key), "in clear, they can be found: so can this test"


def found(desk: Desk, secret: str) -> list[str]:
    ours = {"members.py", "shoal.toml"}
    files = [path for path in desk.folder.rglob("*") if path.is_file() and path.name not in ours]
    files = [path for path in files if path.suffix != ".pyc"]  # the user's own text, compiled
    assert any(path.suffix == ".db" for path in files)
    return [str(path) for path in files if secret.encode() in path.read_bytes()]


def test_the_wrong_key_is_one_clear_line(desk: Desk) -> None:
    pytest.importorskip("cryptography")
    with serving(Members(pause=1.5)) as site:  # all pages take 6 s: it is killed before, even by a late test
        desk.file("members.py", SPIDER.format(url=site.url, accounts=account("anna")))
        desk.file("shoal.toml", 'session_key = "right"\n')
        crawl = desk.start("crawl", "members.py", "-o", "rows.jsonl", "-q")
        until(lambda: len(site.pages) > 3, "some pages")
        crawl.kill()
        site.pause = 0.0
        desk.file("shoal.toml", 'session_key = "wrong"\n')
        again = desk.run("crawl", "members.py", "-o", "rows.jsonl", "-q")
        assert (again.code(), again.out) == (2, "")
        assert again.err.startswith(
            "shoal: the cookies in the note 'session/members/anna' are encrypted with another"
        )
        assert again.err.count("\n") == 1
        desk.file("shoal.toml", 'session_key = "right"\n')
        desk.finish("crawl", "members.py", "-o", "rows.jsonl", "-q")
        assert desk.urls() == WANTED


# -- logins that fail


def test_a_wrong_password_is_told_and_can_be_put_right(desk: Desk) -> None:
    with serving(Members()) as site:
        wrong = repr({"name": "anna", "password": "wrong-secret"})
        desk.file("members.py", SPIDER.format(url=site.url, accounts=wrong))
        crawl = desk.run("crawl", "members.py", "-o", "rows.jsonl", "-q")
        assert crawl.code() == 1
        assert (
            "session anna of job members could not log in 3 times and is given up: the page after the"
            " login still looks logged out" in crawl.err
        )
        assert site.refused == 3
        shown = desk.run("dead", "list", "--kind", "login_failed")
        assert "login_failed" in shown.out
        assert not found(desk, "wrong-secret")
        desk.file("members.py", SPIDER.format(url=site.url, accounts=account("anna")))
        desk.finish("dead", "replay", "--kind", "login_failed")
        desk.finish("crawl", "members.py", "-o", "rows.jsonl", "-q")
        assert desk.urls() == WANTED


async def test_a_busy_site_is_not_taken_for_a_wrong_password() -> None:
    with serving(Members()) as site:
        site.busy = 13  # four logins with three attempts each, and one attempt more
        spider = spider_for(site, retry_base=0.01, breaker_failures=1000, breaker_rate=2, retry_budget=100)
        assert await rows_of(spider) == WANTED
        assert site.logins["anna"] == 1


async def test_what_a_login_says_of_its_failure_has_no_password(caplog: pytest.LogCaptureFixture) -> None:
    with serving(Members()) as site:
        spider = Spider("members", start=f"{site.url}home", **FAST)  # type: ignore[arg-type]

        @spider.login(accounts=[{"name": "anna", "password": "hunter2-hunter2"}])
        async def login(session: LoginSession) -> None:
            raise LoginFailed(f"{session.name} is not known with {session.account['password']}")

        @spider.handler
        def home(page: Page) -> object:
            yield {"url": page.url}

        results = await shoal.crawl(spider)
        assert results.view.job.counters.dead == 1
        assert (results.view.report.logins, results.view.report.failed_logins) == (0, 3)
        assert "anna is not known with …" in caplog.text
        assert "hunter2" not in caplog.text


async def test_a_password_in_the_query_of_a_login_is_not_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(Members()) as site:
        spider = Spider("members", start=f"{site.url}home", **FAST)  # type: ignore[arg-type]

        @spider.login("form#login")
        async def login(session: LoginSession) -> None:
            await session.fetch("http://10.0.0.1/log-in", params={"user": "anna", "pin": "hunter2-hunter2"})

        @spider.handler
        def home(page: Page) -> object:
            yield {"url": page.url}

        await shoal.crawl(spider, store=str(tmp_path / "s.db"))
    assert "http://10.0.0.1/log-in: 10.0.0.1 is a private address" in caplog.text
    assert "hunter2" not in caplog.text
    async with open_frontier(str(tmp_path / "s.db")) as frontier:
        [letter] = await frontier.dead(DeadFilter())
        note = await frontier.note("session/members/main")
    assert "http://10.0.0.1/log-in: " in letter.task.history[-1].detail
    assert note is not None
    assert b"log-in" in note.value
    assert "hunter2" not in f"{letter}{note.value!r}"


# -- accounts


async def test_accounts_share_the_pages_and_one_that_cannot_log_in_is_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with serving(Members()) as site:
        spider = Spider("members", start=f"{site.url}home", **FAST)  # type: ignore[arg-type]
        people = [{"name": name, "password": password} for name, password in PASSWORDS.items()]

        @spider.login("form#login", accounts=lambda: [*people, {"name": "eve", "password": "guessed"}])
        async def login(session: LoginSession) -> None:
            page = await session.fetch(f"{site.url}login")
            fields = {"user": session.name, "password": session.account["password"]}
            await session.submit_form(page, "#login", fields)

        @spider.handler
        def home(page: Page) -> object:
            yield from page.follow_all("a.p", item)
            yield page.follow("/p/bobs", item, session="bob")
            yield page.follow("/p/outside", item, session="")
            yield page.follow("/p/eves", item, session="eve")

        @spider.handler
        def item(page: Page) -> object:
            yield {"url": page.text("h1"), "session": page.task.session}

        results = await shoal.crawl(spider)
        rows = {row["url"]: row["session"] for row in results.items}
        assert set(WANTED) <= set(rows)
        assert {rows[url] for url in WANTED} == {"anna", "bob"}, "both have some"
        assert rows["/p/bobs"] == "bob"
        assert site.users["bob"] > 2
        assert site.logins == {"anna": 1, "bob": 1}
        assert results.view.job.counters.dead == 2, "the page of eve, and that of nobody"
        told = [record.message for record in caplog.records if "could not log in 3 times" in record.message]
        assert len(told) == 1
        assert told[0].startswith("session eve of job members")


async def test_a_request_may_name_a_session_of_a_spider_without_accounts() -> None:
    with serving(Members()) as site:
        spider = spider_for(site)
        spider.start = [Request(f"{site.url}home", session="two")]
        assert await rows_of(spider) == WANTED
        assert site.logins["anna"] == 2, "the links name no session"


async def test_a_token_may_be_a_header_of_the_session() -> None:
    asked: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            asked.append(head.decode())
            body = b"<h1>x</h1>" if b"Bearer t0ken" in head or b"/token" in head else b"<b id=out>no</b>"
            length = b"Content-Length: %d" % len(body)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + length + b"\r\n\r\n" + body)

    async def guarded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async with await asyncio.start_server(guarded, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        spider = Spider("members", start=url, robots=False, **FAST)  # type: ignore[arg-type]

        @spider.login("#out")
        async def login(session: LoginSession) -> None:
            await session.fetch(f"{url}token")
            session.headers["Authorization"] = "Bearer t0ken"

        @spider.handler
        def home(page: Page) -> object:
            yield {"url": page.text("h1")}

        results = await shoal.crawl(spider)
        assert [row["url"] for row in results.items] == ["x"]
        assert ["Bearer" in head for head in asked] == [False, True]


@pytest.mark.parametrize("outsiders", ["redirect", "form", "401"])
async def test_a_request_inside_a_handler_is_logged_in_too(outsiders: str) -> None:
    with serving(Members(outsiders=outsiders, requests=30)) as site:
        spider = spider_for(site)

        @spider.handler
        async def pair(page: Page) -> dict[str, str]:
            other = await page.fetch(page.url.replace("/p/", "/q/"))
            named = await page.fetch(page.url.replace("/p/", "/r/"), session="other")
            return {"url": page.text("h1"), "other": other.text("h1"), "named": named.text("h1")}

        @spider.handler
        def first(page: Page) -> object:
            yield from page.follow_all("a.p", pair)

        spider.start = [Request(f"{site.url}home", handler="first")]
        results = await shoal.crawl(spider)
        rows = sorted((row["url"], row["other"], row["named"]) for row in results.items)
        assert rows == [(url, url.replace("p", "q"), url.replace("p", "r")) for url in WANTED]


async def test_the_login_page_may_be_a_page_of_the_crawl() -> None:
    with serving(Members()) as site:
        spider = spider_for(site)
        spider.start = [f"{site.url}home", Request(f"{site.url}login", handler="item")]
        assert await rows_of(spider) == ["", *WANTED]
        assert site.logins["anna"] == 1


async def test_a_hook_may_choose_the_account() -> None:
    with serving(Members()) as site:
        spider = Spider("members", start=f"{site.url}home", **FAST)  # type: ignore[arg-type]
        people = [{"name": name, "password": password} for name, password in PASSWORDS.items()]

        @spider.login("form#login", accounts=people)
        async def login(session: LoginSession) -> None:
            page = await session.fetch(f"{site.url}login")
            fields = {"user": session.name, "password": session.account["password"]}
            await session.submit_form(page, "#login", fields)

        @spider.before_request
        def bob_only(request: OutgoingRequest) -> None:
            if "/p/" in request.url:
                request.session = "bob"

        @spider.handler
        def home(page: Page) -> object:
            yield from page.follow_all("a.p", item)

        @spider.handler
        def item(page: Page) -> object:
            yield {"url": page.text("h1")}

        assert await rows_of(spider) == WANTED
        assert site.pages["/home"] + PAGES + 2 >= sum(site.users.values())
        assert site.users["bob"] >= PAGES
        assert set(site.at_once.values()) == {1}


async def test_a_login_that_finds_no_form_is_a_failure_and_not_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with serving(Members()) as site:
        spider = spider_for(site)
        assert spider.logs_in is not None
        spider.logs_in = None

        @spider.login("form#login")
        async def login(session: LoginSession) -> None:
            page = await session.fetch(f"{site.url}login")
            await session.submit_form(page, "#nothing", {"user": "anna"})

        results = await shoal.crawl(spider)
        assert results.view.job.counters.dead == 1
        assert results.view.report.failed_logins == 3
        assert "could not log in 3 times and is given up: " in caplog.text
        assert "#nothing" in caplog.text


@pytest.mark.parametrize("error", [RuntimeError("no luck"), SystemExit("no luck")])
async def test_an_error_in_a_login_names_its_line_and_ends_no_crawl(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(Members()) as site:
        spider = Spider("members", start=f"{site.url}home", **FAST)  # type: ignore[arg-type]

        @spider.login("form#login")
        async def login(session: LoginSession) -> None:
            raise error

        @spider.handler
        def home(page: Page) -> object:
            yield {"url": page.url}

        results = await shoal.crawl(spider)
        assert results.view.job.counters.dead == 1
        assert f"{type(error).__name__}: no luck (" in caplog.text
        assert "test_logins.py:" in caplog.text


async def test_a_login_that_computes_for_ever_is_ended(caplog: pytest.LogCaptureFixture) -> None:
    with serving(Members()) as site:
        spider = spider_for(site, handler_timeout=0.5, handler_warn=0.2)
        spider.logs_in = None

        @spider.login("form#login")
        async def login(session: LoginSession) -> None:
            while True:
                pass

        results = await shoal.crawl(spider)
        assert [letter.kind for letter in results.dead] == ["login_failed"]
        assert "it computed for longer than handler_timeout = 0.5 s" in caplog.text


async def test_a_page_that_looks_logged_out_after_a_login_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with serving(Members()) as site:
        spider = Spider("members", start=f"{site.url}home?secret=1", **FAST)  # type: ignore[arg-type]

        @spider.login("form#login")
        async def login(session: LoginSession) -> None:
            """Does nothing."""

        @spider.handler
        def home(page: Page) -> object:
            yield {"url": page.url}

        await shoal.crawl(spider)
        assert f"{site.url}home looked logged out right after the login" in caplog.text


async def test_pages_that_look_logged_out_though_they_are_not_do_not_end_the_session() -> None:
    """The sign is wrong for some pages: those are lost, and no others."""
    with serving(Members()) as site:
        odd = {"/p/3", "/p/7"}
        spider = spider_for(
            site, sign=lambda page: page.first("form#login") or page.text("h1") in odd, retry_cap=0.2
        )
        results = await shoal.crawl(spider)
    assert sorted(row["url"] for row in results.items) == sorted(set(WANTED) - odd)
    assert results.view.job.counters.dead == len(odd)


def test_a_sign_that_is_no_selector_is_told_at_once() -> None:
    with pytest.raises(SpiderError, match=r"@spider\.login: logged_out: not a CSS selector: 'form\[\['"):

        @Spider("members").login("form[[")
        async def login(session: LoginSession) -> None: ...


@pytest.mark.parametrize("headers", [{"Bad\nName": "x"}, {"Token": 5}, {"Token": "a\r\nb"}])
async def test_headers_of_a_session_that_cannot_be_sent_are_a_failed_login(
    headers: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    with serving(Members()) as site:
        spider = Spider("members", start=f"{site.url}home", **FAST)  # type: ignore[arg-type]

        @spider.login("form#login")
        async def login(session: LoginSession) -> None:
            session.headers.update(headers)

        spider.add_handler(lambda page: None, name="home")
        await shoal.crawl(spider)
    assert "session.headers" in caplog.text
    assert "could not log in 3 times" in caplog.text
