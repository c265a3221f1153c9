"""Which proxy of a pool a request goes through, and what its end teaches about the proxy. Pure.

    seen of a proxy   at a host      becomes
    ───────────────   ───────────    ─────────────────────────────────────────────────────────────────────
    good              good           the estimate rises; a quarantine that was being probed is lifted
    neutral           -              the host failed by itself: a request is counted, and nothing else
    -                 doubt          the pair's estimate falls (429, 403, the host cannot be reached from there)
    slow              slow           both estimates fall
    -                 banned         certain: quarantine of the pair
    down              -              quarantine of the proxy

A quarantine ends after a cooldown with one probe, by whichever process takes it first (`reserve`); a failed probe
doubles the cooldown. What started before the quarantine ended is no probe: it was on its way when it was known.

Estimates are counts of successes and failures that lose half their weight in ten minutes. The scored strategy draws
from what they allow (Thompson sampling), so a proxy that did badly is tried now and then, and one that is slow
compared with the others less often. Of the hosts, only those where something went wrong are remembered for a proxy:
everywhere else its overall estimate holds.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal, cast

from msgspec import Struct
from msgspec.structs import replace

from shoal.settings import Settings

Probe = Literal["", "proxy", "pair"]
Sign = Literal["good", "neutral", "doubt", "slow", "banned", "down"]

_HALF_LIFE = 600.0
_MOST_DOUBLINGS = 6  # of the cooldown
_FORGIVEN = 3600.0  # seconds after its end that a quarantine is forgotten, if nobody came to probe
_DOWN_AFTER = 2  # failures in a row; a single one may be a moment's trouble
_BANNED_AFTER = 2
_SURE = frozenset({"proxy_auth"})  # needs no second look
_PRIOR = (1.0, 0.5)  # successes and failures that a proxy never used is taken to have had
_OVERALL = 6.0  # most that the overall estimate weighs against what was seen at one host
_SLOW = 2.0  # times the latency of the quickest that count as just as quick
_SMOOTHING = 0.2
_PROBING = 1.0  # seconds before it is asked again how a probe went
_LIGHT = 0.05  # weight below which a pair is forgotten
PAIRS = 1_000  # remembered in a pool


class Hold(Struct, frozen=True, omit_defaults=True):
    """A quarantine, or what leads to one."""

    row: int = 0  # failures in a row before it
    strikes: int = 0  # how often it was put in, without a success since; 0: free
    until: float = 0.0
    probing: float = 0.0  # until when somebody's probe is waited for
    reason: str = ""


FREE = Hold()


class Pair(Struct, frozen=True, omit_defaults=True):
    """A proxy at one host."""

    good: float = 0.0
    bad: float = 0.0
    at: float = 0.0  # when the counts were last right
    hold: Hold = FREE


class ProxyState(Struct, frozen=True, omit_defaults=True):
    requests: int = 0
    good: float = 0.0
    bad: float = 0.0
    at: float = 0.0
    latency: float = 0.0  # smoothed seconds of what went well
    hold: Hold = FREE
    hosts: dict[str, Pair] = {}

    def success(self) -> float | None:
        """Share of the recent requests that went well; None: none is known."""
        total = self.good + self.bad
        return self.good / total if total > _LIGHT else None


class PoolState(Struct, frozen=True, omit_defaults=True):
    proxies: dict[str, ProxyState] = {}


class Seen(Struct, frozen=True):
    """What one request told about a proxy. Times are the frontier's."""

    proxy: str
    host: str
    sign: Sign
    started: float
    ended: float
    kind: str = ""


class Choice(Struct, frozen=True):
    proxy: str
    probe: Probe = ""  # what of it is on trial


class Wait(Struct, frozen=True):
    """Nobody may be used now."""

    until: float
    reason: str


