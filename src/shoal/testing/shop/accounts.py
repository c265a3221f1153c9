"""Who is logged in: CSRF tokens, passwords, and sessions that end after a number of pages."""

from __future__ import annotations

import hashlib
import time

from shoal.testing.shop.visits import Login

ACCOUNTS = {"member-1": "tide-and-lantern", "member-2": "copper-and-slate"}  # user, password


class Accounts:
    """Decides; time is passed in."""

    def __init__(self, session_pages: int) -> None:
        self._session_pages = session_pages
        self._serial = 0
        self._tokens: dict[str, float] = {}  # CSRF token → when the form was given out
        self._left: dict[str, int] = {}  # cookie → pages it is still good for
        self._account: dict[str, str] = {}  # cookie → user
        self.logins: list[Login] = []

    def token(self, now: float) -> str:
        """For a login form that is given out now."""
        token = self._secret("csrf")
        self._tokens[token] = now
        return token

    def log_in(self, user: str, password: str, token: str, now: float) -> str | None:
        """A cookie, or None: the password or the token is wrong, or the token was used before."""
        began = self._tokens.pop(token, None)
        good = began is not None and ACCOUNTS.get(user) == password
        alive = sum(1 for cookie, who in self._account.items() if who == user and self._left[cookie] > 0)
        self.logins.append(Login(user, now if began is None else began, now, good, alive))
        if not good:
            return None
        cookie = self._secret("session")
        self._left[cookie], self._account[cookie] = self._session_pages, user
        return cookie

    def visitor(self, cookie: str) -> str:
        """The account whose session it is, or "". Each call is a page less."""
        left = self._left.get(cookie, 0)
        if left <= 0:
            return ""
        self._left[cookie] = left - 1
        return self._account[cookie]

    def _secret(self, what: str) -> str:
        self._serial += 1
        return hashlib.sha256(f"{what} {self._serial} {time.time_ns()}".encode()).hexdigest()[:32]
