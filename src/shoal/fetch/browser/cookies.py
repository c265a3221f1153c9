"""Cookies of a session, in its jar and in its browser context: what changes on one side is changed on the other.

The jar rules: a cookie that it does not take (one for a public suffix) goes from the context too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from email.utils import formatdate
from http.cookies import Morsel
from typing import TYPE_CHECKING, Any

from aiohttp import CookieJar
from aiohttp.helpers import is_ip_address
from yarl import URL

from shoal.fetch.aiohttp_private import SiteJar

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Cookie

Key = tuple[str, str, str]  # domain (with a dot: and its subdomains), path, name
Param = dict[str, Any]  # a cookie as a context takes it

_SAME_SITE = {"strict": "Strict", "lax": "Lax", "none": "None"}


class SharedCookies:
    def __init__(self, context: BrowserContext, jar: CookieJar) -> None:
        self._context = context
        self._jar = jar
        self._known: dict[Key, str] = {}  # what both had when last compared

    async def to_context(self) -> None:
        """Before a page."""
        cookies = cookies_of(self._jar)
        changed = [cookie for key, cookie in cookies.items() if self._known.get(key) != cookie["value"]]
        gone = self._known.keys() - cookies.keys()
        for domain, path, name in gone:
            await self._context.clear_cookies(name=name, domain=domain, path=path)
        if changed:
            await add(self._context, changed)
            # What it did not take is missing there, and not deleted by a page.
            taken = {_key(cookie) for cookie in await self._context.cookies()}
            cookies = {key: cookie for key, cookie in cookies.items() if key in taken}
        self._known = {key: cookie["value"] for key, cookie in cookies.items()}

    async def to_jar(self) -> None:
        """After a page."""
        cookies = {_key(cookie): cookie for cookie in await self._context.cookies()}
        for key, cookie in cookies.items():
            if self._known.get(key) != cookie.get("value"):
                _put(self._jar, cookie)
        for domain, path, name in self._known.keys() - cookies.keys():
            self._jar.clear(_is_at(domain.lstrip("."), path, name))
        self._known = {key: cookie.get("value", "") for key, cookie in cookies.items()}


async def add(context: BrowserContext, cookies: Sequence[Any]) -> None:
    """One by one if need be: some are not to a browser's taste, and it would take none of them then."""
    from playwright.async_api import Error

    if not cookies:
        return
    try:
        await context.add_cookies(cookies)
    except Error:
        for cookie in cookies:
            with suppress(Error):
                await context.add_cookies([cookie])


def cookies_of(jar: CookieJar) -> dict[Key, Param]:
    """As a context takes them."""
    found: dict[Key, Param] = {}
    only_host = jar.host_only_cookies
    for morsel in jar:
        domain, path = morsel["domain"], morsel["path"] or "/"
        is_wide = (domain, path.rstrip("/"), morsel.key) not in only_host
        if is_wide and not is_ip_address(domain.strip("[]")):
            domain = f".{domain.lstrip('.')}"
        cookie: Param = {
            "name": morsel.key,
            "value": morsel.coded_value,  # quotes and all
            "domain": domain,
            "path": path,
            "secure": bool(morsel["secure"]),
            "httpOnly": bool(morsel["httponly"]),
        }
        if same_site := _SAME_SITE.get(str(morsel["samesite"]).lower()):
            cookie["sameSite"] = same_site
        found[domain, path, morsel.key] = cookie
    return found


def cookies_from(lines: Sequence[str], url: str) -> list[Param]:
    """Those of Set-Cookie lines that `url` answered with and may set."""
    jar = SiteJar()
    jar.update_cookies_from_headers(lines, URL(url, encoded=True))
    return list(cookies_of(jar).values())


def _key(cookie: Cookie) -> Key:
    return cookie.get("domain", ""), cookie.get("path", "/"), cookie.get("name", "")


def _is_at(domain: str, path: str, name: str) -> Callable[[Morsel[str]], bool]:
    return lambda cookie: (cookie["domain"], cookie["path"], cookie.key) == (domain, path, name)


def _put(jar: CookieJar, cookie: Cookie) -> None:
    domain, path, name = _key(cookie)
    parts = [f"{name}={cookie.get('value', '')}", f"Path={path}"]
    host = domain.strip("[]")
    if domain.startswith("."):
        parts.append(f"Domain={domain}")
        host = f"host{domain}"  # one of those it is for: the jar asks whether that may set it
    if (expires := cookie.get("expires", -1)) > 0:
        parts.append(f"Expires={formatdate(expires, usegmt=True)}")
    if cookie.get("secure"):
        parts.append("Secure")
    if cookie.get("httpOnly"):
        parts.append("HttpOnly")
    parts.append(f"SameSite={cookie.get('sameSite', 'Lax')}")
    url = URL.build(scheme="https", host=host, path=path)
    jar.update_cookies_from_headers(["; ".join(parts)], url)
