"""Browser contexts: which pages share cookies, storage and a route to the network.

Every session has a context of its own, so jars stay apart. Pages without a session share one context for each proxy,
which is replaced from time to time. Every context has its own door of the gate. Idle contexts are kept for the next
page; if there are too many, the least recently used are closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from yarl import URL

from shoal.fetch.browser.chromium import Chromium
from shoal.fetch.browser.gate import Door, Gate
from shoal.fetch.cookie_jar import Cookie, CookieJar
from shoal.fetch.transport import FetchRequest
from shoal.settings import Settings

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext
    from playwright.async_api import Cookie as BrowserCookie


_PAGES = 50  # in a context that pages without a session share
_KEPT = 12  # contexts at once, besides those with open pages

# Web sockets cannot be intercepted as other requests can.
_NO_SOCKETS = "delete globalThis.WebSocket; delete globalThis.WebSocketStream"

Key = tuple[int, CookieJar | None, str]  # browser, session, proxy


class Context:
    def __init__(
        self, key: Key, chromium: Chromium, handle: BrowserContext, door: Door, jar: CookieJar | None
    ) -> None:
        self.key = key
        self.chromium = chromium
        self.handle = handle
        self.door = door
        self.pages = 0  # opened so far
        self.tabs = 0  # open now
        self._cookies = SharedCookies(handle, jar) if jar is not None else None

    def __repr__(self) -> str:
        return f"<Context of {self.chromium.pid}: {self.tabs} tabs, {self.pages} pages, {self.door.url}>"

    async def prepare(self, request: FetchRequest) -> None:
        """Puts in the cookies that the page is to have."""
        if self._cookies is not None:
            await self._cookies.to_context()
        elif request.cookies and request.referrer_url:
            await add(self.handle, cookies_from(request.cookies, request.referrer_url))

    async def save(self) -> None:
        """Gives the session the cookies that the page has set."""
        if self._cookies is not None:
            await self._cookies.to_jar()

    async def close(self) -> None:
        if self.chromium.alive:
            with suppress(Exception):  # it dies with its browser anyway
                async with asyncio.timeout(5):
                    await self.handle.close()
        await self.door.close()


class Contexts:
    def __init__(self, gate: Gate, settings: Settings) -> None:
        self._gate = gate
        self._blocks_sockets = "websocket" in settings.browser_block
        self._pages = _PAGES if settings.cookies else 1
        self._live: dict[Key, Context] = {}  # the least recently used first
        self._leaving: set[Context] = set()  # replaced, with pages still open
        self._lock = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<Contexts: {len(self._live)}, {len(self._leaving)} leaving>"

    async def enter(self, chromium: Chromium, request: FetchRequest) -> Context:
        """The context for a page that is about to be opened. Call `leave` when the page is closed."""
        jar = request.jar if isinstance(request.jar, CookieJar) else None
        if jar is not None and request.cookies and request.referrer_url:
            jar.set(request.cookies, URL(request.referrer_url, encoded=True))
        key = (chromium.pid, jar, request.proxy.key if request.proxy is not None else "")
        async with self._lock:  # two pages of a session do not open two contexts
            context = self._live.pop(key, None)
            if context is not None and self._is_worn(context):
                await self._drop(context)
                context = None
            if context is None:
                context = await self._open(key, chromium, request, jar)
            self._live[key] = context
            context.pages += 1
            context.tabs += 1
            await self._tidy()
        return context

    async def leave(self, context: Context) -> None:
        context.tabs -= 1
        if context in self._leaving and not context.tabs:
            self._leaving.discard(context)
            await context.close()

    async def close(self) -> None:
        async with self._lock:
            contexts = [*self._live.values(), *self._leaving]
            self._live.clear()
            self._leaving.clear()
        for context in contexts:
            await context.close()

    async def _open(
        self, key: Key, chromium: Chromium, request: FetchRequest, jar: CookieJar | None
    ) -> Context:
        door = await self._gate.open(request.proxy)
        try:
            handle = await chromium.context(door)
            if self._blocks_sockets:
                await handle.add_init_script(_NO_SOCKETS)
        except BaseException:
            await door.close()
            raise
        return Context(key, chromium, handle, door, jar)

    def _is_worn(self, context: Context) -> bool:
        return context.key[1] is None and context.pages >= self._pages

    async def _tidy(self) -> None:
        idle = [context for context in self._live.values() if not context.tabs]
        dead = [context for context in idle if not context.chromium.alive]
        rest = [context for context in idle if context.chromium.alive]
        for context in (*dead, *rest[: max(0, len(rest) - _KEPT)]):
            del self._live[context.key]
            await context.close()

    async def _drop(self, context: Context) -> None:
        if context.tabs:
            self._leaving.add(context)
        else:
            await context.close()


CookieKey = tuple[str, str, str]  # domain (with a dot: and its subdomains), path, name
Param = dict[str, Any]  # a cookie as a context takes it

_SAME_SITE = {"strict": "Strict", "lax": "Lax", "none": "None"}


class SharedCookies:
    """The cookies of a session: changes in its jar and in its browser context are copied to the other.

    The jar decides: a cookie that it refuses (one for a public suffix) is removed from the context too.
    """

    def __init__(self, context: BrowserContext, jar: CookieJar) -> None:
        self._context = context
        self._jar = jar
        self._known: dict[CookieKey, str] = {}  # what both had when last compared

    async def to_context(self) -> None:
        """Before a page."""
        cookies = cookies_of(self._jar)
        changed = [cookie for key, cookie in cookies.items() if self._known.get(key) != cookie["value"]]
        gone = self._known.keys() - cookies.keys()
        for domain, path, name in gone:
            await self._context.clear_cookies(name=name, domain=domain, path=path)
        if changed:
            await add(self._context, changed)
            # What the context refused is missing there; no page deleted it.
            taken = {_key(cookie) for cookie in await self._context.cookies()}
            cookies = {key: cookie for key, cookie in cookies.items() if key in taken}
        self._known = {key: cookie["value"] for key, cookie in cookies.items()}

    async def to_jar(self) -> None:
        """After a page. Cookies without a name, which jars do not have, stay in the browser."""
        found = await self._context.cookies()
        cookies = {_key(cookie): cookie for cookie in found if cookie.get("name")}
        for key, cookie in cookies.items():
            if self._known.get(key) != cookie.get("value"):
                _put(self._jar, cookie)
        for domain, path, name in self._known.keys() - cookies.keys():
            self._jar.delete((_plain(domain), not domain.startswith("."), path, name))
        self._known = {key: cookie.get("value", "") for key, cookie in cookies.items()}


async def add(context: BrowserContext, cookies: Sequence[Any]) -> None:
    """Adds cookies one by one if the browser refuses all because of one."""
    from playwright.async_api import Error

    if not cookies:
        return
    try:
        await context.add_cookies(cookies)
    except Error:
        for cookie in cookies:
            with suppress(Error):
                await context.add_cookies([cookie])


def cookies_of(jar: CookieJar) -> dict[CookieKey, Param]:
    """The cookies of a jar in the form of browser contexts."""
    found: dict[CookieKey, Param] = {}
    for cookie in jar:
        domain = f"[{cookie.domain}]" if ":" in cookie.domain else cookie.domain
        param: Param = {
            "name": cookie.name,
            "value": cookie.value,  # quotes and all
            "domain": domain if cookie.host_only else f".{domain}",
            "path": cookie.path,
            "secure": cookie.secure,
            "httpOnly": cookie.http_only,
        }
        if same_site := _SAME_SITE.get(cookie.same_site.lower()):
            param["sameSite"] = same_site
        found[param["domain"], cookie.path, cookie.name] = param
    return found


def cookies_from(lines: Sequence[str], url: str) -> list[Param]:
    """The cookies of Set-Cookie lines from `url`, those that it may set."""
    jar = CookieJar()
    jar.set(lines, URL(url, encoded=True))
    return list(cookies_of(jar).values())


def _key(cookie: BrowserCookie) -> CookieKey:
    return cookie.get("domain", ""), cookie.get("path", "/"), cookie.get("name", "")


def _plain(domain: str) -> str:
    """A browser's domain as a jar has it."""
    return domain.lstrip(".").strip("[]")


def _put(jar: CookieJar, cookie: BrowserCookie) -> None:
    domain, path, name = _key(cookie)
    expires = cookie.get("expires", -1)
    jar.add(
        Cookie(
            name,
            cookie.get("value", ""),
            _plain(domain),
            path,
            host_only=not domain.startswith("."),
            secure=cookie.get("secure", False),
            http_only=cookie.get("httpOnly", False),
            same_site=cookie.get("sameSite", "Lax"),
            expires=int(expires) if expires > 0 else None,
        )
    )
