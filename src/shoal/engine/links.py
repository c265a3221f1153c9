"""Turns the links of a page into tasks. Most links of a site are known already, and are skipped early."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from shoal.admit import Admission, KnownLinks
from shoal.admit.identity import origin, scheme
from shoal.admit.referrer import Referrer
from shoal.engine.escalation import Escalation
from shoal.engine.tally import Tally
from shoal.hosts.cache import HostView
from shoal.model import Lease, Refused, Settlement, Task
from shoal.model.built_in import WEBHOOK
from shoal.model.request import PageLinks, Request
from shoal.settings import Settings
from shoal.text.humanize import read_span

Link = tuple[str, str]  # (base, href)
Hasten = Callable[[str, str, Mapping[int, float]], Awaitable[int]]  # as in the frontier: job, host, pages


class _Unsettled(NamedTuple):
    links: Sequence[Link]  # to be remembered once the settlement is durable
    requests: Sequence[Request]
    host: HostView | None
    referrer: Referrer | None
    is_source: bool = False


_AT_ONCE = 100  # requests of a sitemap that are admitted between two turns of the event loop


class Links:
    def __init__(
        self,
        settings: Settings,
        *,
        admission: Admission,
        escalation: Escalation,
        tally: Tally,
        now: Callable[[], float],
        hasten: Hasten | None = None,
    ) -> None:
        self._settings = settings
        self._admission = admission
        self._escalation = escalation
        self._tally = tally
        self._now = now
        self._hasten = hasten  # None: pages are visited once
        self._known = KnownLinks()
        self._known_for = _memory_of(settings)
        self._known_since = now()
        self._unsettled: dict[int, _Unsettled] = {}  # by the token of the lease
        self._doubtful: dict[int, _Unsettled] = {}  # those of settlements made before the store went back

    def admit(
        self,
        lease: Lease,
        requests: Sequence[Request],
        host: HostView | None,
        referrer: Referrer | None = None,
    ) -> tuple[Task, ...]:
        found: list[Task] = []
        links: list[Link] = []
        allows = _allowed(lease.task, host)
        for request in self._unknown(lease.task, requests[: self._settings.max_links]):
            admitted = self._admission.admit(request, lease.task, allows, referrer)
            if isinstance(admitted, Task):
                found.append(
                    admitted if request.lane is not None else self._escalation.placed(admitted, self._now())
                )
            else:
                self._tally.refused(admitted.reason)
                if admitted.reason == "depth":
                    continue  # from a page nearer to the start it may be admitted
            if _is_link(request):
                links.append((request.base or lease.task.url, request.url))
        if referrer is not None:
            referrer.let_go()
        self._unsettled[lease.token] = _Unsettled(links, requests, host, referrer)
        return tuple(found)

    async def admit_listed(
        self, lease: Lease, requests: Sequence[Request], host: HostView | None
    ) -> tuple[Task, ...]:
        """Those of a sitemap or a feed: all of them, though a page may have fewer links, with pauses for others. They
        are not remembered: they would drive out the links that are on every page."""
        found: list[Task] = []
        for at in range(0, len(requests), _AT_ONCE):
            await asyncio.sleep(0)
            found += self._admitted(lease, requests[at : at + _AT_ONCE], host)
        await self._hasten_changed(lease, requests)
        self._unsettled[lease.token] = _Unsettled((), requests, host, None, is_source=True)
        return tuple(found)

    async def _hasten_changed(self, lease: Lease, requests: Sequence[Request]) -> None:
        """Of a sitemap or a feed that is read again: pages that have changed since their last visit are visited now."""
        if self._hasten is None:
            return
        wanted: dict[str, dict[int, float]] = {}  # by host
        for request in requests:
            if request.changed_at is not None:
                task = self._admission.admit(request, lease.task)
                if isinstance(task, Task) and task.fingerprint is not None:
                    wanted.setdefault(task.host, {})[task.fingerprint] = request.changed_at
        for name, pages in wanted.items():
            await self._hasten(lease.task.job, name, pages)

    def _admitted(self, lease: Lease, requests: Sequence[Request], host: HostView | None) -> Iterator[Task]:
        allows = _allowed(lease.task, host)
        for request in requests:
            admitted = self._admission.admit(request, lease.task, allows)
            if isinstance(admitted, Refused):
                self._tally.refused(admitted.reason)
            elif request.lane is not None:
                yield admitted
            else:
                yield self._escalation.placed(admitted, self._now())

    def _unknown(self, task: Task, requests: Sequence[Request]) -> list[Request]:
        """The requests without links that are known to be admitted, which on most pages are nearly all of them."""
        if self._known_for and self._now() - self._known_since >= self._known_for:
            self._known, self._known_since = KnownLinks(), self._now()
        if isinstance(requests, PageLinks):
            base = requests.base or task.url
            return [requests.to(href) for href in self._known.unknown(task.host, base, requests.urls)]
        by_base: dict[str, dict[str, Request]] = {}
        special: list[Request] = []
        last: object = self  # the base of the request before, nearly always the same; at first, none
        links: dict[str, Request] = {}
        for request in requests:
            # As in `_is_link`; a call for each link takes longer than the rest.
            if request.anywhere or not request.dedupe or request.method != "GET" or request.body is not None:
                special.append(request)
                continue
            if request.base is not last:
                last = request.base
                links = by_base.setdefault(request.base or task.url, {})
            if request.url not in links:
                links[request.url] = request
        for base, links in by_base.items():
            special += [links[href] for href in self._known.unknown(task.host, base, links)]
        return special

    def yielded(self, lease: Lease) -> int:
        """How many requests its page has yielded. Ask before it is settled."""
        page = self._unsettled.get(lease.token) or self._doubtful.get(lease.token)
        return len(page.requests) if page is not None else 0

    def settled(self, lease: Lease, accepted: bool) -> None:
        """Only from now on may other pages skip these links. If they did so earlier and this settlement were refused,
        the links would be lost."""
        page = self._unsettled.pop(lease.token, None)
        self._doubtful.pop(lease.token, None)
        if accepted and page is not None:
            for base, href in page.links:
                self._known.learn(lease.task.host, base, href)

    def forget(self) -> None:
        """The store may have lost links that it had admitted. Pages that are fetched again must not skip them."""
        self._known = KnownLinks()
        self._doubtful |= self._unsettled
        self._unsettled = {}

    def complete(self, settlement: Settlement) -> Settlement:
        """The settlement, with the links that were skipped because another page had brought them: that page may be
        lost, and need not come again."""
        page = self._doubtful.pop(settlement.lease.token, None)
        if page is None:
            return settlement
        lease = settlement.lease
        if page.is_source:  # nothing was skipped
            return settlement
        found = self.admit(lease, page.requests, page.host, page.referrer)
        deliveries = tuple(task for task in settlement.found if task.handler == WEBHOOK)  # they are no links
        return replace(settlement, found=(*found, *deliveries))


def _allowed(task: Task, host: HostView | None) -> Callable[[str], bool]:
    """What robots.txt says about links from a page to its own origin, as far as it is known."""
    robots = host.robots.get(scheme(task.url)) if host is not None and host.terms.settings.robots else None
    here = f"{origin(task.url)}/"
    return lambda url: robots is None or not url.startswith(here) or robots.allows(url)


def _memory_of(settings: Settings) -> float:
    """Seconds for which links are known here without asking the store; 0: for ever. A page that may be found anew is, a
    little later than the store says."""
    return min(3600.0, (read_span(settings.dedupe_expires) or 0.0) / 20)


def _is_link(request: Request) -> bool:
    # Not with `anywhere`: without it, the same link may have been refused before.
    return request.dedupe and not request.anywhere and request.method == "GET" and request.body is None
