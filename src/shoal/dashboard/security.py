"""What every request must pass, and what every answer carries: our own name and pages, and headers for browsers."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from shoal.dashboard.responses import Refusal, reply

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
    """Around the whole application. A name that is not ours is refused: without this, a foreign page could have its
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
        """An address is nobody's name, so it cannot be resolved to another."""
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
    """Refuses what a browser says comes from another site's page. Whoever says nothing is no browser of our day, and
    has no session that a foreign page could ride on."""
    site = headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        raise Refusal(403, "refused: it comes from another site")
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2].lower() != headers.get("host", "").lower():
        raise Refusal(403, "refused: it comes from another origin")
