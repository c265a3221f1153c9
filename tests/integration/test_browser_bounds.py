"""What a browser may not do, however a page tries: reach private addresses, unfold to gigabytes, take for ever, stay
after its end, or show secrets. And what happens when it dies."""

from __future__ import annotations

import asyncio
import gzip
import logging
import os
import signal
import ssl
import sys
import zlib
from collections.abc import AsyncIterator, Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import unquote

import pytest
import pytest_asyncio

from browser import FORBIDDEN, browser, failure, html, plain, shown, text_of, until
from integration.raw_server import always, by_path, page, serve
from shoal.fetch.browser.chromium import Chromium
from shoal.fetch.browser.executable import find_chromium
from shoal.fetch.browser.transport import BrowserTransport
from shoal.fetch.proxy.pools import load_pools
from shoal.fetch.transport import FetchRequest
from shoal.settings import Settings
from shoal.spider.rendering import Rendering, TabLost
from shoal.testing.proxy_server import ProxyServer
from which_browser import FULL

pytestmark = pytest.mark.asyncio(loop_scope="module")

CERTS = Path(__file__).parent / "certs"
MB = 1 << 20


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def chromium() -> AsyncIterator[BrowserTransport]:
    async with browser() as transport:
        yield transport


def current(transport: BrowserTransport) -> Chromium:
    found = transport._browsers._current
    assert found is not None
    return found


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def all_gone(pids: list[int]) -> None:
    await until(lambda: not any(map(is_running, pids)))


async def silent(head: bytes, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


# -- private addresses


async def test_a_private_page(chromium: BrowserTransport) -> None:
    async with serve(always(html("<p>inside")), host=FORBIDDEN) as inside:
        found = await failure(chromium, inside.url("/"))
    assert found.kind == "forbidden_address"
    assert f"--allow-network {FORBIDDEN}/32" in found.detail
    assert inside.connections == 0


TRIES = """<p id=p>trying</p><script>
const seen = [], tries = TARGETS.flatMap(url => [
  fetch(url).then(answer => answer.text()),
  fetch(url, {mode: "no-cors"}).then(() => "sent"),
  fetch("/hop?" + encodeURIComponent(url), {mode: "no-cors"}).then(() => "followed"),
  new Promise((done, failed) => { const socket = new WebSocket(url.replace("http", "ws"));
                                  socket.onopen = () => done("open"); socket.onerror = failed }),
  new Promise((done, failed) => { const script = document.createElement("script"); script.src = url;
                                  script.onload = () => done("ran"); script.onerror = failed;
                                  document.body.append(script) }),
  new Promise(done => { const frame = document.createElement("iframe"); frame.src = url;
                        frame.onload = done; document.body.append(frame) }).then(() => { throw "shown or not" }),
]);
Promise.allSettled(tries).then(all => p.textContent = all.map(one => one.value || "").join("") || "nothing");
</script>"""


async def test_no_script_reaches_inside(chromium: BrowserTransport) -> None:
    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        path = head.split(b" ")[1].decode()
        if path.startswith("/hop?"):
            writer.write(page(b"", "302 Found", Location=unquote(path[5:])))
        else:
            writer.write(html(TRIES.replace("TARGETS", repr(targets))))
        await writer.drain()

    secret = page(b"secret", Access_Control_Allow_Origin="*")
    async with serve(always(secret), host=FORBIDDEN) as inside, serve(answer) as server:
        targets = [
            inside.url("/"),
            f"http://[::ffff:{FORBIDDEN}]:{inside.port}/",
            f"http://0x7f000014:{inside.port}/",
        ]
        text = await text_of(chromium, server.url("/"), "quiet")
    assert '<p id="p">nothing</p>' in text
    assert inside.connections == 0


async def test_nor_does_a_call(chromium: BrowserTransport) -> None:
    """WebRTC would send datagrams past any proxy."""
    heard: list[bytes] = []

    class Listener(asyncio.DatagramProtocol):
        def datagram_received(self, data: bytes, addr: Any) -> None:
            heard.append(data)

    loop = asyncio.get_running_loop()
    listening, _ = await loop.create_datagram_endpoint(Listener, local_addr=(FORBIDDEN, 0))
    port = listening.get_extra_info("sockname")[1]
    text = f"""<p id=p></p><script>
      const call = new RTCPeerConnection({{iceServers: [{{urls: "stun:{FORBIDDEN}:{port}"}}]}});
      call.onicegatheringstatechange = () => {{ if (call.iceGatheringState == "complete") p.className = "done" }};
      call.createDataChannel("a");
      call.createOffer().then(offer => call.setLocalDescription(offer));
    </script>"""
    async with serve(always(html(text))) as server:
        await text_of(chromium, server.url("/"), "p.done")
    listening.close()
    assert heard == []


async def test_a_redirect_inside_is_answered_and_not_followed(chromium: BrowserTransport) -> None:
    url = f"http://{FORBIDDEN}:8080/"
    async with serve(always(page(b"", "302 Found", Location=url))) as server:
        found = await plain(chromium, server.url("/"))
    assert found.headers["Location"] == url
    assert (await failure(chromium, url)).kind == "forbidden_address"


# -- failures have the names of plain fetching


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1000\r\n\r\n<p>cut", "truncated"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n\r\nnot gzip", "encoding"),
        (b"", "reset"),
    ],
)
async def test_a_broken_answer(chromium: BrowserTransport, answer: bytes, kind: str) -> None:
    async with serve(always(answer, close=True)) as server:
        assert (await failure(chromium, server.url("/"))).kind == kind


