"""Whether ETag and Last-Modified can be trusted.

Two kinds of servers are noticed. One says 304 though the page has changed: now and then a page is asked for without
naming a version, and if it then has the old version and other items, the server lies. The other gives each answer an
ETag of its own: the same body comes again and again.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from msgspec.structs import replace

from shoal.events import event
from shoal.hosts.cache import HostCache, HostView
from shoal.hosts.host_state import HostState
from shoal.model.page_record import PageRecord

_SAMPLED = 1 / 32  # share of visits that name no version, though one is known
_FROM = 2  # visits of a page, before it is sampled
_LIES = 2  # of a host, that are enough
USELESS = 3  # answers in a row with the same body and another ETag: the page's are not sent back any more
_WHY = "pages have changed that the host says are the same (ETag, Last-Modified)"


class Validators:
    def __init__(self, hosts: HostCache, rng: random.Random) -> None:
        self._hosts = hosts
        self._rng = rng
        self._told: set[str] = set()  # hosts

    def wanted(self, host: HostView, record: PageRecord) -> bool:
        """Whether a request names the version that is known."""
        if host.state.lies >= _LIES or record.useless >= USELESS:
            return False
        return record.visits < _FROM or self._rng.random() >= _SAMPLED

    def same_body(self, host: str, before: PageRecord, etag: str) -> int:
        """The host has sent the body that is known. Returns how often in a row its ETag was another one."""
        if not before.etag or before.etag == etag:
            return 0
        if before.useless + 1 == USELESS and host not in self._told:
            self._told.add(host)
            why = "each answer has an ETag of its own, though the page is the same"
            event("validators_distrusted", host=host, reason=why)
        return min(before.useless + 1, USELESS)

    async def changed(self, host: str, before: PageRecord, sent: Mapping[str, str]) -> None:
        """The items of a page have changed, and this version was sent with it."""
        known = before.etag or before.modified
        if not known or known != (sent["etag"] or sent["modified"]):
            return

        def fold(state: HostState) -> HostState:
            return replace(state, lies=state.lies + 1)

        view = await self._hosts.change(host, fold)
        if view.state.lies == _LIES:
            event("validators_distrusted", host=host, reason=_WHY)
