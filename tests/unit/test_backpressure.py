"""The rules that slow a crawl down, what they go by, and that they let go again."""

from __future__ import annotations

import asyncio
import math
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal import config
from shoal.engine.event_loop import LoopLag
from shoal.engine.vitals import Machine, memory_available
from shoal.errors import SettingsError
from shoal.policy.backpressure import FLOOR, RULES, Backpressure, Pressure
from shoal.policy.load import Backlog, Growth, Signals, Traffic
from shoal.settings import BackpressureRule, Settings

BEAT = 0.5
WELL = Signals(fetches=100.0, retry_share=0.1, latency=0.5, baseline_latency=0.5)
BUSY: dict[str, Any] = {"fetches": 100.0, "baseline_latency": 0.5}

# One state of the world for each rule that makes it take hold, and one between its two marks.
TROUBLE: dict[str, Signals] = {
    "queue_full": Signals(pending=20_400),
    "queue_growth": Signals(pending=9_000, growth=6.0, feeding=True),
    "host_429": Signals(**BUSY, too_many_share=0.2),
    "latency": Signals(**BUSY, latency=1.3),
    "retries": Signals(**BUSY, retry_share=0.9),
    "sink": Signals(sink_lag=3.0),
    "backlog": Signals(backlog=300 << 20),
    "machine": Signals(loop_lag=0.6),
    "proxies": Signals(**BUSY, proxy_error_share=0.6),
    "store": Signals(store_used=850, store_limit=1000),
}
BETWEEN: dict[str, Signals] = {
    "queue_full": Signals(pending=15_000),
    "queue_growth": Signals(pending=9_000, growth=1.5, feeding=True),
    "host_429": Signals(**BUSY, too_many_share=0.03),
    "latency": Signals(**BUSY, latency=0.8),
    "retries": Signals(**BUSY, retry_share=0.4),
    "sink": Signals(sink_lag=0.8),
    "backlog": Signals(backlog=200 << 20),
    "machine": Signals(loop_lag=0.22),
    "proxies": Signals(**BUSY, proxy_error_share=0.2),
    "store": Signals(store_used=780, store_limit=1000),
}
THROTTLES = ("latency", "sink", "backlog", "machine", "proxies")


class Crawl:
    """Time passes in beats; the rules see what they are shown."""

    def __init__(self, **settings: Any) -> None:
        self.rules = Backpressure(Settings(**settings))
        self.now = 1000.0

    def sees(self, signals: Signals, seconds: float = BEAT) -> Pressure:
        for _ in range(max(1, int(seconds / BEAT))):
            self.now += BEAT
            pressure = self.rules.update(signals, self.now)
        return pressure

    @property
    def active(self) -> list[str]:
        return [reason.rule for reason in self.rules.active]


def test_every_rule_has_a_switch_and_every_switch_a_rule() -> None:
    assert tuple(rule.name for rule in RULES) == get_args(BackpressureRule)
    assert set(TROUBLE) == set(BETWEEN) == set(get_args(BackpressureRule))


def test_rules_are_switched_by_name() -> None:
    chosen = config.load(None, {}, {"SHOAL_BACKPRESSURE": "sink, queue_full"}, {}).backpressure
    assert chosen == ["sink", "queue_full"]
    assert config.load(None, {}, {}, {"backpressure": ""}).backpressure == []
    with pytest.raises(SettingsError, match="backpressure must be a list of backlog, host_429, latency, "):
        config.load(None, {"backpressure": ["latencies"]}, {}, {})


def test_a_crawl_that_is_well_is_left_alone() -> None:
    crawl = Crawl()
    assert crawl.sees(WELL, 60) == Pressure()
    assert crawl.sees(Signals(), 60) == Pressure()
    assert repr(crawl.rules) == "<Backpressure: none>"


@pytest.mark.parametrize("name", TROUBLE)
def test_a_rule_takes_hold_stays_between_its_marks_and_lets_go(name: str) -> None:
    crawl = Crawl()
    crawl.sees(BETWEEN[name], 10)
    assert crawl.active == []
    crawl.sees(TROUBLE[name], 10)
    assert crawl.active == [name]
    assert repr(crawl.rules) == f"<Backpressure: {name}>"
    crawl.sees(BETWEEN[name], 300)
    assert crawl.active == [name]
    assert crawl.sees(WELL, 120) == Pressure()


