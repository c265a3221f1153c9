"""The chaotic web does what each profile says, so that what tests read from it means something."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator
from urllib.parse import urljoin

import aiohttp
import msgspec
import pytest
from selectolax.lexbor import LexborHTMLParser

from shoal.fetch.challenge import detect
from shoal.model import Response
from shoal.settings import Settings
from shoal.testing import ChaoticWeb, HostProfile, ManualClock, Site, WebProcess
from shoal.testing.web.habits import Banning, Flapping, Lifelike, Limited
from shoal.testing.web.profile import DEMO_SETTINGS, demo_profiles


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session:
        yield session


async def status_of(client: aiohttp.ClientSession, url: str) -> int:
    async with client.get(url, allow_redirects=False) as response:
        await response.read()
        return response.status


def links(url: str, html: str) -> list[str]:
    return [urljoin(url, node.attributes["href"] or "") for node in LexborHTMLParser(html).css("a")]


async def breadth_first(client: aiohttp.ClientSession, start: str, attempts: int = 3) -> dict[str, str]:
    """The title of every page below /p/ that can be reached, by the URL it was finally got from."""
    seen, queue, titles = {start}, [start], {}
    while queue:
        url = queue.pop(0)
        for _ in range(attempts):
            async with client.get(url) as response:
                html = await response.text()
            if response.status == 200:
                break
        found = str(response.url)
        titles[found] = (LexborHTMLParser(html).css_first("title") or pytest.fail(found)).text()
        fresh = {link for link in links(found, html) if "/p/" in link or "/r/" in link} - seen
        seen |= fresh
        queue.extend(sorted(fresh))
    return titles


@pytest.mark.parametrize("kind", ["fast", "flapping", "redirecting", "trapping", "huge"])
async def test_a_breadth_first_crawl_finds_exactly_the_pages_of_a_host(
    client: aiohttp.ClientSession, kind: str
) -> None:
    async with ChaoticWeb([HostProfile(kind, pages=60, links=5)], seed=3) as web:
        name = f"{kind}-0"
        titles = await breadth_first(client, web.url(name))
        assert set(titles) == web.pages_of(name)
        assert len(set(titles.values())) == 60


async def test_hits_tell_who_came_when_and_how_many_at_once(client: aiohttp.ClientSession) -> None:
    async with ChaoticWeb([HostProfile("slow", latency=0.2), HostProfile()]) as web:
        async with asyncio.TaskGroup() as tasks:
            for i in range(3):
                tasks.create_task(status_of(client, web.url("slow-0", f"/p/{i}")))
        assert await status_of(client, web.url("slow-0", "/nowhere")) == 404
        assert await status_of(client, web.url("fast-1")) == 200
        hits = web.hits_of("slow-0")
        assert [(hit.status, hit.concurrent) for hit in hits] == [(200, 1), (200, 2), (200, 3), (404, 1)]
        assert {hit.path for hit in hits[:3]} == {"/p/0", "/p/1", "/p/2"}
        assert all(hit.ended - hit.started >= 0.199 for hit in hits)
        assert web.peak_concurrency("slow-0") == 3
        assert web.peak_concurrency("fast-1") == 1
        gaps = web.gaps("slow-0")
        assert len(gaps) == 3
        assert gaps[-1] >= 0.199
        assert len(web.hits()) == 5


async def test_hosts_have_addresses_of_their_own() -> None:
    async with ChaoticWeb([HostProfile()] * 300) as web:
        assert len(set(web.addresses.values())) == 300
        assert all(address.startswith("127.0.") for address in web.addresses.values())
        assert web.start_urls[299] == f"http://{web.addresses['fast-299']}/p/0"


async def test_where_only_one_address_can_be_bound_hosts_have_ports_of_their_own(
    client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    class OneAddress(socket.socket):
        def bind(self, address: tuple[str, int]) -> None:  # type: ignore[override]
            if address[0] != "127.0.0.1":
                raise OSError(errno.EADDRNOTAVAIL, "Can't assign requested address")
            super().bind(address)

    monkeypatch.setattr(socket, "socket", OneAddress)
    web = ChaoticWeb({"a": HostProfile(), "b": HostProfile(), "c": HostProfile("down")})
    async with web:
        monkeypatch.undo()
        assert {address.split(":")[0] for address in web.addresses.values()} == {"127.0.0.1"}
        assert len(set(web.addresses.values())) == 3
        assert await status_of(client, web.url("b")) == 200
        assert [hit.host for hit in web.hits()] == ["b"]


async def test_a_hanging_host_accepts_and_never_answers(client: aiohttp.ClientSession) -> None:
    async with ChaoticWeb([HostProfile("hanging")]) as web:
        assert await status_of(client, web.url("hanging-0", "/robots.txt")) == 404
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3), client.get(web.url("hanging-0")):
                pass
        assert web.pages_of("hanging-0") == set()
    # The server saw the client leave, or its own end: either way the hit is on record.
    assert [(hit.path, hit.status) for hit in web.hits_of("hanging-0")] == [("/robots.txt", 404), ("/p/0", 0)]


@pytest.mark.parametrize(
    ("kind", "error"),
    [("down", aiohttp.ClientConnectorError), ("closing", aiohttp.ClientConnectionError)],
)
async def test_a_host_that_gives_no_connection(
    client: aiohttp.ClientSession, kind: str, error: type[Exception]
) -> None:
    async with ChaoticWeb({"gone": HostProfile(kind)}) as web:
        with pytest.raises(error):
            await status_of(client, web.url("gone"))
        assert web.pages_of("gone") == set()
        assert web.hits() == []


async def test_a_limited_host_says_when_to_come_back(client: aiohttp.ClientSession) -> None:
    async with ChaoticWeb([HostProfile("limited", rate=0.01, retry_after=7)]) as web:
        assert await status_of(client, web.url("limited-0")) == 200
        async with client.get(web.url("limited-0")) as response:
            assert (response.status, response.headers["Retry-After"]) == (429, "7")


def test_the_limit_is_a_rate() -> None:
    host, clock = Limited(HostProfile("limited", rate=4.0), 0, ()), ManualClock()
    served = 0
    for _ in range(100):
        served += host.answer("/p/0", clock.monotonic()).status == 200
        clock.advance(0.1)
    assert 4 + 9.9 * 4 - 1 <= served <= 4 + 9.9 * 4
    clock.advance(3600)
    assert [host.answer("/p/0", clock.monotonic()).status for _ in range(5)] == [200, 200, 200, 200, 429]


def test_a_burst_may_be_more_than_a_second_allows() -> None:
    host, clock = Limited(HostProfile("limited", rate=1.0, burst=3, retry_after=0.25), 0, ()), ManualClock()
    answers = [host.answer("/p/0", clock.monotonic()) for _ in range(4)]
    assert [answer.status for answer in answers] == [200, 200, 200, 429]
    assert answers[-1].headers == ("Retry-After: 0.25",)
    clock.advance(2.0)
    assert [host.answer("/p/0", clock.monotonic()).status for _ in range(3)] == [200, 200, 429]


def test_a_lifelike_host_lags_limits_and_flaps_at_once() -> None:
    profile = HostProfile(
        "lifelike", latency=2.0, jitter=0.5, rate=1.0, burst=4, failure_share=0.5, period=100.0
    )
    host, clock = Lifelike(profile, 3, ()), ManualClock()
    good = [host.answer(f"/p/{i}", clock.monotonic()) for i in range(5)]
    assert [answer.status for answer in good] == [200, 200, 200, 200, 429]
    assert good[4].delay == 0.0
    assert all(2.0 / 1.5 <= answer.delay <= 2.0 * 1.5 for answer in good[:4])
    assert len({answer.delay for answer in good[:4]}) == 4
    clock.advance(60.0)
    failed = host.answer("/p/5", clock.monotonic())
    assert failed.status >= 500
    assert failed.delay >= 2.0 / 1.5


def test_a_banning_host_refuses_an_address_that_asks_too_often_and_no_other() -> None:
    profile = HostProfile(
        "banning",
        rate=1000.0,
        ban_after=3,
        ban_window=10.0,
        ban_seconds=60.0,
        ban_status=403,
        failure_share=0.0,
    )
    host, clock = Banning(profile, 3, ()), ManualClock()

    def ask(client: str) -> int:
        return host.answer("/p/0", clock.monotonic(), client).status

    assert [ask("one") for _ in range(5)] == [200, 200, 200, 200, 403]
    assert ask("other") == 200
    clock.advance(59.0)
    assert ask("one") == 403
    clock.advance(2.0)
    assert ask("one") == 200
    for _ in range(5):  # slowly enough
        clock.advance(4.0)
        assert ask("one") == 200


def test_how_long_a_page_takes_does_not_depend_on_the_order_of_requests() -> None:
    profile = HostProfile("lifelike", jitter=0.5, rate=1000.0, failure_share=0.0)
    paths = [f"/p/{i}" for i in range(10)]
    one, other = Lifelike(profile, 3, ()), Lifelike(profile, 3, ())
    forwards = {path: one.answer(path, 0.0).delay for path in paths}
    assert {path: other.answer(path, 0.0).delay for path in reversed(paths)} == forwards


def test_a_flapping_host_fails_its_share_and_no_page_more_than_twice() -> None:
    host = Flapping(HostProfile("flapping", pages=2_000, failure_share=0.3), 5, ())
    statuses = {i: [host.answer(f"/p/{i}", 0.0).status for _ in range(3)] for i in range(2_000)}
    failures = sum(status >= 500 for first, second, _ in statuses.values() for status in (first, second))
    assert 0.27 < failures / 4_000 < 0.33
    assert {last for _, _, last in statuses.values()} == {200}
    again = Flapping(HostProfile("flapping", pages=2_000, failure_share=0.3), 5, ())
    assert [again.answer(f"/p/{i}", 0.0).status for i in range(2_000)] == [s[0] for s in statuses.values()]


def test_a_flapping_host_may_fail_by_the_clock() -> None:
    host, clock = Flapping(HostProfile("flapping", failure_share=0.25, period=4.0), 0, ()), ManualClock()
    good = []
    for _ in range(8):
        good.append(host.answer("/p/0", clock.monotonic()).status == 200)
        clock.advance(1.0)
    assert good == [True, True, True, False] * 2


async def test_redirects_chain_loop_and_lead_to_other_hosts(client: aiohttp.ClientSession) -> None:
    async with ChaoticWeb({"old": HostProfile("redirecting"), "new": HostProfile()}) as web:
        async with client.get(web.url("old", "/r/5")) as response:
            assert [hop.url.path for hop in response.history] == ["/r/5", "/r2/5", "/r1/5"]
            assert response.url.path == "/p/5"
        async with client.get(web.url("old", "/away/0")) as response:
            assert str(response.url) == web.url("new")
        with pytest.raises(aiohttp.TooManyRedirects):
            await client.get(web.url("old", "/loop/0"))


@pytest.mark.parametrize("corner", ["/calendar/2024/12", "/a/b", "/list?page=1", "/session?sid=1"])
async def test_a_trap_leads_on_for_ever(client: aiohttp.ClientSession, corner: str) -> None:
    async with ChaoticWeb([HostProfile("trapping")]) as web:
        url = web.url("trapping-0", corner)
        visited = set()
        for _ in range(15):
            visited.add(url)
            async with client.get(url) as response:
                assert response.status == 200
                url = links(url, await response.text())[0]
        assert len(visited) == 15


async def test_the_first_page_links_to_every_corner(client: aiohttp.ClientSession) -> None:
    kinds = {"trapping": "/calendar/2024/1", "redirecting": "/loop/0", "huge": "/endless"}
    async with ChaoticWeb({kind: HostProfile(kind, private=2) for kind in kinds}) as web:
        for kind, corner in kinds.items():
            async with client.get(web.url(kind)) as response:
                found = links(web.url(kind), await response.text())
            assert {web.url(kind, corner), web.url(kind, "/private/1")} <= set(found)
            assert await status_of(client, web.url(kind, "/private/1")) == 200


async def test_huge_bodies_come_whole_or_never_end(client: aiohttp.ClientSession) -> None:
    async with ChaoticWeb([HostProfile("huge", huge_bytes=5_000_001)]) as web:
        async with client.get(web.url("huge-0", "/big")) as response:
            assert response.headers["Content-Length"] == "5000001"
            assert len(await response.read()) == 5_000_001
        async with client.get(web.url("huge-0", "/endless")) as response:
            assert "Content-Length" not in response.headers
            assert len(await response.content.readexactly(5_000_000)) == 5_000_000
            response.close()
        # A client that has left does not keep the server busy, and one that reads nothing does not fill its memory.
        assert await status_of(client, web.url("huge-0")) == 200
    assert [(hit.path, hit.status) for hit in web.hits()][:2] == [("/big", 200), ("/endless", 0)]


@pytest.mark.parametrize("shells_at", ["/p/", "/app/"])
async def test_a_scripted_host_has_pages_that_are_empty_without_scripts(
    client: aiohttp.ClientSession, shells_at: str
) -> None:
    async with ChaoticWeb([HostProfile("scripted", pages=60, links=5, shells_at=shells_at)], seed=3) as web:
        [host] = web.addresses
        pages, shells = web.pages_of(host), web.shells_of(host)
        assert shells < pages
        assert 12 <= len(shells) <= 28, "about a third of 60"
        assert {url for url in pages if shells_at in url} == (shells if shells_at == "/app/" else pages)
        empty = set()
        for url in pages:
            async with client.get(url) as response:
                body = await response.read()
            assert response.status == 200
            found = detect(Response(url, 200, response.headers, body))
            if found is not None:
                assert found.kind == "empty_shell"
                empty.add(url)
            else:
                assert set(links(url, body.decode())) <= pages
        assert empty == shells
        assert web.url(host) not in shells
        assert await status_of(client, web.url(host, "/elsewhere/1")) == 404
        assert not any(hit.in_browser for hit in web.hits())


async def test_the_script_of_a_shell_finds_what_a_plain_page_has(client: aiohttp.ClientSession) -> None:
    """What a browser makes of it is seen where the browser is tested."""
    profile = HostProfile("scripted", pages=30, shells_at="/app/")
    async with ChaoticWeb({"site": profile}) as web:
        shell = sorted(web.shells_of("site"))[0]
        number = shell.rpartition("/")[2]
        async with client.get(shell) as response:
            assert f'fetch("/data/{number}.json")' in await response.text()
        async with client.get(web.url("site", f"/data/{number}.json")) as response:
            assert response.content_type == "application/json"
            data = await response.json()
        tree = LexborHTMLParser(web.site_of("site").html(int(number)))
        title, heading = tree.css_first("title"), tree.css_first("h1")
        assert title is not None
        assert heading is not None
        assert (data["title"], data["topic"]) == (title.text(), heading.text())
        assert data["links"] == [node.attributes["href"] for node in tree.css("a")]
        assert len(data["text"]) > 1_000


async def test_a_scripted_host_may_become_plain(client: aiohttp.ClientSession) -> None:
    async with ChaoticWeb({"site": HostProfile("scripted", pages=30, plain_after=2)}) as web:
        shell = sorted(web.shells_of("site"))[0]
        bodies = []
        for _ in range(3):
            async with client.get(shell) as response:
                bodies.append(await response.read())
        assert [b'id="root"' in body for body in bodies] == [True, True, False]
        assert bodies[2] == web.site_of("site").html(int(shell.rpartition("/")[2]))


async def test_a_browser_is_known_by_what_it_tells(client: aiohttp.ClientSession) -> None:
    async with ChaoticWeb([HostProfile()]) as web:
        url = web.url("fast-0")
        async with client.get(url, headers={"Sec-Fetch-Mode": "navigate"}) as response:
            await response.read()
        assert await status_of(client, url) == 200
        assert [hit.in_browser for hit in web.hits()] == [True, False]


async def test_robots_may_be_a_text_a_status_or_silence(client: aiohttp.ClientSession) -> None:
    text = "User-agent: *\nDisallow: /private/\nCrawl-delay: 2\n"
    profiles = {"text": HostProfile(robots=text), "none": HostProfile(), "ill": HostProfile(robots=503)}
    async with ChaoticWeb({**profiles, "silent": HostProfile(robots=0)}) as web:
        async with client.get(web.url("text", "/robots.txt")) as response:
            assert await response.text() == text
        assert await status_of(client, web.url("none", "/robots.txt")) == 404
        assert await status_of(client, web.url("ill", "/robots.txt")) == 503
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3), client.get(web.url("silent", "/robots.txt")):
                pass
        assert len(web.pages_of("text")) == len(web.pages_of("none")) == 20
        assert web.pages_of("ill") == web.pages_of("silent") == set()


async def test_head_post_and_close(client: aiohttp.ClientSession) -> None:
    async with ChaoticWeb([HostProfile()]) as web:
        async with client.head(web.url("fast-0")) as response:
            assert int(response.headers["Content-Length"]) > 1_000
            assert await response.read() == b""
        async with client.post(web.url("fast-0"), data=b"x" * 300_000) as response:
            assert response.status == 200
        address, port = web.addresses["fast-0"].split(":")
        reader, writer = await asyncio.open_connection(address, int(port))
        writer.write(b"GET /p/1 HTTP/1.1\r\nHost: x\r\n\r\nGET /p/2 HTTP/1.1\r\nConnection: close\r\n\r\n")
        raw = await reader.read()  # to the end: the server closes after the second answer
        assert raw.count(b"HTTP/1.1 200 OK") == 2
        assert b"Page 2:" in raw
        writer.close()
        await writer.wait_closed()


def test_a_site_is_the_size_it_says_and_the_same_for_the_same_seed() -> None:
    site = Site(pages=500, links=33, body_bytes=15_000, seed=1)
    for page in (0, 7, 499):
        html = site.html(page)
        tree = LexborHTMLParser(html)
        assert abs(len(html) - 15_000) < 30
        assert len(tree.css("a")) == 33
        assert tree.root is not None
        assert tree.root.attributes["lang"] == "en"
        assert tree.css("meta[name=description]")
        canonical = tree.css_first("link[rel=canonical]")
        assert canonical is not None
        assert canonical.attributes["href"] == f"/p/{page}"
        assert html == Site(pages=500, links=33, body_bytes=15_000, seed=1).html(page)
    assert site.targets(7) != Site(pages=500, links=33, body_bytes=15_000, seed=2).targets(7)
    assert abs(len(Site(body_bytes=400_000).html(3)) - 400_000) < 30


async def test_the_web_runs_in_a_process_of_its_own(client: aiohttp.ClientSession) -> None:
    with WebProcess({"a": HostProfile(), "b": HostProfile("flapping", failure_share=1.0)}) as web:
        assert await status_of(client, web.url("a")) == 200
        assert await status_of(client, web.url("b")) >= 500
        assert [(hit.host, hit.path) for hit in web.hits()] == [("a", "/p/0"), ("b", "/p/0")]
        assert await status_of(client, web.url("a", "/p/3")) == 200
        assert [hit.path for hit in web.hits_of("a")] == ["/p/0", "/p/3"]
        assert 0 < web.cpu_seconds() < 30
        assert len(web.pages_of("a")) == 20
        pid = web.pid
        url = web.url("a")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(aiohttp.ClientConnectorError):
        await status_of(client, url)


def test_the_demo_shows_every_habit_by_itself_with_settings_that_exist() -> None:
    profiles = demo_profiles()
    assert {profile.kind for profile in profiles.values()} == {
        "fast", "slow", "hanging", "limited", "flapping", "redirecting", "trapping", "huge", "closing", "down"
    }  # fmt: skip
    assert (
        msgspec.convert(DEMO_SETTINGS, Settings).max_attempts >= 3
    )  # or pages of the flapping host would be lost
    budget = DEMO_SETTINGS["max_pages_per_host"]
    assert all(profile.pages < budget for profile in profiles.values())


async def test_a_host_may_change_its_habit(client: aiohttp.ClientSession) -> None:
    async with ChaoticWeb({"shop": HostProfile()}) as web:
        statuses = []
        for profile in (HostProfile("failing"), HostProfile("fast")):
            web.become("shop", profile)
            statuses.append(await status_of(client, web.url("shop")))
        assert statuses == [503, 200] == [hit.status for hit in web.hits()]
