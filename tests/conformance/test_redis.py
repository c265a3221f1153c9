"""The home in Valkey passes the one suite if answers get lost: one shard on a server, and several in a cluster."""

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


class TestOneShardRepeated(FrontierConformance):
    """The stateful tests and every crawl of the suite call scripts once."""

    @pytest.fixture
    async def frontier(
        self, clock: ManualClock, server: ValkeyServer, monkeypatch: pytest.MonkeyPatch
    ) -> AsyncIterator[Frontier]:
        monkeypatch.setattr("shoal.frontier.redis.home.Link", Stuttering)
        async with RedisFrontier(f"{server.url}?prefix=t{next(_number)}&shards=1", clock) as frontier:
            yield frontier


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyCluster]:
    with ValkeyCluster(tmp_path_factory.mktemp("cluster"), appendonly=False) as cluster:
        yield cluster


# Shards are told who stood in line before others joined; asked twice, they count these, too.
ONCE = {"test_a_host_known_to_be_quick_goes_before_those_never_heard_of"}


class TestClusterRepeated(FrontierConformance):
    """Four shards on three nodes: no script touches keys of two slots. Several shards on one server differ from this
    only in the client; they are in the stateful tests."""

    @pytest.fixture
    async def frontier(
        self,
        clock: ManualClock,
        cluster: ValkeyCluster,
        monkeypatch: pytest.MonkeyPatch,
        request: pytest.FixtureRequest,
    ) -> AsyncIterator[Frontier]:
        if request.node.name not in ONCE:
            monkeypatch.setattr("shoal.frontier.redis.home.Link", Stuttering)
        async with RedisFrontier(f"{cluster.url}?prefix=t{next(_number)}&shards=4", clock) as frontier:
            yield frontier


def test_the_one_that_is_not_repeated_is_there() -> None:
    assert all(hasattr(FrontierConformance, name) for name in ONCE)
