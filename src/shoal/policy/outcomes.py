"""From outcome to verdict: one table that says what each kind of outcome means and what follows.

`kind_of` names an outcome, `TABLE` has the rule for the name, `judge` turns the rule into a verdict. Failures outside a
fetch (a handler that raises, a robots.txt that forbids) are rows of the same table.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from shoal.limits import SNAPSHOT_HEADER, SNAPSHOT_HEADERS
from shoal.model import Dead, Failure, Outcome, Response, Retry, Snapshot, Task, Verdict
from shoal.model.built_in import takes_status
from shoal.policy import retry
from shoal.settings import Settings
from shoal.text import SECRET_HEADERS, without_secrets

Action = Literal["page", "follow", "retry", "bury"]


class Rule(Struct, frozen=True):
    action: Action
    blames_host: bool  # evidence against the host, for its breaker and its concurrency
    meaning: str
    attempts: int = 0  # after which it is buried, if max_attempts allows more; 0: those of max_attempts


def _page(meaning: str) -> Rule:
    return Rule("page", False, meaning)


def _retry(meaning: str, *, blames_host: bool, attempts: int = 0) -> Rule:
    return Rule("retry", blames_host, meaning, attempts)


def _bury(meaning: str, *, blames_host: bool = False) -> Rule:
    return Rule("bury", blames_host, meaning)


TABLE: dict[str, Rule] = {
    # -- answers
    "ok": _page("the page"),
    "not_modified": _page("unchanged since the version the request named"),
    "redirect": Rule("follow", False, "the page is elsewhere"),
    "http_304": _bury("unchanged, though the request named no version"),
    "http_3xx": _bury("a redirect that does not say where to"),
    "http_401": _bury("needs a login"),
    "http_403": _bury("the server refuses"),
    "http_404": _bury("not found"),
    "http_408": _retry("the server gave up waiting for the request", blames_host=True),
    "http_410": _bury("gone for good"),
    "http_425": _retry("too early", blames_host=False),
    "http_429": _retry("too many requests", blames_host=True),
    "http_4xx": _bury("the server rejects the request"),
    "http_500": _retry("the server failed", blames_host=True),
    "http_502": _retry("bad gateway", blames_host=True),
    "http_503": _retry("the server is overloaded or down for maintenance", blames_host=True),
    "http_504": _retry("the gateway timed out", blames_host=True),
    "http_5xx": _retry("the server failed", blames_host=True),
    "http_xxx": _bury("a status that HTTP does not define"),
    "challenge": _retry("a captcha or a wall against bots instead of the page", blames_host=True),
    "login_wall": _bury("a login form instead of the page"),
    "empty_shell": _retry("a page that is empty until its scripts have run", blames_host=False),
    # -- no answer
    "dns": _retry("the host name could not be resolved", blames_host=True),
    "dns_wait": _retry("many names of its domain are being looked up", blames_host=False),
    "connect": _retry("the connection was refused or the host is unreachable", blames_host=True),
    "connect_timeout": _retry("no connection in time", blames_host=True),
    "read_timeout": _retry("the server fell silent", blames_host=True),
    "timeout": _retry("not complete in time", blames_host=True),
    "too_slow": _retry("the answer dripped in, more slowly than min_rate", blames_host=True, attempts=2),
    "reset": _retry("the connection was lost before an answer", blames_host=True),
    "truncated": _retry("the body ended early or its framing is broken", blames_host=True),
    "protocol": _retry("not a valid HTTP answer", blames_host=True),
    "encoding": _retry("the body could not be decompressed", blames_host=False),
    # Over HTTP/2 it ends every exchange of the connection, so one such failure proves nothing about a page.
    "flood": _retry("the server sends without end what is no part of an answer", blames_host=True),
    # A bad certificate is not repaired during a crawl: retries would not help.
    "tls": _bury("no trustworthy TLS connection", blames_host=True),
    "too_large": _bury("the body is larger than max_body"),
    # -- proxies: no evidence against the host
    "proxy_connect": _retry("the proxy cannot be reached", blames_host=False),
    "proxy_timeout": _retry("the proxy could not be reached in time", blames_host=False),
    "proxy_auth": _retry("the proxy does not accept our user or password", blames_host=False),
    "proxy_refused": _retry("the proxy refuses to connect to this host", blames_host=False),
    "proxy_gateway": _retry(
        "the proxy could not reach the host, and no other has said so", blames_host=False
    ),
    "proxy_doubt": _retry("it failed, by the fault of this proxy or of the host", blames_host=False),
    "proxy_ban": _retry("the host refuses the proxy; another way is tried", blames_host=False),
    "proxy_wait": _retry("every proxy of its pool is in quarantine", blames_host=False),
    # -- gateways: no evidence against the host
    "gateway_down": _retry("the gateway cannot be reached", blames_host=False),
    "gateway_auth": _retry("the gateway does not accept our key", blames_host=False),
    "gateway_quota": _retry("the credits at the gateway are used up", blames_host=False),
    "gateway_limit": _retry("the gateway takes no more requests at the moment", blames_host=False),
    "gateway_error": _retry("the gateway could not fetch the page", blames_host=False),
    # -- the browser: no evidence against the host
    "browser_crash": _retry("the browser or its tab died with the page open", blames_host=False),
    "browser_wait": _retry("what the page was waited for did not appear", blames_host=False),
    "no_browser": _bury("the browser lane was asked for, but there is no browser"),
    "needs_browser": _retry("pages like it are empty without a browser", blames_host=False),
    # -- sessions that log in (`@spider.login`)
    "session_wait": _retry("its session is about to log in", blames_host=False),
    "logged_out": _retry("it was answered as to somebody who is not logged in", blames_host=False),
    "login_failed": _bury("its session could not log in"),
    # -- refused by Shoal
    "forbidden_address": _bury("a private or reserved address that is not allowed"),
    "invalid_url": _bury("not a URL that can be fetched"),
    "invalid_request": _bury("a method, header or body that cannot be sent"),
    "redirect_loop": _bury("redirected in a circle, or more often than max_redirects"),
    "robots": _bury("forbidden by robots.txt"),
    "robots_unreachable": _retry("robots.txt cannot be fetched, so nothing may be fetched", blames_host=True),
    "untrusted": _bury("a host that this worker's secret headers are not for"),
    "host_down": _bury("the host was given up after it failed every probe; tried again if it answers"),
    "origin_wait": _retry("its origin fails and is left alone for a while", blames_host=False),
    "turn_wait": _retry("the next turn of a host that its handler asks is too far away", blames_host=False),
    "policy": _bury("outside the limits of the crawl"),
    "not_archived": _bury("the cache does not have it, and with offline nothing is fetched"),
    # -- our side
    "handler": _bury("the handler raised an exception"),
    "retry_asked": _retry("the handler asked for the page again", blames_host=False),
    "handler_timeout": _bury("the handler did not finish within handler_timeout"),
    "transport": _retry(
        "the transport of the settings failed, or returned something else", blames_host=False
    ),
    "hook": _bury("a hook raised an exception, or did not finish within handler_timeout"),
    "junk": _bury("the handler yielded what is neither an item nor a request, or misused its page"),
    "row_refused": _bury("the database does not take a value that the page has for a column"),
    "second_look": _retry(
        "a field that is usually filled is empty: the page is looked at again", blames_host=False
    ),
    "rejected": _bury("an item that cannot be written, or that its schema refuses"),
    "webhook": _retry("a webhook was not delivered", blames_host=False),
    "hung": _retry("the page held the process until it was ended from outside", blames_host=False),
    "worker_lost": _retry("the worker died with the page in hand", blames_host=False),
    "unexpected": _retry("an error nobody foresaw", blames_host=False),
}

# No request reached the host: the proxies or gateways failed, the name was not looked up, the origin is paused, or the
# page needs the browser. Such an attempt does not count.
NOT_ASKED = frozenset(
    {
        *("proxy_wait", "proxy_connect", "proxy_timeout", "proxy_auth"),
        *("gateway_down", "gateway_auth", "gateway_quota", "gateway_limit"),
        *("dns_wait", "origin_wait", "needs_browser", "session_wait"),
    }
)

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
CONDITIONAL = frozenset({"if-none-match", "if-modified-since"})  # headers that name a version
_SECRET_HEADERS = SECRET_HEADERS | {"set-cookie", "set-cookie2", "authentication-info"}
_LEFT_OUT = "(left out)"


def kind_of(outcome: Outcome) -> str:
    """The name of an outcome: "ok", "redirect", "http_503", "timeout" …"""
    if isinstance(outcome, Failure):
        return outcome.kind
    status = outcome.status
    if 200 <= status < 300:
        return "ok"
    if status == 304:
        return "not_modified"
    if status in _REDIRECTS and outcome.headers.get("Location", "").strip():
        return "redirect"
    return f"http_{status}"


def rule_for(kind: str) -> Rule:
    return TABLE[row_of(kind)]


def row_of(kind: str) -> str:
    """The name of a kind's row. A status without a row of its own has the row of its class."""
    if kind in TABLE:
        return kind
    if not kind.startswith("http_"):
        return "unexpected"
    its_class = f"http_{kind[5:6]}xx"
    return its_class if len(kind) == 8 and its_class in TABLE else "http_xxx"


