"""A hostile host of the chaotic web does what its attacks say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from shoal.testing import ChaoticWeb, HostProfile
from shoal.testing.web.attacks import ATTACKS, ROBOTS

NAMES = list(ATTACKS)


@pytest.fixture
async def web() -> AsyncIterator[ChaoticWeb]:
    async with ChaoticWeb({"bad": HostProfile("hostile", pages=len(NAMES) + 1, robots=ROBOTS)}) as web:
        yield web


async def answer(web: ChaoticWeb, path: str, *, at_most: int = 2_000_000) -> tuple[bytes, bytes]:
    """Head and body, until the server closes, falls silent, or has said so much."""
    host, _, port = web.addresses["bad"].partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    said = b""
    try:
        async with asyncio.timeout(30):
            while len(said) < at_most and (part := await reader.read(65_536)):
                said += part
    finally:
        writer.close()
    head, _, body = said.partition(b"\r\n\r\n")
    return head, body


def path_of(name: str) -> str:
    return f"/p/{NAMES.index(name) + 1}"


async def test_the_first_page_leads_to_every_attack(web: ChaoticWeb) -> None:
    head, body = await answer(web, "/p/0")
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert [path_of(name).encode() for name in NAMES if path_of(name).encode() + b'"' not in body] == []
    assert web.pages_of("bad") == set(), "nobody must find anything here"


async def test_attacks_of_markup_are_repeated_fragments(web: ChaoticWeb) -> None:
    head, body = await answer(web, path_of("comments"))
    assert b"Content-Type" not in head
    assert body == b"<!---->" * 140 + b"x"
    _, body = await answer(web, path_of("ruby"))
    assert body == b"<rt>" * 65_536


async def test_a_lie_about_the_length_ends_early(web: ChaoticWeb) -> None:
    head, body = await answer(web, path_of("short"))
    assert b"Content-Length: 100000" in head
    assert body == b"<p>short"


async def test_floods_are_floods(web: ChaoticWeb) -> None:
    assert (await answer(web, path_of("headers")))[0].count(b"\r\n") > 5_000
    assert (await answer(web, path_of("cookies")))[0].count(b"Set-Cookie") == 100
    assert (await answer(web, path_of("flood")))[1].count(b"<a href") == 4_096
    assert b"Server: \xff\xfe" in (await answer(web, path_of("bytes")))[0]
    assert (await answer(web, "/robots.txt"))[1].count(b"User-agent") == 1_500


async def test_redirects_lead_on_and_on(web: ChaoticWeb) -> None:
    path = path_of("redirects")
    met = set()
    for _ in range(20):
        head, _ = await answer(web, path)
        assert head.startswith(b"HTTP/1.1 302")
        path = head.partition(b"Location: ")[2].partition(b"\r\n")[0].decode()
        met.add(path)
    assert len(met) == 20


async def test_a_dripping_answer_comes_byte_by_byte(web: ChaoticWeb) -> None:
    head, body = await answer(web, path_of("drips"), at_most=86)
    assert b"Content-Length: 1000000" in head
    assert 1 <= len(body) < 4


async def test_only_the_attacks_that_are_named() -> None:
    profile = HostProfile("hostile", pages=4, attacks=("bytes", "short"))
    async with ChaoticWeb({"bad": profile}) as web:
        assert b"100000" in (await answer(web, "/p/2"))[0]
        assert (await answer(web, "/p/1"))[0] == (await answer(web, "/p/3"))[0]