@pytest.mark.parametrize("name", TROUBLE)
def test_a_rule_that_is_switched_off_does_nothing(name: str) -> None:
    others: list[Any] = [rule for rule in get_args(BackpressureRule) if rule != name]
    assert Crawl(backpressure=others).sees(TROUBLE[name], 60) == Pressure()
    assert Crawl(backpressure=[]).sees(TROUBLE[name], 60) == Pressure()


@pytest.mark.parametrize("name", TROUBLE)
def test_changes_are_told_once(name: str) -> None:
    crawl = Crawl()
    told = []
    for signals in [WELL] * 3 + [TROUBLE[name]] * 20 + [WELL] * 200:
        crawl.sees(signals)
        told += crawl.rules.changes()
    assert [(change.rule, change.on) for change in told] == [(name, True), (name, False)]
    assert told[0].sentence != told[1].sentence


def test_a_store_that_fills_takes_nothing_new_and_one_that_is_nearly_full_stops_the_crawl() -> None:
    def store(share: float) -> Signals:
        return Signals(store_used=int(share * (1 << 30)), store_limit=1 << 30)

    crawl = Crawl()
    assert not crawl.sees(store(0.79)).feeding_paused
    filling = crawl.sees(store(0.85))
    assert (filling.feeding_paused, filling.paused_lanes, filling.claiming_paused) == (
        True,
        {"discovery"},
        False,
    )
    assert crawl.rules.changes()[0].sentence == (
        "the store has 85% of its 1,024 MB (store_high_water 80%): discovery, feeding and new jobs paused until"
        " below 76%"
    )
    full = crawl.sees(store(0.91))
    assert (full.feeding_paused, full.claiming_paused) == (True, True)
    assert "no page is begun until below 86%; raise maxmemory" in crawl.rules.changes()[0].sentence
    assert crawl.sees(store(0.87)).claiming_paused
    assert not crawl.sees(store(0.85)).claiming_paused
    assert crawl.sees(store(0.85)).feeding_paused
    assert crawl.sees(store(0.75)) == Pressure()
    assert crawl.sees(Signals(store_used=1 << 40)) == Pressure(), "no limit is known"


def test_a_full_queue_pauses_discovery() -> None:
    """The feeder looks at the queue itself."""
    crawl = Crawl()
    pressure = crawl.sees(Signals(pending=20_400))
    assert pressure.paused_lanes == {"discovery"}
    assert not pressure.feeding_paused
    assert pressure.concurrency == 1.0
    assert crawl.rules.changes()[0].sentence == (
        "queue holds 20,400 URLs (high water 20,000): discovery paused until 10,000"
    )
    assert crawl.sees(Signals(pending=10_001)).paused_lanes
    assert not crawl.sees(Signals(pending=10_000)).paused_lanes
    assert crawl.rules.changes()[0].sentence.endswith("discovery goes on")


