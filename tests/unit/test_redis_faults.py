"""What a store's errors mean, and what a person reads."""

from __future__ import annotations

import pytest
from redis import exceptions as said

from shoal.errors import ShoalError, StoreError, StoreFull, UsageError
from shoal.frontier.redis.address import Address
from shoal.frontier.redis.faults import FAULTS, LONGEST_DELAY, delay, meaning, translate

ADDRESS = Address.parse("redis://me:hunter2@h:1", {})


def cluster_error(cause: Exception) -> said.RedisClusterException:
    error = said.RedisClusterException("Redis Cluster cannot be connected")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (said.ConnectionError("Connection closed by server."), "passing"),
        (said.BusyLoadingError("Valkey is loading the dataset in memory"), "passing"),
        (said.ReadOnlyError("You can't write against a read only replica."), "passing"),
        (said.ResponseError("BUSY Valkey is busy running a script."), "passing"),
        (said.ResponseError("NOREPLICAS Not enough good replicas to write."), "passing"),
        (said.MasterDownError("Link with MASTER is down"), "passing"),
        (said.ClusterDownError("CLUSTERDOWN The cluster is down"), "passing"),
        (said.ClusterError("TTL exhausted."), "passing"),
        (said.SlotNotCoveredError('Slot "1" not covered by the cluster.'), "passing"),
        (cluster_error(said.ConnectionError("refused")), "passing"),
        (TimeoutError(), "passing"),
        (said.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."), "full"),
        (
            said.ResponseError(
                "Error running script (call to f_6b1b): @user_script:1: @user_script: 1: "
                "-OOM command not allowed when used memory > 'maxmemory'."
            ),
            "full",
        ),
        (said.ResponseError("MISCONF Valkey is configured to save RDB snapshots"), "full"),
        (said.AuthenticationError("invalid username-password pair"), "fatal"),
        (cluster_error(said.AuthenticationError("invalid username-password pair")), "fatal"),
        (said.NoPermissionError("User me has no permissions"), "fatal"),
        (said.ResponseError("user_script:1: Script attempted to access nonexistent global"), "fatal"),
        (
            said.ResponseError("Error running script: attempt to compare number with nil, field x-BUSYNESS"),
            "fatal",
        ),
    ],
)
def test_what_an_error_means(error: Exception, expected: str) -> None:
    assert isinstance(error, FAULTS)
    assert meaning(error) == expected


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (
            said.OutOfMemoryError("command not allowed when\nused memory > 'maxmemory'."),
            StoreFull,
            "raise maxmemory",
        ),
        (said.AuthenticationError("Authentication required."), UsageError, "SHOAL_REDIS_PASSWORD"),
        (cluster_error(said.AuthenticationError("invalid pair")), UsageError, "wrong name or password"),
        (said.ResponseError("DB index is out of range"), UsageError, "no database number"),
        (ConnectionRefusedError(111, "Connection refused"), StoreError, "nothing listens at redis://h:1"),
        (said.ResponseError("boom"), StoreError, "script claim failed"),
        (TimeoutError(), StoreError, "no answer in time"),
    ],
)
def test_what_a_person_reads(error: Exception, kind: type[ShoalError], words: str) -> None:
    told = translate(error, ADDRESS, "script claim")
    assert type(told) is kind
    assert words in str(told)
    assert "\n" not in str(told)
    assert "hunter2" not in str(told)


def test_the_wait_grows_up_to_a_bound() -> None:
    assert max(delay(1) for _ in range(200)) <= 0.05
    assert 0.05 < max(delay(4) for _ in range(200)) <= 0.4
    assert max(delay(10_000) for _ in range(200)) <= LONGEST_DELAY
