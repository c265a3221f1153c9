"""What is known about the proxies of a pool, shared by all processes as one value. Pure.

Estimates are counts of successes and failures that lose half their weight in ten minutes. Hosts are stored only where
something went wrong. For all others the overall estimate of the proxy holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from shoal.policy.proxy_use import HostUse, bounded

# It had answers lately; it failed at one host at most; neither.
Reputation = Literal["proven", "fresh", "doubtful"]
Sign = Literal["good", "neutral", "doubt", "failed", "banned", "down"]

HALF_LIFE = 600.0
_FORGIVEN = 3600.0  # seconds after its end that a quarantine is dropped, if nobody probed
_PRIOR = (1.0, 0.5)  # successes and failures that a new proxy starts with
_OVERALL = 6.0  # the most that the overall estimate weighs against the one for a host
LIGHT = 0.05  # weight below which a pair is forgotten
PAIRS = 1_000  # remembered in a pool
SITES = 300  # hosts, too
USUAL = 0.1  # … that fail at a host, at least, whatever is known of it
_BELIEVED = 4.4  # suspicion up to which a failure counts against the host: one such failure, not two


class Quarantine(Struct, frozen=True, omit_defaults=True):
    """A quarantine, or the failures that lead to one."""

    row: int = 0  # failures in a row before it
    strikes: int = 0  # how often it was entered without a success since; 0: free
    until: float = 0.0
    probing: float = 0.0  # until when another's probe is awaited
    reason: str = ""


FREE = Quarantine()


class Pair(Struct, frozen=True, omit_defaults=True):
    """A proxy at one host."""

    good: float = 0.0
    bad: float = 0.0
    at: float = 0.0  # when the counts were last updated
    hold: Quarantine = FREE
    suspicion: float = 0.0


class ProxyState(Struct, frozen=True, omit_defaults=True):
    requests: int = 0
    good: float = 0.0
    bad: float = 0.0
    at: float = 0.0
    latency: float = 0.0  # smoothed seconds of what went well
    hold: Quarantine = FREE
    hosts: dict[str, Pair] = {}
    suspicion: float = 0.0

    def success(self) -> float | None:
        """Share of recent requests that succeeded; None: not known."""
        total = self.good + self.bad
        return self.good / total if total > LIGHT else None


UNKNOWN = ProxyState()


class HostFailures(Struct, frozen=True, omit_defaults=True):
    """A host where something went wrong, through any proxy."""

    failing: float  # share of requests that fail there, through trusted proxies
    at: float = 0.0
    row: int = 0  # of these, failures in a row
    failed: tuple[str, ...] = ()  # all proxies that failed there since its last answer


class PoolState(Struct, frozen=True, omit_defaults=True):
    proxies: dict[str, ProxyState] = {}
    sites: dict[str, HostFailures] = {}
    failing: float = USUAL  # share of requests that fail at an unknown host
    uses: dict[str, HostUse] = {}  # by host


class ProxyObservation(Struct, frozen=True):
    """What one request showed about a proxy. Times are the frontier's."""

    proxy: str
    host: str
    sign: Sign
    started: float
    ended: float
    kind: str = ""
    asked: bool = False  # False: it is about a request that was recorded before
    bytes: int = 0  # received
    cost: float = 0.0


# -- what it says


def condition(proxy: ProxyState, now: float) -> str:
    """The condition of a proxy, in a few words."""
    hold = proxy.hold
    if hold.strikes and now < hold.until:
        return f"down: {hold.reason}"
    if hold.strikes:
        return f"to be probed: {hold.reason}"
    reasons = [
        pair.hold.reason for pair in proxy.hosts.values() if pair.hold.strikes and now < pair.hold.until
    ]
    banned = reasons.count("banned")
    found = [(banned, "banned by"), (len(reasons) - banned, "fails at")]
    told = [f"{words} {count} host{'s' if count > 1 else ''}" for count, words in found if count]
    return ", ".join(told) or "ok"


def is_held(state: PoolState, name: str, now: float) -> bool:
    hold = state.proxies[name].hold if name in state.proxies else FREE
    return hold.strikes > 0 and now < hold.until


def is_believed(state: PoolState, name: str, now: float) -> bool:
    """Whether a failure through the proxy says anything about the host."""
    standing = reputation(state.proxies.get(name, UNKNOWN), now)
    return standing == "proven" or (standing == "fresh" and not is_any_proven(state, now))


def serves_well(state: PoolState, name: str, now: float) -> bool:
    """Whether it had an answer lately and is hardly suspected."""
    return reputation(state.proxies.get(name, UNKNOWN), now) == "proven"


def reputation(proxy: ProxyState, now: float) -> Reputation:
    if proxy.hold.strikes:
        return "doubtful"
    if is_proven(proxy, now):
        return "proven" if proxy.suspicion <= _BELIEVED else "doubtful"
    return "fresh" if len(proxy.hosts) <= 1 else "doubtful"


def is_proven(proxy: ProxyState, now: float) -> bool:
    return proxy.good * weight_left(proxy.at, now) > LIGHT


def is_any_proven(state: PoolState, now: float) -> bool:
    return any(is_proven(proxy, now) for proxy in state.proxies.values())


def failed_at(site: HostFailures | None, now: float) -> tuple[str, ...]:
    return site.failed if site is not None and is_recent(site, now) else ()


def is_recent(site: HostFailures, now: float) -> bool:
    return now - site.at < HALF_LIFE


def evidence(proxy: ProxyState, host: str, now: float) -> tuple[float, float]:
    """Successes and failures that count at the host."""
    kept = weight_left(proxy.at, now)
    good, bad = proxy.good * kept, proxy.bad * kept
    share = min(1.0, _OVERALL / (good + bad)) if good + bad else 1.0
    good, bad = _PRIOR[0] + good * share, _PRIOR[1] + bad * share
    pair = proxy.hosts.get(host)
    if pair is not None:
        kept = weight_left(pair.at, now)
        good, bad = good + pair.good * kept, bad + pair.bad * kept
    return good, bad


def weight_left(then: float, now: float) -> float:
    return 0.5 ** (max(0.0, now - then) / HALF_LIFE) if then else 1.0


# -- kept small


def pruned(state: PoolState, now: float) -> PoolState:
    """The state without old entries, and bounded in size."""
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
    proxies = {name: replace(proxy, hosts=kept[name]) for name, proxy in sorted(state.proxies.items())}
    sites = [(host, site) for host, site in state.sites.items() if is_recent(site, now)]
    sites.sort(key=lambda found: found[1].at, reverse=True)
    return replace(state, proxies=proxies, sites=dict(sites[:SITES]), uses=bounded(state.uses))


def _says_something(pair: Pair, now: float) -> bool:
    if pair.hold.strikes and now < pair.hold.until + _FORGIVEN:
        return True
    return pair.bad * weight_left(pair.at, now) > LIGHT
