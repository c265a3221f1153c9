"""No field of a task is forgotten by the stores that write tasks as bytes."""

from __future__ import annotations

import msgspec
import pytest

from shoal.frontier.codec import RARE, rare_fields, restored
from shoal.model import Failure, FetchOptions, ItemNote, Task
from shoal.model.page_record import KeptRow, PageRecord

# What queues, lists and columns say about a task, and what every task has.
ELSEWHERE = {"id", "job", "host", "lane", "priority", "attempt"}
NOT_STORED = {"variant"}  # follows from fingerprint, handler and meta
USUAL = {"url", "handler", "depth", "parent", "created_at", "fingerprint"}
RARELY = {
    "max_attempts": 3,
    "method": "POST",
    "headers": {"Accept": "*/*"},
    "body": b"x",
    "pool": "residential",
    "meta": {"a": "s"},
    "options": FetchOptions(
        session="s",
        timeout=2.5,
        max_body=7,
        wait_for="load",
        proxy="home",
        referer="/list",
        country="de",
        revisit="1h",
    ),
    "hops": ("http://a.test/",),
    "renewed": 1,
    "cookies": ("a=1",),
    "trail": (2**62,),
    "history": (Failure("timeout", attempt=1),),
    "typed": True,
    "item": ItemNote("product", at=1.5, is_json=False, hooked=True, handler="page"),
    "record": PageRecord(
        2, 3.5, etag="a", body=b"x", rows=(KeptRow("a", "b", b"c", b"d"),), rate=b"r", gone=1
    ),
}


def test_every_field_has_its_place() -> None:
    assert set(Task.__struct_fields__) == ELSEWHERE | USUAL | NOT_STORED | set(RARE)
    assert set(RARELY) == set(RARE)


def test_a_plain_link_has_none() -> None:
    assert rare_fields(Task("http://a.test/", "page", depth=3, parent=7, fingerprint=1)) is None
    assert restored(None) == {}


@pytest.mark.parametrize("name", RARE)
def test_each_alone_comes_back_as_it_went(name: str) -> None:
    task = Task("http://a.test/", **{name: RARELY[name]})
    written = msgspec.msgpack.encode(rare_fields(task))
    assert Task("http://a.test/", **restored(msgspec.msgpack.decode(written))) == task
