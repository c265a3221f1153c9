"""What is in a store but cannot be read: a task is a clear error, a note that is only remembered counts as none."""

from __future__ import annotations

import pytest

from shoal.engine.history import History
from shoal.engine.history_recorder import _history_of
from shoal.engine.recent import Recent, _recent_of
from shoal.errors import StoreError
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.redis import codec as redis
from shoal.frontier.sqlite import codec as sqlite
from shoal.frontier.values import HostRecord, JobSpec, Note, WorkerRecord
from shoal.hosts.host_state import HostState, state_of
from shoal.hosts.proxy_pools import state_of as pool_of
from shoal.inspect.event_log import _ring
from shoal.jobs.note import JobNote, note_of, settings_of
from shoal.jobs.schedule import KEY, schedules
from shoal.jobs.worker_status import WorkerStatus, status_of
from shoal.model import Task
from shoal.policy.compose import HostPolicies
from shoal.policy.proxy_state import PoolState
from shoal.settings import Settings
from shoal.valve import Valve

JUNK = [b"\xc1", b"junk", b"\xd9\x02\xff\xff", b"\x81\xa4\xff\xff\xff\xff\x01", b"\x91" * 5_000 + b"\xc0"]
ITEM = redis.encode_item(Task("http://a.example/", host="a.example", headers={"A": "b"}), 1)


def whole(text: bytes) -> bytes:
    """A redis item with that body."""
    return ITEM[:16] + text


@pytest.mark.parametrize("junk", [b"", *JUNK, b"\x97\xa0\xa0\x00\x00\x00\xc0\x81\xa3odd\x01"])
def test_a_row_that_is_no_task_or_letter_is_said_to_be_damaged(junk: bytes) -> None:
    with pytest.raises(
        StoreError, match=r"^the store holds a task that cannot be read \(.+\): it is damaged"
    ):
        sqlite.decode_task(junk, id=1, job="job", host="a.example", lane="normal", rank=0, attempt=1)
    with pytest.raises(StoreError, match="holds a dead letter"):
        sqlite.decode_letter(junk)


@pytest.mark.parametrize(
    "junk", [b"", ITEM[:10], ITEM[:20], ITEM[:15] + b"\xff" + ITEM[16:], *map(whole, JUNK)]
)
def test_an_item_that_is_no_task_is_said_to_be_damaged(junk: bytes) -> None:
    with pytest.raises(StoreError, match="holds a task that cannot be read"):
        redis.decode_item(junk, "job", "a.example", "normal", 0, {1: "page"})


@pytest.mark.parametrize("junk", [b"", b"short", b"\xff" * 60])
def test_letters_and_leases_that_are_none_are_said_to_be_damaged(junk: bytes) -> None:
    with pytest.raises(StoreError, match="holds a dead letter"):
        redis.decode_letter(junk)
    with pytest.raises(StoreError, match="holds a lease"):
        redis.decode_lease(junk)


@pytest.mark.parametrize("junk", JUNK)
def test_junk_where_something_is_remembered_counts_as_nothing(junk: bytes) -> None:
    assert state_of(HostRecord("a.example", Valve(), junk)) == HostState()
    policies = HostPolicies(Settings())
    assert policies.decode(junk) == policies.initial()
    spec = JobSpec("job", settings=junk)
    assert note_of(spec) == JobNote()
    assert settings_of(spec) is None
    assert status_of(WorkerRecord("w", 0.0, 1.0, junk)) == WorkerStatus()
    note = Note(junk, 1)
    assert pool_of(note) == PoolState()
    assert _ring(note).events == ()
    assert _history_of(note, 0.0) == History()
    assert _recent_of(note, 0.0) == Recent()


async def test_junk_instead_of_the_schedules_is_not_taken_for_none() -> None:
    async with MemoryFrontier() as frontier:
        await frontier.set_note(KEY, b"junk", 0)
        with pytest.raises(StoreError, match="list of schedules"):
            await schedules(frontier)
