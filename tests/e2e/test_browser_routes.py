"""Crawls in the browser lane through bad proxies, in sessions, and past pages that mean harm; and what they leave."""

from __future__ import annotations

import asyncio
import gzip
import logging
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import shoal
from browser import kept_browser
from integration.raw_server import Answer, RawServer, page, serve
from shoal import Page, Request, Spider
from shoal.engine.history_recorder import read_history
from shoal.engine.vitals import Vitals
from shoal.fetch.browser.executable import available
from shoal.fetch.proxy.sessions import Sessions
from shoal.frontier import open_frontier
from shoal.frontier.values import DeadFilter
from shoal.hosts.proxy_pools import StoredPools
from shoal.inspect.event_log import read_events
from shoal.inspect.overview import look
from shoal.model import DeadLetter
from shoal.settings import Settings
from shoal.telemetry.metrics import render_process, render_store
from shoal.testing import ChaoticWeb, HostProfile
from shoal.testing.proxy_server import ProxyServer

pytestmark = [
    pytest.mark.skipif(not available(Settings()), reason="no browser"),
    pytest.mark.asyncio(loop_scope="module"),
]

PASSWORD = "s3cret-hunter2"
TABS = 3
QUICK: dict[str, Any] = {
    "rate": 0,
    "per_host": 4,
    "retry_base": 0.05,
    "browser_tabs": TABS,
    "browser_wait": "load",
}


@pytest_asyncio.fixture(loop_scope="module", scope="module", autouse=True)
async def one_browser() -> AsyncIterator[None]:
    async with kept_browser():
        yield


@pytest_asyncio.fixture(loop_scope="module")
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


async def crawl(spider: Spider, store: Path) -> shoal.Results:
    async with asyncio.timeout(180):
        return await shoal.crawl(spider, store=str(store), output=None)


async def letters(store: Path) -> list[DeadLetter]:
    async with open_frontier(str(store)) as frontier:
        return list(await frontier.dead(DeadFilter()))


def html(text: str, **headers: str) -> bytes:
    return page(text.encode(), Content_Type="text/html", **headers)


def header(head: bytes, name: str) -> str:
    found = re.search(rf"\r\n{name}: (.*?)\r\n".encode(), head, re.IGNORECASE)
    return found[1].decode() if found else ""


def cookies(head: bytes) -> set[str]:
    return set(header(head, "Cookie").split("; ")) - {""}


def asked(server: RawServer, path: str) -> list[bytes]:
    """The heads of requests for what begins so."""
    return [head for head in server.hits if head.split(b" ")[1].decode().startswith(path)]


# -- proxies


