"""Chooses a proxy of a pool for a request. Pure.

    strategy      the proxy
    ───────────   ─────────────────────────────────────────────────────────────────────────────────
    scored        drawn by how well each has done, at this host and elsewhere (Thompson sampling): a
                  bad one is tried now and then, and a slow one less often
    round_robin   one after another
    random        any, each as likely as the others
    least_used    the one with the fewest requests, in the whole fleet
    sticky        always the same for a host, as long as it works

Whatever the strategy, proxies in quarantine are passed over, as are those through which the host has just failed, and
those that have more unanswered requests than the others.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from hashlib import blake2s
from typing import Literal, cast

from msgspec import Struct

from shoal.policy.proxy_state import (
    FREE,
    UNKNOWN,
    PoolState,
    ProxyState,
    evidence,
    failed_at,
    is_proven,
)
from shoal.settings import PoolSettings, Settings

Probe = Literal["", "proxy", "pair"]

_SLOW = 2.0  # times the latency of the quickest that count as equally quick
_PROBING = 1.0  # seconds to wait for the result of another's probe
_AHEAD = 1  # unanswered requests that a proxy may have more than others, if it answered lately
_NONE: Mapping[str, int] = {}


class Choice(Struct, frozen=True):
    proxy: str
    probe: Probe = ""  # whose quarantine the request probes


class Wait(Struct, frozen=True):
    """No proxy may be used now."""

    until: float
    reason: str


class ProxyChooser:
    def __init__(self, settings: Settings, own: PoolSettings | None = None) -> None:
        """`own`: of the pool, if they differ from the general ones."""
        self._cooldown = (own and own.cooldown) or settings.pool_cooldown
        self._strategy = (own and own.strategy) or settings.pool_strategy

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
        unanswered: Mapping[str, int] = _NONE,
    ) -> Choice | Wait | None:
        """One of `names`; None if all are to be avoided. A probe that is due goes first, so that the pool recovers;
        without `probes`, only if there is no other proxy.

        `unanswered`: requests in flight through each proxy that began since its last answer. A proxy that stops
        answering gets no more requests than the others, long before a timeout."""
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
            failed = failed_at(state.sites.get(host), now)
            ready = [name for name in ready if name not in failed] or ready
            ready = _not_silent(state, ready, unanswered, now)
            return Choice(self._pick(state, ready, host, now, rng, turn))
        return _wait(held, now) if held else None

    def _condition(self, proxy: ProxyState | None, host: str, now: float) -> tuple[Probe, float, str]:
        """What a request would probe; or until when the proxy may not be used, and why."""
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
        if self._strategy == "round_robin" or len(ready) == 1:
            return ready[turn % len(ready)]
        if self._strategy == "random":
            return rng.choice(ready)
        if self._strategy == "least_used":
            return min(ready, key=lambda name: state.proxies.get(name, UNKNOWN).requests)
        if self._strategy == "sticky":
            # The highest of hashes: if a proxy comes or goes, only its own hosts move.
            return max(ready, key=lambda name: blake2s(f"{name} {host}".encode()).digest())
        known = {name: state.proxies.get(name, UNKNOWN) for name in ready}
        quickest = min((proxy.latency for proxy in known.values() if proxy.latency), default=0.0)

        def draw(name: str) -> float:
            proxy = known[name]
            speed = min(1.0, _SLOW * quickest / proxy.latency) if proxy.latency else 1.0
            return speed * rng.betavariate(*evidence(proxy, host, now))

        return max(ready, key=draw)

    def chance(self, state: PoolState, names: Sequence[str], host: str, now: float) -> float:
        """How likely a request to the host succeeds through the best of these."""
        found = [evidence(state.proxies.get(name, UNKNOWN), host, now) for name in names]
        return max((good / (good + bad) for good, bad in found), default=0.0)


def _not_silent(state: PoolState, names: list[str], unanswered: Mapping[str, int], now: float) -> list[str]:
    """Without proxies that have more unanswered requests than the others."""
    if not unanswered:
        return names
    least = min(unanswered.get(name, 0) for name in names)

    def most(name: str) -> int:
        return least + _AHEAD * is_proven(state.proxies.get(name, UNKNOWN), now)

    return [name for name in names if unanswered.get(name, 0) <= most(name)]


def _wait(held: list[tuple[float, str]], now: float) -> Wait:
    until = min(held)[0]
    reasons: dict[str, int] = {}
    for _, reason in held:
        reasons[reason] = reasons.get(reason, 0) + 1
    counted = ", ".join(f"{number} {reason}" for reason, number in reasons.items())
    return Wait(until, f"{counted}; the next is tried in {until - now:.0f} s")
