"""Learns from the outcome of each request about its proxy and its host, and decides which of them failed. Pure.

    sign of a proxy   at a host      effect
    ───────────────   ───────────    ─────────────────────────────────────────────────────────────────────
    good              good           the estimate rises, suspicion falls; a quarantine being probed is lifted
    neutral           -              the host failed, certainly: the request is counted, nothing else
    -                 doubt          the pair's estimate falls (429, 403)
    failed            failed         the proxy's fault or the host's: both are suspected, by what others met there
    -                 banned         certain: quarantine of the pair
    down              -              certain: quarantine of the proxy

A quarantine ends after a cooldown with one probe, by the process that reserves it first (`reserve`); a failed probe
doubles the cooldown. A request that started before the quarantine ended is no probe.

One request does not show whether proxy or host is at fault. Two rules decide:

- **Suspicion** of a proxy is a running sum (Page's CUSUM) over its outcomes: how much likelier each is for a broken
  proxy than for one that meets what the others meet at that host. A failure where the others succeed weighs much, a
  failure where they fail too weighs nothing, a success subtracts. Above a limit the proxy goes into quarantine; if it
  works for other hosts, only for this host.
- **The host** is to blame when two proxies have failed there with no answer in between: one that had an answer from any
  host lately and is not suspected, and another such, or one that has failed nowhere else. While no proxy had an answer
  from any host, it takes several that have failed nowhere else; if they failed elsewhere, the pool does not work.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec.structs import replace

from shoal.policy.proxy_choice import Choice, ProxyChooser
from shoal.policy.proxy_state import (
    FREE,
    LIGHT,
    UNKNOWN,
    USUAL,
    HostFailures,
    Pair,
    PoolState,
    ProxyObservation,
    ProxyState,
    Quarantine,
    failed_at,
    is_any_proven,
    is_believed,
    is_proven,
    reputation,
    weight_left,
)
from shoal.policy.proxy_use import HostUse, time_bucket, with_use

_MOST_DOUBLINGS = 6  # of the cooldown
_DOWN_AFTER = 2  # failures in a row; a single one may be brief
_BANNED_AFTER = 2
_SURE = frozenset({"proxy_auth", "gateway_auth"})  # one is enough, if the proxy has never worked
_ALWAYS_SURE = frozenset({"gateway_quota", "gateway_limit"})  # … whenever it is said
_SMOOTHING = 0.2
_BROKEN = 0.98  # share of its requests that fail through a broken proxy
# Suspicion: four failures in a row where others succeed, a dozen where every other request fails.
_QUARANTINE = 9.0
_LEARNING = 0.1  # weight of the last outcome in what is expected at a host …
_LEARNING_POOL = 0.05  # … and elsewhere
_IN_A_ROW = 0.7  # factor of the expected success after each failure in a row
_WITNESSES = 2  # that blame a host, one of them proven
_UNPROVEN = 5  # … while no proxy of the pool had an answer from anywhere
_MOST_FAILED = 8  # proxies that failed at a host and are stored


class ProxyPolicy(ProxyChooser):
    # -- observing

    def observe(self, state: PoolState, seen: ProxyObservation) -> PoolState:
        proxy = self._observe(state, seen)
        uses = (
            with_use(state.uses, seen.host, _use_of(seen))
            if seen.asked or seen.sign == "doubt"
            else state.uses
        )
        state = replace(state, proxies={**state.proxies, seen.proxy: proxy}, uses=uses)
        return state if seen.sign == "down" else _learnt(state, seen)

    def _observe(self, state: PoolState, seen: ProxyObservation) -> ProxyState:
        proxy = state.proxies.get(seen.proxy, UNKNOWN)
        kept = weight_left(proxy.at, seen.ended)
        expected = _expected(state, seen.host)
        evidence = _evidence_of(state, seen, expected)
        proxy = replace(proxy, suspicion=max(0.0, proxy.suspicion * kept + evidence))
        return ProxyState(
            requests=proxy.requests + 1,
            good=proxy.good * kept + (seen.sign == "good"),
            bad=proxy.bad * kept + _badness(seen, expected),
            at=max(proxy.at, seen.ended),
            latency=_smoothed(proxy.latency, seen),
            hold=(hold := self._judged(proxy, seen, expected)),
            hosts=self._at_hosts(proxy.hosts, seen, evidence, expected),
            suspicion=0.0 if hold.strikes else proxy.suspicion,
        )

    def _judged(self, proxy: ProxyState, seen: ProxyObservation, expected: float) -> Quarantine:
        """Its quarantine after the observation."""
        hold = proxy.hold
        if seen.sign == "down":
            sure = seen.kind in _ALWAYS_SURE or (seen.kind in _SURE and proxy.good < LIGHT)
            after = 1 if sure else _DOWN_AFTER
            return self._struck(hold, seen, after, seen.kind)
        if _is_failure(seen):
            return self._suspected(hold, proxy.suspicion, seen, expected)
        return _passed(hold, seen)  # it let a request through, whatever came of it

    def _suspected(
        self, hold: Quarantine, suspicion: float, seen: ProxyObservation, expected: float
    ) -> Quarantine:
        if hold.strikes and expected >= 0.5:  # a probe at a host where others fail too shows nothing
            return replace(hold, probing=0.0)
        if hold.strikes or suspicion >= _QUARANTINE:
            return self._struck(hold, seen, 1, seen.kind)
        return hold

    def _at_hosts(
        self, hosts: dict[str, Pair], seen: ProxyObservation, evidence: float, expected: float
    ) -> dict[str, Pair]:
        pair = hosts.get(seen.host)
        tells = seen.sign in ("doubt", "failed", "banned") or (seen.sign == "good" and pair is not None)
        if not tells:
            return hosts
        return {**hosts, seen.host: self._at_host(pair or Pair(), seen, evidence, expected)}

    def _at_host(self, pair: Pair, seen: ProxyObservation, evidence: float, expected: float) -> Pair:
        kept, good, hold = weight_left(pair.at, seen.ended), seen.sign == "good", pair.hold
        suspicion = max(0.0, pair.suspicion * kept + evidence)
        if seen.sign == "banned":
            hold = self._struck(hold, seen, _BANNED_AFTER, "banned")
        elif seen.sign == "failed":
            hold = self._suspected(hold, suspicion, seen, expected)
        elif good:
            hold = _passed(hold, seen)
        bad = _badness(seen, expected) if seen.sign == "failed" else float(not good)
        return Pair(
            good=pair.good * kept + good,
            bad=pair.bad * kept + bad,
            at=max(pair.at, seen.ended),
            hold=hold,
            suspicion=0.0 if hold.strikes else suspicion,
        )

    def _struck(self, hold: Quarantine, seen: ProxyObservation, after: int, reason: str) -> Quarantine:
        if hold.strikes and seen.started < hold.until:
            return hold
        row = hold.row + 1
        if not hold.strikes and row < after:
            return Quarantine(row=row, reason=reason)
        cooldown = self._cooldown * 2.0 ** min(hold.strikes, _MOST_DOUBLINGS)
        return Quarantine(row, hold.strikes + 1, seen.ended + cooldown, reason=reason)

    # -- blaming

    def blames_host(self, state: PoolState, names: Sequence[str], host: str, proxy: str, now: float) -> bool:
        """Whether a failure through the proxy, just observed, is the host's fault."""
        if len(names) == 1:
            return True  # there is no other proxy
        if reputation(state.proxies.get(proxy, UNKNOWN), now) == "doubtful":
            return False
        free = sum(name not in state.proxies or not state.proxies[name].hold.strikes for name in names)
        failed = failed_at(state.sites.get(host), now)
        standings = [reputation(state.proxies.get(name, UNKNOWN), now) for name in failed]
        if not is_any_proven(state, now):
            return standings.count("fresh") >= min(_UNPROVEN, free)
        witnesses = len(standings) - standings.count("doubtful")
        return "proven" in standings and witnesses >= min(_WITNESSES, free)

    def reserve(self, state: PoolState, choice: Choice, host: str, now: float, seconds: float) -> PoolState:
        """Reserves the probe: nobody else may probe for `seconds`, or until its result is known."""
        proxy = state.proxies[choice.proxy]
        if choice.probe == "proxy":
            proxy = replace(proxy, hold=replace(proxy.hold, probing=now + seconds))
        else:
            pair = proxy.hosts[host]
            pair = replace(pair, hold=replace(pair.hold, probing=now + seconds))
            proxy = replace(proxy, hosts={**proxy.hosts, host: pair})
        return replace(state, proxies={**state.proxies, choice.proxy: proxy})


