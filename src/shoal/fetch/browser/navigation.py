"""Controls where a page may navigate while it loads, and classifies its main document.

    request of the page ──▶ a document in its main frame ──▶ the first: sent as the task asks
                        │                                └─▶ of a script: on the same host a few times; else a redirect
                        ├─▶ a blocked type: refused
                        └─▶ anything else: goes on, with our headers if it has the same origin

    main document ──▶ a redirect, or not a page: the verdict, and the load ends
                  └─▶ a page: shown

The `verdict` is an outcome that ends the load early. Once the handler has the page, it may navigate anywhere.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from multidict import CIMultiDict, CIMultiDictProxy

from shoal.admit.identity import host_key, origin
from shoal.fetch.browser.gate import Door
from shoal.fetch.browser.page_network import (
    REDIRECTS,
    Headers,
    PageTraffic,
    decoded,
    failure_for,
    headers_of,
    looks_like_a_page,
    nature_of,
)
from shoal.fetch.transport import FetchRequest
from shoal.model import Failure, Outcome, Response
from shoal.settings import Settings

if TYPE_CHECKING:
    from playwright.async_api import CDPSession

_TYPES = {"xhr": "XHR"}  # the others have our names, with a capital
_ICON = "*/favicon.ico"
_OWN_WAYS = 3  # documents that scripts may load from the same host; more become redirects
_LOGINS = 5  # times that a door may ask for its password
_FOR_THE_DOCUMENT = frozenset(
    {"accept", "content-type", "if-none-match", "if-modified-since", "range", "referer"}
)
_PART = 1 << 20
_EXTRA = 0.25  # seconds that an answer's cookies may arrive after it


class Navigation:
    """The navigation of one page, from before it is opened until the handler has it."""

    def __init__(
        self,
        session: CDPSession,
        door: Door,
        request: FetchRequest,
        headers: Mapping[str, str],
        settings: Settings,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.verdict: asyncio.Future[Outcome] = loop.create_future()
        self.status = 0
        self.headers: Headers = CIMultiDictProxy(CIMultiDict())
        self.first_byte = 0.0
        self.cap = request.max_body or settings.max_body
        self.traffic = PageTraffic(session, self.cap, self._too_large)
        self._session = session
        self._door = door
        self._request = request
        self._origin = origin(request.url)
        self._headers = headers  # for the page's own origin
        types = {_TYPES.get(name, name.capitalize()) for name in settings.browser_block}
        self._blocked = types - {"Websocket"}  # sockets cannot be intercepted
        self._is_free = False
        self._ways = 0  # documents asked for in the main frame
        self.frame = ""  # the main one
        self._document = ""  # the request of its latest document
        self._is_empty = True  # no byte of that has arrived
        self._cookies: dict[str, asyncio.Future[tuple[str, ...]]] = {}  # by request
        self._logins = 0
        self._started = loop.time()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        session = self._session
        session.on("Fetch.requestPaused", lambda event: self.do(self._paused(event)))
        session.on("Fetch.authRequired", lambda event: self.do(self._asked_who(event)))
        session.on("Network.dataReceived", self._received)
        session.on("Network.loadingFailed", self._failed)
        session.on("Network.loadingFinished", self._finished)
        session.on("Network.responseReceivedExtraInfo", self._received_raw)
        patterns: list[dict[str, str]] = [
            {"resourceType": "Document", "requestStage": "Request"},
            {"resourceType": "Document", "requestStage": "Response"},
            {"urlPattern": _ICON},
        ]
        patterns += [{"resourceType": name} for name in self._blocked]
        if self._headers:
            patterns.append({"urlPattern": f"{self._origin}/*"})
        # Without buffers for the developer tools, which would only cost memory.
        await asyncio.gather(
            session.send("Network.enable", {"maxTotalBufferSize": 0, "maxResourceBufferSize": 0}),
            session.send("Fetch.enable", {"handleAuthRequests": True, "patterns": patterns}),
        )

    def begin(self) -> None:
        """The page is opened now."""
        self._started = asyncio.get_running_loop().time()

    def let_go(self) -> None:
        """The page is complete: from now on the handler decides."""
        self._is_free = True
        self.traffic.lift()

    def end(self, outcome: Outcome) -> None:
        if not self.verdict.done() and not self._is_free:
            self.verdict.set_result(outcome)

    def failure(self, error: str) -> Failure:
        """Why the document could not be loaded. The gate knows more than the browser."""
        target = urlsplit(self._request.url)
        port = target.port or (443 if target.scheme == "https" else 80)
        last_failure = self._door.last_failure(target.hostname or "", port)
        kind, detail = (
            (last_failure.kind, last_failure.detail) if last_failure is not None else failure_for(error)
        )
        return Failure(kind, detail, status=self.status or None)

    async def close(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self.verdict.cancel()

    # -- requests

    async def _paused(self, event: dict[str, Any]) -> None:
        is_main = event["resourceType"] == "Document" and event["frameId"] == (self.frame or event["frameId"])
        if "responseErrorReason" in event:
            await self._continue(event)
        elif "responseStatusCode" in event:
            await (self._answered(event) if is_main and not self._is_free else self._continue(event))
        elif is_main:
            await self._leads_to(event)
        elif event["resourceType"] in self._blocked or event["request"]["url"].endswith("/favicon.ico"):
            await self._fail(event, "BlockedByClient")
        else:
            await self._continue(event, **self._with_headers(event))

    async def _leads_to(self, event: dict[str, Any]) -> None:
        """The main frame asks for a document."""
        url, method = event["request"]["url"].partition("#")[0], event["request"]["method"]
        self._ways += 1
        if self._ways == 1:
            self.frame = event["frameId"]
            changes = self._as_asked(event)
        elif self._is_free or self._may_go_to(url):
            changes = self._with_headers(event)
        else:
            if method == "GET" and url.startswith("http"):
                self.end(self._response(307, CIMultiDictProxy(CIMultiDict(Location=url))))
            await self._fail(event, "Aborted")
            return
        self._document, self._is_empty = event.get("networkId", ""), True
        await self._continue(event, **changes)

    def _may_go_to(self, url: str) -> bool:
        same = url.startswith("http") and host_key(url) == host_key(self._request.url)
        return same and self._ways <= 1 + _OWN_WAYS

    def _as_asked(self, event: dict[str, Any]) -> dict[str, Any]:
        request = self._request
        headers = CIMultiDict(event["request"]["headers"])
        headers.update(self._headers)
        changes: dict[str, Any] = {"headers": _pairs(headers)} if self._headers else {}
        if request.method != "GET":
            changes["method"] = request.method
        if request.body is not None:
            changes["postData"] = b64encode(request.body).decode()
        return changes

    def _with_headers(self, event: dict[str, Any]) -> dict[str, Any]:
        """Adds our headers that are not for the document alone, unless the page sets them."""
        request = event["request"]
        if not self._headers or origin(request["url"]) != self._origin:
            return {}
        headers = CIMultiDict(request["headers"])
        for name, value in self._headers.items():
            if name.lower() not in _FOR_THE_DOCUMENT:
                headers.setdefault(name, value)
        return {"headers": _pairs(headers)}

    async def _asked_who(self, event: dict[str, Any]) -> None:
        """Answers the door with its password. Other logins are cancelled."""
        answer = {"response": "CancelAuth"}
        self._logins += 1
        if event["authChallenge"].get("source") == "Proxy" and self._logins <= _LOGINS:
            door = self._door
            answer = {"response": "ProvideCredentials", "username": door.username, "password": door.password}
        await self._send("Fetch.continueWithAuth", event, authChallengeResponse=answer)

    # -- answers

    async def _answered(self, event: dict[str, Any]) -> None:
        """The head of the main document has arrived."""
        status = event["responseStatusCode"]
        headers = headers_of(event.get("responseHeaders", ()))
        self.first_byte = self.first_byte or self._elapsed()
        location = headers.get("Location", "").strip()
        if status in REDIRECTS and location:
            await self._redirected(event, status, headers, urljoin(event["request"]["url"], location))
            return
        self.status, self.headers = status, headers
        nature = nature_of(status, headers)
        if nature == "page":
            await self._continue(event)
            return
        body = await self._body(event)
        if nature == "unknown" and body is not None and looks_like_a_page(body):
            await self._open_page(event, body)
            return
        if body is not None:
            self.end(self._response(status, decoded(headers), body))
        await self._fail(event, "Aborted")

    async def _redirected(self, event: dict[str, Any], status: int, headers: Headers, target: str) -> None:
        changed = CIMultiDict(headers)
        if self._ways > 1:  # of a document that a script loaded: its Location is relative to that
            changed["Location"] = target
        lines = await self._cookie_lines(event.get("networkId", ""))
        changed.extend([("Set-Cookie", line) for line in lines])
        self.end(self._response(status, CIMultiDictProxy(changed), cookies=lines))
        await self._fail(event, "Aborted")

    async def _body(self, event: dict[str, Any]) -> bytes | None:
        """The decoded body of a file; None: it is too large, and that is the verdict."""
        if event["responseStatusCode"] in (204, 205, 304):
            return b""
        handle = (await self._send("Fetch.takeResponseBodyAsStream", event))["stream"]
        parts: list[bytes] = []
        size, is_complete = 0, False
        while not is_complete:
            part = await self._session.send("IO.read", {"handle": handle, "size": _PART})
            data = b64decode(part["data"]) if part.get("base64Encoded") else part["data"].encode()
            parts.append(data)
            size += len(data)
            if size > self.cap:
                self._too_large()
                return None
            is_complete = part["eof"]
        return b"".join(parts)

    async def _open_page(self, event: dict[str, Any], body: bytes) -> None:
        """A body without a type that turns out to be a page."""
        headers = [pair for pair in event["responseHeaders"] if pair["name"].lower() == "set-cookie"]
        headers.append({"name": "Content-Type", "value": "text/html"})
        await self._send(
            "Fetch.fulfillRequest",
            event,
            responseCode=self.status,
            responseHeaders=headers,
            body=b64encode(body).decode(),
        )

    def _response(
        self, status: int, headers: Headers, body: bytes = b"", cookies: tuple[str, ...] = ()
    ) -> Response:
        return Response(
            self._request.url,
            status,
            headers,
            body,
            elapsed=self._elapsed(),
            first_byte=self.first_byte,
            wire_bytes=self.traffic.received or len(body),
            cookies=cookies,
        )

    def _failed(self, event: dict[str, Any]) -> None:
        """A request failed. Only that for the main document matters."""
        if event["requestId"] != self._document or event.get("canceled"):
            return
        if "HTTP_RESPONSE_CODE_FAILURE" in event["errorText"]:
            self._end_empty()
        else:
            self.end(self.failure(event["errorText"]))

    def _finished(self, event: dict[str, Any]) -> None:
        if event["requestId"] == self._document and self.status >= 400 and self._is_empty:
            self._end_empty()

    def _received(self, event: dict[str, Any]) -> None:
        if event["requestId"] == self._document:
            self._is_empty = False

    def _end_empty(self) -> None:
        """An error without a body, so there is nothing to show. A full browser says that it failed, and shows a page of
        its own; a headless shell shows an empty one."""
        self.end(self._response(self.status, decoded(self.headers)))

    def _too_large(self) -> None:
        detail = f"the page and its parts have more than {self.cap} decoded bytes; raise max_body to take it"
        self.end(Failure("too_large", detail, status=self.status or None))

    # -- cookies of redirects, which Chromium reports separately

    def _received_raw(self, event: dict[str, Any]) -> None:
        if event["requestId"] == self._document:
            text = CIMultiDict(event["headers"]).get("Set-Cookie", "")
            lines = tuple(line for line in text.split("\n") if line)
            future = self._raw(event["requestId"])
            if not future.done():
                future.set_result(lines)

    async def _cookie_lines(self, request: str) -> tuple[str, ...]:
        try:
            async with asyncio.timeout(_EXTRA):
                return await self._raw(request)
        except TimeoutError:
            return ()

    def _raw(self, request: str) -> asyncio.Future[tuple[str, ...]]:
        return self._cookies.setdefault(request, asyncio.get_running_loop().create_future())

    # -- commands to Chromium

    async def _continue(self, event: dict[str, Any], **changes: Any) -> None:
        await self._send("Fetch.continueRequest", event, **changes)

    async def _fail(self, event: dict[str, Any], reason: str) -> None:
        await self._send("Fetch.failRequest", event, errorReason=reason)

    async def _send(self, method: str, event: dict[str, Any], /, **params: Any) -> dict[str, Any]:
        answer: dict[str, Any] = await self._session.send(method, {"requestId": event["requestId"], **params})
        return answer

    def _elapsed(self) -> float:
        return asyncio.get_running_loop().time() - self._started

    def do(self, doing: Coroutine[Any, Any, None]) -> None:
        """Runs it in the background while the page is open."""
        task = asyncio.get_running_loop().create_task(self._ignoring_gone(doing))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ignoring_gone(self, doing: Coroutine[Any, Any, None]) -> None:
        """The page, or the request, may be gone before a command arrives."""
        from playwright.async_api import Error

        try:
            await doing
        except Error:
            pass
        except Exception as error:
            self.end(Failure("unexpected", f"{type(error).__name__}: {error}"[:200]))


def _pairs(headers: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in headers.items()]
