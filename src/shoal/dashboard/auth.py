"""Who may come in: one token, a limit on guesses, and sessions that live in memory."""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from ipaddress import IPv6Address
from pathlib import Path

from msgspec import Struct

from shoal.errors import UsageError

TOKEN_VARIABLE = "SHOAL_DASHBOARD_TOKEN"
_SHORTEST_TOKEN = 16  # characters
_LEAST_VARIETY = 6
_MOST_SESSIONS = 100
_SESSION_AGE = 12 * 3600.0  # seconds without a request
_GUESSES = 10.0  # wrong tokens at once from one address …
_REFILL = 10 / 60  # … and per second from then on
_MOST_ADDRESSES = 1000
_NETWORK = len("2001:0db8:0000:0001:")  # what a /64 shares


def find_token(file: Path | None, environment: Mapping[str, str]) -> str | None:
    """The token that was chosen by whoever starts the dashboard; None: it needs a fresh one."""
    if file is not None:
        try:
            token, source = file.read_text("utf-8").strip(), f"--token-file {file}"
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not text"
            raise UsageError(f"--token-file {file}: cannot be read ({reason})") from None
    elif (value := environment.get(TOKEN_VARIABLE)) is not None:
        token, source = value.strip(), TOKEN_VARIABLE
    else:
        return None
    if len(token) < _SHORTEST_TOKEN or len(set(token)) < _LEAST_VARIETY:
        raise UsageError(
            f"{source}: a token has at least {_SHORTEST_TOKEN} characters, {_LEAST_VARIETY} of them different; "
            "openssl rand -hex 32 makes one"
        )
    return token


def fresh_token() -> str:
    return secrets.token_urlsafe(32)


class Gatekeeper:
    """Compares tokens, in the same time whatever is wrong with them, and limits wrong ones.

    The right one is let in however many were wrong before it. Behind a reverse proxy all have one address, and a
    stranger's guesses would lock out everybody. A token is too long to be guessed; the limit is against noise.
    """

    def __init__(self, token: str, now: Callable[[], float]) -> None:
        self._token = token.encode()
        self._guesses = Guesses(now)

    def is_right(self, token: str) -> bool:
        return hmac.compare_digest(token.encode("utf-8", "surrogatepass"), self._token)

    def wrong(self, address: str) -> float:
        """A wrong token came from there. Seconds until another is answered properly; 0: this one is."""
        wait = self._guesses.wait(address)
        if not wait:
            self._guesses.wrong(address)
        return wait


class Guesses:
    """Wrong tokens by address: each has so many, and they come back with time."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # (how many, when)

    def wait(self, address: str) -> float:
        left = self._available(address)
        return 0.0 if left >= 1 else (1 - left) / _REFILL

    def wrong(self, address: str) -> None:
        who = _who(address)
        self._left[who] = (self._available(address) - 1, self._now())
        self._left.move_to_end(who)
        if len(self._left) > _MOST_ADDRESSES:
            self._left.popitem(last=False)

    def _available(self, address: str) -> float:
        left, at = self._left.get(_who(address), (_GUESSES, self._now()))
        return min(_GUESSES, left + (self._now() - at) * _REFILL)


def _who(address: str) -> str:
    """Whoever has one IPv6 address has a whole network of them."""
    try:
        found = IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    return address if found.ipv4_mapped is not None else found.exploded[:_NETWORK]


class Session(Struct):
    id: str
    csrf: str  # what a page of ours knows, and no other
    used_at: float

    def __repr__(self) -> str:
        return "<Session>"


class Sessions:
    """Who has logged in. They are forgotten when unused for long, when they are too many, and with the process."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._by_id: OrderedDict[str, Session] = OrderedDict()  # the one longest unused first

    def __len__(self) -> int:
        return len(self._by_id)

    def begin(self) -> Session:
        session = Session(secrets.token_urlsafe(32), secrets.token_urlsafe(32), self._now())
        self._by_id[session.id] = session
        if len(self._by_id) > _MOST_SESSIONS:
            self._by_id.popitem(last=False)
        return session

    def find(self, id: str) -> Session | None:
        session = self._by_id.get(id)
        if session is None:
            return None
        if self._now() - session.used_at > _SESSION_AGE:
            del self._by_id[id]
            return None
        session.used_at = self._now()
        self._by_id.move_to_end(id)
        return session

    def end(self, session: Session) -> None:
        self._by_id.pop(session.id, None)


def is_csrf(session: Session, given: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), session.csrf.encode())
