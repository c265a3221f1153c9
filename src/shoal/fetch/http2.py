"""HTTP/2 over wreq, for hosts that offer it: one exchange at a time, under the same bounds as `fetch.http`.

Many exchanges share one connection to a host. wreq resolves and connects by itself, which the guard could not see; so
it is led through a door of the gate, like a browser. A host that offers no HTTP/2 is spoken to in HTTP/1.1.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from ssl import get_default_verify_paths
from types import ModuleType
from typing import TYPE_CHECKING

import aiohttp
from aiohttp.abc import AbstractCookieJar
from multidict import CIMultiDict
from yarl import URL

from shoal.clock import Clock
from shoal.errors import SettingsError
from shoal.fetch.browser.gate import Door, Gate
from shoal.fetch.decoding import Decoder
from shoal.fetch.failures import BodyTooLargeError, explain
from shoal.fetch.guard import Guard
from shoal.fetch.http import default_headers, parse_url
from shoal.fetch.http2_failures import explain_wreq
from shoal.fetch.proxies import Proxy
from shoal.fetch.sessions import SiteJar
from shoal.fetch.transport import FetchRequest
from shoal.model import Failure, Outcome, Response
from shoal.settings import Settings

if TYPE_CHECKING:
    import wreq

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"})  # that wreq knows
_MAX_HEADERS = 256 * 1024  # bytes of an answer's headers
_KEEP_ALIVE = timedelta(seconds=15)
_MAX_IDLE = 256  # connections
_MAX_WAYS = 64  # proxies with clients of their own
_TLS_SLACK = 1.0  # seconds that a handshake may take longer, so that the gate can say what else took too long


def wants_http2(settings: Settings, host: str) -> bool:
    """Whether HTTP/2 is to be tried with a host."""
    if not settings.http2 or not settings.http2_hosts:
        return settings.http2
    name = host.lower().rstrip(".")
    return any(name == other or name.endswith(f".{other}") for other in map(str.lower, settings.http2_hosts))


class Http2Transport:
    """Fetches over HTTP/2 where a host offers it. Must be made inside a running loop, and closed in it. `jar` is for
    requests that have none of their own."""

    def __init__(
        self, settings: Settings, guard: Guard, clock: Clock, jar: AbstractCookieJar | None = None
    ) -> None:
        self._wreq = load_wreq()
        self._settings = settings
        self._clock = clock
        self._jar = jar if jar is not None else SiteJar() if settings.cookies else aiohttp.DummyCookieJar()
        self._headers = default_headers(settings)
        self._gate = Gate(guard, settings)
        self._ways: dict[str, _Way] = {}  # by the name of their proxy; that used last comes last
        self._opening = asyncio.Lock()
        self._runtime = self._wreq.Runtime(workers=1, thread_name="shoal-http2")

    def suits(self, request: FetchRequest) -> bool:
        """Whether a request should, and can, be made over HTTP/2."""
        if not request.url.startswith("https://") or request.method not in _METHODS:
            return False
        return not self._settings.http2_hosts or wants_http2(self._settings, URL(request.url).host or "")

    async def fetch(self, request: FetchRequest) -> Outcome:
        started = self._clock.monotonic()
        total = self._settings.total_timeout if request.total_timeout is None else request.total_timeout
        exchange = _Exchange(request)
        try:
            async with asyncio.timeout(total):
                return await self._exchange(exchange, started)
        except Exception as exc:
            kind, detail = self._explain(exc, exchange)
            elapsed = self._clock.monotonic() - started
            return Failure(kind=kind, detail=detail, status=exchange.status, elapsed=elapsed)

    async def close(self) -> None:
        for way in self._ways.values():
            way.client.close()
        self._ways.clear()
        await self._gate.close()

    async def _exchange(self, exchange: _Exchange, started: float) -> Response:
        request = exchange.request
        url = parse_url(request.url)
        jar = self._jar if request.jar is None else request.jar  # an empty one is false
        if request.cookies and request.referrer_url:
            jar.update_cookies_from_headers(request.cookies, parse_url(request.referrer_url))
        way = exchange.way = await self._way(request.proxy)
        way.in_use += 1
        try:
            answer = await way.client.request(
                getattr(self._wreq.Method, request.method),
                request.url,
                headers=self._headers_for(request, jar, url),
                body=request.body,
            )
            async with answer.stream() as stream:
                exchange.status = answer.status.as_int()
                first_byte = self._clock.monotonic() - started
                headers = _headers(answer.headers)
                cookies = headers.getall("Set-Cookie", ())
                if cookies:
                    jar.update_cookies_from_headers(cookies, url)
                wire_bytes, body = await self._read(request, stream, headers.get("Content-Encoding", ""))
        finally:
            way.in_use -= 1
        return Response(
            url=request.url,
            status=exchange.status,
            headers=headers,
            body=body,
            elapsed=self._clock.monotonic() - started,
            first_byte=first_byte,
            wire_bytes=wire_bytes,
            cookies=tuple(cookies) if 300 <= exchange.status < 400 else (),
        )

    async def _read(self, request: FetchRequest, stream: wreq.Streamer, encoding: str) -> tuple[int, bytes]:
        """The length of the body as sent, and the body decoded, never holding much more than its cap."""
        cap = request.max_body or self._settings.max_body
        decoder = Decoder(encoding)
        parts: list[bytes] = []
        size = wire_bytes = 0
        async for piece in stream:
            if not isinstance(piece, memoryview):
                continue  # trailers
            wire_bytes += len(piece)
            for part in decoder.feed(bytes(piece)):
                parts.append(part)
                size += len(part)
                if size <= cap:
                    continue
                if request.truncate:
                    return wire_bytes, b"".join(parts)[:cap]
                raise BodyTooLargeError(f"the body is larger than {cap} bytes; raise max_body to take it")
        return wire_bytes, b"".join(parts)

    def _headers_for(self, request: FetchRequest, jar: AbstractCookieJar, url: URL) -> dict[str, str]:
        headers = self._headers.copy()
        headers.update(request.headers or {})
        cookies = _cookies(headers.pop("Cookie", ""))
        cookies.update((name, morsel.coded_value) for name, morsel in jar.filter_cookies(url).items())
        if cookies:
            headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in cookies.items())
        return dict(headers)

    def _explain(self, exc: Exception, exchange: _Exchange) -> tuple[str, str]:
        told = explain_wreq(exc, answered=exchange.status is not None)
        if told is None:
            return explain(exc)
        url = URL(exchange.request.url, encoded=True)
        if told[0] == "connect" and exchange.way is not None:
            trouble = exchange.way.door.trouble(url.raw_host or "", url.port or 443)
            if trouble is not None:
                return trouble.kind, trouble.detail
        return told[0], told[1].format(host=url.raw_host)

    # -- ways

    async def _way(self, proxy: Proxy | None) -> _Way:
        name = "" if proxy is None else proxy.name
        if name not in self._ways:
            async with self._opening:
                if name not in self._ways:
                    await self._make_room()
                    self._ways[name] = await self._open(proxy)
        way = self._ways[name] = self._ways.pop(name)
        return way

    async def _make_room(self) -> None:
        idle = [name for name, way in self._ways.items() if not way.in_use]
        for name in idle[: len(self._ways) - _MAX_WAYS + 1]:
            way = self._ways.pop(name)
            way.client.close()
            await way.door.close()

    async def _open(self, proxy: Proxy | None) -> _Way:
        settings, module = self._settings, self._wreq
        door = await self._gate.open(proxy, connections=settings.concurrency + _MAX_IDLE)
        client = module.Client(
            runtime=self._runtime,
            proxies=[module.Proxy.all(door.url, username=door.username, password=door.password)],
            redirect=module.redirect.Policy.none(),
            connect_timeout=timedelta(seconds=settings.connect_timeout + _TLS_SLACK),
            read_timeout=timedelta(seconds=settings.read_timeout),
            pool_idle_timeout=_KEEP_ALIVE,
            pool_max_size=_MAX_IDLE,
            http2_options=module.Http2Options(max_header_list_size=_MAX_HEADERS, enable_push=False),
            gzip=False,
            brotli=False,
            deflate=False,
            zstd=False,
            **_trust(module),
        )
        return _Way(door, client)


class _Way:
    """A client whose connections all go through one door."""

    def __init__(self, door: Door, client: wreq.Client) -> None:
        self.door = door
        self.client = client
        self.in_use = 0


class _Exchange:
    """How far a request has come."""

    def __init__(self, request: FetchRequest) -> None:
        self.request = request
        self.way: _Way | None = None
        self.status: int | None = None


def load_wreq() -> ModuleType:
    try:
        import wreq
    except ImportError:
        raise SettingsError("http2: needs the package wreq: pip install 'shoal[http2]'") from None
    return wreq


def _trust(module: ModuleType) -> Mapping[str, object]:
    """The certificates that the rest of the system trusts; wreq brings its own, for where there are none."""
    path = get_default_verify_paths().cafile
    return {"tls_verify": module.CertStore.from_pem_stack(Path(path).read_bytes())} if path else {}


def _headers(found: wreq.HeaderMap) -> CIMultiDict[str]:
    return CIMultiDict((str(name, "ascii"), str(value, "utf-8", "surrogateescape")) for name, value in found)


def _cookies(header: str) -> dict[str, str]:
    pairs = (pair.strip().partition("=") for pair in header.split(";"))
    return {name: value for name, _, value in pairs if name}