@pytest.mark.parametrize("high_water", [1, 2, 3, 7, 100])
def test_the_smallest_queues_are_released_too(high_water: int) -> None:
    crawl = Crawl(high_water=high_water)
    assert not crawl.sees(Signals(pending=high_water)).paused_lanes
    assert crawl.sees(Signals(pending=high_water + 1)).paused_lanes
    assert not crawl.sees(Signals(pending=high_water // 2)).paused_lanes


def test_a_queue_of_paused_tasks_alone_still_drains() -> None:
    crawl = Crawl()
    full = Signals(pending=30_000)
    assert crawl.sees(full, 10).paused_lanes
    pressure = crawl.sees(Signals(pending=30_000, idle=6.0))
    assert pressure.paused_lanes == frozenset()
    assert crawl.active == ["queue_full"]
    assert not crawl.sees(full, 20).paused_lanes
    assert crawl.sees(full, 20).paused_lanes


def test_a_standing_crawl_opens_a_lane_when_nothing_else_waits() -> None:
    """It is never idle: other pages are visited again and again."""
    crawl = Crawl()
    assert crawl.sees(Signals(pending=30_000), 10).paused_lanes
    assert not crawl.sees(Signals(pending=30_000, only_discovery=True)).paused_lanes


def test_an_idle_crawl_without_pauses_opens_nothing_in_advance() -> None:
    crawl = Crawl()
    crawl.sees(Signals(idle=60.0))
    assert crawl.sees(Signals(pending=30_000)).paused_lanes


def test_slots_fall_step_by_step_and_come_back() -> None:
    crawl = Crawl()
    first = crawl.sees(Signals(sink_lag=3.0)).concurrency
    assert first == pytest.approx(0.7)
    later = crawl.sees(Signals(sink_lag=3.0), 2).concurrency
    assert FLOOR < later < 0.5
    assert crawl.sees(Signals(sink_lag=3.0), 30).concurrency == FLOOR
    rising = [crawl.sees(Signals(sink_lag=0.1), 2).concurrency for _ in range(10)]
    assert rising == sorted(rising)
    assert rising[0] < 0.5
    assert rising[-1] == 1.0


def test_a_little_too_much_costs_little() -> None:
    slightly, badly = Crawl(), Crawl()
    assert slightly.sees(Signals(sink_lag=1.05)).concurrency == pytest.approx(0.9)
    assert badly.sees(Signals(sink_lag=1.3)).concurrency == pytest.approx(1 / 1.3)


def test_latency_is_measured_slowly_so_its_steps_are_slow() -> None:
    crawl = Crawl()
    slow = Signals(**BUSY, latency=5.0)
    crawl.sees(slow)
    assert crawl.sees(slow, 4).concurrency == pytest.approx(0.7)
    assert crawl.sees(slow, 1.5).concurrency == pytest.approx(0.49)


@pytest.mark.parametrize("name", THROTTLES)
def test_a_load_that_settles_between_the_marks_does_not_keep_the_crawl_down(name: str) -> None:
    crawl = Crawl()
    assert crawl.sees(TROUBLE[name], 120).concurrency == FLOOR
    assert crawl.sees(BETWEEN[name], 600).concurrency == pytest.approx(0.9)
    assert crawl.active == [name]


@pytest.mark.parametrize(
    ("signals", "words"),
    [
        (Signals(loop_lag=0.6), "the event loop is 0.60 s late (max_loop_lag 0.25 s)"),
        (Signals(memory=900 << 20, memory_limit=800 << 20), "memory is 900 MB (limit 800 MB)"),
        (Signals(open_files=900, file_limit=1024), "900 files are open (max_file_share 80% of 1,024)"),
        (Signals(sink_lag=3.0), "finished pages wait 3.0 s to be stored (max_sink_lag 1 s)"),
        (Signals(backlog=300 << 20), "300 MB of rows wait to be uploaded (max_backlog 256 MB)"),
        (
            Signals(**BUSY, latency=1.5),
            "a fetch takes 1.5 s, 3.0 times what the same hosts usually take (max_slowdown 2)",
        ),
        (
            Signals(**BUSY, retry_share=0.9),
            "90% of 100 recent fetches must be repeated (max_retry_share 50%)",
        ),
        (
            Signals(**BUSY, proxy_error_share=0.9),
            "proxies failed 90% of 100 recent fetches (max_proxy_error_share 30%)",
        ),
        (
            Signals(**BUSY, too_many_share=0.2),
            "20% of 100 recent fetches were answered 429 (max_429_share 5%)",
        ),
        (
            Signals(pending=9_000, growth=6.0, feeding=True),
            "each page leads to 6.0 new URLs, and 9,000 wait (max_growth 2)",
        ),
    ],
)
def test_a_sentence_says_why_in_numbers(signals: Signals, words: str) -> None:
    (reason,) = Crawl().sees(signals).reasons
    assert reason.sentence.startswith(f"{words}: ")
    assert "{" not in reason.sentence


# Where each threshold lies, and what moves it there.
THRESHOLDS: dict[str, tuple[dict[str, Any], Signals]] = {
    "queue_full": ({"high_water": 100_000}, Signals(pending=20_400)),
    "queue_growth": ({"max_growth": 7.0}, TROUBLE["queue_growth"]),
    "host_429": ({"max_429_share": 0.3}, TROUBLE["host_429"]),
    "latency": ({"max_slowdown": 3.0}, TROUBLE["latency"]),
    "retries": ({"max_retry_share": 0.95}, TROUBLE["retries"]),
    "sink": ({"max_sink_lag": 4.0}, TROUBLE["sink"]),
    "backlog": ({"max_backlog": 400 << 20}, TROUBLE["backlog"]),
    "machine": ({"max_loop_lag": 0.7}, TROUBLE["machine"]),
    "proxies": ({"max_proxy_error_share": 0.7}, TROUBLE["proxies"]),
    "store": ({"store_high_water": 0.95}, TROUBLE["store"]),
}


@pytest.mark.parametrize("name", get_args(BackpressureRule))
def test_every_threshold_is_a_setting_that_its_sentence_names(name: str) -> None:
    higher, signals = THRESHOLDS[name]
    assert Crawl(**higher).sees(signals, 60) == Pressure()
    (reason,) = Crawl().sees(signals).reasons
    (setting,) = higher
    assert setting in reason.sentence.replace("high water", "high_water")


def test_files_have_a_threshold_too() -> None:
    signals = Signals(open_files=900, file_limit=1_000)
    assert Crawl(max_file_share=0.95).sees(signals, 60) == Pressure()
    assert Crawl().sees(signals).reasons


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("max_429_share", "0", "a number, greater than 0 and at most 1"),
        ("max_retry_share", "1.5", "a number, greater than 0 and at most 1"),
        ("max_slowdown", "1", "a number, greater than 1"),
        ("max_sink_lag", "-1", "a number, greater than 0"),
        ("max_growth", "none", "a number, greater than 0"),
    ],
)
def test_thresholds_are_checked(key: str, value: str, words: str) -> None:
    with pytest.raises(SettingsError, match=f"{key} must be {words}$"):
        config.load(None, {}, {}, {key: value})


