"""What the outcome of a request through a proxy shows at first sight: whose fault it may be."""

from __future__ import annotations

from shoal.fetch.transport import FetchRequest
from shoal.model import Failure, Outcome, Response
from shoal.policy.proxy_state import Sign

BAN = "proxy_ban"

_DOWN = frozenset(
    {
        *("proxy_connect", "proxy_timeout", "proxy_auth"),
        *("gateway_down", "gateway_auth", "gateway_quota", "gateway_limit"),
    }
)
_NOT_REACHED = _DOWN | {"proxy_refused", "proxy_gateway"}
_EITHERS_FAULT = frozenset(
    {
        *("timeout", "read_timeout", "connect_timeout", "too_slow"),
        *("reset", "truncated", "protocol", "encoding", "flood", "tls"),
    }
)
REFUSALS = frozenset({403, 451})  # a host may mean the proxy with these, not the page


def is_free(outcome: Outcome) -> bool:
    """Whether a provider has done nothing that it would charge for."""
    return isinstance(outcome, Failure) and (outcome.kind in _DOWN or outcome.kind.startswith("gateway"))


def takes_another(request: FetchRequest, outcome: Outcome) -> bool:
    """Whether the fetch is repeated at once through another proxy: the host was not reached, or it refused its
    robots.txt and may mean the proxy. That refusal would count as permission to fetch everything."""
    if isinstance(outcome, Failure):
        return outcome.kind in _NOT_REACHED
    return outcome.status in REFUSALS and request.url.endswith("/robots.txt")


def is_eithers_fault(request: FetchRequest, outcome: Outcome) -> bool:
    """Whether proxy or host may be at fault. Answers through a tunnel are the host's own; a request that it forwards, a
    proxy may answer itself."""
    if request.proxy is None:
        return False
    if isinstance(outcome, Failure):
        return outcome.kind in _EITHERS_FAULT
    return outcome.status >= 500 and request.proxy.forwards(request.url)


def sign_of(request: FetchRequest, outcome: Outcome) -> Sign:
    if is_eithers_fault(request, outcome):
        return "failed"
    if isinstance(outcome, Response):
        if outcome.status in REFUSALS or outcome.status == 429:
            return "doubt"
        return "neutral" if outcome.status >= 500 else "good"
    if outcome.kind in _DOWN:
        return "down"
    if outcome.kind == "proxy_refused":
        return "banned"
    return "failed" if outcome.kind in ("proxy_gateway", "gateway_error") else "neutral"
