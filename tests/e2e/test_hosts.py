"""`shoal hosts`: what is shown of hosts, and decisions that a running crawl obeys."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from crash.harness import Desk, until
from docs.fields import documented
from shoal.admit.identity import fingerprint
from shoal.frontier import open_frontier
from shoal.frontier.values import Claim, JobSpec
from shoal.hosts.host_limits import HostRules
from shoal.hosts.host_state import HostState, Manual, encode_state, state_of
from shoal.jobs.note import write_note
from shoal.model import Dead, Failure, Settlement, Task
from shoal.policy.breaker import BreakerState
from shoal.policy.compose import first_valve
from shoal.policy.escalation import Pattern
from shoal.policy.timeout import TimeoutState
from shoal.settings import Settings
from shoal.testing import HostProfile, WebProcess
from shoal.valve import Valve

Cli = Callable[..., tuple[int, str, str]]

STORE = ".shoal/shoal.db"
SETTINGS = Settings(rate=0.1, per_host=3, robots=False)
RULES = HostRules(SETTINGS)
DEADLINE = 40.0


@pytest.fixture
def filled(cli: Cli) -> Cli:
    """A crawl at 0.1 req/s: one host that is well and busy, one given up, one with an open breaker, one idle."""
    asyncio.run(_fill())
    return cli


async def _fill() -> None:
    async with open_frontier(STORE) as frontier:
        spec = JobSpec("job", valve=first_valve(SETTINGS), settings=write_note(b"", SETTINGS))
        await frontier.open_job(replace(spec, valve=Valve(cap=50)))
        await frontier.add("job", [_task("down.example", 0), _task("idle.example", 0)])
        for lease in (await frontier.claim(Claim("w", ["job"], {"normal": 9}, 9))).leases:
            failure = Dead(Failure("host_down" if lease.task.host == "down.example" else "http_404"))
            await frontier.settle([Settlement(lease, failure)])
        await frontier.open_job(spec)
        await frontier.add("job", [_task("busy.example", n) for n in range(9)] + [_task("open.example", 1)])
        now = await frontier.now()
        states: dict[str, dict[str, Any]] = {
            "busy.example": {"timeout": TimeoutState(latency=1.5)},
            "down.example": {
                "breaker@http": BreakerState("given_up", now + 3600, reason="12 failures in a row")
            },
            "open.example": {
                "breaker@http": BreakerState(
                    "open", now + 300, reason="5 failures in a row, the last: connect"
                )
            },
            "idle.example": {},
        }
        for name, policies in states.items():
            record = await frontier.host(name)
            assert record is not None
            stored = RULES.policies.encode({**RULES.policies.initial(), **policies})
            state = HostState(policies=stored, errors=("timeout", "connect", "connect") if policies else ())
            assert await frontier.update_host(RULES.applied(record, state, now))


def _task(host: str, number: int) -> Task:
    url = f"http://{host}/{number}"
    return Task(url, host=host, fingerprint=fingerprint(url))


def as_json(cli: Cli, *argv: str) -> Any:
    code, out, err = cli(*argv, "--json")
    assert (code, err) == (0, "")
    return msgspec.json.decode(out)


def valve_of(host: str) -> Valve:
    return asyncio.run(_record(host))[0]


def state_of_host(host: str) -> HostState:
    return asyncio.run(_record(host))[1]


async def _record(host: str) -> tuple[Valve, HostState]:
    async with open_frontier(STORE) as frontier:
        record = await frontier.host(host)
        assert record is not None
        return record.valve, state_of(record)


# -- looking


def test_pages_that_need_a_browser_are_told(filled: Cli) -> None:
    """By `shoal hosts show`, and by `shoal why` of a page like them."""
    asyncio.run(_needs_browser("busy.example", "/*"))
    told = "/* goes to the browser lane: 12 of 12 plain answers were empty shells"
    assert told in filled("hosts", "show", "busy.example")[1]
    assert as_json(filled, "hosts", "show", "busy.example")["in_browser"] == ["/*"]
    assert as_json(filled, "hosts", "show", "idle.example")["in_browser"] == []
    [answer] = as_json(filled, "why", "http://busy.example/3")
    assert {"name": "needs_browser", "sentence": told} in answer["causes"]


async def _needs_browser(host: str, pattern: str) -> None:
    async with open_frontier(STORE) as frontier:
        record = await frontier.host(host)
        assert record is not None
        known = {pattern: Pattern(shells=12.0, at=await frontier.now(), browser=True)}
        state = replace(state_of(record), patterns=known)
        assert await frontier.update_host(replace(record, state=encode_state(state)))


def test_the_most_troubled_come_first_then_the_busiest(filled: Cli) -> None:
    found = as_json(filled, "hosts")
    assert [(host["host"], host["condition"], host["pending"]) for host in found] == [
        ("down.example", "given up", 0),
        ("open.example", "cooling down", 1),
        ("busy.example", "healthy", 9),
        ("idle.example", "healthy", 0),
    ]
    assert list(found[0]) == documented("A host")
    busy = found[2]
    assert (busy["rate"], busy["cap"], busy["in_flight"], busy["latency"]) == (0.1, 3, 0, 1.5)
    assert found[1]["until"] - time.time() == pytest.approx(300, abs=30)
    assert "5 failures in a row" in found[1]["causes"][0]["sentence"]


def test_the_table(filled: Cli) -> None:
    code, out, err = filled("hosts", "--limit", "2")
    assert (code, err) == (0, "")
    for words in ("given up 60 min", "cooling down 5 min", "connect ×2, timeout", "2 of 4 hosts"):
        assert words in out
    assert "busy.example" not in out
    assert "busy.example" in filled("hosts", "--limit", "2", "--all")[1]


@pytest.mark.parametrize(
    ("sort", "first"),
    [
        ("queue", "busy.example"),
        ("latency", "busy.example"),
        ("host", "busy.example"),
        ("rate", "busy.example"),
        ("trouble", "down.example"),
    ],
)
def test_the_order_can_be_chosen(filled: Cli, sort: str, first: str) -> None:
    assert as_json(filled, "hosts", "--sort", sort, "--limit", "1")[0]["host"] == first


def test_hosts_of_a_job(filled: Cli) -> None:
    assert len(as_json(filled, "hosts", "--job", "job")) == 4
    code, _, err = filled("hosts", "--job", "films")
    assert code == 2
    assert "there is: job" in err


def test_one_host_in_detail(filled: Cli) -> None:
    code, out, _ = filled("hosts", "show", "open.example")
    assert code == 0
    for words in ("0.1 req/s", "0 in flight, at most 1", "1 normal (job job)", "cooling down: 5 failures"):
        assert words in out
    assert as_json(filled, "hosts", "show", "http://busy.example/7")["queues"] == [
        {"job": "job", "lane": "normal", "pending": 9, "delayed": 0, "waiting": 0}
    ]


# -- deciding


def test_block_and_unblock(filled: Cli) -> None:
    code, out, err = filled("hosts", "block", "busy.example", "--for", "10m", "--reason", "the owner called")
    assert (code, out) == (0, "")
    assert err == "busy.example: 0.1 req/s, 3 at a time, blocked for another 10 min\n"
    assert "the owner called" in filled("why", "http://busy.example/3")[1]
    assert valve_of("busy.example").blocked_until > time.time() + 500
    assert filled("hosts", "unblock", "busy.example")[2] == "busy.example: 0.1 req/s, 3 at a time\n"
    assert valve_of("busy.example").blocked_until == 0.0


def test_a_block_without_end(filled: Cli) -> None:
    assert filled("hosts", "block", "busy.example")[2].endswith("3 at a time, blocked\n")
    assert "until it is unblocked" in filled("why", "http://busy.example/3")[1]


def test_unblock_closes_a_breaker(filled: Cli) -> None:
    assert filled("hosts", "unblock", "open.example")[0] == 0
    (host,) = [host for host in as_json(filled, "hosts") if host["host"] == "open.example"]
    assert (host["condition"], host["cap"], host["causes"]) == ("healthy", 3, [])


def test_unblock_gives_a_host_another_chance_at_its_own_pace(filled: Cli) -> None:
    assert valve_of("down.example").interval == 0.0  # to be buried quickly
    _, _, err = filled("hosts", "unblock", "down.example")
    assert "1 of its pages were buried unfetched; shoal dead replay --host down.example" in err
    valve, state = valve_of("down.example"), state_of_host("down.example")
    assert (valve.interval, valve.cap, state.given_up) == (10.0, 3, False)


def test_set_and_take_back(filled: Cli) -> None:
    assert filled("hosts", "set", "busy.example", "--rate", "0.5", "--per-host", "1")[2] == (
        "busy.example: 0.5 req/s, 1 at a time\n"
    )
    assert "set by hand to 0.5 req/s, 1 at a time" in filled("hosts", "show", "busy.example")[1]
    filled("hosts", "set", "busy.example", "--rate", "default")
    valve = valve_of("busy.example")
    assert (valve.interval, valve.cap) == (10.0, 1)
    filled("hosts", "set", "busy.example", "--per-host", "default", "--rate", "0")
    valve = valve_of("busy.example")
    assert (valve.interval, valve.cap) == (0.0, 3)


def test_everything_that_can_be_set(filled: Cli) -> None:
    pairs = ("rate=2", "per_host=2", "timeout=7.5", "pool=", "robots=on", "lane=urgent")
    assert filled("hosts", "set", "busy.example", *pairs)[2] == "busy.example: 2 req/s, 1 at a time\n"
    seen = as_json(filled, "hosts", "show", "busy.example")
    assert seen["settings"] == {
        "rate": 2.0,
        "per_host": 2,
        "timeout": 7.5,
        "pool": "direct",
        "robots": True,
        "lane": "urgent",
    }
    assert (seen["cap"], seen["timeout"]) == (1, 7.5)  # its robots.txt comes first
    assert seen["rate_by"] == seen["set_by"]["lane"] == "set for this host in this store, by hand"
    said = "2 req/s, 2 at a time, timeout 7.5 s, pool direct, robots.txt asked for, lane urgent"
    assert f"set by hand to {said}" in filled("why", "http://busy.example/3")[1]
    assert said in filled("hosts", "settings")[1]
    filled("hosts", "unset", "busy.example", "rate", "lane")
    assert sorted(as_json(filled, "hosts", "settings")["busy.example"]) == [
        "per_host",
        "pool",
        "robots",
        "timeout",
    ]
    assert filled("hosts", "unset", "busy.example")[2] == "busy.example: 0.1 req/s, 3 at a time\n"
    assert as_json(filled, "hosts", "settings") == {}
    assert "nothing is set by hand" in filled("hosts", "settings")[1]


def test_a_pattern_is_for_known_hosts_and_for_those_to_come(filled: Cli) -> None:
    assert filled("hosts", "set", "*.example", "rate=0.5")[2] == (
        "*.example: 0.5 req/s; for 4 known hosts and for those to come\n"
    )
    filled("hosts", "set", "busy.example", "per_host=1")
    seen = as_json(filled, "hosts", "show", "busy.example")
    assert (seen["rate"], seen["cap"]) == (0.5, 1)
    assert seen["set_by"] == {
        "rate": "set for *.example in this store, by hand",
        "per_host": "set for this host in this store, by hand",
    }
    filled("hosts", "set", "busy.example", "rate=0.2")
    assert as_json(filled, "hosts", "show", "busy.example")["rate"] == pytest.approx(0.2)
    assert as_json(filled, "hosts", "show", "idle.example")["rate"] == 0.5
    filled("hosts", "unset", "*.example")
    filled("hosts", "unset", "busy.example", "rate")
    assert valve_of("busy.example").interval == valve_of("idle.example").interval == 10.0


def test_a_host_that_nobody_has_met_may_be_set(filled: Cli) -> None:
    assert filled("hosts", "set", "HTTPS://New.example/", "rate=0.5", "per_host=1")[2] == (
        "new.example: 0.5 req/s, 1 at a time; the host is not known here yet, and will begin with that\n"
    )
    assert list(as_json(filled, "hosts", "settings")) == ["new.example"]
    assert "0.5 req/s, 1 at a time; the host is not known" in filled("hosts", "show", "new.example")[1]
    assert as_json(filled, "hosts", "show", "new.example") == {
        "host": "new.example",
        "known": False,
        "settings": {"rate": 0.5, "per_host": 1},
    }
    assert filled("hosts", "unset", "new.example")[2] == "new.example: nothing is set by hand\n"
    assert filled("hosts", "show", "new.example")[0] == 2


def test_what_an_earlier_version_wrote_is_kept(filled: Cli) -> None:
    """It wrote limits into the host's record, and there alone."""
    asyncio.run(_set_long_ago("busy.example"))
    filled("hosts", "set", "idle.example", "rate=1")
    filled("hosts", "set", "*.example", "timeout=9")
    seen = as_json(filled, "hosts", "show", "busy.example")["settings"]
    assert seen == {"rate": 0.25, "timeout": 9.0}