async def test_nobody_there(chromium: BrowserTransport) -> None:
    async with serve(always(b"")) as server:
        url = server.url("/")
    assert (await failure(chromium, url)).kind == "connect"
    assert (await failure(chromium, "http://no-such-host.invalid/")).kind == "dns"


async def test_a_certificate_that_nobody_vouches_for(chromium: BrowserTransport) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(CERTS / "loopback.pem", CERTS / "loopback.key")
    async with serve(always(html("<p>a")), tls=tls) as server:
        assert (await failure(chromium, server.url("/"))).kind == "tls"


# -- size and time


@cache
def _packed() -> bytes:
    """4 GB in 4 MB: the same few bytes again and again."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    part = packer.compress(b"<p>" + bytes(8 * MB)) + packer.flush(zlib.Z_FULL_FLUSH)
    return gzip.compress(b"")[:10] + part * 512


@pytest.mark.parametrize("media", ["text/html", "application/json"])
async def test_a_bomb(chromium: BrowserTransport, media: str) -> None:
    bomb = page(_packed(), Content_Type=media, Content_Encoding="gzip")
    async with serve(by_path({"/": bomb, "/ok": html("<p>fine")})) as server:
        await text_of(chromium, server.url("/ok"))
        before = await current(chromium).measure()
        most = before
        bursting = asyncio.create_task(failure(chromium, server.url("/")))
        while not bursting.done():
            most = max(most, await current(chromium).measure())
            await asyncio.sleep(0.1)  # a look takes the processor from the one that is looked at
        found = await bursting
        assert (found.kind, found.status) == ("too_large", 200)
        assert "max_body" in found.detail
        await text_of(chromium, server.url("/ok"))
    # All of it would be 4 GB. Chromium unfolds until it is told to stop, and a busy machine tells it late.
    assert most - before < 1_500 * MB, f"{before / MB:.0f} MB, then {most / MB:.0f} MB"


async def test_parts_count_as_well(chromium: BrowserTransport) -> None:
    text = "<script src=/1></script><script src=/2></script>"
    part = page(b"//" + b"a" * 700_000, Content_Type="text/javascript")
    async with serve(by_path({"/": html(text), "/1": part, "/2": part})) as server:
        found = await failure(chromium, server.url("/"), max_body=1_000_000)
        assert found.kind == "too_large"
        await text_of(chromium, server.url("/"), max_body=2_000_000)


async def test_a_document_that_grew_by_script(chromium: BrowserTransport) -> None:
    text = "<script>document.write('<p>' + 'a'.repeat(2e6))</script>"
    async with serve(always(html(text))) as server:
        found = await failure(chromium, server.url("/"), max_body=1_000_000)
    assert found.kind == "too_large"


def dripping(pause: float) -> Callable[[bytes, asyncio.StreamWriter], Any]:
    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"1\r\n \r\n")
            await writer.drain()
            await asyncio.sleep(pause)

    return answer


@pytest.mark.parametrize(
    "answer", [silent, dripping(0.3), dripping(0.001)], ids=["silent", "a byte", "endless"]
)
async def test_the_deadline_holds(chromium: BrowserTransport, answer: Any) -> None:
    async with serve(answer) as server, asyncio.timeout(40):
        found = await failure(chromium, server.url("/"), total_timeout=1.5)
    assert found.kind == "timeout"
    assert found.elapsed >= 1.4


async def test_a_script_that_never_ends(chromium: BrowserTransport) -> None:
    async with serve(by_path({"/": html("<script>for (;;);</script>"), "/ok": html("<p>fine")})) as server:
        assert (await failure(chromium, server.url("/"), total_timeout=0.7)).kind == "timeout"
        assert "fine" in await text_of(chromium, server.url("/ok"))


# -- death


async def test_a_killed_browser_is_replaced(caplog: pytest.LogCaptureFixture) -> None:
    answers = by_path({"/": html("<p>fine")})

    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        await (silent if b"/silent" in head else answers)(head, writer)

    async with browser() as chromium, serve(answer) as server:
        tab = (await shown(chromium, server.url("/"))).tab
        assert tab is not None
        killed = current(chromium)
        loading = asyncio.create_task(failure(chromium, server.url("/silent")))
        await until(lambda: "/silent" in server.paths)
        processes = killed.processes.pids()
        os.kill(killed.pid, signal.SIGKILL)
        async with asyncio.timeout(40):
            assert (await loading).kind == "browser_crash"
            with pytest.raises(TabLost, match=r"^click\('p'\): the browser or its tab is gone$"):
                await tab.click("p")
            await tab.close()
        assert "fine" in await text_of(chromium, server.url("/"))
        assert current(chromium) is not killed
        await all_gone(processes)
    assert "browser_lost" in [getattr(record, "event", "") for record in caplog.records]
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []


async def test_a_tab_that_dies_leaves_the_browser(chromium: BrowserTransport) -> None:
    def renderers() -> list[int]:
        return [pid for pid in current(chromium).processes.pids() if b"--type=renderer" in _command(pid)]

    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        if b"/silent" in head:
            await silent(head, writer)
        writer.write(html("<p>fine<script src=/silent></script>" if b" / " in head else "<p>fine"))
        await writer.drain()

    async with serve(answer) as server:
        await text_of(chromium, server.url("/ok"))
        pid = current(chromium).pid
        loading = asyncio.create_task(failure(chromium, server.url("/")))
        await until(lambda: "/silent" in server.paths)
        for renderer in renderers():
            os.kill(renderer, signal.SIGKILL)
        async with asyncio.timeout(40):
            assert (await loading).kind == "browser_crash"
        assert "fine" in await text_of(chromium, server.url("/ok"))
        assert current(chromium).pid == pid


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


async def test_a_browser_is_replaced_after_some_pages() -> None:
    async with browser(browser_pages=2) as chromium, serve(always(html("<p>a"))) as server:
        seen: dict[int, list[int]] = {}
        open_page = await shown(chromium, server.url("/"))  # keeps the first one alive
        for _ in range(4):
            await text_of(chromium, server.url("/"))
            seen[current(chromium).pid] = current(chromium).processes.pids()
        first, second = list(seen)
        assert open_page.tab is not None
        assert "<p>a</p>" in await open_page.tab.html()
        await open_page.close()
        await all_gone(seen[first])
        assert is_running(second)
        await text_of(chromium, server.url("/"))
        assert current(chromium).pid not in seen
        await all_gone(seen[second])


async def test_a_browser_that_nobody_uses_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.fetch.browser.rotation._LOOK", 0.15)
    monkeypatch.setattr("shoal.fetch.browser.rotation._IDLE", 0.3)
    async with serve(always(html("<h1>Here</h1>"))) as server, browser() as transport:
        answer = await shown(transport, server.url())
        await asyncio.sleep(0.6)
        assert answer.tab is not None
        assert "Here" in await answer.tab.html(), "not while a tab is open"
        await answer.close()
        await until(lambda: "none" in repr(transport))
        assert "Here" in await text_of(transport, server.url()), "the next page has a fresh one"


async def test_a_browser_that_grows_too_far_is_killed(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.fetch.browser.rotation._LOOK", 0.15)
    async with browser(browser_memory=20 * MB) as chromium, serve(silent) as server:
        async with asyncio.timeout(40):
            assert (await failure(chromium, server.url("/"))).kind == "browser_crash"
    assert any("far above browser_memory" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("hangs", [False, True])
async def test_nothing_is_left_running(hangs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.fetch.browser.chromium._END", 1.0 if hangs else 20.0)
    async with serve(always(html("<p>a"))) as server:
        async with browser() as chromium:
            open_page = await shown(chromium, server.url("/"))
            processes = current(chromium).processes.pids()
            profile = current(chromium).processes.profile()
            assert profile is not None
            assert profile.is_dir()
            assert len(processes) > 3
            assert current(chromium).processes.driver in processes
            if hangs:
                for pid in processes:
                    os.kill(pid, signal.SIGSTOP)
        await all_gone(processes)
        assert not profile.exists()
        assert open_page.tab is not None
        with pytest.raises(TabLost):
            await open_page.tab.html()


async def test_nothing_is_left_by_a_killed_crawl() -> None:
    code = """if True:
        import asyncio, sys
        from browser import browser, shown

        async def main(url):
            async with browser() as chromium:
                await shown(chromium, url)
                print(*chromium._browsers._current.processes.pids(), flush=True)
                await asyncio.sleep(60)

        asyncio.run(main(sys.argv[1]))
    """
    async with serve(always(html("<p>a"))) as server:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        crawl = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, server.url("/"), env=environment, stdout=asyncio.subprocess.PIPE
        )
        assert crawl.stdout is not None
        async with asyncio.timeout(60):
            processes = [int(pid) for pid in (await crawl.stdout.readline()).split()]
        crawl.kill()
        await crawl.wait()
    assert len(processes) > 3
    await all_gone(processes)


async def test_several_pages_at_once_share_one_browser(chromium: BrowserTransport) -> None:
    async with serve(always(html("<p>a"))) as server:
        await text_of(chromium, server.url("/"))
        used = current(chromium)
        pages = used.pages
        await asyncio.gather(*(text_of(chromium, server.url(f"/{number}")) for number in range(4)))
        assert current(chromium) is used
        assert used.pages == pages + 4


async def test_no_process_shows_its_address_bar(chromium: BrowserTransport) -> None:
    """Every context is a window of its own. The address bar would take longer than the page."""
    async with serve(always(html("<p>a"))) as server:
        answer = await shown(chromium, server.url("/"))
        commands = [_command(pid) for pid in current(chromium).processes.pids()]
        await answer.close()
    assert any(b"--type=renderer" in command for command in commands)
    assert not any(b"--top-chrome-webui" in command for command in commands)


# -- proxies and secrets


@pytest.mark.parametrize("kind", ["http", "socks5"])
async def test_through_a_proxy(
    chromium: BrowserTransport, kind: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with (
        ProxyServer(kind, user="user", password="sesame") as proxy,
        serve(always(html("<p>by proxy"))) as server,
        serve(always(b"")) as other,
    ):
        [way] = load_pools(Settings(proxies={"pool": [proxy.url]}), {})["pool"]
        answer = await shown(chromium, server.url("/"), proxy=way)
        doors = [door.password for door in chromium._gate._doors]
        await answer.close()
        proxy.password = "changed"
        found = await failure(chromium, other.url("/"), proxy=way)
    assert b"by proxy" in answer.body
    assert proxy.passed == [f"127.0.0.1:{server.port}"]
    assert found.kind == "proxy_auth"
    shown_to_people = "\n".join([repr(answer), repr(found), repr(chromium), caplog.text, str(server.hits)])
    for secret in ("sesame", *doors):
        assert secret not in shown_to_people


async def test_a_cancelled_start_leaves_nothing() -> None:
    async with serve(always(html("<p>a"))) as server:
        async with browser() as chromium:
            fetch = asyncio.create_task(chromium.fetch(FetchRequest(server.url("/"), rendering=Rendering())))
            await asyncio.sleep(0)
            fetch.cancel()
            with pytest.raises(asyncio.CancelledError):
                await fetch
            assert "<p>a</p>" in await text_of(chromium, server.url("/"))
            processes = current(chromium).processes.pids()
        await all_gone(processes)


@pytest.mark.parametrize(
    ("name", "sign"), [(FULL, "*/SingletonSocket" if FULL else "playwright_*/*"), ("", "playwright_*/*")]
)
async def test_a_browser_that_is_stopped_while_it_starts_leaves_no_file(
    monkeypatch: pytest.MonkeyPatch, name: str, sign: str
) -> None:
    """Its driver kills it, and knows of the profile alone. A headless shell has no socket there."""
    path = find_chromium(Settings(browser_path=name))
    assert path is not None
    with TemporaryDirectory(prefix="shoal-") as folder:  # with a short name: there will be a socket
        monkeypatch.setenv("TMPDIR", folder)
        starting = asyncio.create_task(Chromium.start(path, "test"))
        await until(lambda: any(map(os.path.lexists, Path(folder).glob(sign))))
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        await until(lambda: not os.listdir(folder))
