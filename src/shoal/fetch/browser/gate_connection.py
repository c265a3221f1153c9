"""One connection of a client at a door of the gate, from its first request to its end.

    request ──▶ password? ──▶ CONNECT: a tunnel, until either side ends it
                          └─▶ http://…: exchanges, one after another

If a target cannot be reached, the door notes why. The client then gets no answer, or its tunnel is refused: an error
page of ours would look like the site's.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
from typing import Protocol

from msgspec import Struct

from shoal.fetch.dialer import Dialer, Streams, relay
from shoal.fetch.failures import FloodError, explain
from shoal.fetch.http_messages import (
    Head,
    MessageError,
    answer_framing,
    body,
    read_head,
    request_framing,
    status_of,
)
from shoal.limits import INTERIM_ANSWERS
from shoal.model import Failure

log = logging.getLogger(__name__)

_START = re.compile(rb"([A-Z]{1,20}) (\S+) HTTP/1\.[01]")
_AUTHORITY = re.compile(rb"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._~-]+))(?::([0-9]{1,5}))?")
_PLAIN_URL = re.compile(rb"http://([^/?#]*)([^#]*)", re.IGNORECASE)

_ASK_PASSWORD = (
    b"HTTP/1.1 407 Proxy Authentication Required\r\n"
    b'Proxy-Authenticate: Basic realm="gate"\r\nContent-Length: 0\r\n\r\n'
)
_BAD = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_UNREACHABLE = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_TUNNEL = b"HTTP/1.1 200 Connection established\r\n\r\n"


class ConnectionLog(Protocol):
    """What a door records about its connections."""

    wire_bytes: int

    def note(self, target: Target, failure: Failure | None) -> None:
        """Why the target cannot be reached; None: it can."""
        ...


class ClientConnection:
    def __init__(self, near: Streams, dialer: Dialer, book: ConnectionLog, token: bytes, idle: float) -> None:
        self._reader, self._writer = near
        self._dialer = dialer
        self._upstream = Upstream(dialer)
        self._log = book
        self._token = token
        self._idle = idle
        self._touched = 0.0  # when it was last active
        self._timer: asyncio.TimerHandle

    async def run(self) -> None:
        """Raises only CancelledError. A connection that is idle for too long is cancelled."""
        task = asyncio.current_task()
        assert task is not None
        self._touch()
        self._watch(task)
        try:
            await self._serve()
            if not self._writer.is_closing():  # else it was a tunnel, and is over
                self._writer.close()
                await self._writer.wait_closed()
        except (OSError, MessageError, UpstreamError):
            pass  # either side went away, or does not speak HTTP
        except Exception:
            log.exception("the gate failed a connection")
        finally:
            self._timer.cancel()
            self._writer.transport.abort()
            self._upstream.drop()

    def _watch(self, task: asyncio.Task[None]) -> None:
        loop = asyncio.get_running_loop()
        rest = self._touched + self._idle - loop.time()
        if rest > 0:
            self._timer = loop.call_later(rest, self._watch, task)
        else:
            task.cancel()

    def _touch(self) -> None:
        self._touched = asyncio.get_running_loop().time()

    async def _serve(self) -> None:
        while (head := await read_head(self._reader)) is not None:
            self._touch()
            if not self._is_known(head):
                await self._ask_password(head)
                continue
            request = _understand(head)
            if request is None:
                self._writer.write(_BAD)
                return
            if request.method == b"CONNECT":
                await self._tunnel(request.target)
                return
            if not await self._exchange(request):
                return

    def _is_known(self, head: Head) -> bool:
        scheme, _, token = head.get(b"proxy-authorization").partition(b" ")
        return scheme.lower() == b"basic" and hmac.compare_digest(token.strip(), self._token)

    async def _ask_password(self, head: Head) -> None:
        async for _ in body(self._reader, request_framing(head)):
            self._touch()
        self._writer.write(_ASK_PASSWORD)
        await self._writer.drain()

    async def _tunnel(self, target: Target) -> None:
        far = await self._dialer.open(target.host, target.port, tunnel=True)
        if isinstance(far, Failure):
            self._log.note(target, far)
            self._writer.write(_UNREACHABLE)
            return
        self._log.note(target, None)
        self._writer.write(_TUNNEL)
        try:
            await relay((self._reader, self._writer), far, self._sent, self._received)
        finally:
            far[1].transport.abort()

    def _sent(self, size: int) -> None:
        self._touch()

    def _received(self, size: int) -> None:
        self._touch()
        self._log.wire_bytes += size

    async def _pass_on(self, data: bytes) -> None:
        self._received(len(data))
        self._writer.write(data)
        await self._writer.drain()

    async def _exchange(self, request: PlainRequest) -> bool:
        """One request and its answer; whether another may follow."""
        reached = await self._upstream.reach(request.target)
        if isinstance(reached, Failure):
            self._log.note(request.target, reached)
            return False
        try:
            answer = await self._upstream.ask(request, self._reader)
        except UpstreamError as lost:
            # A kept connection may have ended unnoticed: the client asks again, and that counts.
            if not reached:
                self._log.note(request.target, lost.failure)
            raise
        self._log.note(request.target, None)
        return await self._answer(request, answer)

    async def _answer(self, request: PlainRequest, answer: Head) -> bool:
        framing = answer_framing(answer, request.method)
        goes_on = request.head.keeps_alive() and not framing.ends_with_connection
        await self._pass_on(answer.passed_on(answer.start, () if goes_on else ((b"Connection", b"close"),)))
        try:
            async for part in body(self._upstream.reader, framing):
                await self._pass_on(part)
        except MessageError:
            return False  # the client notices that the body ends early
        if not answer.keeps_alive():
            self._upstream.drop()
        return goes_on


def _understand(head: Head) -> PlainRequest | None:
    """The request; None if it is not one for a proxy."""
    start = _START.fullmatch(head.start)
    if start is None:
        return None
    method, url = start.groups()
    if method == b"CONNECT":
        authority, path, port = url, b"", None
    elif (plain := _PLAIN_URL.fullmatch(url)) is not None:
        authority, path, port = plain[1], plain[2], 80
    else:
        return None
    match = _AUTHORITY.fullmatch(authority)
    if match is None or not 0 < (number := int(match[3] or port or 0)) < 65_536:
        return None
    return PlainRequest(head, method, Target((match[1] or match[2]).decode(), number), authority, path)


# -- plain http:// requests: one exchange after another, over one connection for a host


class Target(Struct, frozen=True):
    host: str
    port: int


class PlainRequest(Struct, frozen=True):
    head: Head
    method: bytes
    target: Target
    authority: bytes  # host and port as the client wrote them
    path: bytes


class UpstreamError(Exception):
    """The server or the proxy did not answer correctly."""

    def __init__(self, kind: str, detail: str) -> None:
        self.failure = Failure(kind=kind, detail=detail)


class Upstream:
    """The connection to the host that a client asks for; opened anew when it asks for another host."""

    def __init__(self, dialer: Dialer) -> None:
        self._dialer = dialer
        self._ends: Streams | None = None
        self._target: Target | None = None

    async def reach(self, target: Target) -> bool | Failure:
        """Makes sure there is a connection. True: a kept one, which may have ended unnoticed."""
        if self._ends is not None and self._target == target and not self._ends[0].at_eof():
            return True
        self.drop()
        ends = await self._dialer.open(target.host, target.port, tunnel=False)
        if isinstance(ends, Failure):
            return ends
        self._ends, self._target = ends, target
        return False

    def drop(self) -> None:
        if self._ends is not None:
            self._ends[1].transport.abort()
            self._ends = None

    @property
    def reader(self) -> asyncio.StreamReader:
        assert self._ends is not None
        return self._ends[0]

    async def send(self, data: bytes) -> None:
        assert self._ends is not None
        try:
            self._ends[1].write(data)
            await self._ends[1].drain()
        except OSError:
            raise UpstreamError("reset", "the server closed the connection while it was asked") from None

    async def ask(self, request: PlainRequest, near: asyncio.StreamReader) -> Head:
        """Sends a request with its body, and returns the head of the answer."""
        start = b"%s %s HTTP/1.1" % (request.method, self._address(request))
        extra = [(b"Host", request.authority)]
        if self._dialer.forwards and (login := self._dialer.login) is not None:
            extra.append((b"Proxy-Authorization", login))
        framing = request_framing(request.head)
        await self.send(request.head.passed_on(start, extra))
        async for part in body(near, framing):
            await self.send(part)
        return await self._answer()

    def _address(self, request: PlainRequest) -> bytes:
        path = request.path if request.path.startswith(b"/") else b"/" + request.path
        return b"http://" + request.authority + path if self._dialer.forwards else path

    async def _answer(self) -> Head:
        for _ in range(INTERIM_ANSWERS + 1):
            try:
                head = await read_head(self.reader)
                status = 0 if head is None else status_of(head)
            except OSError:
                head = None
            except MessageError as error:
                raise UpstreamError("protocol", f"not a valid HTTP answer: {error}") from None
            if head is None:
                raise UpstreamError("reset", "the server closed the connection without a complete answer")
            if status == 407:  # the client would take it for the gate's
                raise self._login_refused()
            if status == 101:
                raise UpstreamError("protocol", "not a valid HTTP answer: it changes the protocol unasked")
            if status >= 200:  # interim answers are dropped
                return head
        raise UpstreamError(*explain(FloodError(f"more than {INTERIM_ANSWERS} interim answers (1xx)")))

    def _login_refused(self) -> UpstreamError:
        if self._dialer.forwards:
            refused = self._dialer.login_refused()
            return UpstreamError(refused.kind, refused.detail)
        return UpstreamError("protocol", "not a valid HTTP answer: a server answered as proxies do, with 407")
