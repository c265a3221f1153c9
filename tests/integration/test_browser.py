"""Pages in a real Chromium: what is shown, what handlers can do, what is answered instead of a page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from browser import browser, failure, html, kept_browser, plain, shown, text_of, until
from integration.raw_server import RawServer, always, by_path, page, serve
from shoal.fetch.browser.transport import BrowserTransport
from shoal.fetch.cookie_jar import CookieJar
from shoal.fetch.transport import FetchRequest
from shoal.spider.rendering import Rendering, TabLost, TabTimeout

pytestmark = pytest.mark.asyncio(loop_scope="module")

LONG = ("a" + "ü" * 700_000).encode()
LATE = (
    "<p id=p>empty</p><script>setTimeout(() => {p.textContent = 'late'; p.className = 'done'}, %d)</script>"
)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def chromium() -> AsyncIterator[BrowserTransport]:
    async with kept_browser(), browser() as transport:
        yield transport


def header(head: bytes, name: str) -> str | None:
    for line in head.decode().split("\r\n")[1:]:
        key, _, value = line.partition(": ")
        if key.lower() == name.lower():
            return value
    return None


def hit(server: RawServer, path: str) -> bytes:
    return next(head for head in server.hits if head.split(b" ")[1].decode() == path)


# -- pages


async def test_a_page_after_its_scripts(chromium: BrowserTransport) -> None:
    text = (
        "<!doctype html><p id=p></p><script>p.textContent = 'made by ' + navigator.userAgent + ' ü'</script>"
    )
    async with serve(by_path({"/": html(text, X_Own="1", Content_Language="en")})) as server:
        answer = await shown(chromium, server.url("/"))
        await answer.close()
    assert (answer.status, answer.url, answer.headers["x-own"]) == (200, server.url("/"), "1")
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "Content-Length" not in answer.headers
    assert "<!DOCTYPE html><html><head></head>" in answer.body.decode()
    assert "made by Shoal/" in answer.body.decode()
    assert header(hit(server, "/"), "Accept-Language")
    assert 0 < answer.first_byte <= answer.elapsed
    assert answer.wire_bytes > 0


async def test_only_the_page_is_asked_for(chromium: BrowserTransport) -> None:
    async with serve(by_path({"/": html("<p>no icon")})) as server:
        await text_of(chromium, server.url("/"), "quiet")
    assert server.paths == ["/"]


@pytest.mark.parametrize(
    ("wait", "milliseconds", "found"),
    [("load", 9000, "empty"), ("quiet", 100, "late"), ("p.done", 1000, "late")],
)
async def test_when_a_page_is_complete(
    chromium: BrowserTransport, wait: str, milliseconds: int, found: str
) -> None:
    async with serve(by_path({"/": html(LATE % milliseconds)})) as server:
        assert f">{found}</p>" in await text_of(chromium, server.url("/"), wait)


async def test_quiet_waits_for_what_scripts_fetch(chromium: BrowserTransport) -> None:
    text = (
        "<p id=p></p><script>const text = url => fetch(url).then(answer => answer.text());"
        "text('/a').then(text).then(found => p.id = found)</script>"
    )
    answers = {"/": html(text), "/a": page(b"/b"), "/b": page(b"chained")}
    async with serve(by_path(answers)) as server:
        assert '<p id="chained">' in await text_of(chromium, server.url("/"), "quiet")


async def test_a_page_that_is_never_silent_is_taken_as_it_is(
    chromium: BrowserTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.fetch.browser.transport._PATIENCE", 1.5)
    text = "<p id=p>here</p><script>setInterval(() => fetch('/poll'), 50)</script>"
    async with serve(by_path({"/": html(text), "/poll": page(b"")})) as server:
        assert "here" in await text_of(chromium, server.url("/"), "quiet")


async def test_what_never_appears(chromium: BrowserTransport) -> None:
    async with serve(by_path({"/": html("<p>there")})) as server:
        found = await failure(chromium, server.url("/"), ".price", total_timeout=4.0)
    assert (found.kind, found.status) == ("browser_wait", 200)
    assert "'.price'" in found.detail


async def test_of_an_error_page_no_element_is_expected(chromium: BrowserTransport) -> None:
    async with serve(by_path({"/": html("<p>sorry", "503 Service Unavailable", Retry_After="7")})) as server:
        answer = await shown(chromium, server.url("/"), ".price")
        await answer.close()
    assert (answer.status, answer.headers["Retry-After"]) == (503, "7")
    assert b"sorry" in answer.body


async def test_a_selector_that_is_none(chromium: BrowserTransport) -> None:
    async with serve(by_path({"/": html("<p>there")})) as server:
        found = await failure(chromium, server.url("/"), "p[")
    assert found.kind == "invalid_request"
    assert "'p['" in found.detail


async def test_dialogs_and_popups_do_not_get_in_the_way(chromium: BrowserTransport) -> None:
    text = (
        "<p id=p></p><a id=a href=/popup target=_blank></a>"
        "<script>alert(1); confirm(2); window.open('/popup'); a.click(); p.textContent = 'went on'</script>"
    )
    async with serve(by_path({"/": html(text)})) as server:
        assert "went on" in await text_of(chromium, server.url("/"), "quiet")
    assert server.paths == ["/"]


async def test_resource_types_are_blocked(chromium: BrowserTransport) -> None:
    text = (
        "<link rel=stylesheet href=/style.css><img src=/image.png><script src=/script.js></script>"
        "<script>try { new WebSocket(location.origin.replace('http', 'ws') + '/socket') } catch {}</script>"
    )
    async with (
        browser(browser_block=["image", "stylesheet", "websocket"]) as blocking,
        serve(by_path({"/": html(text), "/script.js": page(b"")})) as server,
    ):
        await text_of(blocking, server.url("/"), "quiet")
    assert sorted(server.paths) == ["/", "/script.js"]


# -- handlers


FORM = """<input id=who><button onclick="out.textContent = 'hello ' + who.value">greet</button><p id=out></p>
<div style="height: 5000px"></div><p id=end></p>
<script>
  addEventListener("keydown", event => { if (event.key == "Escape") out.textContent = "left" });
  new IntersectionObserver(seen => {
    if (seen[0].isIntersecting) end.insertAdjacentHTML("beforebegin", "<i>more</i>")
  }).observe(end);