def failure_of(outcome: Outcome, kind: str) -> Failure:
    """An outcome that is not a page, as a failure of the given kind."""
    if isinstance(outcome, Failure):
        return outcome if outcome.kind == kind else replace(outcome, kind=kind)
    meaning = rule_for(kind).meaning
    return Failure(
        kind=kind,
        detail=f"HTTP {outcome.status}: {meaning}",
        status=outcome.status,
        elapsed=outcome.elapsed,
        via=outcome.via,
    )


def judge(
    outcome: Outcome, task: Task, settings: Settings, *, now: float, rng: random.Random
) -> Verdict | None:
    """The verdict on an outcome; None if it is a page for the handler, or a redirect for the worker to follow."""
    kind = kind_of(outcome)
    if kind == "ok":
        return None
    if isinstance(outcome, Response) and (
        outcome.status in settings.handle_status or takes_status(task.handler, outcome.status)
    ):
        return None
    if kind == "not_modified" and not _is_conditional(task):
        kind = "http_304"
    rule = rule_for(kind)
    if rule.action in ("page", "follow"):
        return None
    failure = replace(failure_of(outcome, kind), at=now, attempt=task.attempt)
    if rule.action == "bury" or 0 < rule.attempts <= _failures(task, kind):
        return Dead(failure, snapshot_of(outcome, settings))
    return Retry(_delay(outcome, task, settings, now, rng), failure)


