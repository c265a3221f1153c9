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

    def refuses(self, url: str) -> Failure | None:
        if self._may_reach(url):
            return None
        return Failure(
            "untrusted",
            f"this worker has headers that may be secret, and its own settings do not name {host_key(url)} in hosts",
        )

    async def fetch(self, request: FetchRequest) -> Outcome:
        return self.refuses(request.url) or await self._transport.fetch(request)

    async def close(self) -> None:
        await self._transport.close()
