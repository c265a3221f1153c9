"""All policies of a host as one: each sees every observation, and the strictest limit holds. And the host's valve.

A policy with a state for each origin stores them as "breaker@http" and "breaker@https".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import cast

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from shoal.errors import SettingsError
from shoal.policy.breaker import BreakerPolicy
from shoal.policy.concurrency import AimdPolicy, first_at_once
from shoal.policy.protocol import NO_LIMITS, AnyPolicy, Limits, Observation, mildest, strictest
from shoal.policy.rate import RatePolicy
from shoal.policy.retry import BudgetPolicy
from shoal.policy.timeout import TimeoutPolicy
from shoal.settings import Settings
from shoal.text import UNREADABLE, error_line
from shoal.valve import DomainLimit, Valve

# By the name of the policy, and of the origin where there is one (`state_name`). Raw: the state of a policy that this
# process does not use; it is kept for processes that do.
States = Mapping[str, Struct | Raw]

AT = "@"

BUILT_IN: Mapping[str, type[AnyPolicy]] = {
    policy.name: policy for policy in (RatePolicy, AimdPolicy, BreakerPolicy, TimeoutPolicy, BudgetPolicy)
}

_encode = msgspec.msgpack.Encoder().encode
_decode_all = msgspec.msgpack.Decoder(dict[str, Raw]).decode


class HostPolicies:
    """The policies that the settings name, in their order."""

    def __init__(self, settings: Settings) -> None:
        self._policies: dict[str, AnyPolicy] = {}
        for entry in settings.policies:
            policy = _made(entry, settings)
            if AT in policy.name:
                raise SettingsError(
                    f"policies: {policy.name!r} is no name for a policy: leave {AT} out of it"
                )
            if policy.name in self._policies:
                raise SettingsError(f"policies: two are named {policy.name!r}; leave one out")
            self._policies[policy.name] = policy
        self._per_origin = {name for name, policy in self._policies.items() if is_per_origin(policy)}
        self._unseen = {name: policy.State() for name, policy in self._policies.items()}
        self._initial: States = {
            name: state for name, state in self._unseen.items() if name not in self._per_origin
        }
        self._decoders = {
            name: msgspec.msgpack.Decoder(policy.State) for name, policy in self._policies.items()
        }

    def initial(self) -> States:
        """The states of a host never seen."""
        return self._initial

    def observe(self, states: States, observations: Sequence[Observation]) -> States:
        """The states after the observations; the same object if nothing changed."""
        changed: dict[str, Struct | Raw] = {}
        for name, policy in self._policies.items():
            by_key = {name: observations}
            if name in self._per_origin:
                by_key = _by_origin(name, observations)
            observe, unseen = policy.observe, self._unseen[name]
            for key, seen in by_key.items():
                before = state = states.get(key, unseen)
                for one in seen:
                    state = observe(state, one)
                if state is not before:
                    changed[key] = state
        return {**states, **changed} if changed else states

    def limits(self, states: States, now: float, origins: Iterable[str] = ()) -> Limits:
        """The limits for the host's valve. `origins`: known ones, besides those with a state."""
        return strictest(list(self.opinions(states, now, origins).values()))

    def opinions(self, states: States, now: float, origins: Iterable[str] = ()) -> Mapping[str, Limits]:
        """The limits of each policy, by its name."""
        known = {*origins, *origins_of(states)}
        return {
            name: mildest(self._opinion(name, states, now, origin) for origin in sorted(known))
            if name in self._per_origin
            else policy.limits(states[name], now)
            for name, policy in self._policies.items()
        }

    def limits_at(self, states: States, now: float, origin: str) -> Limits:
        """The limits for a request to that origin."""
        return strictest([self._opinion(name, states, now, origin) for name in self._policies])

    def spares_origins(self, states: States, now: float) -> bool:
        """Whether the policies by origin limit none, so that the host's limits are enough for every request."""
        return not self._per_origin or all(
            self._opinion(name, states, now, origin) == NO_LIMITS
            for origin in origins_of(states)
            for name in self._per_origin
        )

    def opinions_at(self, states: States, now: float, origin: str) -> Mapping[str, Limits]:
        """The limits of the policies by origin."""
        return {name: self._opinion(name, states, now, origin) for name in sorted(self._per_origin)}

    def _opinion(self, name: str, states: States, now: float, origin: str) -> Limits:
        key = state_name(name, origin) if name in self._per_origin else name
        return self._policies[name].limits(states.get(key, self._unseen[name]), now)

    def encode(self, states: States) -> bytes:
        """The states that differ from a host never seen; b"" if none does."""
        known = {
            name: state for name, state in states.items() if state != self._unseen.get(name.partition(AT)[0])
        }
        return _encode(known) if known else b""

    def decode(self, data: bytes) -> States:
        """A state that another version wrote, and that does not fit its policy, counts as never seen."""
        states = dict(self._initial)
        for key, raw in _parts(data).items():
            name, at, _ = key.partition(AT)
            decoder = self._decoders.get(name)
            if decoder is None:
                states[key] = raw
                continue
            if bool(at) != (name in self._per_origin):
                continue
            try:
                states[key] = decoder.decode(raw)
            except UNREADABLE:
                pass
        return states