def _use_of(seen: ProxyObservation) -> HostUse:
    if not seen.asked:
        return HostUse(good=-1, refused=1)  # it was taken for good, and is a captcha
    good, refused = seen.sign == "good", seen.sign in ("doubt", "banned")
    times = time_bucket(seen.ended - seen.started) if good else ()
    return HostUse(1, int(good), int(refused), seen.bytes, seen.cost, times)


def _is_failure(seen: ProxyObservation) -> bool:
    """Whether proxy or host may be at fault. A proxy that refuses to connect does not work, or not for this host."""
    return seen.sign == "failed" or seen.kind == "proxy_refused"


def _expected(state: PoolState, host: str) -> float:
    """Share of the requests to the host that fail through a good proxy."""
    site = state.sites.get(host)
    failing = state.failing if site is None else max(site.failing, 1.0 - _IN_A_ROW**site.row)
    return min(_BROKEN, max(USUAL, failing))


def _evidence_of(state: PoolState, seen: ProxyObservation, expected: float) -> float:
    """How much likelier such an outcome is for a broken proxy, as a logarithm. 0 for the only proxy that has worked:
    there is none to compare it with."""
    if _is_failure(seen):
        proven = [name for name, proxy in state.proxies.items() if is_proven(proxy, seen.ended)]
        return 0.0 if proven == [seen.proxy] else math.log(_BROKEN / expected)
    return math.log((1 - _BROKEN) / (1 - expected)) if seen.sign == "good" else 0.0


