"""Cookies that can be stored: a jar as values, and what has changed in it since it was last stored."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from email.utils import formatdate
from time import time
from typing import Any

from msgspec import Struct
from yarl import URL

from shoal.fetch.aiohttp_private import SiteJar, deadlines_of

# It logs every cookie with an odd name: any server could write to stderr.
logging.getLogger("aiohttp.internal").addHandler(logging.NullHandler())
logging.getLogger("aiohttp.internal").propagate = False

_SOONER = 0.25  # share of a cookie's remaining life by which its end may move before that is stored

_NOWHERE = URL()

CookieKey = tuple[str, str, str]  # domain, path, name


class StoredCookie(Struct, frozen=True, array_like=True):
    name: str
    value: str  # as it was received, with its quotes
    domain: str
    path: str
    host_only: bool = False  # not for subdomains
    secure: bool = False
    http_only: bool = False
    same_site: str = ""
    expires: float | None = None  # epoch seconds; None: with the session

    @property
    def key(self) -> CookieKey:
        return self.domain, self.path, self.name

    def line(self) -> str:
        """As a server would set it."""
        parts = [f"{self.name}={self.value}", f"Path={self.path}"]
        if not self.host_only:
            parts.append(f"Domain={self.domain}")
        if self.expires is not None:
            parts.append(f"Expires={formatdate(self.expires, usegmt=True)}")
        if self.secure:
            parts.append("Secure")
        if self.http_only:
            parts.append("HttpOnly")
        if self.same_site:
            parts.append(f"SameSite={self.same_site}")
        return "; ".join(parts)


Changes = Mapping[CookieKey, StoredCookie | None]  # None: it was deleted


class LastingJar(SiteJar):
    """A jar whose cookies are also in a store. It knows which of them the store does not have yet."""

    def __init__(self) -> None:
        super().__init__()
        self.touched = False  # something may have changed
        self._stored: dict[CookieKey, StoredCookie] = {}

    def update_cookies(self, cookies: Any, response_url: URL = _NOWHERE) -> None:
        self.touched = True
        super().update_cookies(cookies, response_url)

    def update_cookies_from_headers(self, headers: Sequence[str], response_url: URL) -> None:
        self.touched = True
        super().update_cookies_from_headers(headers, response_url)

    def clear(self, predicate: Any = None) -> None:
        self.touched = True
        super().clear(predicate)

    def values(self) -> dict[CookieKey, StoredCookie]:
        """Its cookies, those that have expired left out."""
        only_host, deadlines = self.host_only_cookies, deadlines_of(self)
        found: dict[CookieKey, StoredCookie] = {}
        for morsel in self:
            domain, path = morsel["domain"], morsel["path"] or "/"
            place = (domain, path.rstrip("/"), morsel.key)
            found[domain, path, morsel.key] = StoredCookie(
                morsel.key,
                morsel.coded_value,
                domain,
                path,
                place in only_host,
                bool(morsel["secure"]),
                bool(morsel["httponly"]),
                str(morsel["samesite"] or ""),
                int(deadlines[place]) if place in deadlines else None,
            )
        return found

    def changes(self) -> Changes:
        """What the store does not have yet."""
        now, values = time(), self.values()
        changed: dict[CookieKey, StoredCookie | None] = {
            key: cookie for key, cookie in values.items() if _differs(self._stored.get(key), cookie, now)
        }
        changed.update((key, None) for key in self._stored.keys() - values.keys())
        return changed

    def forget_stored(self) -> None:
        """The store may have lost its cookies."""
        self._stored = {}
        self.touched = True

    def sync(self, stored: Iterable[StoredCookie], *, whole: bool = False) -> None:
        """Takes what the store has now. What this jar has not stored yet is kept, unless that is the `whole`."""
        changes: Changes = {} if whole else self.changes()
        self._stored = {cookie.key: cookie for cookie in stored}
        wanted = with_changes(self._stored.values(), changes)
        if self.values() == {cookie.key: cookie for cookie in wanted}:
            return
        touched = self.touched
        super().clear()
        for cookie in wanted:
            url = URL.build(scheme="https", host=cookie.domain, path="/")
            super().update_cookies_from_headers([cookie.line()], url)
        self.touched = touched


def with_changes(cookies: Iterable[StoredCookie], changes: Changes) -> list[StoredCookie]:
    """The cookies after the changes, the latest last, without those that have expired."""
    now = time()
    kept = [cookie for cookie in cookies if cookie.key not in changes]
    kept += [cookie for cookie in changes.values() if cookie is not None]
    return [cookie for cookie in kept if cookie.expires is None or cookie.expires > now]


def _differs(old: StoredCookie | None, new: StoredCookie, now: float) -> bool:
    """Whether a cookie must be stored again. Many sites send the same one with every page, and a later end."""
    if old is None or old.expires is None or new.expires is None:
        return old != new
    later = new.expires - old.expires
    if 0 <= later < _SOONER * (old.expires - now):
        return (old.value, old.secure, old.host_only) != (new.value, new.secure, new.host_only)
    return old != new
