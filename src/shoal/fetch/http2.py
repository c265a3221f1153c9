"""HTTP/2 for hosts that offer it, under the same bounds as HTTP/1.1 (`http.py`).

Many exchanges share one connection to a host (`http2_connection.py`). The guard checks every address. A host that does
not accept HTTP/2 gets HTTP/1.1 from then on.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from functools import partial
from weakref import WeakValueDictionary

from multidict import CIMultiDict
from yarl import URL

from shoal.clock import Clock
from shoal.errors import SettingsError
from shoal.fetch.body_reader import Meter, read_answer
from shoal.fetch.cookie_jar import CookieJar
from shoal.fetch.deadline import check_lease
from shoal.fetch.dialer import Dialer, HostConnector, sockets_closed
from shoal.fetch.failures import (
    BrokenAnswerError,
    ConnectTimeoutError,
    LostError,
    NotTakenError,
    explain,
    explain_tls,
)
from shoal.fetch.guard import Guard
from shoal.fetch.http import IDEMPOTENT, HttpTransport
from shoal.fetch.http_answer import escape_bytes
from shoal.fetch.http_request import cookie_header, default_headers, parse_url, split_url
from shoal.fetch.proxy.proxy import Proxy
from shoal.fetch.transport import FetchRequest
from shoal.model import Failure, Outcome, Response
from shoal.settings import Settings

try:
    from shoal.fetch.http2_connection import Exchange, Header, Http2Connection
except ImportError:
    raise SettingsError("http2: needs the package h2: pip install 'shoal[http2]'") from None

_MAX_IDLE = 256  # idle connections; each holds a file descriptor
_MAX_PLAIN = 10_000  # hosts known not to accept HTTP/2
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Headers of HTTP/1.1 connections.
_NOT_SENT = frozenset(
    {"connection", "host", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"}
)

Key = tuple[str, str, int]  # name of the proxy, host, port


class _Refused(Exception):
    """No connection; `failure` says why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.detail)
        self.failure = failure


def wants_http2(settings: Settings, host: str) -> bool:
    """Whether HTTP/2 is to be tried with a host."""
    if not settings.http2 or not settings.http2_hosts:
        return settings.http2
    name = host.lower().rstrip(".")
    return any(name == other or name.endswith(f".{other}") for other in map(str.lower, settings.http2_hosts))