def is_per_origin(policy: AnyPolicy) -> bool:
    return bool(getattr(policy, "per_origin", False))


def state_name(policy: str, origin: str) -> str:
    """The name of a policy's state for one origin."""
    return f"{policy}{AT}{origin}"


def _by_origin(policy: str, observations: Sequence[Observation]) -> dict[str, Sequence[Observation]]:
    found: dict[str, list[Observation]] = {}
    for seen in observations:
        found.setdefault(seen.origin, []).append(seen)
    return {state_name(policy, origin): seen for origin, seen in found.items()}


def origins_of(states: States) -> set[str]:
    """The origins that have a state."""
    return {origin for _, at, origin in (name.partition(AT) for name in states) if at}


def _parts(data: bytes) -> dict[str, Raw]:
    try:
        return _decode_all(data) if data else {}
    except UNREADABLE:
        return {}


# -- finding policies


def _made(entry: str, settings: Settings) -> AnyPolicy:
    kind = BUILT_IN.get(entry) or _imported(entry)
    try:
        policy: AnyPolicy = kind(settings)
        policy.State()
    except SettingsError:
        raise
    except Exception as error:
        raise SettingsError(f"policies: {entry!r} cannot be made: {error_line(error)}") from error
    return policy


def _imported(entry: str) -> type[AnyPolicy]:
    module, colon, name = entry.partition(":")
    if not (colon and module and name):
        names = ", ".join(BUILT_IN)
        raise SettingsError(f"policies: {entry!r} is not a policy; write one of {names}, or module:Class")
    try:
        found: object = getattr(import_module(module), name, None)
    except Exception as error:
        raise SettingsError(f"policies: {entry!r} cannot be imported: {error_line(error)}") from error
    if found is None:
        raise SettingsError(f"policies: {entry!r} cannot be imported: {module} has no {name}")
    if (missing := _missing(found)) is not None:
        raise SettingsError(f"policies: {entry!r} is not a policy: it needs {missing}")
    return cast("type[AnyPolicy]", found)


def _missing(found: object) -> str | None:
    """What a class lacks to be a policy; None: nothing."""
    if not isinstance(found, type):
        return "to be a class"
    if not isinstance(getattr(found, "name", None), str):
        return "a name, a string"
    state = getattr(found, "State", None)
    if not (isinstance(state, type) and issubclass(state, Struct)):
        return "a State, a msgspec Struct whose fields all have defaults"
    return next((f"{verb}()" for verb in ("observe", "limits") if not hasattr(found, verb)), None)


# -- a host's valve, from settings, robots.txt, the policies and a person's orders


def first_valve(settings: Settings) -> Valve:
    """For a new host. One request may run until its robots.txt is known, so that one worker asks for it; and where
    hosts have settings of their own, until these are written."""
    valve = configured(Valve(), settings, crawl_delay=None, robots_known=False)
    return replace(valve, cap=1) if settings.host else valve


_RATE_OF_DOMAIN, _PLACES_OF_DOMAIN = 5.0, 4  # times those of a host


def domain_limit(settings: Settings) -> DomainLimit:
    """The limit for all hosts of a registrable domain together, never stricter than that of a host never seen."""
    rate = settings.rate * _RATE_OF_DOMAIN if settings.domain_rate is None else settings.domain_rate
    places = first_at_once(settings)
    cap = places * _PLACES_OF_DOMAIN if settings.per_domain is None else settings.per_domain
    return DomainLimit(
        interval=1 / max(rate, settings.rate) if rate and settings.rate else 0.0,
        cap=max(cap, places) if cap else 0,
    )


def configured(
    current: Valve,
    settings: Settings,
    *,
    crawl_delay: float | None,
    robots_known: bool,
    limits: Limits = NO_LIMITS,
    blocked_until: float = 0.0,
) -> Valve:
    """The valve with the strictest of all limits. `settings` are those of the host (policy/host_table.py);
    `blocked_until` is set by a person."""
    if limits.refuse:
        # Its tasks are buried unfetched, which need not be slow.
        return replace(current, interval=0.0, cap=settings.concurrency, blocked_until=blocked_until)
    interval = 1 / settings.rate if settings.rate else 0.0
    if settings.robots and crawl_delay is not None:
        interval = max(interval, min(crawl_delay, settings.max_crawl_delay))
    cap = first_at_once(settings)
    if limits.cap is not None:
        raised = settings.per_host == "auto" and AimdPolicy.name in settings.policies
        cap = max(1, limits.cap if raised else min(cap, limits.cap))
    return replace(
        current,
        interval=max(interval, limits.interval or 0.0),
        burst=settings.burst,
        cap=cap if robots_known or not settings.robots else 1,
        blocked_until=max(blocked_until, limits.blocked_until or 0.0),
    )
