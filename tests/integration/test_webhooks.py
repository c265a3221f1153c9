"""Deliveries to a real receiver: what is sent, what is tried again, what is given up."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from shoal.engine.webhooks import Webhooks, webhook_tasks
from shoal.frontier.clock import FrontierClock
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.protocol import Frontier
from shoal.frontier.sqlite import SqliteFrontier
from shoal.frontier.values import DeadFilter
from shoal.model import Dead, Done, Failure, Lease, Retry, Row, Settlement
from shoal.settings import Settings
from shoal.testing.conformance.tools import claim, counted, make_task, start_job
from shoal.testing.manual_clock import ManualClock
from webhook_receiver import WebhookReceiver

CHANGE = Row(b'{"key": "1", "field": "price", "old": 5, "new": 4}\n', table="changes", at=5.0)
HOUR = 3600.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@asynccontextmanager
async def webhooks(clock: ManualClock, **settings: Any) -> AsyncIterator[Webhooks]:
    made = Webhooks(Settings(**settings), FrontierClock(clock), random.Random(0), {})
    try:
        yield made
    finally:
        await made.close()


async def found(frontier: Frontier, receiver: WebhookReceiver, changes: int = 1) -> None:
    """A job with a page whose visit found changes."""
    await start_job(frontier, [make_task("http://shop.test/1")])
    [lease] = (await claim(frontier)).leases
    tasks = webhook_tasks([CHANGE] * changes, lease.task, Settings(webhook=receiver.url))
    await frontier.settle([Settlement(lease, Done(), tasks)])


async def leased(frontier: Frontier) -> Lease:
    [lease] = (await claim(frontier, lanes=("urgent",))).leases
    return lease


async def attempt(frontier: Frontier, hooks: Webhooks) -> Settlement:
    settlement = await hooks.deliver(await leased(frontier))
    assert settlement is not None
    await frontier.settle([settlement])
    hooks.settled(settlement)
    return settlement


def by_openssl_of(signed: bytes) -> str:
    command = ["openssl", "dgst", "-sha256", "-hmac", "hush"]
    return subprocess.run(command, input=signed, capture_output=True, check=True).stdout.split()[-1].decode()


async def test_a_delivery_is_signed_json_and_nothing_of_the_crawl_goes_with_it(clock: ManualClock) -> None:
    async with (
        WebhookReceiver() as receiver,
        MemoryFrontier(clock) as frontier,
        webhooks(
            clock,
            webhook=receiver.url,
            webhook_secret="hush",
            headers={"X-Key": "k", "Authorization": "Bearer k"},
            proxy="http://127.0.0.1:9",
        ) as hooks,
    ):
        await found(frontier, receiver)
        assert (await attempt(frontier, hooks)).counts == (("webhooks: sent", 1),)
    [got] = receiver.received
    told = json.loads(got.body)
    assert told["changes"] == [json.loads(CHANGE.data)]
    assert (got.headers["Content-Type"], got.headers["X-Shoal-Event"]) == ("application/json", "changes")
    assert got.headers["X-Shoal-Delivery"] == told["id"]
    assert not {"X-Key", "Authorization", "Cookie", "Referer"} & set(got.headers)
    t, v1 = (part.partition("=")[2] for part in got.headers["X-Shoal-Signature"].split(","))
    by_openssl = await asyncio.to_thread(by_openssl_of, t.encode() + b"." + got.body)
    assert by_openssl == v1
    assert abs(int(t) - clock.time()) <= 1


async def test_a_receiver_that_is_down_for_a_night_gets_everything_within_an_hour(clock: ManualClock) -> None:
    async with (
        WebhookReceiver() as receiver,
        MemoryFrontier(clock) as frontier,
        webhooks(clock, webhook=receiver.url) as hooks,
    ):
        await found(frontier, receiver)
        waits: list[float] = []
        while sum(waits) < 12 * HOUR:
            receiver.statuses.append(random.Random(len(waits)).choice([500, 503, 404, 401, 302]))
            settlement = await attempt(frontier, hooks)
            assert isinstance(settlement.verdict, Retry)
            waits.append(settlement.verdict.after)
            clock.advance(waits[-1] + 0.01)
        assert waits[0] + waits[1] < 7, "a receiver that is restarted has it in seconds"
        assert max(waits) <= 1.2 * HOUR
        assert len(waits) < 30
        await attempt(frontier, hooks)
        job = await counted(frontier)
    assert (job.counters.open, job.counters.dead, job.counters.retried) == (0, 0, 0)
    assert job.counts == {"webhooks: failed, tried again": len(waits), "webhooks: sent": 1}
    assert len({(one.headers["X-Shoal-Delivery"], one.body) for one in receiver.received}) == 1


async def test_a_delivery_that_fails_for_days_is_given_up_and_can_be_replayed(clock: ManualClock) -> None:
    async with (
        WebhookReceiver(*[503] * 200) as receiver,
        MemoryFrontier(clock) as frontier,
        webhooks(clock, webhook=receiver.url, webhook_days=3) as hooks,
    ):
        await found(frontier, receiver)
        started = clock.time()
        while not isinstance((settlement := await attempt(frontier, hooks)).verdict, Dead):
            assert isinstance(settlement.verdict, Retry)
            clock.advance(settlement.verdict.after + 0.01)
        assert 3 * 24 * HOUR <= clock.time() - started < 3.1 * 24 * HOUR
        [letter] = await frontier.dead(DeadFilter(kind="webhook"))
        assert letter.task.history[-1].detail == f"webhook 1 (127.0.0.1:{receiver.port}): HTTP 503"
        assert letter.snapshot is not None
        assert letter.snapshot.body == b"thanks"
        clock.advance(90 * 24 * HOUR)
        await frontier.replay(DeadFilter(kind="webhook"))
        again = await attempt(frontier, hooks)
        assert isinstance(again.verdict, Retry), "it begins anew"
        receiver.statuses.clear()
        clock.advance(HOUR)
        await attempt(frontier, hooks)
        assert (await counted(frontier)).counters.open == 0
    assert len({one.headers["X-Shoal-Delivery"] for one in receiver.received}) == 1


async def test_a_receiver_that_is_gone_is_not_asked_again(clock: ManualClock) -> None:
    async with (
        WebhookReceiver(410) as receiver,
        MemoryFrontier(clock) as frontier,
        webhooks(clock, webhook=receiver.url) as hooks,
    ):
        await found(frontier, receiver)
        settlement = await attempt(frontier, hooks)
    assert isinstance(settlement.verdict, Dead)
    assert settlement.counts == (("webhooks: given up", 1),)


async def test_a_redirect_is_not_followed_and_retry_after_is_kept(clock: ManualClock) -> None:
    headers = {"Location": "http://127.0.0.1:9/", "Retry-After": "1800"}
    async with (
        WebhookReceiver(307, headers=headers) as receiver,
        MemoryFrontier(clock) as frontier,
        webhooks(clock, webhook=receiver.url) as hooks,
    ):
        await found(frontier, receiver)
        settlement = await attempt(frontier, hooks)
    assert isinstance(settlement.verdict, Retry)
    assert settlement.verdict.after == 1800
    assert "redirects are not followed" in settlement.verdict.failure.detail
    assert len(receiver.received) == 1


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("http://169.254.169.254/t0ken-of-mine", "where clouds keep the credentials"),
        ("http://127.0.0.1:9/t0ken-of-mine", "webhook 1 (127.0.0.1:9): "),
    ],
)
async def test_a_receiver_that_cannot_be_reached(clock: ManualClock, address: str, said: str) -> None:
    async with (
        WebhookReceiver() as receiver,
        MemoryFrontier(clock) as frontier,
        webhooks(clock, webhook=address) as hooks,
    ):
        await found(frontier, receiver)
        settlement = await attempt(frontier, hooks)
    assert isinstance(settlement.verdict, Retry)
    assert said in settlement.verdict.failure.detail
    assert "t0ken" not in settlement.verdict.failure.detail


async def test_a_process_without_that_webhook_leaves_it_to_others(clock: ManualClock) -> None:
    async with (
        WebhookReceiver() as receiver,
        MemoryFrontier(clock) as frontier,
        webhooks(clock) as hooks,
        webhooks(clock, webhook=receiver.url) as others,
    ):
        await found(frontier, receiver)
        settlement = await attempt(frontier, hooks)
        assert isinstance(settlement.verdict, Retry)
        assert settlement.verdict.failure.detail == (
            "webhook 1 is not in the settings of this process, which have none: set webhook there, too"
        )
        clock.advance(HOUR)
        await attempt(frontier, others)
    assert len(receiver.received) == 1


def all_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


async def test_neither_the_address_nor_the_secret_is_in_the_store_or_the_log(
    clock: ManualClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "shoal")
    async with (
        WebhookReceiver(500, 410) as receiver,
        SqliteFrontier(tmp_path / "store.db", clock) as frontier,
        webhooks(clock, webhook=receiver.url, webhook_secret="hush-hush") as hooks,
    ):
        await found(frontier, receiver)
        await attempt(frontier, hooks)
        clock.advance(HOUR)
        await attempt(frontier, hooks)
        [letter] = await frontier.dead(DeadFilter())
    assert isinstance(letter.task.history[-1], Failure)
    written = await asyncio.to_thread(all_bytes, tmp_path)
    for secret in ("t0ken-of-mine", "hush-hush", receiver.received[0].headers["X-Shoal-Signature"]):
        assert secret.encode() not in written
        assert secret not in caplog.text
        assert secret not in repr(letter)
    assert "a delivery failed, and is tried again: webhook 1" in caplog.text
    assert "it is a dead letter of the kind webhook, which can be replayed" in caplog.text
