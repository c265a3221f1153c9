"""What is told about a host: that its breaker opened or closed, that it was given up, that pages need a browser."""

from __future__ import annotations

from shoal.events import event
from shoal.policy.breaker import BreakerPolicy, BreakerState
from shoal.policy.compose import States, origins_of, state_name
from shoal.policy.escalation import Pattern, reason


def tell_changes(host: str, before: States, after: States, now: float) -> None:
    """By whoever saw the change, so each is told once."""
    for scheme, _, new in changed_breakers(before, after):
        origin, seconds = f"{scheme}://{host}", round(max(0.0, new.until - now), 1)
        if new.phase == "closed":
            event("breaker_closed", host=host, origin=origin)
        elif new.phase == "given_up":
            event("host_given_up", host=host, origin=origin, reason=new.reason, seconds=seconds)
        else:
            event("breaker_opened", host=host, origin=origin, reason=new.reason, seconds=seconds)


def changed_breakers(before: States, after: States) -> list[tuple[str, BreakerState, BreakerState]]:
    """The origins whose breaker is in another phase now, with what it was before."""
    found = []
    if before is not after:
        for scheme in sorted(origins_of(after)):
            name = state_name(BreakerPolicy.name, scheme)
            old, new = before.get(name, BreakerState()), after.get(name)
            if isinstance(old, BreakerState) and isinstance(new, BreakerState) and old.phase != new.phase:
                found.append((scheme, old, new))
    return found


def tell_escalation(host: str, name: str, pattern: Pattern | None) -> None:
    """That a pattern of URLs goes to the browser from now on, or no longer does."""
    if pattern is not None and pattern.browser:
        event("escalation_learned", host=host, pattern=name, reason=reason(pattern))
    else:
        event("escalation_given_back", host=host, pattern=name)
