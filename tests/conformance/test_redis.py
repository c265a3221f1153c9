"""The home in Valkey passes the one suite: with one shard and with several if answers get lost, and in a cluster."""

from __future__ import annotations

import itertools
import math
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest

from shoal.frontier.protocol import Frontier
from shoal.frontier.redis.home import RedisFrontier
from shoal.frontier.redis.link import Argument, Link, Script
from shoal.testing.conformance import FrontierConformance
from shoal.testing.manual_clock import ManualClock
from shoal.testing.servers import ValkeyCluster, ValkeyServer

_number = itertools.count()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    """Nothing is asked here of its disk."""
    with ValkeyServer(tmp_path_factory.mktemp("valkey"), appendonly=False) as server:
        yield server


class Stuttering(Link):
    """Every answer gets lost once, after the script ran: the call is made again, as after a broken connection."""

    async def run(
        self, script: Script, tag: str, args: Sequence[Argument] = (), *, full_patience: float = math.inf
    ) -> Any:
        await super().run(script, tag, args, full_patience=full_patience)
        return await super().run(script, tag, args, full_patience=full_patience)


class Repeated(FrontierConformance):
    """The cluster below, tests/stateful and every crawl of the suite call scripts once."""

    shards: int

    @pytest.fixture
    async def frontier(
        self, clock: ManualClock, server: ValkeyServer, monkeypatch: pytest.MonkeyPatch
    ) -> AsyncIterator[Frontier]:
        monkeypatch.setattr("shoal.frontier.redis.home.Link", Stuttering)
        store = f"{server.url}?prefix=t{next(_number)}&shards={self.shards}"
        async with RedisFrontier(store, clock) as frontier:
            yield frontier


class TestOneShardRepeated(Repeated):
    shards = 1


class TestFourShardsRepeated(Repeated):
    shards = 4

    # Shards are told who stood in line before others joined; asked twice, they count these, too.
    test_a_host_known_to_be_quick_goes_before_those_never_heard_of = None


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyCluster]:
    with ValkeyCluster(tmp_path_factory.mktemp("cluster"), appendonly=False) as cluster:
        yield cluster


class TestCluster(FrontierConformance):
    """Four shards on three nodes: no script touches keys of two slots."""

    @pytest.fixture
    async def frontier(self, clock: ManualClock, cluster: ValkeyCluster) -> AsyncIterator[Frontier]:
        async with RedisFrontier(f"{cluster.url}?prefix=t{next(_number)}&shards=4", clock) as frontier:
            yield frontier