class ProxyPolicy:
    def __init__(self, settings: Settings) -> None:
        self._cooldown = settings.pool_cooldown
        self._in_turn = settings.pool_strategy == "round_robin"

    # -- seeing

    def observe(self, state: PoolState, seen: Seen) -> PoolState:
        old = state.proxies.get(seen.proxy, ProxyState())
        return PoolState({**state.proxies, seen.proxy: self._observe(old, seen)})

    def _observe(self, proxy: ProxyState, seen: Seen) -> ProxyState:
        hosts = proxy.hosts
        pair = hosts.get(seen.host)
        if seen.sign in ("doubt", "slow", "banned") or (seen.sign == "good" and pair is not None):
            hosts = {**hosts, seen.host: self._at_host(pair or Pair(), seen)}
        kept = _kept(proxy.at, seen.ended)
        hold = proxy.hold
        if seen.sign == "down":
            after = 1 if seen.kind in _SURE else _DOWN_AFTER
            hold = self._struck(hold, seen, after, seen.kind)
        elif hold is not FREE:  # it let a request through, whatever came of it
            hold = _passed(hold, seen)
        return ProxyState(
            requests=proxy.requests + 1,
            good=proxy.good * kept + (seen.sign == "good"),
            bad=proxy.bad * kept + (seen.sign in ("slow", "down")),
            at=max(proxy.at, seen.ended),
            latency=_smoothed(proxy.latency, seen),
            hold=hold,
            hosts=hosts,
        )

    def _at_host(self, pair: Pair, seen: Seen) -> Pair:
        kept, good, hold = _kept(pair.at, seen.ended), seen.sign == "good", pair.hold
        if seen.sign == "banned":
            hold = self._struck(hold, seen, _BANNED_AFTER, "banned")
        elif good:
            hold = _passed(hold, seen)
        at = max(pair.at, seen.ended)
        return Pair(pair.good * kept + good, pair.bad * kept + (not good), at, hold)

    def _struck(self, hold: Hold, seen: Seen, after: int, reason: str) -> Hold:
        if hold.strikes and seen.started < hold.until:
            return hold
        row = hold.row + 1
        if not hold.strikes and row < after:
            return Hold(row=row, reason=reason)
        cooldown = self._cooldown * 2.0 ** min(hold.strikes, _MOST_DOUBLINGS)
        return Hold(row, hold.strikes + 1, seen.ended + cooldown, reason=reason)

    def reserve(self, state: PoolState, choice: Choice, host: str, now: float, seconds: float) -> PoolState:
        """The probe is taken: nobody else may probe for so long, or until its end is known."""
        proxy = state.proxies[choice.proxy]
        if choice.probe == "proxy":
            proxy = replace(proxy, hold=replace(proxy.hold, probing=now + seconds))
        else:
            pair = proxy.hosts[host]
            pair = replace(pair, hold=replace(pair.hold, probing=now + seconds))
            proxy = replace(proxy, hosts={**proxy.hosts, host: pair})
        return PoolState({**state.proxies, choice.proxy: proxy})

    # -- choosing

    def choose(
        self,
        state: PoolState,
        names: Sequence[str],
        host: str,
        now: float,
        rng: random.Random,
        *,
        avoid: AbstractSet[str] = frozenset(),
        turn: int = 0,
        probes: bool = True,
    ) -> Choice | Wait | None:
        """One of `names`. A probe that is due goes first, so that the pool recovers; without `probes`, only if there
        is no other. None: there is none beside those to avoid."""
        ready: list[str] = []
        due: list[Choice] = []
        held: list[tuple[float, str]] = []
        for name in names:
            if name in avoid:
                continue
            probe, until, reason = self._condition(state.proxies.get(name), host, now)
            if until:
                held.append((until, reason))
            elif probe:
                due.append(Choice(name, probe))
            else:
                ready.append(name)
        if due and (probes or not ready):
            return due[0]
        if ready:
            return Choice(self._pick(state, ready, host, now, rng, turn))
        return _wait(held, now) if held else None

    def _condition(self, proxy: ProxyState | None, host: str, now: float) -> tuple[Probe, float, str]:
        """What of it a request would be the probe of; or until when it may not be used, and why."""
        if proxy is None:
            return "", 0.0, ""
        pair = proxy.hosts.get(host)
        probe: Probe = ""
        for part, hold in (("proxy", proxy.hold), ("pair", pair.hold if pair is not None else FREE)):
            if not hold.strikes:
                continue
            if now < hold.until:
                return "", hold.until, hold.reason
            if now < hold.probing:  # it will soon be known
                return "", now + min(_PROBING, self._cooldown), hold.reason
            probe = probe or cast(Probe, part)
        return probe, 0.0, ""

    def _pick(
        self, state: PoolState, ready: list[str], host: str, now: float, rng: random.Random, turn: int
    ) -> str:
        if self._in_turn or len(ready) == 1:
            return ready[turn % len(ready)]
        known = {name: state.proxies.get(name) or ProxyState() for name in ready}
        quickest = min((proxy.latency for proxy in known.values() if proxy.latency), default=0.0)

        def draw(name: str) -> float:
            proxy = known[name]
            speed = min(1.0, _SLOW * quickest / proxy.latency) if proxy.latency else 1.0
            return speed * rng.betavariate(*_evidence(proxy, host, now))

        return max(ready, key=draw)

    def chance(self, state: PoolState, names: Sequence[str], host: str, now: float) -> float:
        """How likely a request to the host goes well through the best of these, as far as is known."""
        found = [_evidence(state.proxies.get(name) or ProxyState(), host, now) for name in names]
        return max((good / (good + bad) for good, bad in found), default=0.0)


