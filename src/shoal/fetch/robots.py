"""robots.txt by RFC 9309: fetching it, what its absence means, and asking it.

2xx                      the rules hold
4xx, too many redirects  no rules: everything is allowed
429, 5xx, no answer      everything is forbidden until it answers
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct
from protego import Protego
from yarl import URL

from shoal.fetch.transport import FetchRequest, Transport
from shoal.model import Failure, Outcome, Response

MAX_BYTES = 500 * 1024
MAX_HOPS = 5
RULES_TTL = 24 * 3600.0
UNREACHABLE_TTL = 60.0

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TOKEN = re.compile(r"(?:Mozilla/[\d.]+ \(compatible; )?([A-Za-z0-9_-]+)")

RobotsVerdict = Literal["rules", "allow", "disallow"]


class RobotsRecord(Struct, frozen=True):
    """What a host's robots.txt said, and how long that holds."""

    verdict: RobotsVerdict
    fetched_at: float
    expires_at: float
    text: str = ""
    reason: str = ""  # why it is not "rules": "HTTP 503", "timeout" …


async def fetch_robots(
    transport: Transport,
    origin: str,
    *,
    now: float,
    pause: Callable[[], Awaitable[None]],
    timeout: float | None = None,
) -> RobotsRecord:
    """Asks `origin` (scheme://host:port) for its robots.txt, following redirects in place.

    `pause` is awaited before a host is asked once more, so that it may keep its interval.
    """
    url: str | None = origin.rstrip("/") + "/robots.txt"
    asked: set[str] = set()
    for _ in range(MAX_HOPS + 1):
        if url is None:
            return _record("allow", now, reason="a redirect to nowhere")
        host = urlsplit(url).netloc
        if host in asked:
            await pause()
        asked.add(host)
        outcome = await transport.fetch(_request(url, timeout))
        if not (isinstance(outcome, Response) and outcome.status in _REDIRECTS):
            return _judge(outcome, now)
        url = _target(url, outcome.headers.get("Location", ""))
    return _record("allow", now, reason=f"more than {MAX_HOPS} redirects")


def _request(url: str, timeout: float | None) -> FetchRequest:
    return FetchRequest(url=url, max_body=MAX_BYTES + 1, truncate=True, total_timeout=timeout)


class Robots:
    """A parsed record, asked on behalf of one user agent."""

    def __init__(self, verdict: RobotsVerdict, rules: Protego | None, token: str) -> None:
        self._verdict = verdict
        self._rules = rules
        self._token = token

    def __repr__(self) -> str:
        return f"Robots({self._verdict} for {self._token})"

    @classmethod
    def of(cls, record: RobotsRecord, user_agent: str) -> Robots:
        rules = Protego.parse(record.text) if record.verdict == "rules" else None
        return cls(record.verdict, rules, product_token(user_agent))

    def allows(self, url: str) -> bool:
        if self._rules is not None:
            return self._rules.can_fetch(url, self._token)
        return self._verdict != "disallow" or urlsplit(url).path == "/robots.txt"

    def crawl_delay(self) -> float | None:
        return self._rules.crawl_delay(self._token) if self._rules is not None else None

    def sitemaps(self) -> list[str]:
        return list(self._rules.sitemaps) if self._rules is not None else []


def product_token(user_agent: str) -> str:
    """The name that robots.txt groups are matched by: "Shoal/0.1 (+…)" goes by "Shoal"."""
    found = _TOKEN.match(user_agent)
    return found[1] if found else "*"


def _judge(outcome: Outcome, now: float) -> RobotsRecord:
    if isinstance(outcome, Failure):
        return _record("disallow", now, reason=outcome.kind)
    if 200 <= outcome.status < 300:
        return _record("rules", now, text=_text(outcome.body))
    reason = f"HTTP {outcome.status}"
    if outcome.status == 429 or outcome.status >= 500:
        return _record("disallow", now, reason=reason)
    return _record("allow", now, reason=reason)


def _record(verdict: RobotsVerdict, now: float, *, text: str = "", reason: str = "") -> RobotsRecord:
    ttl = UNREACHABLE_TTL if verdict == "disallow" else RULES_TTL
    return RobotsRecord(verdict, fetched_at=now, expires_at=now + ttl, text=text, reason=reason)


def _text(body: bytes) -> str:
    if len(body) > MAX_BYTES:
        # The line that was cut through goes too: half of "Disallow: /private" would forbid the whole site.
        body = body[:MAX_BYTES].rpartition(b"\n")[0]
    return body.decode("utf-8-sig", "replace")


def _target(url: str, location: str) -> str | None:
    """Where a redirect leads; None if nowhere that can be fetched."""
    if not location.strip():
        return None
    try:
        target = URL(url).join(URL(location.strip())).with_user(None)
    except (ValueError, IndexError):  # the latter for "//[]@"
        return None
    return str(target) if target.scheme in ("http", "https") else None