</script>"""


async def test_what_a_handler_can_do(chromium: BrowserTransport) -> None:
    async with serve(by_path({"/": html(FORM)})) as server:
        answer = await shown(chromium, server.url("/"))
        tab = answer.tab
        assert tab is not None
        await tab.fill("#who", "you")
        await tab.click("button")
        assert '<p id="out">hello you</p>' in await tab.html()
        await tab.press("Escape")
        assert '<p id="out">left</p>' in await tab.html()
        await tab.scroll(2)
        await tab.wait_for("i")
        assert "<i>more</i>" in await tab.html()
        assert await tab.evaluate("1 + 1") == 2
        assert await tab.evaluate("() => ({a: [1, null]})") == {"a": [1, None]}
        seen, whole = await tab.screenshot(), await tab.screenshot(full=True)
        assert seen.startswith(b"\x89PNG\r\n")
        assert int.from_bytes(whole[20:24], "big") > 5000  # the picture's height
        assert tab.url == server.url("/")
        await tab.close()
        await tab.close()
        with pytest.raises(TabLost, match="the document: "):
            await tab.html()


async def test_errors_are_one_line_that_says_what_was_asked_for(chromium: BrowserTransport) -> None:
    async with browser(handler_timeout=6.0) as hasty, serve(by_path({"/": html("<p hidden>a")})) as server:
        answer = await shown(hasty, server.url("/"))
        tab = answer.tab
        assert tab is not None
        with pytest.raises(TabTimeout, match=r"^click\('#buy'\): no element matches within 3 s$"):
            await tab.click("#buy")
        with pytest.raises(
            TabTimeout, match=r"^click\('p'\): an element matches, but could not be used within 3 s$"
        ):
            await tab.click("p")
        with pytest.raises(ValueError, match=r"^fill\('p\[', …\): ") as error:
            await tab.fill("p[", "x")
        assert "\n" not in str(error.value)
        with pytest.raises(
            ValueError, match=r"^evaluate\('nothing\.at'\): ReferenceError: nothing is not defined"
        ):
            await tab.evaluate("nothing.at")
        await tab.close()


async def test_a_click_may_lead_on(chromium: BrowserTransport) -> None:
    answers = {
        "/": html("<a href=/r>on</a>"),
        "/r": page(b"", "302 Found", Location="/next"),
        "/next": html("<h1>next"),
    }
    async with serve(by_path(answers)) as server:
        answer = await shown(chromium, server.url("/"))
        assert answer.tab is not None
        await answer.tab.click("a")
        await answer.tab.wait_for("h1")
        assert answer.tab.url == server.url("/next")
        await answer.close()


async def test_a_forgotten_tab_is_closed(chromium: BrowserTransport) -> None:
    async with (
        browser(handler_timeout=0.2, browser_tabs=1) as narrow,
        serve(by_path({"/": html("<p>a")})) as server,
    ):
        await text_of(narrow, server.url("/"))  # its first page may take longer
        answer = await shown(narrow, server.url("/"), total_timeout=3.0)
        assert answer.tab is not None
        async with asyncio.timeout(40):
            await text_of(narrow, server.url("/"))  # there is room for one tab only
        with pytest.raises(TabLost, match="longer than total_timeout and handler_timeout"):
            await answer.tab.html()


# -- answers that are no page


async def test_a_redirect_is_answered(chromium: BrowserTransport) -> None:
    answer = page(b"", "302 Found", Location="/b?c", Set_Cookie="a=1; Path=/\r\nSet-Cookie: b=2; HttpOnly")
    async with serve(by_path({"/": answer})) as server:
        found = await plain(chromium, server.url("/"))
    assert (found.status, found.headers["location"], found.url) == (302, "/b?c", server.url("/"))
    assert found.cookies == ("a=1; Path=/", "b=2; HttpOnly")
    assert server.paths == ["/"]


async def test_cookies_of_a_redirect_are_brought_along(chromium: BrowserTransport) -> None:
    async with serve(by_path({"/b": html("<p>b")}), host="127.0.0.3") as server:
        lines = ("way=1; Path=/; HttpOnly", "not=ours; Domain=example.com")
        await text_of(chromium, server.url("/b"), cookies=lines, referrer_url=server.url("/a"))
    assert header(hit(server, "/b"), "Cookie") == "way=1"


@pytest.mark.parametrize(
    "text",
    [
        "<script>location = 'http://127.0.0.2:%d/there?a=b#c'</script>",
        "<meta http-equiv=refresh content='0; url=http://127.0.0.2:%d/there?a=b'>",
    ],
)
async def test_a_page_that_leads_to_another_host(chromium: BrowserTransport, text: str) -> None:
    async with (
        serve(by_path({}), host="127.0.0.2") as other,
        serve(by_path({"/": html(text % other.port)})) as server,
    ):
        found = await plain(chromium, server.url("/"), total_timeout=10.0)
    assert (found.status, found.headers["Location"]) == (307, other.url("/there?a=b"))
    assert other.connections == 0


async def test_a_script_may_go_on_within_its_host_but_not_for_ever(chromium: BrowserTransport) -> None:
    answers = {
        "/": html("<script>location = '/next'</script>"),
        "/next": html("<p>next", X_Own="2"),
        "/loop": html("<script>location.reload()</script>"),
    }
    async with serve(by_path(answers)) as server:
        answer = await shown(chromium, server.url("/"), "quiet")
        await answer.close()
        assert (answer.url, answer.headers["X-Own"]) == (server.url("/next"), "2")
        found = await plain(chromium, server.url("/loop"))
    assert (found.status, found.headers["Location"]) == (307, server.url("/loop"))
    assert server.paths.count("/loop") == 4


@pytest.mark.parametrize(
    "place", ["'about:blank'", "URL.createObjectURL(new Blob(['<p>blob'], {type: 'text/html'}))"]
)
async def test_a_script_that_leads_to_no_address(chromium: BrowserTransport, place: str) -> None:
    """What is shown then is the page's own doing: links are relative to where it was found."""
    async with serve(always(html(f"<script>setTimeout(() => location = {place}, 10)</script>"))) as server:
        answer = await shown(chromium, server.url("/"), "quiet")
        await answer.close()
    assert b"script" not in answer.body
    assert answer.url == server.url("/")


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (page(b'{"a": 1}', Content_Type="application/json"), b'{"a": 1}'),
        (page(b"%PDF-1.4 \x00\xff", Content_Type="application/pdf"), b"%PDF-1.4 \x00\xff"),
        (page(b"<p>a", Content_Type="text/html", Content_Disposition="attachment; filename=a.html"), b"<p>a"),
        (page(b"\x00\x01", Content_Type="application/octet-stream"), b"\x00\x01"),
        (page("é".encode("latin-1"), Content_Type="text/plain; charset=latin-1"), b"\xe9"),
        (page(LONG, Content_Type="text/csv"), LONG),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (page(b"", "404 Not Found", Content_Type="text/html"), b""),
    ],
    ids=["json", "pdf", "attachment", "unknown", "latin-1", "long", "no content", "an empty error"],
)
async def test_what_is_no_page_comes_as_it_is(chromium: BrowserTransport, answer: bytes, body: bytes) -> None:
    async with serve(by_path({"/": answer})) as server:
        found = await plain(chromium, server.url("/"))
    assert found.body == body
    assert found.status in (200, 204, 404)
    assert server.paths == ["/"]


