"""A transport that gives each host what is set for it alone: its headers, and its timeout.

By the host of each URL, so whatever leads to another host, be it a redirect of robots.txt, takes nothing with it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from msgspec.structs import replace

from shoal.admit.identity import host_key
from shoal.fetch.transport import FetchRequest, Transport
from shoal.model import Outcome
from shoal.policy.host_table import NOTHING, merged
from shoal.settings import HostSettings


class AtHosts:
    def __init__(self, transport: Transport, own: Callable[[str], HostSettings]) -> None:
        self._transport = transport
        self._own = own

    # Not async: the plain case costs nothing.
    def fetch(self, request: FetchRequest) -> Coroutine[Any, Any, Outcome]:
        own = self._own(host_key(request.url))
        if own is not NOTHING:
            request = with_own(request, own)
        return self._transport.fetch(request)

    async def close(self) -> None:
        await self._transport.close()


def with_own(request: FetchRequest, own: HostSettings) -> FetchRequest:
    """What a request says itself is stronger."""
    if own.headers:
        request = replace(request, headers=merged(own.headers, request.headers))
    if own.timeout is not None:
        total = own.timeout if request.total_timeout is None else request.total_timeout
        request = replace(request, total_timeout=total, read_timeout=own.timeout)
    return request