# -- a queue that grows


def test_growth_is_nothing_to_worry_about_while_little_waits_or_nothing_is_left_to_feed() -> None:
    """At its start every crawl finds more than it does."""
    assert Crawl().sees(Signals(pending=4_900, growth=50.0, feeding=True), 60) == Pressure()
    assert Crawl().sees(Signals(pending=19_000, growth=50.0, feeding=False), 60) == Pressure()
    assert Crawl().sees(Signals(pending=19_000, growth=1.9, feeding=True), 60) == Pressure()


def test_a_queue_that_grows_pauses_feeding_and_nothing_else() -> None:
    crawl = Crawl()
    pressure = crawl.sees(TROUBLE["queue_growth"], 60)
    assert (pressure.concurrency, pressure.paused_lanes, pressure.feeding_paused) == (1.0, frozenset(), True)
    assert crawl.active == ["queue_growth"]
    assert crawl.sees(Signals(pending=2_400, growth=9.0, feeding=True)) == Pressure(), "an eighth is left"
    crawl.sees(TROUBLE["queue_growth"])
    assert crawl.sees(Signals(pending=9_000, growth=0.9, feeding=True)) == Pressure(), "it shrinks"
    crawl.sees(TROUBLE["queue_growth"])
    assert crawl.sees(Signals(pending=9_000, growth=9.0, feeding=False)) == Pressure(), (
        "nothing is left to feed"
    )


def test_growth_is_found_by_ended_lately() -> None:
    growth, now = Growth(), 0.0
    assert growth.of(Backlog("a", 9, found=500, ended=70), now) == 0.0, "what was before is not known"
    for n in range(1, 61):
        now += 0.5
        ratio = growth.of(Backlog("a", 9, found=500 + 30 * n, ended=70 + 10 * n), now)
    assert ratio == pytest.approx(3.0)
    assert growth.of(Backlog("b", 9, found=10, ended=1), now) == 0.0, "each job has its own"
    for n in range(1, 601):
        now += 0.5
        ratio = growth.of(Backlog("a", 9, found=500 + 1_800, ended=670 + 10 * n), now)
    assert ratio < 0.01, "it finds no more"
    assert growth.of(Backlog("a", 0, found=0, ended=0), now) < 0.01, "it was begun afresh"


def test_growth_of_a_crawl_that_stands_still_is_forgotten() -> None:
    """Else its feeding would be paused for as long as its hosts are blocked."""
    growth, still = Growth(), Backlog("a", 9_000, found=9_000, ended=100)
    growth.of(Backlog("a"), 0.0)
    assert growth.of(still, 1.0) == pytest.approx(90)
    for beat in range(1, 2_000):
        ratio = growth.of(still, 1.0 + beat / 2)
    assert ratio == 0.0


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 10**6), st.integers(0, 10**6), st.floats(0, 1e6))
    )
)
def test_growth_is_always_sane(story: list[tuple[str, int, int, float]]) -> None:
    growth, now = Growth(), 0.0
    for job, found, ended, passed in story:
        now += passed
        assert 0 <= growth.of(Backlog(job, 1, found, ended), now) < math.inf


