"""What is told about a host: that its breaker opened or closed, that it was given up, that pages need a browser."""

from __future__ import annotations

from shoal.policy.breaker import BreakerPolicy, BreakerState
from shoal.policy.compose import States
from shoal.policy.escalation import Pattern, reason
from shoal.telling import event


def tell_changes(host: str, before: States, after: States, now: float) -> None:
    """By whoever saw the change, so each is told once."""
    if before is after:
        return
    old, new = before.get(BreakerPolicy.name), after.get(BreakerPolicy.name)
    if not (isinstance(old, BreakerState) and isinstance(new, BreakerState)) or old.phase == new.phase:
        return
    seconds = round(max(0.0, new.until - now), 1)
    if new.phase == "closed":
        event("breaker_closed", host=host)
    elif new.phase == "given_up":
        event("host_given_up", host=host, reason=new.reason, seconds=seconds)
    else:
        event("breaker_opened", host=host, reason=new.reason, seconds=seconds)


def tell_escalation(host: str, name: str, pattern: Pattern | None) -> None:
    """That a pattern of URLs goes to the browser from now on, or no longer does."""
    if pattern is not None and pattern.browser:
        event("escalation_learned", host=host, pattern=name, reason=reason(pattern))
    else:
        event("escalation_given_back", host=host, pattern=name)
