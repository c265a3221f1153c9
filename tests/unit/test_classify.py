"""The table from outcome to verdict."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import shoal.fetch.failures
from shoal.limits import SNAPSHOT_HEADER, SNAPSHOT_HEADERS
from shoal.model import Dead, Failure, Outcome, Response, Retry, Task, Verdict
from shoal.policy.outcomes import TABLE, failure_of, judge, kind_of, rule_for, snapshot_of
from shoal.settings import Settings

NOW = 1000.0
URL = "http://a.example/"


def answer(status: int, body: bytes = b"", **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(URL, status, named, body, elapsed=0.5)


def verdict(outcome: Outcome, task: Task | None = None, **settings: Any) -> Verdict | None:
    task = task or Task(URL, attempt=2)
    return judge(outcome, task, Settings(**settings), now=NOW, rng=random.Random(1))


def test_a_page_that_drips_is_tried_once_more_and_not_again() -> None:
    task = Task(URL, attempt=1)
    first = verdict(Failure("too_slow"), task)
    assert isinstance(first, Retry)
    again = replace(task, attempt=2, history=(first.failure,))
    assert isinstance(verdict(Failure("timeout"), again), Retry)
    assert isinstance(verdict(Failure("too_slow"), again), Dead)
    replayed = replace(task, attempt=1, history=(first.failure,))
    assert isinstance(verdict(Failure("too_slow"), replayed), Retry), "a person has given it another chance"


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        (answer(200), "ok"),
        (answer(206), "ok"),
        (answer(301, Location="/x"), "redirect"),
        (answer(308, Location="/x"), "redirect"),
        (answer(302), "http_302"),
        (answer(302, Location="  "), "http_302"),
        (answer(300, Location="/x"), "http_300"),
        (answer(304), "not_modified"),
        (answer(404), "http_404"),
        (answer(503), "http_503"),
        (answer(999), "http_999"),
        (Failure("timeout"), "timeout"),
    ],
)
def test_kinds(outcome: Outcome, kind: str) -> None:
    assert kind_of(outcome) == kind


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        ("http_404", "http_404"),
        ("http_418", "http_4xx"),
        ("http_521", "http_5xx"),
        ("http_302", "http_3xx"),
        ("http_999", "http_xxx"),
        ("http_101", "http_xxx"),
        ("http_5", "http_xxx"),
        ("never heard of", "unexpected"),
    ],
)
def test_fallbacks(kind: str, row: str) -> None:
    assert rule_for(kind) is TABLE[row]


@pytest.mark.parametrize("status", [200, 201, 204])
def test_pages_have_no_verdict(status: int) -> None:
    assert verdict(answer(status)) is None


def test_redirects_are_left_to_the_worker() -> None:
    assert verdict(answer(302, Location="/x")) is None


@pytest.mark.parametrize("status", [401, 403, 404, 410, 418, 300, 302, 101, 999])
def test_permanent_answers_are_buried(status: int) -> None:
    dead = verdict(answer(status, b"no"))
    assert isinstance(dead, Dead)
    assert (dead.failure.kind, dead.failure.status, dead.failure.elapsed) == (f"http_{status}", status, 0.5)
    assert (dead.failure.at, dead.failure.attempt) == (NOW, 2)
    assert f"HTTP {status}" in dead.failure.detail
    assert dead.snapshot is not None
    assert dead.snapshot.body == b"no"


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 520])
def test_passing_answers_are_retried(status: int) -> None:
    again = verdict(answer(status))
    assert isinstance(again, Retry)
    assert 0 <= again.after <= 2.0  # second attempt, base 1
    assert again.failure.kind == f"http_{status}"


def test_retry_after_is_obeyed_and_capped() -> None:
    slow = verdict(answer(503, Retry_After="120"))
    slower = verdict(answer(429, Retry_After="99999999"), retry_after_cap=500.0)
    assert isinstance(slow, Retry)
    assert isinstance(slower, Retry)
    assert 120 <= slow.after <= 132
    assert 500 <= slower.after <= 550


def test_error_statuses_a_handler_wants() -> None:
    assert verdict(answer(404), handle_status=[404]) is None
    assert verdict(answer(503), handle_status=[503]) is None
    assert isinstance(verdict(answer(410), handle_status=[404]), Dead)


def test_not_modified_is_an_answer_only_to_a_conditional_request() -> None:
    dead = verdict(answer(304))
    assert isinstance(dead, Dead)
    assert dead.failure.kind == "http_304"
    assert verdict(answer(304), Task(URL, headers={"if-None-Match": '"1"'})) is None


@pytest.mark.parametrize(
    "kind", ["timeout", "connect", "dns", "reset", "truncated", "protocol", "read_timeout"]
)
def test_faults_of_the_wire_are_retried(kind: str) -> None:
    again = verdict(Failure(kind, "x", elapsed=3.0))
    assert isinstance(again, Retry)
    assert again.failure == Failure(kind, "x", at=NOW, elapsed=3.0, attempt=2)
    assert rule_for(kind).blames_host


@pytest.mark.parametrize(
    "kind", ["tls", "too_large", "forbidden_address", "invalid_url", "robots", "handler"]
)
def test_what_will_not_get_better_is_buried_at_once(kind: str) -> None:
    assert isinstance(verdict(Failure(kind)), Dead)


@pytest.mark.parametrize(
    "kind", ["robots", "handler", "handler_timeout", "junk", "worker_lost", "too_large", "http_404"]
)
def test_what_is_no_evidence_against_the_host(kind: str) -> None:
    assert not rule_for(kind).blames_host


def test_every_kind_the_transport_speaks_of_is_in_the_table() -> None:
    source = Path(shoal.fetch.failures.__file__).read_text()
    kinds = set(re.findall(r'return "(\w+)", ', source))
    assert len(kinds) > 10
    assert kinds <= set(TABLE)


def test_failure_of_keeps_a_failure_and_names_an_answer() -> None:
    failure = Failure("timeout", "x")
    assert failure_of(failure, "timeout") is failure
    assert failure_of(failure, "robots") == Failure("robots", "x")
    assert failure_of(answer(503), "http_503").detail == f"HTTP 503: {TABLE['http_503'].meaning}"


def test_snapshots_hold_no_secrets_and_are_small() -> None:
    headers = {
        "Set-Cookie": "session=hunter2",
        "Authorization": "Basic hunter2",
        "Location": "https://joe:hunter2@b.example/x@y",
        "Link": "l" * 5000,
        "Server": "x",
    }
    snapshot = snapshot_of(Response(URL, 403, headers, b"x" * 100), Settings(snapshot_bytes=10))
    assert snapshot is not None
    assert snapshot.headers is not None
    assert "hunter2" not in repr(snapshot)
    assert snapshot.headers["Location"] == "https://b.example/x@y"
    assert snapshot.headers["Server"] == "x"
    assert len(snapshot.headers["Link"]) == SNAPSHOT_HEADER
    assert (snapshot.status, snapshot.body) == (403, b"x" * 10)


def test_the_headers_of_a_snapshot_are_bounded_together() -> None:
    headers = {f"x-{n}": "y" * 900 for n in range(100)}
    snapshot = snapshot_of(Response(URL, 403, headers, b""), Settings())
    assert snapshot is not None
    assert snapshot.headers is not None
    assert sum(len(name) + len(value) for name, value in snapshot.headers.items()) < SNAPSHOT_HEADERS + 100
    assert snapshot.headers["…"] == f"{100 - len(snapshot.headers) + 1} more were left out"


def test_no_answer_no_snapshot() -> None:
    assert snapshot_of(Failure("connect"), Settings()) is None
    truncated = snapshot_of(Failure("truncated", status=200), Settings())
    assert truncated is not None
    assert truncated.status == 200
