"""The links of a page: those that are worth a look become tasks. Most of a site's links are known already."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from shoal.admit import Admission, KnownLinks
from shoal.admit.identity import origin, scheme
from shoal.engine.escalation import Escalation
from shoal.engine.tally import Tally
from shoal.hosts.cache import HostView
from shoal.model import Lease, Request, Settlement, Task
from shoal.settings import Settings

Link = tuple[str, str]  # (base, href)


class _Unsettled(NamedTuple):
    links: Sequence[Link]  # to be remembered once the settlement is durable
    requests: Sequence[Request]
    host: HostView


class Links:
    def __init__(
        self,
        settings: Settings,
        *,
        admission: Admission,
        escalation: Escalation,
        tally: Tally,
        now: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._admission = admission
        self._escalation = escalation
        self._tally = tally
        self._now = now
        self._known = KnownLinks()
        self._unsettled: dict[int, _Unsettled] = {}  # by the token of the lease
        self._doubtful: dict[int, _Unsettled] = {}  # … of settlements made before the store went back

    def admit(self, lease: Lease, requests: Sequence[Request], host: HostView) -> tuple[Task, ...]:
        found: list[Task] = []
        links: list[Link] = []
        allows = _allowed(lease.task, host)
        for request in self._unknown(lease.task, requests[: self._settings.max_links]):
            admitted = self._admission.admit(request, lease.task, allows)
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
        self._unsettled[lease.token] = _Unsettled(links, requests, host)
        return tuple(found)

    def _unknown(self, task: Task, requests: Sequence[Request]) -> list[Request]:
        """Without the links that are known to be admitted: on most pages of a site that is nearly all of them."""
        by_base: dict[str, dict[str, Request]] = {}
        special: list[Request] = []
        for request in requests:
            if _is_link(request):
                by_base.setdefault(request.base or task.url, {}).setdefault(request.url, request)
            else:
                special.append(request)
        for base, links in by_base.items():
            special += [links[href] for href in self._known.unknown(task.host, base, links)]
        return special

    def settled(self, lease: Lease, accepted: bool) -> None:
        """Only now may links be skipped unseen on other pages. Earlier, a settlement that is refused would take links
        with it that another page had counted on."""
        page = self._unsettled.pop(lease.token, None)
        self._doubtful.pop(lease.token, None)
        if accepted and page is not None:
            for base, href in page.links:
                self._known.learn(lease.task.host, base, href)

    def forget(self) -> None:
        """A link that the store said it had admitted may be lost with its last second. The page that it was found on
        is lost with it, so it comes again; then the link must not be passed over."""
        self._known = KnownLinks()
        self._doubtful |= self._unsettled
        self._unsettled = {}

    def complete(self, settlement: Settlement) -> Settlement:
        """Nothing says that the other page, too, will be had once more. So a page that passed over a link because of
        it brings that link now."""
        page = self._doubtful.pop(settlement.lease.token, None)
        if page is None:
            return settlement
        return replace(settlement, found=self.admit(settlement.lease, page.requests, page.host))


def _allowed(task: Task, host: HostView) -> Callable[[str], bool]:
    """What is known of robots.txt for links from a page to its own origin."""
    robots = host.robots.get(scheme(task.url)) if host.terms.settings.robots else None
    here = f"{origin(task.url)}/"
    return lambda url: robots is None or not url.startswith(here) or robots.allows(url)


def _is_link(request: Request) -> bool:
    # Not with `anywhere`: the same link may have been refused before, without it.
    return request.dedupe and not request.anywhere and request.method == "GET" and request.body is None