@pytest.mark.parametrize("status", ["200 OK", "404 Not Found"])
async def test_a_page_that_does_not_say_it_is_one(chromium: BrowserTransport, status: str) -> None:
    body = b"<!doctype html><p id=p></p><script>p.textContent = 'ran'</script>"
    async with serve(by_path({"/": page(body, status)})) as server:
        assert "ran</p>" in await text_of(chromium, server.url("/"))


# -- requests


async def test_headers_are_for_the_pages_own_origin(chromium: BrowserTransport) -> None:
    async with serve(by_path({"/x": page(b"", Access_Control_Allow_Origin="*")}), host="127.0.0.2") as other:
        text = (
            f"<p id=p></p><script>Promise.all([fetch('/own'), fetch('{other.url('/x')}')])"
            ".then(() => p.textContent = navigator.userAgent)</script>"
        )
        async with serve(by_path({"/": html(text), "/own": page(b"")})) as server:
            own = {
                "Authorization": "Basic secret",
                "X-Team": "a",
                "user-agent": "Own/1",
                "Accept": "text/own",
            }
            assert "Own/1" in await text_of(chromium, server.url("/"), "quiet", headers=own)
    assert [header(hit(server, "/"), name) for name in own] == ["Basic secret", "a", "Own/1", "text/own"]
    assert [header(hit(server, "/own"), name) for name in own] == ["Basic secret", "a", "Own/1", "*/*"]
    assert [header(hit(other, "/x"), name) for name in own] == [None, None, "Own/1", "*/*"]


