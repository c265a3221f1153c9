"""HTTP/1.1: one exchange at a time, bounded in time and size, from allowed addresses only.

The frontier decides when and how often a host is hit, so nothing here queues, retries or follows redirects. One
exception: if the server closed a kept-alive connection while it was idle, the request never arrived and is sent again.
"""

from __future__ import annotations

import asyncio

from multidict import CIMultiDict

from shoal.clock import Clock
from shoal.fetch.body_reader import read_answer
from shoal.fetch.cookie_jar import CookieJar, NoCookies
from shoal.fetch.deadline import check_lease
from shoal.fetch.dialer import sockets_closed
from shoal.fetch.failures import ConnectTimeoutError, LostError, ProxyAuthError, Stage, explain, explain_proxy
from shoal.fetch.guard import Guard
from shoal.fetch.http_answer import Head
from shoal.fetch.http_connection import ConnectionPool, HttpConnection
from shoal.fetch.http_dialer import HttpDialer
from shoal.fetch.http_request import Origin, RequestWriter, parse_url, split_url
from shoal.fetch.proxy.gateway import Gateway
from shoal.fetch.resolver import Resolver
from shoal.fetch.slots import SMALL, connections, file_limit
from shoal.fetch.transport import FetchRequest
from shoal.model import Failure, Outcome, Response
from shoal.settings import Settings

_MAX_IDLE = 512  # idle connections; each holds a file descriptor
IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})

Key = tuple[str, str]  # of a proxy, and the origin


