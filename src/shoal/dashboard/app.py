"""The dashboard as an application: every route, and what it requires."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec import Struct
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as Path
from uvicorn.protocols.http.h11_impl import H11Protocol

from shoal.dashboard import api, views
from shoal.dashboard.board import AWAY, PATIENCE, Board
from shoal.dashboard.responses import Refusal, reply
from shoal.dashboard.security import Secured, check_same_origin, is_csrf
from shoal.dashboard.stream import StreamReply
from shoal.errors import ShoalError, UsageError

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp


log = logging.getLogger("shoal")

_LONG_PATIENCE = 30.0

Handler = Callable[[Board, Request], Awaitable[object]]


class Route(Struct, frozen=True):
    path: str
    handler: Handler
    method: str = "GET"
    public: bool = False  # no session is needed
    acts: bool = False  # it changes something in the store: not in read-only mode
    slow: bool = False  # it may have to look through very much

    @property
    def own_pages_only(self) -> bool:
        return self.method == "POST" or self.path.startswith("/api/")

    @property
    def patience(self) -> float:
        """Seconds until the store counts as away."""
        return _LONG_PATIENCE if self.slow else PATIENCE + 1


ROUTES = (
    Route("/", views.home, public=True),
    Route("/static/{path:path}", views.static, public=True),
    Route("/login", views.login_page, public=True),
    Route("/login", views.log_in, "POST", public=True),
    Route("/logout", views.log_out, "POST"),
    Route("/healthz", views.healthz, public=True),
    Route("/readyz", views.readyz, public=True),
    Route("/metrics", views.metrics, public=True),  # it looks for the token itself
    Route("/api/session", api.session),
    Route("/api/overview", api.overview),
    Route("/api/live", api.live),
    Route("/api/stream", api.stream),
    Route("/api/history", api.history),
    Route("/api/errors", api.errors),
    Route("/api/freshness", api.freshness),
    Route("/api/workers", api.workers),
    Route("/api/flights", api.flights),
    Route("/api/proxies", api.proxies),
    Route("/api/events", api.events),
    Route("/api/why", api.why, slow=True),
    Route("/api/hosts", api.hosts, slow=True),
    Route("/api/hosts/{host:path}", api.host),
    Route("/api/hosts/{host:path}", api.decide_host, "POST", acts=True),
    Route("/api/dead", api.dead, slow=True),
    Route("/api/dead", api.decide_letters, "POST", acts=True, slow=True),
    Route("/api/dead/{id}", api.letter),
    Route("/api/jobs/{name:path}", api.job),
    Route("/api/jobs/{name:path}", api.decide_job, "POST", acts=True),
)


def make_app(board: Board, names: Collection[str]) -> ASGIApp:
    """`names`: those it is served under, besides addresses and localhost."""
    app = Starlette(
        routes=[
            Path(
                route.path,
                _endpoint(board, route),
                methods=[route.method],
                name=f"{route.method} {route.path}",
            )
            for route in ROUTES
        ],
        exception_handlers={HTTPException: _unknown},
    )
    return Secured(app, names)


async def _unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return reply({"error": error.detail}, error.status_code, dict(error.headers or {}))


def _endpoint(board: Board, route: Route) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            check(board, route, request)
            async with asyncio.timeout(route.patience):
                value = await route.handler(board, request)
        except Refusal as refusal:
            return refusal.reply()
        except UsageError as error:
            return Refusal(400, str(error)).reply()
        except TimeoutError:
            return Refusal(503, AWAY, retry_after=2).reply()
        except ShoalError as error:
            return Refusal(503, str(error), retry_after=2).reply()
        except Exception:
            log.exception("a bug in Shoal, met on %s %s", request.method, route.path)
            return Refusal(500, "a bug in Shoal; its log tells more").reply()
        return value if isinstance(value, Response | StreamReply) else reply(value)  # type: ignore[return-value]

    return answer


def check(board: Board, route: Route, request: Request) -> None:
    """Refuses a request without a session, from a foreign page, or without the right to change something."""
    session = board.session_of(request)
    if session is None and not route.public:
        raise Refusal(401, "log in first")
    if route.own_pages_only:
        check_same_origin(request.headers)
    if session is not None and route.method == "POST" and not route.public:
        if not is_csrf(session, request.headers.get("x-shoal-csrf", "")):
            raise Refusal(403, "refused: the header X-Shoal-CSRF of this session is missing or wrong")
        if route.acts and board.read_only:
            raise Refusal(403, "this dashboard is read-only: nothing can be changed with it")


# -- connections: one that is slow to ask, does not read its answer, or is one too many, is cut


MOST_CONNECTIONS = 256  # at once: fifty viewers, and the rest of their pages
CONNECTION_PATIENCE = 10.0  # seconds for a request to arrive, and for an answer to be gone


class Bounded(H11Protocol):
    """Checks the connection now and then: a request must be under way, or have come since the last check."""

    _looking: asyncio.TimerHandle | None = None
    _seen: object = None  # the latest request at the last look

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
        else:
            self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._looking is not None:
            self._looking.cancel()
        super().connection_lost(exc)

    def _look_later(self) -> None:
        self._seen = self.cycle
        self._looking = self.loop.call_later(CONNECTION_PATIENCE, self._look)

    def _look(self) -> None:
        is_over = self.cycle is None or self.cycle.response_complete
        if self.transport.is_closing() or (is_over and self.cycle is self._seen):
            self.transport.abort()
        else:
            self._look_later()
