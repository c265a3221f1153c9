"""Slowing down before something breaks: named rules over a snapshot of signals. Pure.

    signals ──▶ every rule: its load (1 is the threshold) ──▶ its grip ──▶ the strictest of all: the pressure

A rule takes hold above its threshold and lets go only below a lower mark, so a signal that wobbles around the
threshold does not switch it on and off. A gate pauses lanes and feeding as long as it holds. A throttle lowers the
number of slots step by step while its load is above the threshold, and gives them back step by step when it is over.
There is a floor: whatever happens, the crawl moves, and so its signals can get better again. Only a store that is
nearly full stops it, for what is in flight must still find room there.

`host_429` only tells: the hosts that answer 429 are slowed by their own policies, and nobody else is. The thresholds
are settings, and every sentence names its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from shoal.policy.load import Signals
from shoal.settings import Settings

FLOOR = 0.1  # share of the slots that no rule takes away

_FALL = (0.7, 0.9)  # a step down is by what the load exceeds the threshold, between these
_RISE = 1.25
_CREEP = (
    1.05  # between the two marks: without it, a load that settles there would hold the crawl down for ever
)
_HELD = 0.9  # … but not all the way up, or the rule would let go and take hold in turns
_IDLE = 5.0  # seconds with nothing in flight after which paused lanes are opened: they are all there is to do
_OPEN = 30.0  # … and for how long

DISCOVERY = frozenset({"discovery"})


class Reason(Struct, frozen=True):
    """Why the crawl is held back: the rule's name, and one sentence with its numbers."""

    rule: str
    sentence: str
    job: str = ""  # if it is about one: whoever feeds that one waits, wherever it is


class Change(Struct, frozen=True):
    """A rule that took hold, tightened its grip, or let go."""

    rule: str
    on: bool
    sentence: str


class Pressure(Struct, frozen=True):
    """What all rules together ask for."""

    concurrency: float = 1.0  # share of the slots that may be used
    paused_lanes: frozenset[str] = frozenset()
    feeding_paused: bool = False
    claiming_paused: bool = False
    reasons: tuple[Reason, ...] = ()

    def slots(self, concurrency: int) -> int:
        return max(1, int(concurrency * self.concurrency))


class Grip(Struct, frozen=True):
    """A rule's state."""

    on: bool = False
    factor: float = 1.0
    next_step: float = 0.0
    stopped: bool = False  # nothing is claimed


class Rule(Struct, frozen=True):
    name: str
    load: Callable[[Signals], float]  # 1 is the threshold
    release: float  # the load below which it lets go
    fact: Callable[[Signals], str]  # what is the case, in numbers
    held: str  # what follows; {factor} is the share of the slots
    freed: str  # what follows when it lets go
    paused_lanes: frozenset[str] = frozenset()
    feeding_paused: bool = False
    stop: float = math.inf  # the load above which nothing is claimed at all …
    stopped: str = ""  # … and what is said then
    of_job: bool = False  # it is about the job that the signals of the queue are of
    pace: float = 0.0  # seconds between two steps of a throttle; 0: a gate

    def step(self, grip: Grip, signals: Signals, now: float) -> Grip:
        load = self.load(signals)
        if not grip.on and load <= 1:
            return grip
        if not self.pace:
            mark = self.stop * _NEARLY if grip.stopped else self.stop
            return Grip(on=load >= self.release, stopped=load > mark)
        if now < grip.next_step:
            return grip
        factor = self._next_factor(grip.factor, load)
        return Grip(factor < 1, factor, now + self.pace)

    def _next_factor(self, factor: float, load: float) -> float:
        if load > 1:
            lowest, highest = _FALL
            return max(FLOOR, factor * min(highest, max(lowest, 1 / load)))
        if load < self.release:
            return min(1.0, factor * _RISE)
        return min(_HELD, factor * _CREEP)

    def pressure(self, grip: Grip, signals: Signals) -> Pressure:
        """What the rule asks for while it holds."""
        reason = Reason(self.name, self.sentence(grip, signals), signals.job if self.of_job else "")
        return Pressure(grip.factor, self.paused_lanes, self.feeding_paused, grip.stopped, (reason,))

    def sentence(self, grip: Grip, signals: Signals) -> str:
        held = self.stopped if grip.stopped else self.held.format(factor=f"{grip.factor:.0%}")
        then = held if grip.on else self.freed
        return f"{self.fact(signals)}: {then}"