@given(
    links=st.floats(0, 20),
    batch=st.integers(10, 100),
    rate=st.integers(10, 50),
    starts=st.integers(0, 1_500),
)
@hypothesis.settings(deadline=None, max_examples=50)
def test_whatever_pages_lead_to_all_of_a_start_is_fed_in_the_end(
    links: float, batch: int, rate: int, starts: int
) -> None:
    """The story of a crawl: pages bring links until there are no more, and the source waits as it is told."""
    crawl, growth = Crawl(high_water=400), Growth()
    fed = ended = found = 0
    for _ in range(10_000):
        pending = fed + found - ended
        feeding = fed < starts
        if not feeding and not pending:
            break
        ratio = growth.of(Backlog("job", pending, found, ended, feeding), crawl.now)
        pressure = crawl.sees(Signals(job="job", pending=pending, growth=ratio, feeding=feeding))
        if feeding and not pressure.feeding_paused:
            fed += min(batch, starts - fed)
        done = min(pending, rate)
        ended += done
        found += int(done * links) if found < 1_000 else 0
    assert (fed, ended) == (starts, starts + found)


# -- the rest


def test_a_host_that_answers_429_slows_nobody_else() -> None:
    pressure = Crawl().sees(TROUBLE["host_429"], 60)
    assert (pressure.concurrency, pressure.paused_lanes, pressure.feeding_paused) == (1.0, frozenset(), False)


@pytest.mark.parametrize("share", ["retry_share", "too_many_share", "proxy_error_share"])
def test_a_few_fetches_prove_nothing(share: str) -> None:
    assert Crawl().sees(Signals(fetches=4.0, **{share: 1.0}), 60) == Pressure()


def test_limits_that_are_not_known_limit_nothing() -> None:
    assert Crawl().sees(Signals(memory=1 << 50, open_files=1 << 20), 60) == Pressure()


def test_the_strictest_holds() -> None:
    crawl = Crawl()
    pressure = crawl.sees(Signals(pending=50_000, sink_lag=1.05, loop_lag=9.0))
    assert crawl.active == ["queue_full", "sink", "machine"]
    assert pressure.concurrency == pytest.approx(0.7)
    assert pressure.paused_lanes == {"discovery"}


def test_there_is_always_a_slot() -> None:
    assert Pressure(concurrency=FLOOR).slots(1) == 1
    assert Pressure(concurrency=0.5).slots(64) == 32
    assert Pressure().slots(64) == 64


shares = st.floats(0, 1)
seconds = st.floats(0, 1e6)
signals_of_any_kind = st.builds(
    Signals,
    pending=st.integers(0, 10**9),
    growth=st.floats(0, 1e6),
    feeding=st.booleans(),
    idle=seconds,
    only_discovery=st.booleans(),
    fetches=st.floats(0, 1e6),
    retry_share=shares,
    too_many_share=shares,
    proxy_error_share=shares,
    latency=seconds,
    baseline_latency=seconds,
    sink_lag=seconds,
    backlog=st.integers(0, 1 << 50),
    loop_lag=seconds,
    memory=st.integers(0, 1 << 50),
    memory_limit=st.integers(0, 1 << 50),
    open_files=st.integers(0, 10**6),
    file_limit=st.integers(0, 10**6),
)


@given(st.lists(st.tuples(signals_of_any_kind, st.floats(0, 100)), max_size=30))
def test_whatever_happens_the_crawl_moves_and_recovers(story: list[tuple[Signals, float]]) -> None:
    crawl = Crawl()
    for signals, passed in story:
        crawl.now += passed
        pressure = crawl.sees(signals)
        assert FLOOR <= pressure.concurrency <= 1
        assert pressure.slots(1) == 1
        assert [reason.rule for reason in pressure.reasons] == crawl.active
        held_back = pressure.concurrency < 1 or pressure.paused_lanes or pressure.feeding_paused
        assert not held_back or pressure.reasons
    assert crawl.sees(WELL, 120) == Pressure()


@given(st.sampled_from(sorted(TROUBLE)), st.lists(st.booleans(), max_size=200))
def test_a_signal_that_wobbles_about_the_threshold_switches_once(name: str, wobble: list[bool]) -> None:
    crawl = Crawl()
    switched = 0
    for above in wobble:
        crawl.sees(TROUBLE[name] if above else BETWEEN[name])
        switched += len(crawl.rules.changes())
    assert switched == (True in wobble)


