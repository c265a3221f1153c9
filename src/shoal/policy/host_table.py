"""Settings for some hosts only: which tables apply to a host, and how they are combined. Pure.

A table is for one host ("shop.example", "shop.example:8080"), or for all hosts below a name ("*.shop.example"). If
several apply, each key comes from the most specific table that has it: the host's own, then the longest name, then the
settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from shoal.admit.identity import host_key
from shoal.admit.sending import sent_url
from shoal.settings import HOST_KEYS, HostSettings, Settings

ANY = "*."
NOTHING = HostSettings()
_KEPT = 10_000  # hosts whose settings are remembered

HOW = "write a host as in shop.example or shop.example:8080, or *.shop.example for all below it"


def host_pattern(text: str) -> str:
    """A table's name in canonical form: lower case, IDNA, a port only if it is not the default."""
    bare = text.strip()
    below, name = (ANY, bare[len(ANY) :]) if bare.startswith(ANY) else ("", bare)
    url = sent_url(name if "://" in name else f"http://{name}")
    if url is None or "*" in name or "@" in name or url.split("/", 3)[3]:
        raise ValueError(HOW)
    host = host_key(url).removesuffix(":443")
    if below and (host.startswith("[") or host.partition(":")[0].replace(".", "").isdigit()):
        raise ValueError(f"an address has nothing below it; {HOW}")
    return below + host


def table_name(pattern: str, table: HostSettings) -> str:
    """The table's name for messages, with the file or spider it comes from."""
    name = f'[host."{pattern}"]'
    return f"{table.where}: {name}" if table.where else name


def patterns_of(host: str) -> Iterator[str]:
    """The names of all tables that may apply to a host, the most specific first."""
    yield host
    if host.startswith("["):
        return
    below = host
    while dot := below.find(".") + 1:
        below = below[dot:]
        yield ANY + below


class HostTable:
    def __init__(self, tables: Mapping[str, HostSettings]) -> None:
        self._tables = tables
        self._known: dict[str, HostSettings] = {}

    def __bool__(self) -> bool:
        return bool(self._tables)

    def of(self, host: str) -> HostSettings:
        """The combined settings of its tables."""
        if not self._tables:
            return NOTHING
        known = self._known.get(host)
        if known is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            known = self._known[host] = over(*(table for _, table in self.tables(host)))
        return known

    def tables(self, host: str) -> list[tuple[str, HostSettings]]:
        """The tables for a host with their names, the most specific first."""
        found = [(name, self._tables.get(name)) for name in patterns_of(host)]
        return [(name, table) for name, table in found if table is not None]

    def says(self, host: str, key: str) -> tuple[str, HostSettings] | None:
        """The table that sets a key for the host."""
        tables = self.tables(host)
        return next((found for found in tables if getattr(found[1], key) not in (None, {})), None)


def over(*tables: HostSettings) -> HostSettings:
    """Several tables as one; the first wins. Headers are merged one by one."""
    if len(tables) < 2:
        return tables[0] if tables else NOTHING
    strong, weak = tables[0], over(*tables[1:])
    given = {key: value for key in HOST_KEYS if (value := getattr(strong, key)) is not None}
    given["headers"] = merged(weak.headers, strong.headers)
    return replace(weak, **given)


def merged(weak: Mapping[str, str] | None, strong: Mapping[str, str] | None) -> dict[str, str]:
    """Headers merged by name, whatever its case."""
    taken = {name.lower() for name in strong or ()}
    return {
        **{name: value for name, value in (weak or {}).items() if name.lower() not in taken},
        **(strong or {}),
    }


def settings_at(settings: Settings, own: HostSettings) -> Settings:
    """The settings for a host with some of its own.

    Its timeout is fixed, not an upper limit for the adaptive timeout: that would cut off a host that takes a minute for
    its first answer.
    """
    given: dict[str, object] = {
        key: value
        for key in ("rate", "per_host", "pool", "robots")
        if (value := getattr(own, key)) is not None
    }
    if (timeout := own.timeout) is not None:
        given |= dict.fromkeys(("min_timeout", "first_timeout", "read_timeout", "total_timeout"), timeout)
        given["connect_timeout"] = min(settings.connect_timeout, timeout)
    return replace(settings, **given) if given else settings
