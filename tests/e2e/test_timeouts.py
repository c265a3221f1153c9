"""How long a host is waited for: what is sane at first, and then what it usually takes, as the server saw it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

import shoal
from lateness import Lateness
from shoal import Spider
from shoal.settings import Settings
from shoal.testing import ChaoticWeb, Hit, HostProfile

LATENCY = 0.12
QUICK: dict[str, Any] = {
    "robots": False,
    "rate": 0,
    "per_host": 1,
    "min_timeout": 0.05,
    "first_timeout": 0.5,
    "retry_base": 0.01,
    "max_attempts": 1,
}
DEADLINE = 60


def spider_of(web: ChaoticWeb, pages: int, **settings: object) -> Spider:
    start = [web.url(host, f"/p/{n}") for n in range(pages) for host in web.spec.hosts]
    spider = Spider("timeouts", start, **{**QUICK, **settings})
    spider.add_handler(lambda page: {"url": page.url}, name="page")
    return spider


def waited(hits: list[Hit]) -> list[float]:
    """Seconds until the client left, of the requests that were never answered."""
    return [hit.ended - hit.started for hit in hits if hit.status == 0]


async def test_the_first_request_to_an_unknown_host_is_not_waited_for_for_ever() -> None:
    async with ChaoticWeb({"host": HostProfile("hanging")}) as web:
        for _ in range(5):
            with Lateness() as late:
                async with asyncio.timeout(DEADLINE):
                    await shoal.crawl(spider_of(web, 1))
            # The time runs from before dialling: a machine that stood still for long may have sent nothing.
            if web.hits() or late.seconds < 0.4:
                break
        assert waited(web.hits()) == [pytest.approx(0.5, abs=0.1 + late.seconds)]
    assert Settings().first_timeout <= Settings().total_timeout / 3


async def test_a_steady_host_is_cut_off_after_a_few_times_its_latency(
    record_property: Callable[[str, object], None],
) -> None:
    async with ChaoticWeb({"host": HostProfile("slow", latency=LATENCY)}) as web:
        silent_from = 0.0

        async def falls_silent() -> None:
            nonlocal silent_from
            while len(web.hits()) < 12:  # noqa: ASYNC110 (the server does not know of us)
                await asyncio.sleep(0.005)
            web.become("host", HostProfile("hanging"))
            silent_from = time.monotonic()

        with Lateness() as late:
            async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as tasks:
                tasks.create_task(falls_silent())
                tasks.create_task(shoal.crawl(spider_of(web, 15)))  # one more: a busy machine may lose one
        # A busy machine may have cut one off before.
        cut_off_after = waited([hit for hit in web.hits() if hit.started >= silent_from])[0]
    record_property("cut off after", f"{cut_off_after / LATENCY:.2f} times the latency")
    assert 3 * LATENCY - 0.01 - late.seconds < cut_off_after < 4 * (LATENCY + late.seconds) + 0.05


async def test_a_page_slower_than_its_host_gets_its_time_in_the_end() -> None:
    """Cut off with what the others need, it is given twice as much every time."""
    waited: list[float] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        if b"/report" in request and len(waited) < 3:
            began = time.monotonic()
            await reader.read()  # until the client has left
            waited.append(time.monotonic() - began)
        else:
            await asyncio.sleep(0.02)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    spider = Spider("timeouts", [*(f"{base}/{n}" for n in range(10)), f"{base}/report"], **QUICK)
    spider.add_handler(lambda page: {"url": page.url}, name="page")
    with Lateness() as late:
        async with asyncio.timeout(DEADLINE):
            results = await shoal.crawl(spider, max_attempts=5)
    server.close()
    assert f"{base}/report" in {row["url"] for row in results}
    first, second, third = waited
    forgiven = 2 * late.seconds + 0.05
    assert second == pytest.approx(2 * first, abs=forgiven)
    assert third == pytest.approx(2 * second, abs=forgiven)
