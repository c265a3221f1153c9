"""Slows the crawl down before something breaks: named rules over a snapshot of signals. Pure.

    signals ──▶ every rule: its load (1 is the threshold) ──▶ its state ──▶ the strictest of all: the pressure

A rule switches on above its threshold and off only below a lower mark, so a signal that wobbles around the threshold
does not switch it on and off. A gate pauses lanes and feeding while it is on. A throttle lowers the number of slots
step by step while its load is above the threshold, and raises it step by step afterwards. Throttles leave a share of
the slots (`FLOOR`), so that the crawl moves and its signals can recover. Only a store that is nearly full stops the
crawl, because pages in flight still need room there.

`host_429` only reports: the policies of the hosts that answer 429 slow those hosts down. The thresholds are settings,
and every sentence names its setting.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from shoal.policy.load import Signals
from shoal.settings import Settings

FLOOR = 0.1  # share of the slots that no rule takes away

_FALL = (0.7, 0.9)  # a throttle's step down is 1/load, kept between these
_RISE = 1.25
_CREEP = 1.05  # between the two marks: without it, a load that settles there would slow the crawl for ever
_HELD = 0.9  # … but not all the way up, or the rule would switch off and on in turns
_IDLE = 5.0  # after so many seconds with nothing in flight paused lanes are opened: only they have work
_OPEN = 30.0  # … for so many seconds
_ENOUGH = 20.0  # recent fetches below which a share means little
_NEARLY = 0.95  # of its mark: there a rule about the store lets go
_WORTH_IT = 4  # a quarter of high_water must wait before the growth of the queue matters

DISCOVERY = frozenset({"discovery"})


class Reason(Struct, frozen=True):
    """Why the crawl is slowed: the rule's name, and one sentence with its numbers."""

    rule: str
    sentence: str
    job: str = ""  # the job that the rule is about, if there is one: its feeder waits, in whichever process


class Change(Struct, frozen=True):
    """A rule that switched on, stopped the crawl, or switched off."""

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


class RuleState(Struct, frozen=True):
    on: bool = False
    factor: float = 1.0  # share of the slots that a throttle leaves
    next_step: float = 0.0
    stopped: bool = False  # nothing is claimed


class Rule(Struct, frozen=True, kw_only=True):
    """One rule. Its sentences are templates: {s} are the signals, {c} the settings, {until} is the mark at which it
    switches off, {factor} the share of the slots it leaves."""

    name: str
    limit: Callable[[Settings], float]  # the threshold
    value: Callable[[Signals, Settings], float]  # what is compared with it
    release: float = 0.5  # share of the threshold below which it switches off
    fact: str | Callable[[Signals, Settings], str]  # what was measured
    held: str  # what follows while it is on
    freed: str  # what follows when it switches off
    needs_fetches: bool = False  # the value is a share of recent fetches
    paused_lanes: frozenset[str] = frozenset()
    feeding_paused: bool = False
    stops: bool = False  # halfway from its threshold to 1 nothing is claimed
    stopped: str = ""  # what follows then
    of_job: bool = False  # it is about the job whose queue the signals describe
    pace: float = 0.0  # seconds between two steps of a throttle; 0: a gate

    def load(self, signals: Signals, settings: Settings) -> float:
        load = self.value(signals, settings) / self.limit(settings)
        if self.needs_fetches and signals.fetches < _ENOUGH:
            # A share of a few fetches may keep a rule on for a while, but does not switch it on.
            return min(load, 1.0) * signals.fetches / _ENOUGH
        return load

    def step(self, state: RuleState, signals: Signals, settings: Settings, now: float) -> RuleState:
        load = self.load(signals, settings)
        if not state.on and load <= 1:
            return state
        if not self.pace:
            mark = _full(settings) / self.limit(settings) if self.stops else math.inf
            return RuleState(
                on=load >= self.release, stopped=load > (mark * _NEARLY if state.stopped else mark)
            )
        if now < state.next_step:
            return state
        factor = self._next_factor(state.factor, load)
        return RuleState(factor < 1, factor, now + self.pace)

    def _next_factor(self, factor: float, load: float) -> float:
        if load > 1:
            lowest, highest = _FALL
            return max(FLOOR, factor * min(highest, max(lowest, 1 / load)))
        if load < self.release:
            return min(1.0, factor * _RISE)
        return min(_HELD, factor * _CREEP)

    def pressure(self, state: RuleState, signals: Signals, settings: Settings) -> Pressure:
        """What the rule asks for while it is on."""
        sentence = self.sentence(state, signals, settings)
        reason = Reason(self.name, sentence, signals.job if self.of_job else "")
        return Pressure(state.factor, self.paused_lanes, self.feeding_paused, state.stopped, (reason,))

    def sentence(self, state: RuleState, signals: Signals, settings: Settings) -> str:
        then = self.freed if not state.on else self.stopped if state.stopped else self.held
        fact = self.fact if isinstance(self.fact, str) else self.fact(signals, settings)
        return f"{fact}: {then}".format(
            s=signals,
            c=settings,
            until=self.limit(settings) * self.release,
            factor=f"{state.factor:.0%}",
            low=settings.high_water // 2,
            few=settings.high_water // (2 * _WORTH_IT),
            full=_full(settings) * _NEARLY,
        )


