"""Plain http:// requests through the gate: one exchange after another, over a connection that is kept for its host."""

from __future__ import annotations

import asyncio

from msgspec import Struct

from shoal.fetch.browser.dialer import Dialler
from shoal.fetch.browser.http1 import Head, MessageError, body, read_head, request_framing, status_of
from shoal.fetch.browser.tunnel import Ends
from shoal.fetch.failures import FloodError, explain
from shoal.limits import INTERIM_ANSWERS
from shoal.model import Failure


class Target(Struct, frozen=True):
    host: str
    port: int


class PlainRequest(Struct, frozen=True):
    head: Head
    method: bytes
    target: Target
    authority: bytes  # host and port as the client wrote them
    path: bytes


class Lost(Exception):
    """The far side did not answer as it should."""

    def __init__(self, kind: str, detail: str) -> None:
        self.failure = Failure(kind=kind, detail=detail)


class FarSide:
    """The connection behind a client's, opened anew when the client turns to another host."""

    def __init__(self, dialler: Dialler) -> None:
        self._dialler = dialler
        self._ends: Ends | None = None
        self._target: Target | None = None

    async def reach(self, target: Target) -> bool | Failure:
        """Makes sure of a connection; whether it is a kept one, which may be dead without our knowing."""
        if self._ends is not None and self._target == target and not self._ends[0].at_eof():
            return True
        self.drop()
        ends = await self._dialler.open(target.host, target.port, tunnel=False)
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
            raise Lost("reset", "the server closed the connection while it was asked") from None

    async def ask(self, request: PlainRequest, near: asyncio.StreamReader) -> Head:
        """Sends a request with its body; the head of the answer."""
        start = b"%s %s HTTP/1.1" % (request.method, self._address(request))
        extra = [(b"Host", request.authority)]
        if self._dialler.forwards and (login := self._dialler.login) is not None:
            extra.append((b"Proxy-Authorization", login))
        framing = request_framing(request.head)
        await self.send(request.head.passed_on(start, extra))
        async for part in body(near, framing):
            await self.send(part)
        return await self._answer()

    def _address(self, request: PlainRequest) -> bytes:
        path = request.path if request.path.startswith(b"/") else b"/" + request.path
        return b"http://" + request.authority + path if self._dialler.forwards else path

    async def _answer(self) -> Head:
        for _ in range(INTERIM_ANSWERS + 1):
            try:
                head = await read_head(self.reader)
                status = 0 if head is None else status_of(head)
            except OSError:
                head = None
            except MessageError as error:
                raise Lost("protocol", f"not a valid HTTP answer: {error}") from None
            if head is None:
                raise Lost("reset", "the server closed the connection without a complete answer")
            if status == 407:  # to the client it would be the gate's own
                raise self._login_refused()
            if status == 101:
                raise Lost("protocol", "not a valid HTTP answer: it changes the protocol unasked")
            if status >= 200:  # before it come hints, for which nobody waits
                return head
        raise Lost(*explain(FloodError(f"more than {INTERIM_ANSWERS} interim answers (1xx)")))

    def _login_refused(self) -> Lost:
        if self._dialler.forwards:
            refused = self._dialler.login_refused()
            return Lost(refused.kind, refused.detail)
        return Lost("protocol", "not a valid HTTP answer: a server answered as proxies do, with 407")