async def test_a_form_is_sent(chromium: BrowserTransport) -> None:
    seen: list[bytes] = []

    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        seen.append(head)
        writer.write(html("<p>thanks", Connection="close"))
        writer.close()

    async with serve(answer) as server:
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        text = await text_of(chromium, server.url("/"), method="POST", body=b"a=1", headers=headers)
    assert "thanks" in text
    assert seen[0].startswith(b"POST / ")
    assert (header(seen[0], "Content-Length"), header(seen[0], "Content-Type")) == (
        "3",
        headers["Content-Type"],
    )


async def test_what_a_browser_does_not_do(chromium: BrowserTransport) -> None:
    assert (await failure(chromium, "http://127.0.0.1/", method="PUT")).kind == "invalid_request"
    assert (await failure(chromium, "ftp://127.0.0.1/")).kind == "invalid_url"


# -- sessions


STORES = (
    "<p id=p></p><script>p.textContent = document.cookie + '|' + localStorage.length;"
    "document.cookie = 'script=1; path=/'; localStorage.a = 1</script>"
)


def page_cookies(server: RawServer) -> list[str | None]:
    """The cookies that were sent for `/`. A page may also ask for its icon, with cookies that it has itself set."""
    pages = [head for head in server.hits if b" / " in head.partition(b"\r\n")[0]]
    return [header(head, "Cookie") for head in pages]


