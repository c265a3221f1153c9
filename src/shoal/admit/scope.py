"""The scope of a crawl: which hosts, which URLs, how deep."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from shoal.admit.identity import host_key, site
from shoal.admit.sending import sent_url
from shoal.errors import SettingsError
from shoal.settings import Settings

Search = Callable[[str], re.Match[str] | None]


class Scope:
    """Says why a URL is outside the crawl, in one word, or None if it is inside.

    Hosts in the setting `hosts` include their subdomains, and any port unless one is given. Without that setting the
    crawl stays on the sites of its start URLs, and grows with `widen`; "www." makes no difference.
    """

    def __init__(
        self, domains: frozenset[str], sites: set[str], *, any_host: bool, settings: Settings
    ) -> None:
        self._domains = domains
        self._sites = sites
        self._any_host = any_host
        self._depth = settings.depth
        self._allow = _compiled("allow", settings.allow)
        self._deny = _compiled("deny", settings.deny)

    @classmethod
    def of(cls, settings: Settings, start_hosts: Iterable[str]) -> Scope:
        domains = frozenset(_domain(name) for name in settings.hosts)
        sites = {site(host) for host in domains or start_hosts}
        return cls(domains, sites, any_host=settings.any_host, settings=settings)

    def refuses(self, url: str, depth: int, canonical: str = "") -> str | None:
        return self.bars(url, depth, canonical) or self.off_site(url) or self.unwanted(url, canonical)

    def bars(self, url: str, depth: int, canonical: str = "") -> str | None:
        """The limits that hold for start URLs too."""
        if self._depth is not None and depth > self._depth:
            return "depth"
        if self._deny and _found(self._deny, url, canonical):
            return "deny"
        return None

    def off_site(self, url: str) -> str | None:
        if self._any_host:
            return None
        host = host_key(url)
        if site(host) in self._sites or (self._domains and self._in_domain(host)):
            return None
        return "host"

    def unwanted(self, url: str, canonical: str = "") -> str | None:
        return "allow" if self._allow and not _found(self._allow, url, canonical) else None

    def widen(self, host: str) -> None:
        """Adds a site, unless the settings name the hosts."""
        if not self._domains and not self._any_host:
            self._sites.add(site(host))

    def _in_domain(self, host: str) -> bool:
        name, port = _split_port(host)
        while name:
            if name in self._domains or (port and f"{name}:{port}" in self._domains):
                return True
            name = name.partition(".")[2]
        return False


def _found(searches: Iterable[Search], url: str, canonical: str) -> bool:
    """Searches both forms: a pattern for /logout also means /log%6Fut."""
    other = canonical if canonical != url else ""
    return any(search(url) or (other and search(other)) for search in searches)


def _split_port(host: str) -> tuple[str, str]:
    if host.endswith("]"):
        return host, ""  # an IPv6 address alone
    name, colon, port = host.rpartition(":")
    return (name, port) if colon else (host, "")


def _domain(name: str) -> str:
    """A host as people write it ("Example.com", "*.example.com", "https://example.com/") as a host key."""
    bare = name.strip()
    bare = bare.removeprefix("*").removeprefix(".")
    url = sent_url(bare if "://" in bare else f"http://{bare}")
    if url is None:
        # Without the name: text that does not parse may hold a password.
        raise SettingsError(
            "hosts: an entry is not a host name; write it like example.com or example.com:8080"
        )
    return host_key(url)


def _compiled(key: str, patterns: list[str]) -> tuple[Search, ...]:
    searches: list[Search] = []
    for pattern in patterns:
        try:
            searches.append(re.compile(pattern).search)
        except re.error as error:
            raise SettingsError(
                f"{key}: {pattern!r} is not a regular expression ({error}); a backslash before a character "
                "takes it literally"
            ) from None
    return tuple(searches)
