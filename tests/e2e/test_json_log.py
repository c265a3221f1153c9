"""`--log-format json`: every line of stderr is an object, with a name of the vocabulary."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crash.fleet import SQLITE, Fleet
from crash.harness import Desk, until
from shoal.events import EVENTS
from shoal.inspect.event_log import read_events
from shoal.testing import HostProfile, WebProcess

QUICK = ("-s", "retry_base=0.05", "-s", "max_attempts=2", "-s", "breaker_cooldown=0.2", "-s", "rate=0")


@pytest.fixture(scope="module")
def web() -> Iterator[WebProcess]:
    hosts = {
        "site": HostProfile("fast", pages=30),
        "slow": HostProfile("slow", pages=200, latency=0.5, links=10),
        "down": HostProfile("down"),
        "closing": HostProfile("closing"),
    }
    with WebProcess(hosts) as web:
        yield web


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with Desk(tmp_path) as desk:
        yield desk


def lines(text: str) -> list[dict[str, Any]]:
    """What was logged; every line must be what the docs promise."""
    found = [json.loads(line) for line in text.splitlines()]
    for line in found:
        assert list(line) == ["time", "level", "event", "message", "fields"], line
        kind = EVENTS[line["event"]]
        assert line["event"] == "log" or line["level"] == kind.level
        assert line["fields"].keys() <= {*kind.fields, "worker"}, line
        assert "\n" not in line["message"]
    return found


def by_name(text: str) -> dict[str, dict[str, Any]]:
    return {line["event"]: line for line in lines(text)}


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_crawl_tells_all_of_itself_in_json(desk: Desk, web: WebProcess, processes: str) -> None:
    targets = [web.url(host) for host in ("site", "down", "closing")]
    ran = desk.finish(
        "crawl", *targets, "--job", "j", "-o", "rows.jsonl", "--log-format", "json", "--processes", processes, *QUICK
    )  # fmt: skip
    assert ran.out == ""
    told = by_name(ran.err)
    assert told["job_started"]["fields"]["job"] == "j"
    assert told["progress"]["fields"]["admitted"] >= 0
    assert told["breaker_opened"]["fields"]["host"] in web.addresses.values()
    finished = told["job_finished"]["fields"]
    assert (finished["done"], finished["rows"], finished["dead"]) == (30, 30, 2)
    if processes == "2":
        assert told["breaker_opened"]["fields"]["worker"] in (1, 2)
    events = desk.ask(read_events)
    assert {"job_started", "breaker_opened", "page_dead", "job_finished"} <= {one.event for one in events}


def test_a_crawl_that_is_drained_says_what_is_left(desk: Desk, web: WebProcess) -> None:
    running = desk.start(
        "crawl", web.url("slow"), "--job", "j", "-o", "rows.jsonl", "--log-format", "json", *QUICK
    )
    until(lambda: desk.rows_path.exists() and desk.size() > 0, "the first rows")
    running.signal(signal.SIGTERM)
    assert running.code() == 0, running.err
    told = by_name(running.err)
    assert told["draining"]["level"] == "warning"
    assert told["job_stopped"]["fields"]["left"] > 0


def test_what_goes_wrong_is_told_in_json_too(desk: Desk, web: WebProcess) -> None:
    desk.file("rows.jsonl", "not ours\n")
    failed = desk.start("crawl", web.url("site"), "-o", "rows.jsonl", "--log-format", "json")
    assert failed.code() == 3
    told = by_name(failed.err)
    assert told["command_failed"]["fields"] == {"exit": 3}
    assert "not from this job" in told["command_failed"]["message"]


def test_a_format_that_does_not_exist_is_a_mistake(desk: Desk) -> None:
    failed = desk.start("crawl", "http://127.0.0.1:9/", "--log-format", "xml")
    assert failed.code() == 2
    assert failed.err == "shoal: log format 'xml' is not known: use one of text, json\n"


def test_workers_and_their_parent_speak_json(tmp_path: Path, web: WebProcess) -> None:
    with Desk(tmp_path) as desk:
        fleet = Fleet(desk, SQLITE)
        fleet.start_at(web.url("site"), web.url("closing"))
        fleet.submit(*QUICK)
        worker = fleet.worker("--until-done", "--log-format", "json")
        assert worker.code() == 0, worker.err
        told = by_name(worker.err)
        assert told["worker_started"]["fields"]["role"] == "worker"
        assert {"job_served", "leader_changed", "breaker_opened", "worker_stopped"} <= told.keys()
        fleet.start_at(web.url("site"), web.url("down"))  # what it knows of the other, it knows
        fleet.submit("--fresh", *QUICK)
        up = desk.start("up", "site.py", "--store", SQLITE, "-n", "1", "--until-done", "--log-format", "json")
        assert up.code() == 0, up.err
        told = by_name(up.err)
        assert told["breaker_opened"]["fields"]["worker"] == 1
        assert told["progress"]["fields"]["job"] == "site"
        kept = [one.event for one in fleet.ask(read_events)]
        assert kept.count("job_submitted") == 2
        assert kept.count("job_finished") == 2
