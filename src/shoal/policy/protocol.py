"""What a host policy is: a pure function of observations, with a small state that is stored with the host.

Every worker applies its observations to the host's state and writes it back with compare-and-set, so a policy is
written once and acts for the whole fleet. It reads no clock, draws no random number and waits for nothing: times are in
the observations, and its wishes are in its limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from shoal.policy.escalation import Look
from shoal.policy.load import PROXY
from shoal.settings import Settings

TIMEOUTS = frozenset({"timeout", "connect_timeout", "read_timeout"})
# The request never reached the host, so it says nothing about it.
_NOT_SENT = frozenset(
    {"forbidden_address", "invalid_url", "invalid_request", "robots", "policy", "worker_lost", "unexpected"}
)


class Observation(Struct, frozen=True):
    """What one request showed about its host. Times are the frontier's."""

    started: float
    ended: float
    kind: str  # a row of policy/outcomes.py: "ok", "redirect", "http_429", "timeout" …
    blames_host: bool = False  # evidence against the host; proxy faults and our own bugs are not
    retry_after: float | None = None  # seconds the server asks for
    first_attempt: bool = True
    retried: bool = False  # it failed, and its task will be tried again
    interval: float = 0.0  # seconds between requests that the host was held to
    reached: bool = False  # the host answered something, even an error
    origin: str = ""  # the scheme of the request: "http", "https"
    look: Look | None = None  # what fetching the page without a browser gave, if that says anything

    @property
    def elapsed(self) -> float:
        """Seconds that the request took."""
        return max(0.0, self.ended - self.started)

    @property
    def answered(self) -> bool:
        """Whether the host did its part, even if the page was missing or our handler failed."""
        return not self.blames_host and self.kind not in _NOT_SENT and not self.kind.startswith(PROXY)


class Limits(Struct, frozen=True):
    """What a policy wants. None: no opinion. Where several have one, the strictest holds."""

    interval: float | None = None  # seconds between requests: the longest holds
    cap: int | None = None  # requests in flight: the smallest holds
    blocked_until: float | None = None  # the latest holds; may be in the past
    timeout: float | None = None  # seconds for one request: the shortest holds
    longest_timeout: float | None = None  # … for a page that was cut off before
    refuse: str | None = None  # tasks are buried unfetched, with this reason
    refuse_until: float | None = None  # … and tried again then: the latest holds
    no_retry: str | None = None  # a failure is final, with this reason
    # A request now is a probe: pages that failed so often leave it to others. 0: it is not one.
    probe: int = 0
    why: str = ""  # one sentence for a person, if something is being held back


NO_LIMITS = Limits()

S = TypeVar("S", bound=Struct)


class Policy(Protocol[S]):
    """What decides how a host is treated: a pure function of observations, with a small state that is stored with
    the host.

    It reads no clock, draws no random number and waits for nothing. It is made once per process with the settings,
    which do not change.

    A class with `per_origin = True` has a state for each origin of the host, which gets the observations of that
    origin. The host's valve follows the healthiest origin; a request also follows its own.
    """

    name: str  # the key of its state in the host's record
    State: type[S]  # a frozen msgspec Struct; State() is a host never seen

    def __init__(self, settings: Settings) -> None: ...

    def observe(self, state: S, seen: Observation) -> S:
        """The state after one more request. Requests end in any order."""
        ...

    def limits(self, state: S, now: float) -> Limits:
        """What the policy wants for a host in this state."""
        ...


AnyPolicy = Policy[Any]


def strictest(limits: Sequence[Limits]) -> Limits:
    """The strictest of several limits."""
    limits = [one for one in limits if one != NO_LIMITS]  # most have no opinion most of the time
    if len(limits) < 2:
        return limits[0] if limits else NO_LIMITS
    return Limits(
        interval=max((x.interval for x in limits if x.interval is not None), default=None),
        cap=min((x.cap for x in limits if x.cap is not None), default=None),
        blocked_until=max((x.blocked_until for x in limits if x.blocked_until is not None), default=None),
        timeout=min((x.timeout for x in limits if x.timeout is not None), default=None),
        longest_timeout=min(
            (x.longest_timeout for x in limits if x.longest_timeout is not None), default=None
        ),
        refuse=next((x.refuse for x in limits if x.refuse), None),
        refuse_until=max((x.refuse_until for x in limits if x.refuse_until is not None), default=None),
        no_retry=next((x.no_retry for x in limits if x.no_retry), None),
        probe=max(x.probe for x in limits),
        why="; ".join(x.why for x in limits if x.why),
    )


def mildest(limits: Iterable[Limits]) -> Limits:
    """The limits of the healthiest origin: a host may be asked as long as one of its origins may."""
    return min(limits, key=ease, default=NO_LIMITS)


def ease(limits: Limits) -> tuple[bool, float, bool]:
    """The key to compare limits by: the smaller, the sooner a request may go."""
    return limits.refuse is not None, limits.blocked_until or 0.0, limits.probe > 0