class HttpTransport:
    """Fetches over HTTP. Must be made inside a running loop, and closed in it."""

    def __init__(
        self, settings: Settings, guard: Guard, clock: Clock, resolver: Resolver | None = None
    ) -> None:
        self._settings = settings
        self._guard = guard
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self.resolver = resolver or Resolver(settings)
        self._owns_resolver = resolver is None
        self.jar = CookieJar() if settings.cookies else NoCookies()
        self._dialer = HttpDialer(settings, guard, self.resolver, clock)
        self._writer = RequestWriter(settings)
        limit = file_limit()
        self._pool = ConnectionPool(min(_MAX_IDLE, connections(limit)[1]) if limit else _MAX_IDLE)
        self._busy: set[HttpConnection] = set()

    async def fetch(self, request: FetchRequest) -> Outcome:
        gateway = request.proxy
        if not isinstance(gateway, Gateway):
            return await self._fetch(request)
        try:
            self._check_unresolved(split_url(request.url)[0])
        except Exception as exc:
            return self._failure(exc, self._clock.monotonic())
        asked = gateway.request_for(request, self._settings.total_timeout)
        return asked if isinstance(asked, Failure) else gateway.outcome(request, await self._fetch(asked))

    async def _fetch(self, request: FetchRequest) -> Outcome:
        exchange = _Exchange(request, self._clock.monotonic())
        try:
            head = await self._send(exchange)
            return await self._receive(exchange, head)
        except Exception as exc:
            return self._failure(exc, exchange.started, exchange)
        finally:
            self._release(exchange)

    async def close(self) -> None:
        self._pool.close()
        for connection in self._busy:
            connection.abort()
        if self._owns_resolver:
            await self.resolver.close()
        await sockets_closed()

    # -- one exchange

    async def _send(self, exchange: _Exchange) -> Head:
        """Sends the request and waits for the head of the answer."""
        request = exchange.request
        settings = self._settings
        origin, target = split_url(request.url)
        jar = self.jar if request.jar is None else request.jar  # an empty one is false
        if request.cookies and request.referrer_url:
            jar.set(request.cookies, parse_url(request.referrer_url))
        exchange.jar = jar
        proxy, extra = request.proxy, []
        if proxy is not None and not isinstance(proxy, Gateway):
            self._check_unresolved(origin)
            if proxy.forwards(request.url):
                target = f"{origin.scheme}://{origin.authority}{target}"
                if (login := proxy.header()) is not None:
                    extra = [("Proxy-Authorization", login)]
        exchange.key = ("" if proxy is None else proxy.key, origin.text)
        data = self._writer.write(request, target, origin.authority, jar, extra)
        total = settings.total_timeout if request.total_timeout is None else request.total_timeout
        exchange.deadline = self._loop.time() + total
        kept = self._pool.take(exchange.key)
        if kept is not None:
            try:
                return await self._ask(exchange, kept, data)
            except LostError:
                if kept.received or request.method not in IDEMPOTENT:
                    raise
        self._release(exchange)
        return await self._ask(exchange, await self._dial(exchange, origin), data)

    async def _ask(self, exchange: _Exchange, connection: HttpConnection, data: bytes) -> Head:
        request, settings = exchange.request, self._settings
        exchange.connection = connection
        self._busy.add(connection)
        check_lease(self._loop.time())
        connection.send(
            data,
            is_head=request.method == "HEAD",
            enough=min(SMALL, request.max_body or settings.max_body),
            read_timeout=settings.read_timeout if request.read_timeout is None else request.read_timeout,
            deadline=exchange.deadline,
        )
        return await connection.answer()

    async def _receive(self, exchange: _Exchange, head: Head) -> Response:
        request, connection = exchange.request, exchange.connection
        assert connection is not None
        status, headers = head.status, CIMultiDict(head.fields)
        if status == 407 and request.proxy is not None and request.proxy.forwards(request.url):
            raise ProxyAuthError
        cookies = headers.getall("Set-Cookie", ())
        if cookies and exchange.jar is not None:
            exchange.jar.set(cookies, parse_url(request.url))
        wire_bytes, body = await read_answer(
            connection.read, request, status, headers, self._settings.max_body
        )
        return Response(
            url=request.url,
            status=status,
            headers=headers,
            body=body,
            elapsed=self._clock.monotonic() - exchange.started,
            first_byte=connection.first_byte - exchange.started,
            wire_bytes=wire_bytes,
            cookies=tuple(cookies) if 300 <= status < 400 else (),
        )

    def _release(self, exchange: _Exchange) -> None:
        """Keeps the connection for the next request, if it can be."""
        connection, exchange.connection = exchange.connection, None
        if connection is None:
            return
        self._busy.discard(connection)
        if connection.end() and exchange.may_keep:
            self._pool.put(exchange.key, connection)
        else:
            connection.abort()

    def _failure(self, exc: Exception, started: float, exchange: _Exchange | None = None) -> Failure:
        proxy = status = None
        if exchange is not None:
            # A gateway is a server like any other.
            proxy = None if isinstance(exchange.request.proxy, Gateway) else exchange.request.proxy
            status = None if exchange.connection is None else exchange.connection.status
        if proxy is None or exchange is None:
            kind, detail = explain(exc)
        else:
            kind, detail = explain_proxy(exc, proxy.name, exchange.stage)
        return Failure(kind=kind, detail=detail, status=status, elapsed=self._clock.monotonic() - started)

    # -- connections

    def _check_unresolved(self, origin: Origin) -> None:
        """Whether a proxy may be asked for this host, whose address only the proxy knows."""
        self._guard.check_unresolved(origin.host, origin.port)

    async def _dial(self, exchange: _Exchange, origin: Origin) -> HttpConnection:
        self._pool.make_room()
        left = exchange.deadline - self._loop.time()
        try:
            async with asyncio.timeout(min(self._settings.connect_timeout, left)) as timeout:
                connection = await self._dialer.open(origin, exchange.request.proxy, exchange.set_stage)
        except TimeoutError:
            if timeout.expired() and self._settings.connect_timeout < left:
                raise ConnectTimeoutError from None
            raise
        exchange.stage = "connected"
        return connection


class _Exchange:
    """One request, and how far it is."""

    __slots__ = ("connection", "deadline", "jar", "key", "request", "stage", "started")

    def __init__(self, request: FetchRequest, started: float) -> None:
        self.request = request
        self.started = started
        self.deadline = 0.0  # in the loop's time
        self.key: Key = ("", "")
        self.jar: CookieJar | None = None
        self.connection: HttpConnection | None = None
        self.stage: Stage = "connected"  # unless a connection has to be opened

    def set_stage(self, stage: Stage) -> None:
        self.stage = stage

    @property
    def may_keep(self) -> bool:
        """Whether the connection may serve another request. Requests may name thousands of SOCKS proxies, and users of
        one may vary."""
        proxy = self.request.proxy
        if proxy is None or proxy.scheme != "socks5":
            return True
        return bool(proxy.pool) and proxy.key == proxy.name
