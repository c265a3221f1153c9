"""HTTP/1.1 over aiohttp: one exchange at a time, bounded in time and size, from allowed addresses only.

The frontier decides when and how often a host is hit, so nothing here queues, retries or follows redirects. One
exception: if the server closed a kept-alive connection while it was idle, the request never arrived and is sent again.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import lru_cache, partial
from typing import Any

import aiohttp
from aiohttp import StreamReader
from aiohttp.abc import AbstractCookieJar
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http import RawResponseMessage
from aiohttp.http_exceptions import HttpProcessingError
from multidict import CIMultiDict
from yarl import URL

from shoal.admit.sending import without_route
from shoal.clock import Clock
from shoal.fetch.aiohttp_private import Connector, Protocol, SiteJar, SocketConnector, never_repeat
from shoal.fetch.body_reader import Meter, read_answer
from shoal.fetch.deadline import check_lease
from shoal.fetch.failures import BrokenAnswerError, FloodError, ProxyAuthError, Stage, explain, explain_proxy
from shoal.fetch.guard import Guard
from shoal.fetch.http_answer import SWITCHING, AnswerRepair
from shoal.fetch.proxy.gateway import Gateway
from shoal.fetch.proxy.proxy import Proxy
from shoal.fetch.proxy.socks import open_tunnel
from shoal.fetch.resolver import Resolver
from shoal.fetch.slots import connections, file_limit
from shoal.fetch.transport import FetchRequest
from shoal.limits import ANSWER_HEADERS, BODY_OVERHEAD, HEADER_LINES
from shoal.model import Failure, Outcome, Response
from shoal.settings import Settings

_ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
_ACCEPT_ENCODING = "gzip, deflate, br, zstd"
_KEEP_ALIVE = 15.0
_MAX_IDLE = 512  # idle connections; each holds a file descriptor
_CONNECTIONS: dict[str, Any] = {
    "limit": 0,  # the frontier bounds concurrency
    "keepalive_timeout": _KEEP_ALIVE,
    "use_dns_cache": False,  # the resolver has one
}
IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})

# Of the current fetch: whether it opened a connection, how far that is, and the jar with its cookies.
_dialled: ContextVar[bool] = ContextVar("shoal_dialled", default=True)
_stage: ContextVar[Stage] = ContextVar("shoal_stage", default="connected")
_jar: ContextVar[AbstractCookieJar] = ContextVar("shoal_jar")
_socks: ContextVar[Proxy] = ContextVar("shoal_socks")


class HttpTransport:
    """Fetches over HTTP. Must be made inside a running loop, and closed in it."""

    def __init__(
        self, settings: Settings, guard: Guard, clock: Clock, resolver: Resolver | None = None
    ) -> None:
        self._settings = settings
        self._guard = guard
        self._clock = clock
        self.resolver = resolver or Resolver(settings)
        self._owns_resolver = resolver is None
        self.jar = SiteJar() if settings.cookies else aiohttp.DummyCookieJar()
        names = self.resolver.for_connector(guard)
        self._direct = self._client(
            _Connector(
                resolver=names,
                socket_factory=guard.socket_factory,
                min_rate=settings.min_rate,
                **_CONNECTIONS,
            )
        )
        # One for all HTTP proxies, one for each SOCKS proxy of a pool, one for those that requests name.
        self._through: dict[str, aiohttp.ClientSession] = {}
        self._timeout = lru_cache(maxsize=256)(self._make_timeout)

    def _client(self, connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
        client = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=_CurrentJar(),
            headers=default_headers(self._settings),
            auto_decompress=False,  # read_answer does that
            max_field_size=ANSWER_HEADERS,
            max_headers=HEADER_LINES,
        )
        never_repeat(client)
        return client

    async def fetch(self, request: FetchRequest) -> Outcome:
        gateway = request.proxy
        if not isinstance(gateway, Gateway):
            return await self._fetch(request)
        try:
            self._check_unresolved(parse_url(request.url))
        except Exception as exc:
            return self._failure(exc, self._clock.monotonic())
        asked = gateway.request_for(request, self._settings.total_timeout)
        return asked if isinstance(asked, Failure) else gateway.outcome(request, await self._fetch(asked))

    async def _fetch(self, request: FetchRequest) -> Outcome:
        started = self._clock.monotonic()
        try:
            response = await self._send(request)
        except Exception as exc:
            return self._failure(exc, started, proxy=_proxy_of(request))
        try:
            return await self._receive(request, response, started)
        except Exception as exc:
            return self._failure(exc, started, response.status, _proxy_of(request))
        finally:
            if not response.closed:  # anything but a body read to its end
                response.close()

    async def close(self) -> None:
        for client in (self._direct, *self._through.values()):
            await client.close()
        if self._owns_resolver:
            await self.resolver.close()

    async def _send(self, request: FetchRequest) -> aiohttp.ClientResponse:
        """Sends the request and waits for the headers of the answer."""
        url = parse_url(request.url)
        if request.proxy is not None:
            _stage.set("connected")  # unless a connection has to be opened
            if not isinstance(request.proxy, Gateway):
                self._check_unresolved(url)
        jar = self.jar if request.jar is None else request.jar  # an empty one is false
        _jar.set(jar)
        if request.cookies and request.referrer_url:
            jar.update_cookies_from_headers(request.cookies, parse_url(request.referrer_url))
        _dialled.set(False)
        try:
            return await self._ask(request, url)
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
            if _dialled.get() or request.method not in IDEMPOTENT:
                raise
            return await self._ask(request, url)

    def _check_unresolved(self, url: URL) -> None:
        """Whether a proxy may be asked for this host, whose address only the proxy knows."""
        self._guard.check_unresolved(url.raw_host or "", url.port or 0)

    async def _ask(self, request: FetchRequest, url: URL) -> aiohttp.ClientResponse:
        if request.proxy is not None:
            return await self._ask_through(request.proxy, request, url)
        return await self._direct.request(
            request.method,
            url,
            headers=request.headers,
            data=request.body,
            allow_redirects=False,
            timeout=self._timeout(request.total_timeout, request.read_timeout),
        )

    async def _ask_through(self, proxy: Proxy, request: FetchRequest, url: URL) -> aiohttp.ClientResponse:
        headers = request.headers
        way: dict[str, Any] = {}
        if proxy.scheme not in ("socks5", "gateway"):
            login = {} if (text := proxy.header()) is None else {"Proxy-Authorization": text}
            way = {"proxy": proxy.url}
            if url.scheme == "https":
                way["proxy_headers"] = CIMultiDict(login)  # with the CONNECT
            else:
                headers = {**(headers or {}), **login}
        return await self._client_for(proxy).request(
            request.method,
            url,
            headers=headers,
            data=request.body,
            allow_redirects=False,
            timeout=self._timeout(request.total_timeout, request.read_timeout),
            **way,
        )

    def _client_for(self, proxy: Proxy) -> aiohttp.ClientSession:
        """A client whose sockets all go to proxies. The user chose those, so the guard checks the targets instead."""
        key = "gateway" if proxy.scheme == "gateway" else "http"
        if proxy.scheme == "socks5":
            key = proxy.name if proxy.pool and proxy.key == proxy.name else "socks5"
            _socks.set(proxy)
        client = self._through.get(key)
        if client is None:
            kind = {"http": _ProxyConnector, "gateway": _Connector}.get(key, _SocksConnector)
            options: dict[str, Any] = dict(_CONNECTIONS)
            if key == "socks5":
                # Requests may name thousands, and users of one may vary: they share a client, so no connection is kept
                # for the next request.
                options |= {"force_close": True, "keepalive_timeout": None}
            names, min_rate = self.resolver.for_connector(), self._settings.min_rate
            client = self._through[key] = self._client(kind(resolver=names, min_rate=min_rate, **options))
        return client

    async def _receive(
        self, request: FetchRequest, response: aiohttp.ClientResponse, started: float
    ) -> Response:
        first_byte = self._clock.monotonic() - started
        headers = response.headers
        if response.status == 407 and request.proxy is not None and request.proxy.forwards(request.url):
            raise ProxyAuthError
        wire_bytes, body = await read_answer(
            response.content.readany, request, response.status, headers, self._settings.max_body
        )
        return Response(
            url=request.url,
            status=response.status,
            headers=headers,
            body=body,
            elapsed=self._clock.monotonic() - started,
            first_byte=first_byte,
            wire_bytes=wire_bytes,
            cookies=tuple(headers.getall("Set-Cookie", ())) if 300 <= response.status < 400 else (),
        )

    def _failure(
        self, exc: Exception, started: float, status: int | None = None, proxy: Proxy | None = None
    ) -> Failure:
        kind, detail = explain(exc) if proxy is None else explain_proxy(exc, proxy.name, _stage.get())
        return Failure(kind=kind, detail=detail, status=status, elapsed=self._clock.monotonic() - started)

    def _make_timeout(self, total: float | None, read: float | None) -> aiohttp.ClientTimeout:
        settings = self._settings
        return aiohttp.ClientTimeout(
            total=settings.total_timeout if total is None else total,
            connect=settings.connect_timeout,
            sock_read=settings.read_timeout if read is None else read,
        )


def _proxy_of(request: FetchRequest) -> Proxy | None:
    """The proxy that may have failed. A gateway is a server like any other."""
    return None if isinstance(request.proxy, Gateway) else request.proxy


Step = Callable[[], Awaitable[ResponseHandler]]


class _Connector(Connector):
    """Checks the lease before a connection is used, notes when a fetch opens one, and closes idle ones before they use
    up the file descriptors."""

    def __init__(self, *, min_rate: float, **options: Any) -> None:
        super().__init__(protocol=partial(BoundedProtocol, min_rate=min_rate), **options)
        limit = file_limit()
        self._most_idle = min(_MAX_IDLE, connections(limit)[1]) if limit else _MAX_IDLE

    async def connect(self, *args: Any, **kwargs: Any) -> Connection:
        connection = await super().connect(*args, **kwargs)
        try:
            check_lease()
        except asyncio.CancelledError:
            connection.close()
            raise
        return connection

    async def dial(self, step: Step) -> ResponseHandler:
        _dialled.set(True)
        self.close_idle(self._most_idle)
        return await step()


class _ProxyConnector(_Connector):
    """Connects to hosts through HTTP proxies."""

    async def dial(self, step: Step) -> ResponseHandler:
        _stage.set("dialling")
        protocol = await super().dial(step)
        _stage.set("connected")
        return protocol

    def on_proxy(self) -> None:
        _stage.set("tunnelling")


class _SocksConnector(_ProxyConnector, SocketConnector):
    """Connects to hosts through the SOCKS proxy of the current fetch."""

    async def open_socket(self, host: str, port: int) -> socket.socket:
        return await open_tunnel(_socks.get(), host, port, self.on_proxy)


class _CurrentJar(aiohttp.DummyCookieJar):
    """Stands for the jar of the current request: many sessions share one client."""

    def filter_cookies(self, request_url: URL) -> Any:
        return _jar.get().filter_cookies(request_url)

    def update_cookies_from_headers(self, headers: Any, response_url: URL) -> None:
        _jar.get().update_cookies_from_headers(headers, response_url)


def parse_url(text: str) -> URL:
    try:
        url = URL(text, encoded=True)
        if url.raw_host and url.port:  # the port is only parsed when asked for
            if without_route(text).endswith("?"):  # yarl would drop it
                return url.with_path(f"{url.raw_path}?", encoded=True)
            return url
    except ValueError:
        pass
    raise aiohttp.InvalidURL(text)


def default_headers(settings: Settings) -> CIMultiDict[str]:
    headers = CIMultiDict(
        {"User-Agent": settings.user_agent, "Accept": _ACCEPT, "Accept-Encoding": _ACCEPT_ENCODING}
    )
    headers.update(settings.headers)
    return headers


class BoundedProtocol(Protocol):
    """aiohttp's side of an HTTP/1.1 connection: repairs what servers get wrong, and bounds what is not body.

    Whoever reads a body bounds it. But the parser consumes interim answers, empty lines and tiny chunks without telling
    how many there were, and it parses data on an idle connection into answers to no request.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, min_rate: float) -> None:
        super().__init__(loop)
        self._meter = Meter(min_rate, loop.time)
        self._received = 0  # bytes of the current exchange
        self._answer: StreamReader | None = None  # the body of the final answer, once its head is there
        self._repair: AnswerRepair | None = None  # of the exchange

    def set_response_params(self, **params: Any) -> None:
        """A request is about to be sent."""
        self._received = 0
        self._answer = None
        self._meter.reset()
        self._repair = AnswerRepair(is_head=params.get("skip_payload", False))
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        if self._answer is not None and self._answer.is_eof() and data:
            self._cut(None)  # the answer is complete: this is not part of it
            return
        if self._repair is None or not data:
            super().data_received(data)  # no request yet, or only room in the buffer again
            return
        self._received += len(data)
        clean = self._repair.feed(data)
        if self._repair.odd:
            self.keep_no_longer()
        if clean:
            super().data_received(clean)
        else:
            self.put_off_timeout()
        if self._repair.error is not None:
            self._cut(self._repair.error)
        else:
            self._check(len(data))

    def _check(self, arrived: int) -> None:
        answer, received = self._answer, self._received
        if self._meter.is_too_slow(arrived) and (answer is None or not answer.is_eof()):
            self._cut(self._meter.error())
        elif answer is None:
            if received > ANSWER_HEADERS:
                self._cut(BrokenAnswerError(f"no end of its headers within {ANSWER_HEADERS} bytes"))
        elif not answer.is_eof() and received > BODY_OVERHEAD + 1.5 * answer.total_raw_bytes:
            self._cut(FloodError(f"{received} bytes for {answer.total_raw_bytes} of a body"))

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """Takes the head of an answer from the parser."""
        message, body = data
        if message.code >= 200 or message.code == SWITCHING:
            self._answer = body
            super().feed_data(data, size)

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        """Also fails the reader of a body whose framing breaks; it would wait until the deadline otherwise."""
        payload = self.body
        super().set_exception(exc, *cause)
        if isinstance(exc, HttpProcessingError) and payload is not None and not payload.is_eof():
            payload.set_exception(aiohttp.ClientPayloadError(exc.message), *cause)

    def close(self) -> None:
        """At once: over TLS, a polite close would wait up to half a minute for the server."""
        self.abort()

    def _cut(self, error: Exception | None) -> None:
        """Ends the connection; with an error, the exchange as well."""
        self.keep_no_longer()
        if error is not None:
            self.set_exception(error)
            if self._answer is not None and not self._answer.is_eof():
                self._answer.set_exception(error)
        if self.transport is not None:
            self.transport.abort()
