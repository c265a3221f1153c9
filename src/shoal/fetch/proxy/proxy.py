"""One proxy. Its credentials are never shown."""

from __future__ import annotations

from base64 import b64encode
from copy import copy
from typing import Self

from yarl import URL


class Proxy:
    """One proxy of a pool. `name` has no credentials; logs and records use it."""

    __slots__ = ("_password", "_user", "address", "country", "host", "key", "name", "pool", "port", "scheme")

    def __init__(
        self,
        pool: str,
        scheme: str,
        host: str,
        port: int,
        user: str | None,
        password: str | None,
        twin: int = 1,
        country: str = "",
    ) -> None:
        self.pool = pool
        self.scheme = scheme
        self.host = host
        self.port = port
        shown = f"[{host}]" if ":" in host else host
        # Gateways distinguish their exits by user name, so an address may occur more than once.
        self.address = f"{shown}:{port}" + (f"#{twin}" if twin > 1 else "")
        self.name = f"{pool}/{self.address}" if pool else self.address  # without a pool: given by a request
        self.key = self.name  # connections of one key may be used again
        self.country = country  # that it is in; "": unknown, or as its user name says
        self._user = user
        self._password = password

    def __repr__(self) -> str:
        return f"<Proxy {self.name}>"

    def rename(self, address: str) -> None:
        """Gives a proxy without a pool another address to be shown by."""
        self.address = self.name = self.key = address

    def takes(self, field: str) -> bool:
        """Whether `{country}` or `{session}` is part of its user name or password."""
        return f"{{{field}}}" in f"{self._user or ''}{self._password or ''}"

    @property
    def varies(self) -> bool:
        return self.takes("country") or self.takes("session")

    def filled_in(self, country: str, session: str) -> Self:
        """The same proxy, with country and session in its user name."""
        if not self.varies:
            return self
        made = copy(self)
        made._user, made._password = (
            text and text.replace("{country}", country).replace("{session}", session)
            for text in (self._user, self._password)
        )
        made.key = f"{self.name} {made._user}"  # in memory only
        return made

    @property
    def url(self) -> URL:
        return URL.build(scheme=self.scheme, host=self.host, port=self.port)

    def forwards(self, url: str) -> bool:
        """Whether it forwards the request instead of opening a tunnel to the host."""
        return self.scheme != "socks5" and url.startswith("http:")

    def login(self) -> tuple[bytes, bytes] | None:
        """User and password, if it has any."""
        if self._user is None:
            return None
        return self._user.encode(), (self._password or "").encode()

    def header(self) -> str | None:
        """The value of Proxy-Authorization, if it has user and password."""
        login = self.login()
        return None if login is None else f"Basic {b64encode(b':'.join(login)).decode()}"
