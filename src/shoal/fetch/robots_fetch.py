"""robots.txt by RFC 9309: fetching it, what its absence means, and asking it.

2xx                      the rules hold
4xx, too many redirects  no rules: everything is allowed
429, 5xx, no answer      everything is forbidden until it answers
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from shoal.admit.identity import host_key
from shoal.admit.sending import redirect_url
from shoal.fetch.deadline import check_handed_back
from shoal.fetch.robots_rules import MAX_RULES, matcher, path_of, product_token, read
from shoal.fetch.transport import FetchRequest, Transport
from shoal.model import DOUBT, Failure, Outcome, Response
from shoal.policy.retry import retry_after

MAX_BYTES = 500 * 1024
MAX_HOPS = 5
RULES_TTL = 24 * 3600.0
UNREACHABLE_TTL = 60.0
OTHER_WAYS = 3
BUSY = "redirects to"  # the start of the reason when another host could not be asked yet

_BOM = b"\xef\xbb\xbf"  # some editors leave a part of it
_REDIRECTS = frozenset({301, 302, 303, 307, 308})

RobotsVerdict = Literal["rules", "allow", "disallow"]


class RobotsRecord(Struct, frozen=True, omit_defaults=True):
    """What a host's robots.txt says to our agent, and how long that holds."""

    verdict: RobotsVerdict
    fetched_at: float
    expires_at: float
    reason: str = ""  # why the verdict is not "rules": "HTTP 503", "timeout" …; or which rules were dropped
    agent: str = ""  # the product token whose rules these are, in lower case; "": for any agent
    rules: str = ""  # as fetch/robots_rules.py writes them
    delay: float | None = None
    sitemaps: tuple[str, ...] = ()
    detail: str = ""  # of a failure: one line for a person
    asks: float | None = None  # Retry-After in seconds
    status: int = 0  # of the answer, if the verdict comes from it

    def fits(self, agent: str) -> bool:
        """Whether it holds for that agent. (Rules without an agent are from an earlier version.)"""
        return self.agent == agent or (not self.agent and self.verdict != "rules")

    def allows(self, url: str) -> bool:
        """Whether the agent may fetch the URL."""
        if self.verdict == "rules":
            return matcher(self.rules).allows(url)
        return self.verdict != "disallow" or path_of(url) == "/robots.txt"


class OtherHosts(Protocol):
    """Other hosts, to which a robots.txt may redirect: they have limits of their own."""

    async def known(self, url: str) -> RobotsRecord | None:
        """The record of that URL, if it is known already."""
        ...

    def visit(self, host: str) -> AbstractAsyncContextManager[bool]:
        """Permission to send a request to that host; False: not now."""
        ...

    def remember(self, url: str, record: RobotsRecord) -> None:
        """Keeps the record of that URL."""
        ...


class AnyHost:
    """For a single page: every host may be asked."""

    async def known(self, url: str) -> RobotsRecord | None:
        return None

    @asynccontextmanager
    async def visit(self, host: str) -> AsyncIterator[bool]:
        yield True

    def remember(self, url: str, record: RobotsRecord) -> None:
        pass


async def fetch_robots(
    transport: Transport,
    origin: str,
    *,
    agent: str,
    now: float,
    pause: Callable[[], Awaitable[None]],
    other_hosts: OtherHosts,
    timeout: float | None = None,
) -> RobotsRecord:
    """Fetches the robots.txt of `origin` (scheme://host:port), follows redirects, and keeps what is for `agent`.

    `pause` is awaited before a second request to a host, to keep its interval.
    """
    url: str | None = f"{origin}/robots.txt"
    home = host = host_key(origin)
    async with AsyncExitStack() as visit:
        for hop in range(MAX_HOPS + 1):
            if url is None:
                return _record("allow", now, reason="a redirect to nowhere")
            last, host = host, host_key(url)
            if host not in (home, last):
                await visit.aclose()  # one host at a time: the next visit may wait
                if (known := await other_hosts.known(url)) is not None:
                    return known
                if not await visit.enter_async_context(other_hosts.visit(host)):
                    return _record("disallow", now, reason=f"{BUSY} {host}, which cannot be asked now")
            elif hop:
                await pause()
            outcome = await _ask(transport, _request(url, timeout), pause)
            if not (isinstance(outcome, Response) and outcome.status in _REDIRECTS):
                record = _judge(outcome, agent, now)
                if host != home:
                    other_hosts.remember(url, record)
                return record
            location = outcome.headers.get("Location", "").strip()
            url = redirect_url(location, url) if location else None
    return _record("allow", now, reason=f"more than {MAX_HOPS} redirects")


async def _ask(transport: Transport, request: FetchRequest, pause: Callable[[], Awaitable[None]]) -> Outcome:
    """A failure that may be the proxy's fault is tried through other proxies, before everything is forbidden."""
    outcome = await transport.fetch(request)
    for _ in range(OTHER_WAYS):
        if not (isinstance(outcome, Failure) and outcome.kind == DOUBT):
            break
        await pause()
        outcome = await transport.fetch(request)
    if isinstance(outcome, Failure):
        check_handed_back()
    return outcome


def _request(url: str, timeout: float | None) -> FetchRequest:
    return FetchRequest(url=url, max_body=MAX_BYTES + 1, truncate=True, total_timeout=timeout)


def agent_of(user_agent: str) -> str:
    """The product token in lower case, as in records."""
    return product_token(user_agent).lower()


def _judge(outcome: Outcome, agent: str, now: float) -> RobotsRecord:
    if isinstance(outcome, Failure):
        return replace(_record("disallow", now, reason=outcome.kind), detail=outcome.detail)
    if 200 <= outcome.status < 300:
        return rules_record(_text(outcome.body), agent, now)
    reason = f"HTTP {outcome.status}"
    if outcome.status == 429 or outcome.status >= 500:
        asks = retry_after(outcome.headers.get("Retry-After"), now, cap=RULES_TTL)
        return replace(_record("disallow", now, reason=reason), asks=asks, status=outcome.status)
    return replace(_record("allow", now, reason=reason), status=outcome.status)


def rules_record(text: str, agent: str, now: float) -> RobotsRecord:
    """The record of a robots.txt with that text."""
    found = read(text, agent)
    return RobotsRecord(
        "rules",
        fetched_at=now,
        expires_at=now + RULES_TTL,
        reason=f"too many rules: at most {MAX_RULES:,} of them are obeyed" if found.cut else "",
        agent=agent,
        rules=found.rules,
        delay=found.delay,
        sitemaps=found.sitemaps,
    )


def _record(verdict: RobotsVerdict, now: float, *, reason: str) -> RobotsRecord:
    ttl = UNREACHABLE_TTL if verdict == "disallow" else RULES_TTL
    return RobotsRecord(verdict, fetched_at=now, expires_at=now + ttl, reason=reason)


def _text(body: bytes) -> str:
    if len(body) > MAX_BYTES:
        # Without the line that was cut: half of "Disallow: /private" would forbid the whole site.
        body = body[:MAX_BYTES].rpartition(b"\n")[0]
    return body.lstrip(_BOM).decode("utf-8", "replace")
