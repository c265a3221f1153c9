"""A transport that asks certain hosts only: the others may not see the headers it sends."""

from __future__ import annotations

from collections.abc import Callable

from shoal.admit.identity import host_key
from shoal.fetch.transport import FetchRequest, Transport
from shoal.model import Failure, Outcome


class Confined:
    def __init__(self, transport: Transport, may_reach: Callable[[str], bool]) -> None:
        self._transport = transport
        self._may_reach = may_reach

    async def fetch(self, request: FetchRequest) -> Outcome:
        if self._may_reach(request.url):
            return await self._transport.fetch(request)
        return Failure(
            "untrusted",
            f"this worker has headers that may be secret, and does not name {host_key(request.url)} in its own hosts",
        )

    async def close(self) -> None:
        await self._transport.close()
