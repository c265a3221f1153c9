"""The same faulty proxies asked by Shoal, httpx and curl: what each of them sees."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from pathlib import Path
from typing import Any

import httpx
import pytest

from integration.raw_server import always, page, serve
from shoal.clock import SystemClock
from shoal.fetch.guard import Guard
from shoal.fetch.http import HttpTransport
from shoal.fetch.proxy.pools import load_pools
from shoal.fetch.transport import FetchRequest
from shoal.policy.outcomes import kind_of
from shoal.settings import Settings
from shoal.testing.proxy_server import ProxyServer

CERTS = Path(__file__).parent / "certs"
CURL = shutil.which("curl")
SHORT, LONG = 1.0, 30.0  # seconds: for what never ends, and for all else on a busy machine
ENDLESS = ("silent", "dripping")

LOST = "RemoteProtocolError|ReadError"  # which of them depends on the moment
# What the proxy is like; for http:// and https://: our kind, httpx's exception or status, curl's exit code.
# curl: 0 and the status, 7 no connection, 18 a part only, 28 too late, 52 nothing, 55 and 56 lost on the way.
TABLE: dict[str, tuple[tuple[str, str, str], tuple[str, str, str]]] = {
    "good": (("ok", "200", "0 200"), ("ok", "200", "0 200")),
    "refusing": (("proxy_connect", "ConnectError", "7"), ("proxy_connect", "ConnectError", "7")),
    "silent": (
        ("read_timeout|timeout", "ReadTimeout|total", "28"),
        ("proxy_gateway", "ReadTimeout|total", "28"),
    ),
    "closing": (("reset", LOST, "52|55|56"), ("proxy_gateway", LOST, "52|55|56")),
    "login": (("proxy_auth", "407", "0 407"), ("proxy_auth", "ProxyError", "56")),
    "gateway": (("http_502", "502", "0 502"), ("proxy_gateway", "ProxyError", "56")),
    "unavailable": (("http_503", "503", "0 503"), ("proxy_gateway", "ProxyError", "56")),
    "truncating": (("truncated", LOST, "18|56"), ("reset", LOST, "52|55|56")),
    "resetting": (("truncated", LOST, "18|56"), ("reset", LOST, "52|55|56")),
    "dripping": (("timeout", "total", "28"), ("read_timeout|timeout", "ReadTimeout|total", "28")),
}


@pytest.fixture(autouse=True)
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTS / "loopback.pem"))


def tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTS / "loopback.pem", CERTS / "loopback.key")
    return context


async def proxy_like(habit: str) -> ProxyServer:
    given: dict[str, Any] = {"login": {"user": "me", "password": "one"}, "refusing": {}}.get(
        habit, {"habit": habit}
    )
    proxy = ProxyServer("http", **given)
    await proxy.start()
    if habit == "refusing":
        await proxy.stop()
    if habit == "login":
        proxy.password = "another"
    return proxy


async def ours(url: str, proxy: ProxyServer, seconds: float, total: float) -> str:
    settings = Settings(connect_timeout=seconds, read_timeout=seconds, total_timeout=total)
    http = HttpTransport(settings, Guard(["127.0.0.0/8"]), SystemClock())
    way = load_pools(Settings(proxies={"pool": [proxy.url]}), {})["pool"][0]
    try:
        return kind_of(await http.fetch(FetchRequest(url, proxy=way)))
    finally:
        await http.close()


async def by_httpx(url: str, proxy: ProxyServer, seconds: float, total: float) -> str:
    context = ssl.create_default_context(cafile=str(CERTS / "loopback.pem"))
    try:
        async with (
            asyncio.timeout(total),
            httpx.AsyncClient(proxy=proxy.url, verify=context, timeout=seconds, trust_env=False) as client,
        ):
            return str((await client.get(url)).status_code)
    except TimeoutError:
        return "total"
    except httpx.HTTPError as error:
        return type(error).__name__


async def by_curl(url: str, proxy: ProxyServer, seconds: float, total: float) -> str:
    assert CURL is not None
    words = ["--silent", "--output", "/dev/null", "--write-out", "%{http_code}", "--max-time", f"{total}"]
    words += ["--cacert", str(CERTS / "loopback.pem"), "--proxy", proxy.url, "--noproxy", "", url]
    running = await asyncio.create_subprocess_exec(CURL, *words, stdout=asyncio.subprocess.PIPE)
    told, _ = await running.communicate()
    return f"0 {told.decode()}" if running.returncode == 0 else str(running.returncode)


@pytest.mark.parametrize("habit", TABLE)
async def test_three_clients_and_a_faulty_proxy(habit: str) -> None:
    proxy = await proxy_like(habit)
    # One that drips is never silent for long, but a busy machine may be: only the whole has its end.
    seconds = SHORT if habit == "silent" else LONG
    total = 2 * (SHORT if habit in ENDLESS else LONG)
    try:
        async with (
            serve(always(page(b"x" * 500))) as plain,
            serve(always(page(b"x" * 500)), tls=tls()) as secure,
        ):
            for server, expected in zip((plain, secure), TABLE[habit], strict=True):
                url = server.url("/")
                clients = [ours, by_httpx, by_curl] if CURL is not None else [ours, by_httpx]
                found = await asyncio.gather(*(client(url, proxy, seconds, total) for client in clients))
                for word, words in zip(found, expected, strict=False):
                    assert word in words.split("|"), (server.scheme, found)
    finally:
        await proxy.stop()