async def test_a_browser_learns_which_proxies_are_good(
    tmp_path: Path, stack: AsyncExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    login: dict[str, Any] = {"user": "me", "password": PASSWORD}
    good = await stack.enter_async_context(ProxyServer("http", **login))
    other = await stack.enter_async_context(ProxyServer("socks5", **login))
    wrong = await stack.enter_async_context(ProxyServer("http", **login))
    wrong.password = "another"
    async with ProxyServer("socks5", **login) as dead:
        pass
    hosts = {name: HostProfile("scripted", pages=8, shells=1.0) for name in ("a", "b")}
    web = await stack.enter_async_context(ChaoticWeb(hosts))
    wanted = [web.url(host, f"/p/{n}") for n in range(1, 4) for host in hosts]
    start = [Request(url, lane="browser") for url in (*wanted, web.url("a", "/missing"))]
    pool = [proxy.url for proxy in (good, other, dead, wrong)]
    # In turn, so that every one of them is met.
    spider = Spider("proxied", start, **QUICK, proxies={"dc": pool}, pool="dc", pool_strategy="round_robin")

    @spider.handler(wait_for="h1")
    def rendered(page: Page) -> Iterator[dict[str, object]]:
        yield {"url": page.url, "title": page.text("title"), "via": page.response.via}

    store = tmp_path / "store.db"
    results = await crawl(spider, store)
    assert sorted(str(row["url"]) for row in results) == sorted(wanted)
    assert all(str(row["title"]).startswith("Page ") for row in results)
    assert {row["via"] for row in results} == {f"dc/{good.address}", f"dc/{other.address}"}, "both are used"
    async with open_frontier(str(store)) as frontier:
        pools, events = await StoredPools(frontier).read_all(), await read_events(frontier)
        [letter] = await frontier.dead(DeadFilter())
        overview, history = await look(frontier), await read_history(frontier, results.view.job.spec.name)
    states = {name.partition("/")[2]: state for name, state in pools["dc"].proxies.items()}
    # -- the bad ones are found out by the first pages, and left alone
    assert states[dead.address].hold.reason == "proxy_connect"
    assert states[wrong.address].hold.reason == "proxy_auth"
    assert max(states[bad.address].requests for bad in (dead, wrong)) <= TABS + 2
    # -- and it is not the hosts' fault
    assert letter.kind == "http_404"
    assert letter.task.history[-1].via.startswith("dc/")
    told = {one.event for one in events}
    assert not told & {"breaker_opened", "host_given_up"}
    assert {kind for kind in results.view.report.errors if not kind.startswith("proxy")} <= {"http_404"}
    # -- and the password is nowhere
    for file in list(tmp_path.iterdir()):  # noqa: ASYNC240
        assert PASSWORD.encode() not in file.read_bytes(), file
    said = [caplog.text, *(str(vars(record)) for record in caplog.records)]
    said += [repr((results, letter, pools, spider, events, history, overview, *spider.handlers.values()))]
    said += [str(results.items)]
    said += [render_process(results.view.report, Vitals()).decode(), render_store(overview).decode()]
    assert PASSWORD not in "\n".join(said)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


# -- sessions


def echoing() -> Answer:
    """Pages that show what cookies they were asked with."""

    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        path = head.split(b" ")[1].decode()
        who = path.rpartition("=")[2]
        login = {"Set_Cookie": f"id={who}; Path=/"} if path.startswith("/login") else {}
        script = f"<script>document.cookie = 'js={who}; path=/'</script>" if path.startswith("/app") else ""
        writer.write(html(f"<title>{path}</title><p>{header(head, 'Cookie')}</p>{script}", **login))

    return answer


async def test_a_session_is_the_same_in_both_worlds(tmp_path: Path) -> None:
    users = ["alice", "bob"]
    async with serve(echoing()) as server:
        start = [Request(server.url(f"/login?u={who}"), session=who) for who in users]
        spider = Spider("worlds", [*start, server.url("/login?u=none")], robots=False, **QUICK)

        @spider.handler
        def login(page: Page) -> Iterator[Request]:
            who = page.url.rpartition("=")[2]
            for n in range(2):
                yield page.follow(f"/app/{n}?u={who}", app, session=page.task.session)

        @spider.handler(lane="browser")
        def app(page: Page) -> Iterator[object]:
            assert page.in_browser
            yield {"path": page.url.partition("/app")[2], "sent": page.text("p")}
            yield page.follow(page.url.replace("/app", "/after"), after, session=page.task.session)

        @spider.handler(lane="normal")
        def after(page: Page) -> Iterator[object]:
            assert not page.in_browser
            yield {"path": page.url.partition("/after")[2], "sent": page.text("p")}

        results = await crawl(spider, tmp_path / "store.db")
    assert results.view.job.counters.dead == 0
    for who in users:
        for n in range(2):
            [first] = asked(server, f"/app/{n}?u={who}")
            assert f"id={who}" in cookies(first), "what a plain page set, the browser sends"
            [later] = asked(server, f"/after/{n}?u={who}")
            assert cookies(later) == {f"id={who}", f"js={who}"}, "and the other way round"
    assert "/favicon.ico" not in server.paths
    for head in server.hits:
        who = head.split(b" ")[1].decode().rpartition("=")[2]
        assert cookies(head) <= {f"id={who}", f"js={who}"}, "never another's"


@pytest.mark.parametrize("lane", ["normal", "browser"])
async def test_cookies_are_sent_as_they_were_set(tmp_path: Path, lane: str) -> None:
    values = {'quoted="x y"', "base64=aGk==", 'json={"a":1,"b":2}', "address=1"}
    lines = [f"{value}; Path=/{'; Domain=127.0.0.1' if value == 'address=1' else ''}" for value in values]
    # A browser does not take it, but it is not lost to the plain pages for that.
    lines += ["lax=1; SameSite=None; Path=/"] if lane == "normal" else []
    other = "browser" if lane == "normal" else "normal"

    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        sets = {"Set_Cookie": "\r\nSet-Cookie: ".join(lines)} if b"/set" in head else {}
        writer.write(html("<title>t</title><p>page</p>", **sets))

    async with serve(answer) as server:
        start = Request(server.url("/set"), lane=lane, session="me")
        spider = Spider("values", [start], robots=False, **QUICK)

        @spider.handler
        def one(page: Page) -> Iterator[Request]:
            number = len(server.hits)
            if number < 6:
                yield page.follow(f"/{number}", lane=lane if number % 2 else other, session="me")

        await crawl(spider, tmp_path / "store.db")
    sent = [cookies(head) - {"lax=1"} for head in server.hits]
    assert sent == [set(), *[values] * 5]
    assert ("lax=1" in cookies(server.hits[-1])) == (lane == "normal")


def numbering(hits: list[str]) -> Answer:
    """Gives whoever comes without a cookie a new number, and notes which cookies come."""

    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        sent = header(head, "Cookie")
        hits.append(sent)
        new = {} if sent else {"Set_Cookie": f"n={len(hits)}; Path=/; HttpOnly"}
        writer.write(html("<title>n</title><p>page</p>", **new))

    return answer


async def test_a_session_in_the_browser_is_begun_anew_after_some_requests(tmp_path: Path) -> None:
    hits: list[str] = []
    async with serve(numbering(hits)) as server:
        start = Request(server.url("/1"), lane="browser", session="me")
        spider = Spider("worn", [start], robots=False, session_requests=3, **QUICK)

        @spider.handler
        def one(page: Page) -> Iterator[Request]:
            if (number := int(page.url.rpartition("/")[2])) < 8:
                lane = "normal" if number % 3 == 1 else "browser"
                yield page.follow(f"/{number + 1}", lane=lane, session="me")

        results = await crawl(spider, tmp_path / "store.db")
    assert results.view.job.counters.done == 8
    assert hits == ["", "n=1", "n=1", "", "n=4", "n=4", "", "n=7"]


async def test_a_session_in_the_browser_is_begun_anew_at_an_age(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hours pass by the sessions' clock alone: how long a browser takes for a page says nothing about their age."""
    passed = 0.0
    passes = {2: 1000.0, 4: 800.0, 5: 200.0}  # seconds, after these pages
    current, begin = Sessions.current, Sessions.begin
    monkeypatch.setattr(Sessions, "current", lambda self, name, now: current(self, name, now + passed))
    monkeypatch.setattr(
        Sessions, "begin", lambda self, name, proxy, now, url: begin(self, name, proxy, now + passed, url)
    )
    hits: list[str] = []
    async with serve(numbering(hits)) as server:
        start = Request(server.url("/1"), lane="browser", session="me")
        spider = Spider("old", [start], robots=False, session_age=1000.0, **QUICK)

        @spider.handler
        def one(page: Page) -> Iterator[Request]:
            nonlocal passed
            number = int(page.url.rpartition("/")[2])
            passed += passes.get(number, 0.0)
            if number < 6:
                yield page.follow(f"/{number + 1}", lane="browser", session="me")

        await crawl(spider, tmp_path / "store.db")
    assert hits == ["", "n=1", "", "n=3", "n=3", ""]


async def test_a_session_that_is_banned_in_the_browser_begins_anew(
    tmp_path: Path, stack: AsyncExitStack
) -> None:
    servers = [await stack.enter_async_context(ProxyServer("http")) for _ in range(3)]
    hits: list[str] = []
    async with serve(numbering(hits)) as server:
        start = Request(server.url("/0"), lane="browser", session="me")
        pool = {"dc": [proxy.url for proxy in servers]}
        spider = Spider("banned", [start], robots=False, proxies=pool, pool="dc", **QUICK)
        ways: list[str] = []

        @spider.handler
        def one(page: Page) -> Iterator[Request]:
            ways.append(page.response.via)
            if len(ways) == 3:
                used = next(proxy for proxy in servers if ways[-1].endswith(proxy.address))
                used.banned_by = {f"127.0.0.1:{server.port}"}
            if len(ways) < 6:
                yield page.follow(f"/{len(ways)}", lane="browser", session="me")

        results = await crawl(spider, tmp_path / "store.db")
    assert results.view.job.counters.done == 6
    first, second = dict.fromkeys(ways)
    assert ways == [first] * 3 + [second] * 3, "a session stays with its proxy"
    assert hits == ["", "n=1", "n=1", "", "n=4", "n=4"]


class Nameserver(ProxyServer):
    """A proxy that finds every host on this machine."""

    async def _open(self, target: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await super()._open(f"127.0.0.1:{target.rpartition(':')[2]}")


async def test_cookies_stay_where_they_belong(tmp_path: Path, stack: AsyncExitStack) -> None:
    wide = ["co.uk", ".co.uk", "uk", "other.co.uk"]

    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        lines = [f"h{n}=1; Domain={domain}; Path=/" for n, domain in enumerate(wide)]
        lines += ["host=1; Path=/", "site=1; Domain=shop.co.uk; Path=/"]
        script = "".join(
            f"document.cookie = 's{n}=1; domain={domain}; path=/';" for n, domain in enumerate(wide)
        )
        sets = "\r\nSet-Cookie: ".join(lines) if b"/set" in head else "gone=1; Max-Age=0"
        writer.write(html(f"<title>t</title><p>page</p><script>{script}</script>", Set_Cookie=sets))

    proxy = await stack.enter_async_context(Nameserver("http"))
    async with serve(answer) as server:

        def at(host: str, path: str) -> str:
            return f"http://{host}:{server.port}{path}"

        start = Request(at("shop.co.uk", "/set"), lane="browser", session="me")
        pool = {"dc": [proxy.url]}
        spider = Spider("wide", [start], robots=False, any_host=True, proxies=pool, pool="dc", **QUICK)

        @spider.handler
        def first(page: Page) -> Iterator[Request]:
            for lane in ("normal", "browser"):
                for host in ("shop.co.uk", "www.shop.co.uk", "other.co.uk"):
                    yield page.follow(at(host, f"/{lane}"), last, lane=lane, session="me")

        @spider.handler
        def last(page: Page) -> None: ...

        results = await crawl(spider, tmp_path / "store.db")
    assert (results.view.job.counters.done, results.view.job.counters.dead) == (7, 0)
    for lane in ("normal", "browser"):
        found = {header(head, "Host").partition(":")[0]: cookies(head) for head in asked(server, f"/{lane}")}
        assert found == {
            "shop.co.uk": {"host=1", "site=1"},
            "www.shop.co.uk": {"site=1"},
            "other.co.uk": set(),
        }


@pytest.mark.parametrize("how", ["status", "script"])
async def test_a_login_is_not_taken_to_another_origin(tmp_path: Path, how: str) -> None:
    async with AsyncExitStack() as both:
        elsewhere = await both.enter_async_context(
            serve(_leading({"/end": html("<title>end</title><p>there</p>")}), host="127.0.0.2")
        )
        answers: dict[str, bytes] = {"/home": html("<title>home</title>")}
        server = await both.enter_async_context(serve(_leading(answers)))
        for path, target in {"/away": elsewhere.url("/end"), "/here": "/home"}.items():
            answers[path] = (
                page(b"", "302 Found", Location=target)
                if how == "status"
                else html(f"<title>moved</title><script>location = '{target}'</script>")
            )
        login = {"Authorization": f"Bearer {PASSWORD}"}
        start = [Request(server.url(path), lane="browser", headers=login) for path in ("/away", "/here")]
        settings = {**QUICK, "browser_wait": "quiet", "allow_network": ["127.0.0.2/32"], "any_host": True}
        spider = Spider("login", start, robots=False, **settings)

        @spider.handler
        def end(page: Page) -> Iterator[object]:
            yield {"url": page.url}

        results = await crawl(spider, tmp_path / "store.db")
    assert {row["url"] for row in results} == {elsewhere.url("/end"), server.url("/home")}
    for path in ("/away", "/here", "/home"):
        [head] = asked(server, path)
        assert header(head, "Authorization") == f"Bearer {PASSWORD}"
    [head] = asked(elsewhere, "/end")
    assert not header(head, "Authorization")


def _leading(answers: dict[str, bytes]) -> Answer:
    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(answers.get(head.split(b" ")[1].decode(), page(b"", "404 Not Found")))

    return answer


# -- pages that mean harm

INSIDE = "127.0.0.20"
SECRET = "the-crown-jewels"
SCRIPT = """<title>spy</title><p>nothing</p><script>
const show = text => { document.querySelector("p").textContent += text }
for (const mode of ["cors", "no-cors"])
  fetch("INSIDE", {mode}).then(a => a.text()).then(show, error => show(" refused"))
</script><iframe src="INSIDE"></iframe><script src="INSIDE"></script>"""


async def test_harmful_pages_of_a_crawl_harm_nobody(tmp_path: Path) -> None:
    bomb = gzip.compress(b"<p>" + b" " * 30_000_000)

    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        path = head.split(b" ")[1].decode()
        if path == "/list":
            links = [f"<a href=/good/{n}>good</a>" for n in range(3)]
            links += [f"<a href=/{name}>bad</a>" for name in ("inside", "spy", "bomb", "drip")]
            writer.write(html(f"<title>list</title>{''.join(links)}"))
        elif path == "/inside":
            writer.write(page(b"", "302 Found", Location=inside.url("/")))
        elif path == "/spy":
            writer.write(html(SCRIPT.replace("INSIDE", inside.url("/"))))
        elif path == "/bomb":
            writer.write(page(bomb, Content_Type="text/html", Content_Encoding="gzip"))
        elif path == "/drip":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5000\r\n\r\n<title>")
            while True:
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.3)
        else:
            writer.write(html("<title>good</title><p>good"))

    secret = html(f"<title>{SECRET}</title>{SECRET}", Access_Control_Allow_Origin="*")
    async with serve(_leading({"/": secret}), host=INSIDE) as inside, serve(answer) as server:
        settings = {**QUICK, "total_timeout": 60.0, "max_attempts": 2, "browser_wait": "quiet"}
        spider = Spider("harm", server.url("/list"), robots=False, any_host=True, **settings)

        @spider.handler
        def listing(page: Page) -> Iterator[Request]:
            for href in page.attrs("a", "href"):
                yield page.follow(href, one, timeout=5.0 if href == "/drip" else None)

        @spider.handler(lane="browser")
        def one(page: Page) -> Iterator[object]:
            yield {"url": page.url.partition(server.origin)[2], "html": page.body.decode()}

        results = await crawl(spider, tmp_path / "store.db")
    found = {str(row["url"]): str(row["html"]) for row in results}
    assert found.keys() == {"/spy", *(f"/good/{n}" for n in range(3))}
    kinds = {
        letter.task.origin.partition(server.origin)[2]: letter.kind
        for letter in await letters(tmp_path / "store.db")
    }
    assert kinds == {"/inside": "forbidden_address", "/bomb": "too_large", "/drip": "timeout"}
    assert not inside.connections, "nobody was let in"
    assert SECRET not in str(found)
    assert "<p>nothing refused refused</p>" in found["/spy"]
    asked_for = Counter(server.paths)
    assert (asked_for["/bomb"], asked_for["/inside"], asked_for["/drip"]) == (1, 1, 2)
