"""Whether a host's ETag and Last-Modified can be trusted.

Two kinds of servers are noticed. One says 304 though the page has changed: now and then a page is asked for without
naming a version, and if it then has the old version and other items, the server lies. The other gives each answer an
ETag of its own: the same body comes again and again.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

from msgspec.structs import replace

from shoal.events import event
from shoal.hosts.cache import HostCache, HostView
from shoal.hosts.host_state import HostState
from shoal.model.page_record import PageRecord

_SAMPLED = 1 / 32  # share of visits that name no version, though one is known
_FROM = 2  # visits of a page, before it is sampled
_LIES = 2  # that are enough
_USELESS = 8  # answers in a row with the same body and another ETag


class Validators:
    def __init__(self, hosts: HostCache, rng: random.Random) -> None:
        self._hosts = hosts
        self._rng = rng
        self._useless: Counter[str] = Counter()  # by host: answers in a row
        self._lies: Counter[str] = Counter()

    def wanted(self, host: HostView, record: PageRecord) -> bool:
        """Whether a request names the version that is known."""
        if host.state.no_validators:
            return False
        return record.visits < _FROM or self._rng.random() >= _SAMPLED

    def kept(self, host: str) -> None:
        """The host has answered 304."""
        self._useless.pop(host, None)

    async def same_body(self, host: str, before: PageRecord, etag: str) -> None:
        """The host has sent the body that is known."""
        if not before.etag or before.etag == etag:
            return
        self._useless[host] += 1
        if self._useless[host] >= _USELESS:
            await self._distrust(host, "each answer has an ETag of its own, though the page is the same")

    async def changed(self, host: str, before: PageRecord, sent: Mapping[str, str]) -> None:
        """The items of a page have changed, and this version was sent with it."""
        known = before.etag or before.modified
        if not known or known != (sent["etag"] or sent["modified"]):
            return
        self._lies[host] += 1
        if self._lies[host] >= _LIES:
            await self._distrust(host, "pages have changed that the host says are the same")

    async def _distrust(self, host: str, reason: str) -> None:
        self._useless.pop(host, None)
        self._lies.pop(host, None)

        def fold(state: HostState) -> HostState:
            return replace(state, no_validators=reason)

        await self._hosts.change(host, fold)
        event("validators_distrusted", host=host, reason=reason)