def _badness(seen: ProxyObservation, expected: float) -> float:
    """How much of a failure counts against the proxy."""
    return 1.0 - expected if seen.sign == "failed" else float(seen.sign == "down")


def _learnt(state: PoolState, seen: ProxyObservation) -> PoolState:
    """The state with what the request shows about its host, and about hosts in general."""
    failed, site = _is_failure(seen), state.sites.get(seen.host)
    if failed:
        others = tuple(name for name in failed_at(site, seen.ended) if name != seen.proxy)
        site = replace(site or HostFailures(state.failing), failed=(*others, seen.proxy)[-_MOST_FAILED:])
    elif site is not None:
        site = replace(site, row=0, failed=())
    if (failed or seen.sign == "good") and is_believed(state, seen.proxy, seen.ended):
        if site is not None:
            failing = site.failing + (failed - site.failing) * _LEARNING
            site = replace(site, failing=failing, row=site.row + 1 if failed else 0)
        if is_proven(state.proxies[seen.proxy], seen.ended):
            failing = state.failing + (failed - state.failing) * _LEARNING_POOL
            state = replace(state, failing=failing)
    return state if site is None else _with(state, seen.host, replace(site, at=max(site.at, seen.ended)))


def _with(state: PoolState, host: str, site: HostFailures) -> PoolState:
    sites = {**state.sites, host: site}
    if site.failing < LIGHT and not site.failed:
        del sites[host]
    return replace(state, sites=sites)


def _passed(hold: Quarantine, seen: ProxyObservation) -> Quarantine:
    return hold if hold.strikes and seen.started < hold.until else FREE


def _smoothed(latency: float, seen: ProxyObservation) -> float:
    if seen.sign != "good":
        return latency
    took = max(0.0, seen.ended - seen.started)
    return latency + (took - latency) * _SMOOTHING if latency else took