# -- traffic


class Web:
    """Hosts with latencies of their own, fetched in turn."""

    def __init__(self, hosts: dict[str, float], seed: int = 1) -> None:
        self.hosts = hosts
        self.now = 0.0
        self.traffic = Traffic()
        self._rng = random.Random(seed)

    def fetch(self, seconds: float, slower: float = 1.0, rate: float = 20.0) -> Signals:
        names = sorted(self.hosts)
        for turn in range(int(seconds * rate)):
            self.now += 1 / rate
            host = names[turn % len(names)]
            elapsed = self.hosts[host] * slower * math.exp(self._rng.gauss(0, 0.3))
            self.traffic.record(host, "ok", elapsed, self.now, retry=False)
        return self.traffic.signals(self.now)


def slowdown(signals: Signals) -> float:
    return signals.latency / signals.baseline_latency


def many(count: int = 40) -> dict[str, float]:
    return {f"h{n:03}.example": 0.1 * 1.1**n for n in range(count)}


def test_shares_of_recent_fetches() -> None:
    traffic = Traffic()
    for n in range(100):
        kind = "http_429" if n % 10 == 0 else "proxy_connect" if n % 5 == 1 else "ok"
        traffic.record("a.example", kind, 0.5, 50.0, retry=n % 4 == 0)
    signals = traffic.signals(50.0)
    assert signals.fetches == pytest.approx(100)
    assert signals.retry_share == pytest.approx(0.25)
    assert signals.too_many_share == pytest.approx(0.1)
    assert signals.proxy_error_share == pytest.approx(0.2)
    assert signals.latency == pytest.approx(0.5)


def test_what_is_old_fades() -> None:
    traffic = Traffic()
    for _ in range(100):
        traffic.record("a.example", "timeout", 20.0, 0.0, retry=True)
    assert traffic.signals(20.0).fetches == pytest.approx(100 / math.e)
    for _ in range(100):
        traffic.record("a.example", "ok", 0.5, 100.0, retry=False)
    assert traffic.signals(100.0).retry_share < 0.01
    assert traffic.signals(10_000.0).fetches == pytest.approx(0, abs=1e-9)


def test_nothing_fetched_says_nothing() -> None:
    assert Traffic().signals(5.0) == Signals()


def test_a_doubled_latency_shows_and_is_accepted_in_the_end() -> None:
    web = Web(many())
    assert slowdown(web.fetch(60)) == pytest.approx(1, abs=0.15)
    assert slowdown(web.fetch(40, slower=2.5)) > 1.9
    assert slowdown(web.fetch(1200, slower=2.5)) < 1.5


def test_a_crawl_that_comes_to_slower_hosts_is_not_congested() -> None:
    web = Web(many())
    web.fetch(60)
    web.hosts = {name: latency for name, latency in web.hosts.items() if latency > 2}
    assert slowdown(web.fetch(60)) == pytest.approx(1, abs=0.15)


def test_a_host_that_hangs_is_not_congestion() -> None:
    web = Web(many())
    web.fetch(60)
    web.hosts["h000.example"] = 60.0
    assert slowdown(web.fetch(60)) < 1.3


def test_the_start_of_a_crawl_where_quick_hosts_answer_first_is_not_congestion() -> None:
    traffic = Traffic()
    latencies = sorted(0.05 * 1.02**n for n in range(300))
    for n, latency in enumerate(latencies):
        traffic.record(f"h{n}", "ok", latency, latency, retry=False)
    assert traffic.signals(latencies[-1]).latency == 0.0


def test_a_broad_crawl_of_hosts_met_once_sees_congestion_too() -> None:
    traffic = Traffic()
    rng = random.Random(3)
    for n in range(4000):
        slower = 3.0 if n >= 3000 else 1.0
        traffic.record(f"h{n}", "ok", slower * math.exp(rng.gauss(-1, 0.8)), n / 50, retry=False)
    assert slowdown(traffic.signals(80.0)) > 2


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 1e6), st.floats(0, 1e3), st.booleans())))
def test_signals_are_always_sane(fetches: list[tuple[str, float, float, bool]]) -> None:
    traffic, now = Traffic(), 0.0
    for host, elapsed, passed, retry in fetches:
        now += passed
        traffic.record(host, "ok", elapsed, now, retry=retry)
        signals = traffic.signals(now)
        assert 0 <= signals.retry_share <= 1 + 1e-9
        assert 0 <= signals.latency < 1e9
        assert math.isfinite(signals.baseline_latency)