def tidied(state: PoolState, now: float) -> PoolState:
    """Without what no longer says anything, and not more than so much."""
    pairs = [
        (name, host, pair)
        for name, proxy in state.proxies.items()
        for host, pair in proxy.hosts.items()
        if _says_something(pair, now)
    ]
    pairs.sort(key=lambda found: (found[2].hold.strikes > 0, found[2].at), reverse=True)
    kept: Mapping[str, dict[str, Pair]] = {name: {} for name in state.proxies}
    for name, host, pair in pairs[:PAIRS]:
        kept[name][host] = pair
    return PoolState(
        {name: replace(proxy, hosts=kept[name]) for name, proxy in sorted(state.proxies.items())}
    )


def condition(proxy: ProxyState, now: float) -> str:
    """How a proxy is doing, in a few words."""
    hold = proxy.hold
    if hold.strikes and now < hold.until:
        return f"down: {hold.reason}"
    if hold.strikes:
        return f"to be probed: {hold.reason}"
    banned = sum(pair.hold.strikes > 0 and now < pair.hold.until for pair in proxy.hosts.values())
    return f"banned by {banned} host{'s' if banned > 1 else ''}" if banned else "ok"


def _wait(held: list[tuple[float, str]], now: float) -> Wait:
    until = min(held)[0]
    reasons: dict[str, int] = {}
    for _, reason in held:
        reasons[reason] = reasons.get(reason, 0) + 1
    counted = ", ".join(f"{number} {reason}" for reason, number in reasons.items())
    return Wait(until, f"{counted}; the next is tried in {until - now:.0f} s")


def _evidence(proxy: ProxyState, host: str, now: float) -> tuple[float, float]:
    """Successes and failures that count at the host."""
    kept = _kept(proxy.at, now)
    good, bad = proxy.good * kept, proxy.bad * kept
    share = min(1.0, _OVERALL / (good + bad)) if good + bad else 1.0
    good, bad = _PRIOR[0] + good * share, _PRIOR[1] + bad * share
    pair = proxy.hosts.get(host)
    if pair is not None:
        kept = _kept(pair.at, now)
        good, bad = good + pair.good * kept, bad + pair.bad * kept
    return good, bad


def _passed(hold: Hold, seen: Seen) -> Hold:
    return hold if hold.strikes and seen.started < hold.until else FREE


def _says_something(pair: Pair, now: float) -> bool:
    if pair.hold.strikes and now < pair.hold.until + _FORGIVEN:
        return True
    return pair.bad * _kept(pair.at, now) > _LIGHT


def _smoothed(latency: float, seen: Seen) -> float:
    if seen.sign != "good":
        return latency
    took = max(0.0, seen.ended - seen.started)
    return latency + (took - latency) * _SMOOTHING if latency else took


def _kept(then: float, now: float) -> float:
    return 0.5 ** (max(0.0, now - then) / _HALF_LIFE) if then else 1.0