class Backpressure:
    """The rules of one process, those that are switched on, with their grips."""

    def __init__(self, settings: Settings) -> None:
        switched_on = frozenset(settings.backpressure)
        self._rules = tuple(rule for rule in rules(settings) if rule.name in switched_on)
        self._grips: Mapping[str, Grip] = {rule.name: Grip() for rule in self._rules}
        self._pressure = Pressure()
        self._changes: tuple[Change, ...] = ()
        self._open_until = 0.0

    def __repr__(self) -> str:
        return f"<Backpressure: {', '.join(reason.rule for reason in self.active) or 'none'}>"

    @property
    def active(self) -> tuple[Reason, ...]:
        return self._pressure.reasons

    def changes(self) -> tuple[Change, ...]:
        """The rules that took hold or let go at the last update."""
        return self._changes

    def update(self, signals: Signals, now: float) -> Pressure:
        before = self._grips
        self._grips = {rule.name: rule.step(before[rule.name], signals, now) for rule in self._rules}
        self._changes = tuple(
            Change(rule.name, self._grips[rule.name].on, rule.sentence(self._grips[rule.name], signals))
            for rule in self._rules
            if _told(self._grips[rule.name]) != _told(before[rule.name])
        )
        held = [rule for rule in self._rules if self._grips[rule.name].on]
        parts = [rule.pressure(self._grips[rule.name], signals) for rule in held]
        self._pressure = self._never_stuck(strictest(parts), signals, now)
        return self._pressure

    def _never_stuck(self, pressure: Pressure, signals: Signals, now: float) -> Pressure:
        """A queue that holds nothing but paused tasks would never drain."""
        if pressure.paused_lanes and signals.idle >= _IDLE:
            self._open_until = now + _OPEN
        if now < self._open_until:
            return replace(pressure, paused_lanes=frozenset())
        return pressure


def _told(grip: Grip) -> tuple[bool, bool]:
    return grip.on, grip.stopped


def strictest(parts: list[Pressure]) -> Pressure:
    return Pressure(
        concurrency=min((part.concurrency for part in parts), default=1.0),
        paused_lanes=frozenset().union(*(part.paused_lanes for part in parts)),
        feeding_paused=any(part.feeding_paused for part in parts),
        claiming_paused=any(part.claiming_paused for part in parts),
        reasons=tuple(reason for part in parts for reason in part.reasons),
    )


# -- the rules

_ENOUGH = 20.0  # recent fetches below which a share means little
_NEARLY = 0.95  # of its mark: there a rule about the store lets go
_WORTH_IT = 4  # a quarter of the high water waits, before it matters how fast the queue grows