# -- the machine


def test_the_real_machine_is_read() -> None:
    machine = Machine()
    before = machine.read()
    files = [open(__file__, "rb") for _ in range(20)]  # noqa: SIM115
    after = machine.read()
    for file in files:
        file.close()
    assert after.open_files - before.open_files == 20
    assert 0 < after.memory < after.memory_limit <= memory_available()
    assert after.file_limit == 0 or after.file_limit > after.open_files


GROWS = """
from shoal.engine.vitals import Machine
machine = Machine()
before = machine.read().memory
ballast = bytearray(64 << 20)
ballast[:: 1 << 12] = b"x" * len(ballast[:: 1 << 12])
print(machine.read().memory - before)
"""


def test_the_memory_of_a_process_is_read() -> None:
    """Of one that does nothing else: libraries that other tests have used give memory back in threads of their own."""
    said = subprocess.run([sys.executable, "-c", GROWS], capture_output=True, text=True, check=True).stdout
    assert 63 << 20 < int(said) < 96 << 20


def put(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_a_container_of_either_version_limits_memory(tmp_path: Path) -> None:
    second = tmp_path / "v2"
    put(second, "proc/self/cgroup", "0::/pod/box\n")
    put(second, "sys/fs/cgroup/pod/box/memory.max", "max\n")
    put(second, "sys/fs/cgroup/pod/memory.max", "100000000\n")
    assert memory_available(second) == 100_000_000
    first = tmp_path / "v1"
    put(first, "proc/self/cgroup", "5:cpu:/\n4:blkio,memory:/not/mounted/here\n0::/\n")
    put(first, "sys/fs/cgroup/memory/memory.limit_in_bytes", "50000000\n")
    assert memory_available(first) == 50_000_000
    assert Machine(root=first, processes=4).read().memory_limit == 10_000_000
    assert Machine(12345, root=first, processes=4).read().memory_limit == 12345


def test_a_container_without_a_limit_has_the_whole_machine(tmp_path: Path) -> None:
    put(tmp_path, "proc/self/cgroup", "4:memory:/box\n")
    put(tmp_path, "sys/fs/cgroup/memory/box/memory.limit_in_bytes", "9223372036854771712\n")
    assert memory_available(tmp_path) == memory_available(tmp_path / "nowhere")


def test_what_a_platform_does_not_tell_is_zero(tmp_path: Path) -> None:
    reading = Machine(root=tmp_path).read()
    assert (reading.memory, reading.open_files) == (0, 0)


class FakeLoop:
    """A loop whose time is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, Any, tuple[Any, ...]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, call: Any, *args: Any) -> Any:
        self.timers.append((when, call, args))
        return self

    def cancel(self) -> None:
        self.timers.clear()

    def run(self, seconds: float, late: float = 0.0) -> None:
        end = self.now + seconds
        while self.timers and self.timers[0][0] + late <= end:
            when, call, args = self.timers.pop(0)
            self.now = when + late
            call(*args)
        self.now = max(self.now, end)


def test_the_lag_of_the_loop_is_the_recent_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, lag = FakeLoop(), LoopLag()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: loop)
    lag.start()
    loop.run(5)
    assert lag.seconds == pytest.approx(0)
    loop.run(1, late=0.4)
    loop.run(0.3)
    assert lag.seconds == pytest.approx(0.4)
    loop.run(3)
    assert lag.seconds == pytest.approx(0)
    lag.stop()
    assert loop.timers == []


async def test_the_lag_of_a_real_loop() -> None:
    lag = LoopLag()
    loop = asyncio.get_running_loop()
    began = loop.time()
    lag.start()
    blocked = asyncio.Event()

    def block() -> None:
        end = loop.time() + 0.5
        while loop.time() < end:
            pass
        blocked.set()

    loop.call_soon(block)
    async with asyncio.timeout(60):
        await blocked.wait()
        await asyncio.sleep(0)  # the tick that was due meanwhile has run
    assert 0.1 < lag.seconds < loop.time() - began
    lag.stop()