class Backpressure:
    """The rules of one process that are switched on in the settings, with their states."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._rules = tuple(rule for rule in RULES if rule.name in settings.backpressure)
        self._states: Mapping[str, RuleState] = {rule.name: RuleState() for rule in self._rules}
        self._pressure = Pressure()
        self._changes: tuple[Change, ...] = ()
        self._open_until = 0.0

    def __repr__(self) -> str:
        return f"<Backpressure: {', '.join(reason.rule for reason in self.active) or 'none'}>"

    @property
    def active(self) -> tuple[Reason, ...]:
        return self._pressure.reasons

    def changes(self) -> tuple[Change, ...]:
        """The rules that switched on or off at the last update."""
        return self._changes

    def update(self, signals: Signals, now: float) -> Pressure:
        before, settings = self._states, self._settings
        states = {rule.name: rule.step(before[rule.name], signals, settings, now) for rule in self._rules}
        self._states = states
        self._changes = tuple(
            Change(rule.name, states[rule.name].on, rule.sentence(states[rule.name], signals, settings))
            for rule in self._rules
            if _reported(states[rule.name]) != _reported(before[rule.name])
        )
        parts = [
            rule.pressure(states[rule.name], signals, settings)
            for rule in self._rules
            if states[rule.name].on
        ]
        self._pressure = self._never_stuck(strictest(parts), signals, now)
        return self._pressure

    def _never_stuck(self, pressure: Pressure, signals: Signals, now: float) -> Pressure:
        """A queue that holds nothing but paused tasks would never drain. A crawl that visits its pages again and again
        is never idle meanwhile."""
        if pressure.paused_lanes and (signals.idle >= _IDLE or signals.only_discovery):
            self._open_until = now + _OPEN
        if now < self._open_until:
            return replace(pressure, paused_lanes=frozenset())
        return pressure


def _reported(state: RuleState) -> tuple[bool, bool]:
    return state.on, state.stopped


def strictest(parts: list[Pressure]) -> Pressure:
    return Pressure(
        concurrency=min((part.concurrency for part in parts), default=1.0),
        paused_lanes=frozenset().union(*(part.paused_lanes for part in parts)),
        feeding_paused=any(part.feeding_paused for part in parts),
        claiming_paused=any(part.claiming_paused for part in parts),
        reasons=tuple(reason for part in parts for reason in part.reasons),
    )


# -- the rules


def _full(settings: Settings) -> float:
    """Share of the store at which nothing more is claimed."""
    return (1 + settings.store_high_water) / 2


def _growth(signals: Signals, settings: Settings) -> float:
    """Start URLs lose nothing by waiting; links would be lost if they were not taken. So start URLs wait long before
    the queue is full, while links alone keep everybody busy."""
    filled = _WORTH_IT * signals.pending / settings.high_water * settings.max_growth
    return min(signals.growth, filled) * signals.feeding


def _scarcest(signals: Signals, settings: Settings) -> tuple[float, str]:
    """The load of what the machine is shortest of, and a sentence about it."""
    files = settings.max_file_share * signals.file_limit
    lag = f"the event loop is {signals.loop_lag:.2f} s late (max_loop_lag {settings.max_loop_lag:g} s)"
    memory = f"memory is {signals.memory >> 20:,} MB (limit {signals.memory_limit >> 20:,} MB)"
    share = f"max_file_share {settings.max_file_share:.0%} of {signals.file_limit:,}"
    loads = (
        (signals.loop_lag / settings.max_loop_lag, lag),
        (signals.memory / signals.memory_limit if signals.memory_limit else 0.0, memory),
        (signals.open_files / files if files else 0.0, f"{signals.open_files:,} files are open ({share})"),
    )
    return max(loads, key=lambda found: found[0])


_ALL_SLOTS = "all slots in use"
_GO_ON = "discovery and feeding go on"
_SLOW = (
    "a fetch takes {s.latency:.2g} s, {s.slowdown:.1f} times what the same hosts usually take "
    "(max_slowdown {c.max_slowdown:g})"
)

RULES = (
    Rule(
        name="queue_full",
        limit=lambda c: c.high_water,
        value=lambda s, c: s.pending,
        release=0.5 + 1e-12,  # at the low mark itself it switches off
        fact="queue holds {s.pending:,} URLs (high water {c.high_water:,})",
        held="discovery paused until {low:,}",  # the feeder looks at the queue itself
        freed="discovery goes on",
        paused_lanes=DISCOVERY,
    ),
    Rule(
        name="queue_growth",
        limit=lambda c: c.max_growth,
        value=_growth,
        fact="each page leads to {s.growth:.1f} new URLs, and {s.pending:,} wait (max_growth {c.max_growth:g})",
        held="feeding paused until it is below {until:g}, or {few:,} wait",
        freed="feeding goes on",
        feeding_paused=True,
        of_job=True,
    ),
    Rule(
        name="host_429",
        limit=lambda c: c.max_429_share,
        value=lambda s, c: s.too_many_share,
        release=0.4,
        needs_fetches=True,
        fact="{s.too_many_share:.0%} of {s.fetches:,.0f} recent fetches were answered 429 "
        "(max_429_share {c.max_429_share:.0%})",
        held="the hosts concerned get fewer requests",
        freed="hosts get their usual requests",
    ),
    Rule(
        name="latency",
        limit=lambda c: c.max_slowdown,
        value=lambda s, c: s.slowdown,
        release=0.75,
        fact=lambda s, c: _SLOW if s.baseline_latency else "nothing is being fetched",
        held="{factor} of the slots in use until it is below {until:g} times",
        freed=_ALL_SLOTS,
        pace=5.0,
    ),
    Rule(
        name="retries",
        limit=lambda c: c.max_retry_share,
        value=lambda s, c: s.retry_share,
        needs_fetches=True,
        fact="{s.retry_share:.0%} of {s.fetches:,.0f} recent fetches must be repeated "
        "(max_retry_share {c.max_retry_share:.0%})",
        held="discovery and feeding paused until below {until:.0%}",
        freed=_GO_ON,
        paused_lanes=DISCOVERY,
        feeding_paused=True,
    ),
    Rule(
        name="sink",
        limit=lambda c: c.max_sink_lag,
        value=lambda s, c: s.sink_lag,
        fact="finished pages wait {s.sink_lag:.1f} s to be stored (max_sink_lag {c.max_sink_lag:g} s)",
        held="{factor} of the slots in use until it is below {until:g} s",
        freed=_ALL_SLOTS,
        pace=1.0,
    ),
    Rule(
        name="backlog",
        limit=lambda c: c.max_backlog,
        value=lambda s, c: s.backlog,
        fact=lambda s, c: (
            f"{s.backlog >> 20:,} MB of rows wait to be uploaded (max_backlog {c.max_backlog >> 20:,} MB)"
        ),
        held="{factor} of the slots in use until it is half of that",
        freed=_ALL_SLOTS,
        pace=1.0,
    ),
    Rule(
        name="machine",
        limit=lambda c: 1.0,
        value=lambda s, c: _scarcest(s, c)[0],
        release=0.8,
        fact=lambda s, c: _scarcest(s, c)[1],
        held="{factor} of the slots in use until there is room",
        freed=_ALL_SLOTS,
        pace=1.0,
    ),
    Rule(
        name="proxies",
        limit=lambda c: c.max_proxy_error_share,
        value=lambda s, c: s.proxy_error_share,
        needs_fetches=True,
        fact="proxies failed {s.proxy_error_share:.0%} of {s.fetches:,.0f} recent fetches "
        "(max_proxy_error_share {c.max_proxy_error_share:.0%})",
        held="{factor} of the slots in use until below {until:.0%}",
        freed=_ALL_SLOTS,
        pace=5.0,
    ),
    Rule(
        name="store",
        limit=lambda c: c.store_high_water,
        value=lambda s, c: s.store_share,
        release=_NEARLY,
        fact="the store has {s.store_share:.0%} of its {s.store_megabytes:,} MB "
        "(store_high_water {c.store_high_water:.0%})",
        held="discovery, feeding and new jobs paused until below {until:.0%}",
        freed=_GO_ON,
        paused_lanes=DISCOVERY,
        feeding_paused=True,
        stops=True,
        stopped="no page is begun until below {full:.0%}; raise maxmemory, or prune the store",
    ),
)

THROTTLES = frozenset(rule.name for rule in RULES if rule.pace)  # they take slots away
