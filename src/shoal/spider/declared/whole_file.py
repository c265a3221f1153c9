"""All sites of a file in one job: settings that differ become settings of hosts; what cannot differ is said."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from shoal.admit.identity import host_key
from shoal.errors import SpiderError
from shoal.spider.declared.compiling import BY_HOST, OWN_SCOPE, start_url
from shoal.spider.declared.file_model import SourceTable, StartTable
from shoal.spider.declared.reading_file import Site, SpiderFile
from shoal.spider.declared.validating import Problem


class Hosts:
    """The hosts of a site, with all below those that `hosts` names."""

    def __init__(self, names: frozenset[str], domains: frozenset[str]) -> None:
        self.names = names | domains
        self.domains = domains

    def __call__(self, url: str) -> bool:
        host = host_key(url)
        if host in self.names or _bare(host) in self.names:
            return True
        return bool(self.domains) and any(name in self.domains for name in _above(host))


class SiteIndex:
    """Which site of a file a URL belongs to."""

    def __init__(self, sites: Iterable[Site]) -> None:
        self._hosts: dict[str, str] = {}
        self._domains: dict[str, str] = {}  # with all hosts below them
        for site in sites:
            hosts = hosts_of(site)
            for host in hosts.names:
                self._hosts.setdefault(host, site.name)
                self._hosts.setdefault(_bare(host), site.name)
            for domain in hosts.domains:
                self._domains.setdefault(domain, site.name)

    def site_of(self, url: str) -> str | None:
        host = host_key(url)
        if (known := self._hosts.get(host)) is not None:
            return known
        return next((self._domains[name] for name in _above(host) if name in self._domains), None)


def _above(host: str) -> Iterator[str]:
    """The names that a host is below, and itself without its port."""
    name = host if host.endswith("]") else host.partition(":")[0]
    while name:
        yield name
        name = name.partition(".")[2]


def _bare(host: str) -> str:
    """www. makes no difference."""
    return host.removeprefix("www.") if host.startswith("www.") else f"www.{host}"


def _has_names(host: str) -> bool:
    """Whether there may be hosts below it: not below an address."""
    return not host.startswith("[") and not host.partition(":")[0].replace(".", "").isdigit()


def hosts_of(site: Site) -> Hosts:
    named = frozenset(name.strip().removeprefix("*.").lower() for name in site.settings.get("hosts", []))
    return Hosts(frozenset(host_key(url) for url in _urls(site)) if not named else frozenset(), named)


def _urls(site: Site) -> Iterator[str]:
    """The URLs that stand in the file itself."""
    table = site.table
    starts = table.start if isinstance(table.start, list) else [table.start]
    sitemaps = table.sitemap if isinstance(table.sitemap, list) else [table.sitemap]
    feeds = table.feed if isinstance(table.feed, list) else [table.feed]
    for one in (*starts, *sitemaps, *feeds):
        url = one.url if isinstance(one, StartTable | SourceTable) else one
        if url:
            yield start_url(url)


def whole_problems(file: SpiderFile) -> Iterator[Problem]:
    """What keeps the sites from being one job. Each of them alone is not touched by it."""
    sites = list(file.sites.values())
    keys = {key for site in sites for key in site.settings if key not in (*BY_HOST, *OWN_SCOPE)}
    for key in sorted(keys):
        values = [site.settings.get(key) for site in sites]
        odd = next((site for site, value in zip(sites, values, strict=True) if value != values[0]), None)
        if odd is not None:
            holder = odd if key in odd.settings else sites[0]
            said = (
                "it differs between the sites, and holds for a whole job: write it at the top of the file, "
                f"or crawl {file.path.name}:{holder.name} alone"
            )
            yield Problem(file.place_in(holder, (key,)), said, is_warning=True)
    for site in sites:
        if not hosts_of(site).names:
            said = f'its hosts are not known: name them, as in hosts = ["{site.name}.example"]'
            yield Problem(("site", site.name), said, is_warning=True)
    for key in ("every", "cron"):
        for site in sites:
            if getattr(site.table, key) not in (None, file.document.get(key)):
                said = (
                    f"a site has no schedule of its own in one job: shoal submit {file.path.name}:{site.name}"
                )
                yield Problem(file.place_in(site, (key,)), said, is_warning=True)


def shared_settings(file: SpiderFile) -> dict[str, Any]:
    """The settings of the job of all sites. Raises SpiderError if there can be none."""
    for problem in whole_problems(file):
        raise SpiderError(file.told(problem))
    sites = list(file.sites.values())
    settings = {key: value for key, value in sites[0].settings.items() if key not in (*BY_HOST, *OWN_SCOPE)}
    tables: dict[str, dict[str, Any]] = {}
    for key in BY_HOST:
        if key in file.document:
            settings[key] = file.document[key]
    for site in sites:
        hosts = hosts_of(site)
        own = {key: site.settings[key] for key in BY_HOST if site.settings.get(key) != settings.get(key)}
        for host in hosts.names if own else ():
            for name in (host, f"*.{host}") if site.settings.get("hosts") and _has_names(host) else (host,):
                tables.setdefault(name, {}).update(own)
        for name, table in (site.settings.get("host") or {}).items():
            tables[name] = {**tables.get(name, {}), **table} if isinstance(table, dict) else table
    if tables:
        settings["host"] = tables
    return _with_scope(settings, sites)


def _with_scope(settings: dict[str, Any], sites: list[Site]) -> dict[str, Any]:
    named = [site for site in sites if site.settings.get("hosts")]
    if named:
        settings["hosts"] = sorted({host for site in sites for host in hosts_of(site).names})
    depths = [site.settings.get("depth") for site in sites]
    if None not in depths:
        settings["depth"] = max(depth for depth in depths if depth is not None)
    return settings
