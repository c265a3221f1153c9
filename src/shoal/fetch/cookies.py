"""A cookie jar that is also in a store: what has changed in it since it was last stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from time import time

from yarl import URL

from shoal.fetch.cookie_jar import Cookie, CookieJar, CookieKey

_SOONER = 0.25  # share of a cookie's remaining life by which its end may move before that is stored

Changes = Mapping[CookieKey, Cookie | None]  # None: it was deleted


class LastingJar(CookieJar):
    """A jar whose cookies are also in a store. It knows which of them the store does not have yet."""

    def __init__(self) -> None:
        super().__init__()
        self.touched = False  # something may have changed
        self._stored: dict[CookieKey, Cookie] = {}

    def set(self, lines: Iterable[str], url: URL) -> None:
        self.touched = True
        super().set(lines, url)

    def add(self, cookie: Cookie, now: float | None = None) -> None:
        self.touched = True
        super().add(cookie, now)

    def delete(self, key: CookieKey) -> None:
        self.touched = True
        super().delete(key)

    def values(self) -> dict[CookieKey, Cookie]:
        """Its cookies, those that have expired left out."""
        return {cookie.key: cookie for cookie in self}

    def changes(self) -> Changes:
        """What the store does not have yet."""
        now, values = time(), self.values()
        changed: dict[CookieKey, Cookie | None] = {
            key: cookie for key, cookie in values.items() if _differs(self._stored.get(key), cookie, now)
        }
        changed.update((key, None) for key in self._stored.keys() - values.keys())
        return changed

    def forget_stored(self) -> None:
        """The store may have lost its cookies."""
        self._stored = {}
        self.touched = True

    def sync(self, stored: Iterable[Cookie], *, whole: bool = False) -> None:
        """Takes what the store has now. What this jar has not stored yet is kept, unless that is the `whole`."""
        changes: Changes = {} if whole else self.changes()
        self._stored = {cookie.key: cookie for cookie in stored}
        wanted = with_changes(self._stored.values(), changes)
        if self.values() == {cookie.key: cookie for cookie in wanted}:
            return
        touched = self.touched
        self.clear()
        for cookie in wanted:
            self.add(cookie)
        self.touched = touched


def with_changes(cookies: Iterable[Cookie], changes: Changes) -> list[Cookie]:
    """The cookies after the changes, the latest last, without those that have expired."""
    now = time()
    kept = [cookie for cookie in cookies if cookie.key not in changes]
    kept += [cookie for cookie in changes.values() if cookie is not None]
    return [cookie for cookie in kept if cookie.expires is None or cookie.expires > now]


def _differs(old: Cookie | None, new: Cookie, now: float) -> bool:
    """Whether a cookie must be stored again. Many sites send the same one with every page, and a later end."""
    if old is None or old.expires is None or new.expires is None:
        return old != new
    later = new.expires - old.expires
    if 0 <= later < _SOONER * (old.expires - now):
        return (old.value, old.secure, old.host_only) != (new.value, new.secure, new.host_only)
    return old != new
