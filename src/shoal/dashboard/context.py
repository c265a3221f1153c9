"""What all requests to one dashboard share."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from msgspec import Struct

from shoal.dashboard.auth import Gatekeeper, Session, Sessions
from shoal.dashboard.dead_letters import Shelf
from shoal.dashboard.hostindex import HostIndexes
from shoal.dashboard.responses import Refusal
from shoal.dashboard.sampling import Sampler
from shoal.dashboard.stream import Hub
from shoal.frontier.protocol import Frontier

if TYPE_CHECKING:
    from starlette.requests import Request

log = logging.getLogger("shoal")


class Board(Struct, frozen=True):
    frontier: Frontier
    store: str  # its name, without secrets
    read_only: bool
    cookie: str  # the name of the session's cookie: browsers do not keep those of several ports apart
    gatekeeper: Gatekeeper
    sessions: Sessions
    indexes: HostIndexes
    shelf: Shelf
    hub: Hub
    sampler: Sampler

    def session_of(self, request: Request) -> Session | None:
        return self.sessions.find(request.cookies.get(self.cookie, ""))

    def admits(self, token: str, request: Request) -> bool:
        """Whether that is the token. Whoever guesses has to wait; the log says so once in a while."""
        if self.gatekeeper.is_right(token):
            return True
        address = request.client.host if request.client is not None else ""
        if wait := self.gatekeeper.wrong(address):
            raise Refusal(429, f"too many wrong tokens; try again in {wait:.0f} s", retry_after=wait)
        log.warning("dashboard: a wrong token from %s", address)
        return False
