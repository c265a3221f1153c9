"""Runs a dashboard in this process's event loop: the port, the server, and its end."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from shoal.dashboard.board import Sampler
from shoal.dashboard.security import Gatekeeper, Sessions, fresh_token
from shoal.dashboard.stream import Hub
from shoal.errors import UsageError
from shoal.frontier import open_frontier, shown
from shoal.frontier.protocol import Frontier

if TYPE_CHECKING:
    from uvicorn import Server

LOOPBACK = "127.0.0.1"
PORT = 8484
_GOODBYE = 1  # seconds for answers under way when it ends


class Options(Struct, frozen=True):
    store: str
    bind: str = LOOPBACK
    port: int = PORT  # 0: any that is free
    names: tuple[str, ...] = ()  # it is also reached by, through a proxy
    token: str | None = None  # None: a fresh one
    read_only: bool = False
    create: bool = False  # the store, if it is not there yet

    def __repr__(self) -> str:
        return f"<Options of a dashboard at {self.bind}:{self.port}>"


class Served(Struct, frozen=True):
    """A dashboard that runs."""

    url: str
    token: str
    fresh: bool  # the token is known to nobody yet

    def __repr__(self) -> str:
        return f"<dashboard at {self.url}>"

    @property
    def login_url(self) -> str:
        """What stands after # stays in the browser: no server and no log sees it."""
        return f"{self.url}/login#token={self.token}"


@asynccontextmanager
async def dashboard(options: Options) -> AsyncIterator[Served]:
    """Serves until left. Nothing that is open then is waited for."""
    check_installed()
    async with AsyncExitStack() as stack:
        listener = stack.enter_context(_listener(options))
        opening = open_frontier(options.store, create=options.create, patient=True)
        frontier = await stack.enter_async_context(opening)
        token = options.token or fresh_token()
        port = listener.getsockname()[1]
        await stack.enter_async_context(_serving(frontier, listener, options, token))
        yield Served(f"http://{_shown_host(options.bind)}:{port}", token, options.token is None)


def check_installed() -> None:
    try:
        import prometheus_client  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the dashboard needs the package {error.name}: pip install 'shoal[dashboard]'"
        ) from None


@contextmanager
def _listener(options: Options) -> Iterator[socket.socket]:
    where = f"{_shown_host(options.bind, wildcard=True)}:{options.port}"
    try:
        family, _, _, _, address = socket.getaddrinfo(
            options.bind, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
    except (OSError, OverflowError, UnicodeError) as error:
        raise UsageError(f"--bind {options.bind}: not an address of this machine ({error})") from None
    with listener:
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(128)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                reason = "the port is taken: name another, or 0 for any that is free"
            else:
                reason = f"cannot listen there ({error.strerror or error})"
            raise UsageError(f"dashboard at {where}: {reason}") from None
        listener.setblocking(False)
        yield listener


def is_loopback(bind: str) -> bool:
    try:
        return ipaddress.ip_address(bind).is_loopback
    except ValueError:
        return bind == "localhost"


def _shown_host(bind: str, *, wildcard: bool = False) -> str:
    """As it stands in a URL. One that means every address is reached by the machine's name."""
    if not wildcard and bind in ("0.0.0.0", "::"):
        return socket.gethostname()
    return f"[{bind}]" if ":" in bind else bind


# -- the server


@asynccontextmanager
async def _serving(
    frontier: Frontier, listener: socket.socket, options: Options, token: str
) -> AsyncIterator[None]:
    from shoal.dashboard.app import make_app
    from shoal.dashboard.board import Board

    hub = Hub()
    sampler = Sampler(frontier, hub)
    board = Board(
        frontier,
        shown(options.store),
        options.read_only,
        f"shoal-{listener.getsockname()[1]}",
        Gatekeeper(token, time.monotonic),
        Sessions(time.monotonic),
        hub,
        sampler,
    )
    server = _make_server(make_app(board, (*options.names, options.bind, socket.gethostname())))
    sampling = asyncio.create_task(sampler.run())
    serving = asyncio.create_task(server.serve([listener]))
    try:
        yield  # the port is open already, and whoever comes early waits there
    finally:
        hub.close()
        server.should_exit = True
        sampling.cancel()
        await asyncio.gather(serving, sampling, return_exceptions=True)


def _make_server(app: object) -> Server:
    import uvicorn

    from shoal.dashboard.app import Bounded

    class Quiet(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Signals are for whoever runs the dashboard."""
            yield

    config = uvicorn.Config(
        app,  # type: ignore[arg-type]
        http=Bounded,
        ws="none",
        loop="none",
        lifespan="off",
        log_config=None,
        log_level="critical",  # what goes wrong is told in our own words
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_GOODBYE,
    )
    return Quiet(config)
