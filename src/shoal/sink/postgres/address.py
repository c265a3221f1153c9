"""The address of a database, with and without its secrets.

    postgresql://USER:PASSWORD@HOST:PORT/DATABASE?history=1

Missing parts come from the environment, as with every PostgreSQL client: PGHOST, PGPORT, PGDATABASE, PGUSER,
PGPASSWORD, PGPASSFILE, PGSSLMODE … So `postgresql://` alone is enough. Other options (sslmode, target_session_attrs,
search_path …) go to the driver.
"""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode, urlsplit

from msgspec import Struct

from shoal.errors import UsageError

_SECRET = frozenset({"password", "sslpassword"})
_ON = frozenset({"1", "true", "yes", "on"})
_OFF = frozenset({"0", "false", "no", "off"})


class Address(Struct, frozen=True):
    dsn: str  # for the driver; may hold the password
    key: str  # without the password: may be stored, and opened again
    shown: str  # without the user too: may be shown
    history: bool = False

    def __repr__(self) -> str:
        return f"<Address {self.shown}>"


def read_address(output: str) -> Address:
    """Raises UsageError without any part of the address: a password may be anywhere in it."""
    rest = output.partition(":")[2].removeprefix("//")
    try:
        output.encode()
        parts = urlsplit(f"postgresql://{rest}")
        options = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:
        raise _unreadable() from None
    if parts.fragment or "@" in parts.path + parts.query:
        raise _unreadable()
    userinfo, at, hosts = parts.netloc.rpartition("@")
    user = userinfo.partition(":")[0]
    history = [value for name, value in options if name == "history"]
    options = [(name, value) for name, value in options if name != "history"]
    kept = [pair for pair in options if pair[0] not in _SECRET]
    wants_history = _switch(history[-1]) if history else False
    noted = [*kept, ("history", "1")] if wants_history else kept
    place = f"{hosts}{parts.path}"
    return Address(
        _url(f"{userinfo}{at}{place}", options),
        _url(f"{user}@{place}" if user else place, noted),
        f"postgresql://{place}",
        wants_history,
    )


def _url(place: str, options: list[tuple[str, str]]) -> str:
    return f"postgresql://{place}" + (f"?{urlencode(options)}" if options else "")


def _switch(value: str) -> bool:
    if value.lower() not in _ON | _OFF:
        raise UsageError(f"output: history={value} is not allowed; write history=1 or leave it out")
    return value.lower() in _ON


def _unreadable() -> UsageError:
    return UsageError(
        "the address of the database cannot be read: write postgresql://USER:PASSWORD@HOST/DATABASE with "
        "/ ? # @ : in the password as %2F %3F %23 %40 %3A, or leave the password to PGPASSWORD"
    )
