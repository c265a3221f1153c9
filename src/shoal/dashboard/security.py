"""Who may come in, under which name and from which pages; and the headers that every answer carries."""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from ipaddress import IPv6Address
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from shoal.dashboard.responses import Refusal, reply
from shoal.errors import UsageError

if TYPE_CHECKING:
    from starlette.datastructures import Headers
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "font-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_ENCODED = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
_NO_STORE = (b"cache-control", b"no-store")
_HOST = re.compile(r"(?:\[([^\]]+)\]|([^:/@\[\]]+))(?::[0-9]*)?")

# Asked by machines under whatever name they know, and without a session.
ANY_NAME = frozenset({"/healthz", "/readyz", "/metrics"})


class Secured:
    """Wraps the whole application. It refuses names that are not ours: without this, a foreign page could have its
    own name resolved to this machine, and would be of the same origin (DNS rebinding)."""

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        self._app = app
        self._names = {name.lower().rstrip(".") for name in names} | {"localhost"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name for name, _ in message["headers"]}
                extra = _ENCODED if b"cache-control" in own else [*_ENCODED, _NO_STORE]
                message["headers"] = [*message["headers"], *extra]
            await send(message)

        if scope["path"] in ANY_NAME or self._is_ours(_host_of(scope)):
            await self._app(scope, receive, send_with_headers)
        else:
            told = reply({"error": "this dashboard is not served under that name; see --name"}, 403)
            await told(scope, receive, send_with_headers)

    def _is_ours(self, host: str) -> bool:
        """An IP address cannot be resolved to another address, so it is always allowed."""
        name = host_name(host)
        return name in self._names or _is_address(name)


def _host_of(scope: Scope) -> str:
    given = [value for name, value in scope["headers"] if name == b"host"]
    return given[0].decode("latin-1") if len(given) == 1 else ""


def host_name(host: str) -> str:
    """ "Localhost.:8484" is "localhost", "[::1]:8484" is "::1"; "" where it is neither a name nor an address."""
    found = _HOST.fullmatch(host)
    return "" if found is None else (found[1] or found[2]).lower().rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def check_same_origin(headers: Headers) -> None:
    """Refuses requests that, as the browser says, come from another site's page. A client that does not say is no
    current browser, and has no session that a foreign page could use."""
    site = headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        raise Refusal(403, "refused: it comes from another site")
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2].lower() != headers.get("host", "").lower():
        raise Refusal(403, "refused: it comes from another origin")


# -- one token, a limit on guesses, and sessions that live in memory


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
        """Counts a wrong token. Returns the seconds until the next one is checked; 0: now."""
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
    """Counts an IPv6 network as one address: its owner has all of them."""
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