class Http2Transport:
    """Fetches over HTTP/2 where a host offers it, otherwise by `http`, which the caller closes. Must be made inside a
    running loop, and closed in it."""

    def __init__(self, settings: Settings, guard: Guard, clock: Clock, http: HttpTransport) -> None:
        self._settings = settings
        self._guard = guard
        self._clock = clock
        self._http = http
        self._headers = default_headers(settings)
        self._hosts = HostConnector(guard, http.resolver)
        self._pool: dict[Key, list[Http2Connection]] = {}  # the last used comes last
        self._plain: dict[Key, None] = {}  # do not accept HTTP/2
        self._opening: WeakValueDictionary[Key, asyncio.Lock] = WeakValueDictionary()
        self._tls = ssl.create_default_context()
        self._tls.set_alpn_protocols(["h2", "http/1.1"])

    def suits(self, request: FetchRequest) -> bool:
        """Whether a request should be made over HTTP/2."""
        if not request.url.startswith("https://"):
            return False
        return not self._settings.http2_hosts or wants_http2(self._settings, URL(request.url).host or "")

    async def fetch(self, request: FetchRequest) -> Outcome:
        started = self._clock.monotonic()
        total = self._settings.total_timeout if request.total_timeout is None else request.total_timeout
        status: list[int] = []
        try:
            async with asyncio.timeout(total):
                answer = await self._exchange(request, started, status)
                return answer if answer is not None else await self._http.fetch(request)
        except _Refused as refused:
            return refused.failure
        except Exception as exc:
            elapsed = self._clock.monotonic() - started
            kind, detail = _explain(exc, answered=bool(status))
            return Failure(kind=kind, detail=detail, status=status[0] if status else None, elapsed=elapsed)

    async def close(self) -> None:
        for connections in tuple(self._pool.values()):
            for connection in tuple(connections):
                connection.abort()
        await sockets_closed()

    # -- one exchange

    async def _exchange(self, request: FetchRequest, started: float, status: list[int]) -> Response | None:
        """The answer; None if the host does not accept HTTP/2. `status` is filled in as soon as it is known."""
        url = parse_url(request.url)
        key = (request.proxy.key if request.proxy else "", url.raw_host or "", url.port or 443)
        if key in self._plain:
            return None
        jar = self._http.jar if request.jar is None else request.jar  # an empty one is false
        if request.cookies and request.referrer_url:
            jar.set(request.cookies, parse_url(request.referrer_url))
        headers = self._headers_for(request, jar, url)
        exchange = await self._begin(key, request, headers)
        if exchange is None or exchange.status is None:
            return None
        status.append(exchange.status)
        try:
            return await self._receive(request, exchange, exchange.status, jar, url, started)
        finally:
            exchange.close()

    async def _receive(
        self,
        request: FetchRequest,
        exchange: Exchange,
        status: int,
        jar: CookieJar,
        url: URL,
        started: float,
    ) -> Response:
        first_byte = self._clock.monotonic() - started
        headers = CIMultiDict(
            (
                name.decode("latin-1"),
                (escape_bytes(value) if name == b"location" else value).decode("utf-8", "surrogateescape"),
            )
            for name, value in exchange.headers
        )
        cookies = headers.getall("Set-Cookie", ())
        if cookies:
            jar.set(cookies, url)
        wire_bytes, body = await self._read(request, exchange, status, headers)
        return Response(
            url=request.url,
            status=status,
            headers=headers,
            body=body,
            elapsed=self._clock.monotonic() - started,
            first_byte=first_byte,
            wire_bytes=wire_bytes,
            cookies=tuple(cookies) if 300 <= status < 400 else (),
        )

    async def _read(
        self, request: FetchRequest, exchange: Exchange, status: int, headers: CIMultiDict[str]
    ) -> tuple[int, bytes]:
        """The length of the body as sent, and the body decoded."""
        meter = Meter(self._settings.min_rate, self._clock.monotonic)

        async def read() -> bytes:
            piece = await exchange.read(self._silence(request))
            if piece and meter.is_too_slow(len(piece)):
                raise meter.error()
            return piece

        return await read_answer(read, request, status, headers, self._settings.max_body)

    def _silence(self, request: FetchRequest) -> float:
        return self._settings.read_timeout if request.read_timeout is None else request.read_timeout

    def _headers_for(self, request: FetchRequest, jar: CookieJar, url: URL) -> list[Header]:
        headers = self._headers.copy()
        headers.update(request.headers or {})
        if cookies := cookie_header(headers.pop("Cookie", ""), jar, url):
            headers["Cookie"] = cookies
        headers.popall("Content-Length", None)  # another length than that of the body ends the exchange
        if request.body:
            headers["Content-Length"] = str(len(request.body))
        return [
            (b":method", request.method.encode()),
            (b":scheme", b"https"),
            (b":authority", (url.host_port_subcomponent or "").encode()),
            (b":path", split_url(request.url)[1].encode()),
            *(_header(name, value) for name, value in headers.items() if name.lower() not in _NOT_SENT),
        ]

    # -- connections

    async def _begin(self, key: Key, request: FetchRequest, headers: list[Header]) -> Exchange | None:
        """Sends the request and waits for the head of the answer; None if the host does not accept HTTP/2.

        The request is sent again if the server has not processed it, or closed a kept connection while it was idle.
        """
        timeout = self._silence(request)
        for is_last in (False, True):
            connection = await self._connection(key, request.proxy)
            if connection is None:
                return None
            kept = not connection.fresh
            check_lease(asyncio.get_running_loop().time())
            exchange = connection.begin(headers, ends=not request.body)
            try:
                if request.body:
                    await exchange.send(request.body, timeout)
                await exchange.head(timeout)
            except LostError as error:
                exchange.close()
                may_repeat = kept and connection.ended and request.method in IDEMPOTENT
                if is_last or not (may_repeat or isinstance(error, NotTakenError)):
                    raise
            except BaseException:
                exchange.close()
                raise
            else:
                return exchange
        return None

    async def _connection(self, key: Key, proxy: Proxy | None) -> Http2Connection | None:
        """A connection with room for an exchange; None if the host does not accept HTTP/2."""
        async with self._opening.setdefault(key, asyncio.Lock()):
            if key in self._plain:
                return None
            for connection in self._pool.get(key, ()):
                if connection.has_room:
                    self._pool[key] = self._pool.pop(key)
                    return connection
            opened = await self._open(key, proxy)
            if opened is None:
                if len(self._plain) >= _MAX_PLAIN:
                    del self._plain[next(iter(self._plain))]
                self._plain[key] = None
            return opened

    async def _open(self, key: Key, proxy: Proxy | None) -> Http2Connection | None:
        self._make_room()
        _, host, port = key
        timeout = self._settings.connect_timeout
        connection = Http2Connection(partial(self._drop, key))
        try:
            async with asyncio.timeout(timeout):
                ends = await Dialer(self._hosts, self._guard, proxy, timeout).open(host, port, tunnel=True)
                if isinstance(ends, Failure):
                    raise _Refused(ends)
                if not await connection.open(ends, self._tls, host):
                    return None
        except ssl.SSLError as error:
            raise _Refused(Failure("tls", explain_tls(host, error))) from None
        except TimeoutError:
            raise ConnectTimeoutError from None
        self._pool.setdefault(key, []).append(connection)
        return connection

    def _make_room(self) -> None:
        idle = [one for connections in self._pool.values() for one in connections if not one.busy]
        for connection in idle[: max(0, len(idle) - _MAX_IDLE + 1)]:
            connection.abort()

    def _drop(self, key: Key, connection: Http2Connection) -> None:
        connections = self._pool.get(key, [])
        if connection in connections:
            connections.remove(connection)
        if not connections:
            self._pool.pop(key, None)


def _explain(exc: Exception, *, answered: bool) -> tuple[str, str]:
    if answered and isinstance(exc, LostError | BrokenAnswerError):
        reason = f": {exc}" if str(exc) else ""
        return "truncated", f"the body is incomplete or its framing is broken{reason}"
    return explain(exc)


def _header(name: str, value: str) -> Header:
    if not _TOKEN.fullmatch(name) or any(sign in value for sign in "\r\n\0"):
        raise ValueError("not a valid header")
    return name.lower().encode(), value.strip(" \t").encode("utf-8", "surrogateescape")
