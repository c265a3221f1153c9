"""The home in Valkey under random use, with one shard and with several."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from shoal.frontier.protocol import Frontier
from shoal.frontier.redis.home import RedisFrontier
from shoal.testing.manual_clock import ManualClock
from shoal.testing.servers import ValkeyServer
from shoal.testing.stateful import machine

_folder = tempfile.TemporaryDirectory(prefix="shoal-stateful-")
_server = ValkeyServer(_folder.name)
_number = itertools.count()


@pytest.fixture(scope="module", autouse=True)
def _running() -> Iterator[None]:
    with _server:
        yield


def make(clock: ManualClock, shards: int) -> Frontier:
    return RedisFrontier(f"{_server.url}?prefix=s{next(_number)}&shards={shards}", clock)


TestOneShard = machine(lambda clock: make(clock, 1)).TestCase
TestOneShard.settings = settings(
    max_examples=20, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)

TestFourShards = machine(lambda clock: make(clock, 4)).TestCase
TestFourShards.settings = settings(
    max_examples=10, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
