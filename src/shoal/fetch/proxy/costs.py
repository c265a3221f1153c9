"""What a request through a pool costs, by the prices in its settings."""

from __future__ import annotations

from shoal.fetch.proxy.signs import is_free
from shoal.model import Outcome, Response
from shoal.settings import PoolSettings

_GB = 1e9
_LINE = 4  # bytes of a header besides its name and value


def received(outcome: Outcome) -> int:
    """The bytes of an answer, as they came; without those of TLS."""
    if not isinstance(outcome, Response):
        return 0
    head = sum(len(name) + len(value) + _LINE for name, value in outcome.headers.items())
    return outcome.wire_bytes + head


def cost_of(own: PoolSettings | None, outcome: Outcome, size: int) -> float:
    """Nothing for a request that the proxy or gateway did not take, or for which a gateway has no page."""
    if own is None or is_free(outcome):
        return 0.0
    times = 1.0
    if own.cost_header and isinstance(outcome, Response):
        times = _number(outcome.headers.get(own.cost_header, ""))
    return (own.cost or 0.0) * times + own.cost_per_gb * size / _GB


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        return 1.0
    return number if 0 <= number < 1e9 else 1.0
