"""Admission: from a request of a page or a person to a task that may be queued.

    Request ──▶ the URL to send ──▶ http(s)? ──▶ in scope? ──▶ no trap? ──▶ Task
                                       └─────────────┴────────────┴───────▶ Refused, with the reason

A task's URL is the one that is sent. Its canonical form identifies the page: fingerprints are made of it, and patterns
and traps check it too, so that another spelling does not pass them.

Nothing here waits, reads a clock or touches a store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import Any

from msgspec.structs import astuple, replace

from shoal.admit.canonical import Canonicaliser
from shoal.admit.identity import fingerprint, host_key, origin, site, variant
from shoal.admit.known import KnownLinks
from shoal.admit.referrer import Referrer, after_redirect
from shoal.admit.scope import Scope
from shoal.admit.sending import redirect_url, resolve, sent_url
from shoal.admit.traps import trap
from shoal.limits import COOKIE_LINE, REDIRECT_COOKIE_BYTES, REDIRECT_COOKIES, URL_READ, URL_SHOWN
from shoal.model import COOKIE_MARK, DEFAULT_LANE, USUAL_FETCH, FetchOptions, Refused, Task
from shoal.model.request import Request
from shoal.settings import HostSettings, Settings
from shoal.text import SECRET_HEADERS, unreadable_url

_ORDINARY = (DEFAULT_LANE, 0)
_NOTHING = HostSettings()
_USUAL_OPTIONS = astuple(USUAL_FETCH)
_NO_DEFAULTS: Mapping[str, tuple[str, int]] = MappingProxyType({})

_BODY_HEADERS = frozenset({"content-type", "content-length", "content-encoding", "transfer-encoding"})


def _anything(url: str) -> bool:
    return True


def _nothing(host: str) -> HostSettings:
    return _NOTHING


class Admission:
    """Decides about every URL of a crawl. Its only state is the scope, which start URLs widen."""

    def __init__(
        self,
        settings: Settings,
        start_urls: Iterable[str] = (),
        defaults: Mapping[str, tuple[str, int]] = _NO_DEFAULTS,  # handler name → (lane, priority)
        first: str = "",  # the handler that "" stands for
        own: Callable[[str], HostSettings] = _nothing,  # the settings of a host
    ) -> None:
        self._settings = settings
        self._canonical = Canonicaliser(settings.tracking_params)
        self._routes = settings.hash_routes
        starts = map(sent_url, start_urls)
        self._scope = Scope.of(settings, [host_key(url) for url in starts if url])
        self._defaults = defaults
        self._usual = ("", first)
        self._lanes = settings.lane_weights
        self._own = own

    def welcome(self, host: str) -> None:
        """Adds a start host of an earlier run or of another process to the scope."""
        self._scope.widen(host)

    def admit(
        self,
        request: Request,
        parent: Task | None = None,
        allows: Callable[[str], bool] = _anything,
        referrer: Referrer | None = None,
    ) -> Task | Refused:
        """The task for a request, or why it is refused. A request without a parent is a start URL: it may name any
        host, which is in scope then. `allows` is robots.txt: it is asked about URLs that are not canonical, because a
        forbidden one must not stand for a page that has another URL. `referrer` says what the request tells about the
        page that makes it."""
        base = request.base or (parent.url if parent else None)
        url = self._sent(request.url, base)
        if isinstance(url, Refused):
            return url
        canonical = self._canonical(url)
        depth = request.depth
        if depth is None:
            depth = parent.depth + 1 if parent else 0
        host = host_key(url)
        reason = self._refuses(url, canonical, depth, request, parent)
        if reason is None and canonical != url and not allows(url):
            reason = "robots"
        if reason:
            return self._refused(url, reason)
        if parent is None and not request.anywhere:
            self._scope.widen(host)
        lane, priority = self._defaults.get(request.handler, _ORDINARY)
        method = request.method.upper()
        page = fingerprint(canonical, method, request.body) if request.dedupe else None
        return Task(
            url=url,
            handler=request.handler,
            host=host,
            lane=self._lane(host, lane) if request.lane is None else request.lane,
            priority=priority if request.priority is None else request.priority,
            depth=depth,
            max_attempts=request.max_attempts,
            method=method,
            headers=request.headers,
            body=request.body,
            pool=request.pool,
            options=_options(
                request,
                None if referrer is None else referrer.header_for(url, method),
                parent.options.cookies_at if parent else 0.0,
            ),
            parent=parent.id if parent else 0,
            meta=request.meta,
            fingerprint=page,
            variant=self._variant(page, request.handler, request.meta),
        )

    def _lane(self, host: str, usual: str) -> str:
        """The lane of the host, if this job has that lane."""
        own = self._own(host).lane
        return own if own is not None and own in self._lanes else usual

    def moved(
        self,
        task: Task,
        location: str,
        cookies: tuple[str, ...] = (),
        status: int = 302,
        *,
        kept: bool = False,
        anywhere: bool = False,
    ) -> Task | Refused:
        """The task at the target of a redirect, or why it is refused. The caller checks the number of hops, and whether
        it `goes_round`. `kept`: the cookies are in the store already, and the task only needs to know them again.
        `anywhere`: whatever the scope says."""
        url = self._redirected(location, task.url)
        if isinstance(url, Refused):
            return url
        canonical = self._canonical(url)
        reason = None if anywhere else self._refuses_redirect(task, url, canonical)
        reason = reason or self._trap(url, canonical)
        if reason:
            return self._refused(url, reason)
        host = host_key(url)
        if _is_start(task):
            self._scope.widen(host)
        becomes_get = task.method != "HEAD" and (
            status == 303 or (status in (301, 302) and task.method == "POST")
        )
        method = "GET" if becomes_get else task.method
        body = None if becomes_get else task.body
        changed = method != task.method or (self._settings.cookies and _has_new_cookies(cookies, task))
        page = fingerprint(canonical, method, body) if task.fingerprint is not None else None
        return replace(
            task,
            url=url,
            host=host,
            method=method,
            body=body,
            headers=_headers_after(task, url, becomes_get),
            options=_options_after(task, url),
            hops=(*task.hops, task.url),
            renewed=len(task.hops) + 1 if changed else task.renewed,
            cookies=_carried(cookies, kept),
            typed=False,  # a server wrote this URL
            fingerprint=page,
            trail=task.pages,
            variant=self._variant(page, task.handler, task.meta),
        )

    def _variant(self, page: int | None, handler: str, meta: dict[str, Any] | None) -> int | None:
        if page is None or (meta is None and handler in self._usual):
            return None  # as most are
        return variant(page, handler, meta)

    def _sent(self, url: str, base: str | None) -> str | Refused:
        if len(url) > URL_READ * self._settings.max_url_length:
            return self._too_long(url)
        sent = sent_url(url, base, routes=self._routes)
        return sent if sent is not None else _no_url(url, base)

    def _redirected(self, location: str, base: str) -> str | Refused:
        if len(location) > URL_READ * self._settings.max_url_length:
            return self._too_long(location)
        sent = redirect_url(location, base, routes=self._routes)
        return sent if sent is not None else _no_url(location, base)

    def _too_long(self, url: str) -> Refused:
        return Refused(
            unreadable_url(url)[:URL_SHOWN], f"trap: longer than {self._settings.max_url_length} characters"
        )

    def _refused(self, url: str, reason: str) -> Refused:
        return Refused(url[: self._settings.max_url_length], reason)

    def _refuses(
        self, url: str, canonical: str, depth: int, request: Request, parent: Task | None
    ) -> str | None:
        if request.anywhere:
            reason = None
        elif parent is None:
            # A person typed this URL, so it is no trap.
            return self._scope.bars(url, depth, canonical)
        else:
            reason = self._scope.refuses(url, depth, canonical)
        return reason or self._trap(url, canonical)

    def _trap(self, url: str, canonical: str) -> str | None:
        reason = trap(canonical, self._settings, length=len(url))
        return f"trap: {reason}" if reason else None

    def _refuses_redirect(self, task: Task, url: str, canonical: str) -> str | None:
        scope = self._scope
        if _is_start(task):
            # example.com may redirect to example.org, and then that is the site to crawl; but only once.
            barred = scope.bars(url, task.depth, canonical)
            return barred or (scope.off_site(url) if _left_before(task, url) else None)
        if scope.refuses(task.url, task.depth, self._canonical(task.url)):
            return None  # the task was admitted with `anywhere`, so it may end anywhere
        return scope.refuses(url, task.depth, canonical)


def _options(request: Request, referer: str | None, cookies_at: float) -> FetchOptions:
    given = (
        *(
            request.session,
            request.timeout,
            request.max_body,
            request.wait_for,
            request.revisit,
            request.proxy,
        ),
        *(referer, request.country, cookies_at),
    )
    return USUAL_FETCH if given == _USUAL_OPTIONS else FetchOptions(*given)


def _options_after(task: Task, url: str) -> FetchOptions:
    if task.options.referer is None:
        return task.options
    return replace(task.options, referer=after_redirect(task.options.referer, task.url, url))


def _is_start(task: Task) -> bool:
    return task.parent == 0


def _left_before(task: Task, url: str) -> bool:
    """Whether with `url` the task would leave a site for the second time."""
    here = site(task.host)
    return site(host_key(url)) != here and any(site(host_key(hop)) != here for hop in task.hops)


def _headers_after(task: Task, url: str, becomes_get: bool) -> dict[str, str] | None:
    if not task.headers:
        return task.headers
    dropped: frozenset[str] = frozenset()
    if origin(url) != origin(task.url):
        dropped |= SECRET_HEADERS
    if becomes_get:
        dropped |= _BODY_HEADERS
    return {name: value for name, value in task.headers.items() if name.lower() not in dropped} or None


def _carried(cookies: tuple[str, ...], kept: bool) -> tuple[str, ...]:
    """As many of a redirect's cookies as a task may hold, in their order."""
    carried: list[str] = []
    size = 0
    for line in cookies:
        if len(line) > COOKIE_LINE:
            continue  # no jar would accept it
        size += len(line)
        if size > REDIRECT_COOKIE_BYTES or len(carried) == REDIRECT_COOKIES:
            break
        carried.append(_mark(line) if kept else line)
    return tuple(carried)


def _has_new_cookies(cookies: tuple[str, ...], task: Task) -> bool:
    """Whether a redirect sets other cookies than the one before it."""
    return not {_mark(line) for line in cookies} <= {_mark(line) for line in task.cookies}


def _mark(line: str) -> str:
    """Stands for a cookie of a redirect whose value is not to be stored with the task."""
    if line.startswith(COOKIE_MARK):
        return line
    pair = line.partition(";")[0].strip()
    return COOKIE_MARK + blake2b(pair.encode(errors="replace"), digest_size=8).hexdigest()


def _no_url(url: str, base: str | None) -> Refused:
    absolute = resolve(url, base)
    crawlable = absolute is None or absolute.startswith(("http:", "https:"))
    return Refused(unreadable_url(url)[:URL_SHOWN], "not a URL" if crawlable else "scheme")


__all__ = [
    "Admission",
    "Canonicaliser",
    "KnownLinks",
    "Scope",
    "fingerprint",
    "host_key",
    "origin",
    "sent_url",
    "trap",
]
