"""What the engine asks of whatever fetches: one request in, one outcome out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from shoal.model import Outcome


class FetchRequest(Struct, frozen=True):
    """One HTTP exchange. `url` is canonical and is sent byte for byte; redirects are not followed."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] | None = None
    body: bytes | None = None
    cookies: tuple[str, ...] = ()  # Set-Cookie lines to put into the jar first …
    referrer_url: str | None = None  # … which this URL answered with
    total_timeout: float | None = None  # None: the setting
    max_body: int | None = None  # None: the setting
    truncate: bool = False  # True: a longer body is cut at max_body instead of being a failure


class Transport(Protocol):
    async def fetch(self, request: FetchRequest) -> Outcome:
        """The server's answer, or why there is none. Raises nothing but cancellation."""
        ...

    async def close(self) -> None: ...
