"""The shop, scraped by the example and killed at random moments; `python -m benchmarks.shop` does so at length."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from benchmarks.shop import Killing, judge

from crash.harness import Desk
from shoal.testing.servers import ValkeyServer
from shoal.testing.shop import ShopProcess, ShopSpec

KILLS = 3
# Two sessions at least; files that take long enough to be killed in the middle.
SPEC = ShopSpec(40, session_pages=60, latency=0.01, login_latency=0.1, file_seconds=0.1)


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Iterator[ShopProcess]:
    with ShopProcess(SPEC) as shop:
        monkeypatch.setenv("SHOP_URL", shop.url)
        yield shop


def check(desk: Desk, shop: ShopProcess, killing: Killing) -> None:
    verdict = judge(desk.folder, shop.catalogue, shop.log(), killing)
    assert verdict.faults == []
    assert killing.killed == KILLS
    assert verdict.rows == 2 * SPEC.products


@pytest.mark.parametrize("processes", [1, 2])
def test_a_crawl_is_killed(desk: Desk, shop: ShopProcess, processes: int) -> None:
    killing = Killing(shop, desk.start, KILLS, seed=processes)
    killing.crawl(processes)
    check(desk, shop, killing)


def test_workers_of_a_fleet_are_killed(desk: Desk, shop: ShopProcess, valkey: ValkeyServer) -> None:
    killing = Killing(shop, desk.start, KILLS, seed=3)
    killing.fleet(valkey.url)
    check(desk, shop, killing)