def _failures(task: Task, kind: str) -> int:
    """How often the task has failed in this way, this time included."""
    return 1 + sum(past.kind == kind for past in this_life(task))


def snapshot_of(outcome: Outcome, settings: Settings) -> Snapshot | None:
    """The part of an answer that a dead letter keeps, without secrets; None if there was no answer."""
    if isinstance(outcome, Failure):
        return None if outcome.status is None else Snapshot(status=outcome.status)
    body = outcome.body[: settings.snapshot_bytes]
    return Snapshot(status=outcome.status, headers=_shown(outcome.headers), body=body)


def _shown(received: Mapping[str, str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    size = 0
    for number, (name, value) in enumerate(received.items()):
        shown = _LEFT_OUT if name.lower() in _SECRET_HEADERS else without_secrets(value)[:SNAPSHOT_HEADER]
        size += len(name) + len(shown)
        if size > SNAPSHOT_HEADERS:
            headers["…"] = f"{len(received) - number} more were left out"
            break
        headers[name] = f"{headers[name]}, {shown}" if name in headers else shown
    return headers


def this_life(task: Task) -> Iterator[Failure]:
    """The failures since the task was last replayed, the latest first, without attempts that do not count. Going back,
    each belongs to an earlier attempt."""
    attempt = task.attempt
    for failure in reversed(task.history):
        if failure.kind in NOT_ASKED:
            continue
        if failure.attempt:
            if failure.attempt >= attempt:
                return
            attempt = failure.attempt
        yield failure


def _is_conditional(task: Task) -> bool:
    """Whether the request may have named a version: its own headers, or those of a page that was visited before."""
    if task.record is not None and (task.record.etag or task.record.modified):
        return True
    return task.headers is not None and any(name.lower() in CONDITIONAL for name in task.headers)


def _delay(outcome: Outcome, task: Task, settings: Settings, now: float, rng: random.Random) -> float:
    asked = None
    if isinstance(outcome, Response):
        asked = retry.retry_after(outcome.headers.get("Retry-After"), now, settings.retry_after_cap)
    return retry.delay(
        task.attempt, base=settings.retry_base, cap=settings.retry_cap, rng=rng, server_asks=asked
    )