async def _set_long_ago(host: str) -> None:
    async with open_frontier(STORE) as frontier:
        record = await frontier.host(host)
        assert record is not None
        state = replace(state_of(record), manual=Manual(rate=0.25))
        assert await frontier.update_host(RULES.applied(record, state, await frontier.now()))


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("set", "busy.example"), "say what to set"),
        (
            ("set", "busy.example", "--rate", "-1"),
            "rate: -1.0 is not allowed; rate must be a number, at least 0",
        ),
        (("set", "busy.example", "--rate", "nan"), "rate: nan is not allowed"),
        (("set", "busy.example", "--per-host", "1.5"), "per_host must be a whole number, at least 1"),
        (("set", "busy.example", "timeout=0"), "timeout must be a number, greater than 0"),
        (("set", "busy.example", "robots=maybe"), "robots must be true or false"),
        (("set", "busy.example", "rat=1"), "did you mean 'rate'? there are rate, per_host, timeout"),
        (("set", "busy.example", "rate"), "write it as KEY=VALUE"),
        (("set", "busy.example", "headers={}"), 'a table [host."…"] of the shoal.toml'),
        (("set", "busy.example", "lane=fast"), "there is no lane 'fast'; there are urgent, normal"),
        (("set", "busy.example", "pool=gold"), "there are direct"),
        (("set", "*.", "rate=1"), "is not a host"),
        (("set", "a.*.example", "rate=1"), "'a.*.example' is not a host"),
        (("unset", "busy.example", "speed"), "'speed' is not a setting of a host"),
        (("block", "busy.example", "--for", "soon"), "30s, 10m"),
        (("block", "no.example"), "no host no.example"),
        (("unblock", "no.example"), "no host no.example"),
        (("show", "no.example"), "no host no.example"),
        (("--limit", "0"), "--limit 0"),
        (("--sort", "size"), "--sort"),
        (("--limit", "3", "block", "busy.example"), "--limit before block has no effect"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_mistakes_are_told_in_one_line(filled: Cli, argv: tuple[str, ...], words: str) -> None:
    code, out, err = filled("hosts", *argv)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert words in err


# -- a running crawl


def test_a_running_crawl_obeys(cli: Cli, tmp_path: Path) -> None:
    count = 240  # eight seconds of work: it goes on while somebody types, on a busy machine, too
    pages = HostProfile("fast", pages=count, links=30)
    with WebProcess({"one": pages, "two": pages}) as web:
        with Desk(tmp_path) as desk:
            crawl = desk.start("crawl", *web.start_urls, "--rate", "30", "--per-host", "2", "-q")
            until(lambda: len(web.hits_of("one")) > 15, "the first pages")
            one = web.addresses["one"]
            assert cli("hosts", "block", one)[0] == 0
            blocked_at = time.monotonic()
            others = len(web.hits_of("two"))
            until(lambda: len(web.hits_of("two")) > others + 30, "the other host goes on")
            late = [hit for hit in web.hits_of("one") if hit.started > blocked_at]
            assert len(late) <= 2, "only what was in flight when the block came"
            assert crawl.running
            unblocked_at = time.monotonic()
            assert cli("hosts", "unblock", one)[0] == 0
            assert crawl.code(DEADLINE) == 0
        hits = web.hits_of("one")
    assert {hit.path for hit in hits if hit.path.startswith("/p/")} == {f"/p/{n}" for n in range(count)}
    assert len([hit for hit in hits if hit.started > unblocked_at]) > 30
    # And at its own pace: the rate of the crawl was not lost to the decisions from outside.
    times = [hit.started for hit in hits]
    assert max(sum(at <= other < at + 1 for other in times) for at in times) <= 30 + 4