async def test_sessions_are_apart(chromium: BrowserTransport) -> None:
    jars = [CookieJar(), CookieJar()]
    own = html(STORES, Set_Cookie="own=1; HttpOnly; Path=/")
    async with serve(by_path({"/": own}), host="127.0.0.4") as server:
        first = [await text_of(chromium, server.url("/"), jar=jar) for jar in jars]
        none = await text_of(chromium, server.url("/"))
        again = await text_of(chromium, server.url("/"), jar=jars[0])
    assert ['<p id="p">|0</p>' in text for text in (*first, none)] == [True] * 3
    assert '<p id="p">script=1|1</p>' in again
    assert page_cookies(server) == [None, None, None, "own=1; script=1"]


async def test_cookies_go_both_ways(chromium: BrowserTransport) -> None:
    jar = CookieJar()
    forget = html(
        "<script>document.cookie = 'plain=; path=/; max-age=0'</script>", Set_Cookie="new=2; Max-Age=60"
    )
    async with serve(by_path({"/": forget, "/again": html("<p>")})) as server:
        from yarl import URL

        jar.set(["plain=1; Path=/", "kept=1; Path=/"], URL(server.url("/")))
        await text_of(chromium, server.url("/"), jar=jar)
        assert {cookie.name: cookie.value for cookie in jar} == {"kept": "1", "new": "2"}
        jar.delete(next(cookie.key for cookie in jar if cookie.name == "new"))
        await text_of(chromium, server.url("/again"), jar=jar)
    assert header(hit(server, "/"), "Cookie") == "plain=1; kept=1"
    assert header(hit(server, "/again"), "Cookie") == "kept=1"


async def test_a_crawl_without_cookies(chromium: BrowserTransport) -> None:
    async with (
        browser(cookies=False) as forgetful,
        serve(by_path({"/": html(STORES, Set_Cookie="a=1; HttpOnly")})) as server,
    ):
        texts = [await text_of(forgetful, server.url("/")) for _ in range(2)]
    assert ['<p id="p">|0</p>' in text for text in texts] == [True, True]
    assert page_cookies(server) == [None, None]


# -- being given up


async def test_a_cancelled_fetch_closes_its_tab(chromium: BrowserTransport) -> None:
    async def silent(head: bytes, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    async with serve(silent) as server:
        fetch = asyncio.create_task(chromium.fetch(FetchRequest(server.url("/"), rendering=Rendering())))
        await until(lambda: bool(server.hits))
        fetch.cancel()
        with pytest.raises(asyncio.CancelledError):
            await fetch
        await until(lambda: "0 open" in repr(chromium) and "0 tabs" in repr(chromium))
