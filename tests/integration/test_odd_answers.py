"""What servers get wrong, asked of us and of others: curl, httpx and requests. Every difference has its reason."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import requests

from integration.odd_answers import ALL
from integration.raw_server import RawServer, serve
from shoal.admit.sending import redirect_url
from shoal.clock import SystemClock
from shoal.fetch.guard import Guard
from shoal.fetch.http import HttpTransport
from shoal.fetch.transport import FetchRequest
from shoal.model import Failure
from shoal.settings import Settings

PATIENCE = 2.0  # seconds, for those who wait for the end of an answer that has none
LONG = 30.0  # for those who get one, on a busy machine
AT_ONCE = 8
_ESCAPE = re.compile("%..")
NO = "no"  # no answer, whatever the reason


def told(status: int, body: bytes, target: str = "") -> str:
    if target:
        return f"{status} {urlsplit(target).path}"
    return (
        f"{status} {body.decode('latin-1')}" if len(body) < 15 else f"{status} {body[:5].decode('latin-1')}…"
    )


@asynccontextmanager
async def odd_server() -> AsyncIterator[RawServer]:
    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        odd = ALL[int(head.split(b" ")[1][1:])]
        writer.write(odd.data)
        await writer.drain()
        if not odd.stays:
            writer.close()

    async with serve(answer) as server:
        yield server


async def ask_each(server: RawServer, ask: Callable[[str], Awaitable[str]]) -> dict[str, str]:
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> str:
        async with gate:
            return await ask(server.url(f"/{number}"))

    results = await asyncio.gather(*map(one, range(len(ALL))))
    return {odd.name: result for odd, result in zip(ALL, results, strict=True)}


def by_us(http: HttpTransport) -> Callable[[str], Awaitable[str]]:
    async def ask(url: str) -> str:
        outcome = await http.fetch(FetchRequest(url))
        if isinstance(outcome, Failure):
            return outcome.kind
        location = outcome.headers.get("Location", "")
        return told(outcome.status, outcome.body, (location and redirect_url(location, url)) or "")

    return ask


def by_curl(folder: Path) -> Callable[[str], Awaitable[str]]:
    async def ask(url: str) -> str:
        number = url.rpartition("/")[2]
        body, odd = folder / number, ALL[int(number)]
        patience = PATIENCE if odd.why or not odd.ours[:3].isdigit() else LONG
        words = ["curl", "-qs", "--compressed", "-m", str(patience), "-w", "%{http_code} %{redirect_url}"]
        process = await asyncio.create_subprocess_exec(
            *words, "-o", str(body), url, stdout=asyncio.subprocess.PIPE
        )
        status, _, target = (await process.communicate())[0].decode().partition(" ")
        if process.returncode:
            return NO
        return told(
            int(status),
            body.read_bytes() if body.exists() else b"",
            _ESCAPE.sub(lambda found: found[0].upper(), target),
        )

    return ask


async def by_httpx(url: str) -> str:
    try:
        answer = await _httpx().get(url)
    except (httpx.HTTPError, httpx.InvalidURL):
        return NO
    return told(answer.status_code, answer.content)


@cache
def _httpx() -> httpx.AsyncClient:
    keep_none = httpx.Limits(max_keepalive_connections=0)
    return httpx.AsyncClient(timeout=PATIENCE, trust_env=False, verify=False, limits=keep_none)


async def by_requests(url: str) -> str:
    def get() -> str:
        try:
            answer = requests.get(url, timeout=PATIENCE, allow_redirects=False)
        except (requests.RequestException, ValueError):
            return NO
        return told(answer.status_code, answer.content)

    return await asyncio.to_thread(get)


async def test_odd_answers_are_read_as_the_table_says() -> None:
    http = HttpTransport(Settings(read_timeout=LONG), Guard(["127.0.0.0/8"]), SystemClock())
    async with odd_server() as server:
        assert await ask_each(server, by_us(http)) == {odd.name: odd.ours for odd in ALL}
        assert len(server.hits) == len(ALL), "each was asked for once"
        await http.close()


@pytest.mark.skipif(not shutil.which("curl"), reason="no curl")
async def test_every_difference_from_curl_has_its_reason(tmp_path: Path) -> None:
    async with odd_server() as server:
        theirs = await ask_each(server, by_curl(tmp_path))
    differences = {
        odd.name for odd in ALL if theirs[odd.name] != (odd.ours if odd.ours[:3].isdigit() else NO)
    }
    assert differences <= {odd.name for odd in ALL if odd.why}


@pytest.mark.parametrize("ask", [by_httpx, by_requests])
async def test_whatever_others_take_we_take(ask: Callable[[str], Awaitable[str]]) -> None:
    async with odd_server() as server:
        theirs = await ask_each(server, ask)
    missed = {
        odd.name for odd in ALL if theirs[odd.name] != NO and not odd.ours[:3].isdigit() and not odd.why
    }
    # A body that ends before its last chunk has, or is none of what was said: requests takes what there is.
    assert missed <= {
        "NUL in a value",
        "CR for CRLF",
        "0x before a chunk size",
        "a space before a chunk size",
        "no empty line after the last chunk",
        "no line end after the last chunk",
    }