def rules(settings: Settings) -> tuple[Rule, ...]:
    """Every rule there is; which of them are used is a setting."""
    high = settings.high_water
    low = high // 2
    filling = settings.store_high_water
    full = (1 + filling) / 2
    return (
        Rule(
            "queue_full",
            load=lambda s: s.pending / high,
            release=low / high + 1e-12,  # at the low mark itself it lets go
            fact=lambda s: f"queue holds {s.pending:,} URLs (high water {high:,})",
            held=f"discovery and feeding paused until {low:,}",
            freed="discovery and feeding go on",
            paused_lanes=DISCOVERY,
            feeding_paused=True,
        ),
        # Links must be taken as they are found, or they would be lost; start URLs lose nothing by waiting where they
        # are. So these wait, long before the queue is full, while links alone keep everybody busy.
        Rule(
            "queue_growth",
            load=lambda s: min(s.growth / settings.max_growth, _WORTH_IT * s.pending / high) * s.feeding,
            release=0.5,
            fact=lambda s: (
                f"each page leads to {s.growth:.1f} new URLs, and {s.pending:,} wait "
                f"(max_growth {settings.max_growth:g})"
            ),
            held=f"feeding paused until it is below {settings.max_growth * 0.5:g}, or {high // (2 * _WORTH_IT):,} wait",
            freed="feeding goes on",
            feeding_paused=True,
            of_job=True,
        ),
        Rule(
            "host_429",
            load=lambda s: _evident(s, s.too_many_share / settings.max_429_share),
            release=0.4,
            fact=lambda s: (
                f"{s.too_many_share:.0%} of {s.fetches:,.0f} recent fetches were answered 429 "
                f"(max_429_share {settings.max_429_share:.0%})"
            ),
            held="the hosts concerned get fewer requests",
            freed="hosts get their usual requests",
        ),
        Rule(
            "latency",
            load=lambda s: _slowdown(s) / settings.max_slowdown,
            release=0.75,
            fact=lambda s: _slowdown_fact(s, settings),
            held="{factor} of the slots in use until it is below "
            + f"{settings.max_slowdown * 0.75:g} times",
            freed="all slots in use",
            pace=5.0,
        ),
        Rule(
            "retries",
            load=lambda s: _evident(s, s.retry_share / settings.max_retry_share),
            release=0.5,
            fact=lambda s: (
                f"{s.retry_share:.0%} of {s.fetches:,.0f} recent fetches must be repeated "
                f"(max_retry_share {settings.max_retry_share:.0%})"
            ),
            held=f"discovery and feeding paused until below {settings.max_retry_share * 0.5:.0%}",
            freed="discovery and feeding go on",
            paused_lanes=DISCOVERY,
            feeding_paused=True,
        ),
        Rule(
            "sink",
            load=lambda s: s.sink_lag / settings.max_sink_lag,
            release=0.5,
            fact=lambda s: (
                f"finished pages wait {s.sink_lag:.1f} s to be stored (max_sink_lag {settings.max_sink_lag:g} s)"
            ),
            held="{factor} of the slots in use until it is below " + f"{settings.max_sink_lag * 0.5:g} s",
            freed="all slots in use",
            pace=1.0,
        ),
        Rule(
            "machine",
            load=lambda s: max(_machine_loads(s, settings).values()),
            release=0.8,
            fact=lambda s: _machine_fact(s, settings),
            held="{factor} of the slots in use until there is room",
            freed="all slots in use",
            pace=1.0,
        ),
        Rule(
            "proxies",
            load=lambda s: _evident(s, s.proxy_error_share / settings.max_proxy_error_share),
            release=0.5,
            fact=lambda s: (
                f"proxies failed {s.proxy_error_share:.0%} of {s.fetches:,.0f} recent fetches "
                f"(max_proxy_error_share {settings.max_proxy_error_share:.0%})"
            ),
            held="{factor} of the slots in use until below " + f"{settings.max_proxy_error_share * 0.5:.0%}",
            freed="all slots in use",
            pace=5.0,
        ),
        Rule(
            "store",
            load=lambda s: _store_share(s) / filling,
            release=_NEARLY,
            fact=lambda s: _store_fact(s, settings),
            held=f"discovery, feeding and new jobs paused until below {filling * _NEARLY:.0%}",
            freed="discovery and feeding go on",
            paused_lanes=DISCOVERY,
            feeding_paused=True,
            stop=full / filling,
            stopped=f"no page is begun until below {full * _NEARLY:.0%}; raise maxmemory, or prune the store",
        ),
    )


def _evident(signals: Signals, load: float) -> float:
    """A share of a few fetches proves nothing: it may keep a rule on for a while, but not switch it on."""
    evidence = signals.fetches / _ENOUGH
    return load if evidence >= 1 else min(load, 1.0) * evidence


def _store_share(signals: Signals) -> float:
    return signals.store_used / signals.store_limit if signals.store_limit else 0.0


def _store_fact(signals: Signals, settings: Settings) -> str:
    share = f"the store has {_store_share(signals):.0%} of its {signals.store_limit >> 20:,} MB"
    return f"{share} (store_high_water {settings.store_high_water:.0%})"


def _slowdown(signals: Signals) -> float:
    """How many times the usual latency a fetch takes."""
    return signals.latency / signals.baseline_latency if signals.baseline_latency else 0.0


def _slowdown_fact(signals: Signals, settings: Settings) -> str:
    if not signals.baseline_latency:
        return "nothing is being fetched"
    return (
        f"a fetch takes {signals.latency:.2g} s, {_slowdown(signals):.1f} times what the same hosts usually take "
        f"(max_slowdown {settings.max_slowdown:g})"
    )


def _machine_loads(signals: Signals, settings: Settings) -> dict[str, float]:
    files = settings.max_file_share * signals.file_limit
    return {
        "loop": signals.loop_lag / settings.max_loop_lag,
        "memory": signals.memory / signals.memory_limit if signals.memory_limit else 0.0,
        "files": signals.open_files / files if files else 0.0,
    }


def _machine_fact(signals: Signals, settings: Settings) -> str:
    """What is scarcest."""
    loads = _machine_loads(signals, settings)
    worst = max(loads, key=lambda name: loads[name])
    if worst == "memory":
        return f"memory is {signals.memory >> 20:,} MB (limit {signals.memory_limit >> 20:,} MB)"
    if worst == "files":
        most = f"max_file_share {settings.max_file_share:.0%} of {signals.file_limit:,}"
        return f"{signals.open_files:,} files are open ({most})"
    return f"the event loop is {signals.loop_lag:.2f} s late (max_loop_lag {settings.max_loop_lag:g} s)"
