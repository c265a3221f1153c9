"""From the sites of a TOML file to spiders with ordinary handlers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any, TypedDict, cast

from msgspec.structs import replace

from shoal.admit.sending import typed_url
from shoal.errors import SpiderError, UrlError
from shoal.model import DEFAULT_LANE
from shoal.model.request import HANDLER_CODE, Request
from shoal.spider.declared.field_values import Item, each_scopes, fields_of, read_item
from shoal.spider.declared.file_model import (
    FieldLike,
    FieldTable,
    HandlerTable,
    SiteTable,
    SourceTable,
    StartTable,
)
from shoal.spider.declared.looking import PAGE, Look
from shoal.spider.declared.next_pages import Links, Router, link_rules
from shoal.spider.declared.reading_file import Site, SpiderFile, handlers_of, keys_of
from shoal.spider.declared.typed_values import PYTHON_TYPES
from shoal.spider.declared.url_patterns import all_of, url_pattern
from shoal.spider.page import Page
from shoal.spider.schemas import Invalid, Schema
from shoal.spider.spider import Handler, Spider

BY_HOST = (
    "rate",
    "per_host",
    "headers",
    "pool",
    "robots",
)  # settings that may differ between sites of one job
OWN_SCOPE = ("hosts", "depth", "host")  # … and those that its handlers keep to


class DeclaredSchema(Schema, frozen=True):
    """Rejects an item that lacks what it must have, with the reason that was found when it was read."""

    required: tuple[str, ...] = ()

    def checked_mapping(self, item: Mapping[Any, object], data: bytes) -> object:
        problems = item.problems if isinstance(item, Item) else {}
        said = [reason for name, reason in problems.items() if "." in name or not _has(item, name)]
        known = {name.partition(".")[0].partition("[")[0] for name in problems}
        said += [
            f"{name}: required, and missing"
            for name in self.required
            if name not in known and not _has(item, name)
        ]
        if said:
            raise Invalid("; ".join(said[:5]) + (f"; and {len(said) - 5} more" if len(said) > 5 else ""))
        return item


def _has(item: Mapping[Any, object], name: str) -> bool:
    return item.get(name) not in (None, "", [], {})


def site_spider(file: SpiderFile, site: Site) -> Spider:
    """The spider of one site."""
    name = site.table.name or (f"{file.name}.{site.name}" if site.name else file.name)
    given = {**site.settings, **_times(site.table.every, site.table.cron)}
    spider = Spider(name, _starts(file, site, ""), **cast(Any, given))
    _add_handlers(spider, file, site, "", None)
    router = Router(site.table, "")
    spider.route = lambda url, source: router.handler_for(url)
    _add_hooks(spider, site, None)
    return spider


def _times(every: str | None, cron: str | None) -> dict[str, str]:
    """When it runs again, as settings."""
    return {name: text for name, text in (("every", every), ("cron", cron)) if text is not None}


def file_spider(file: SpiderFile) -> Spider:
    """The spider of all sites of a file: their handlers are named SITE.HANDLER."""
    if not file.has_sites:
        return site_spider(file, file.sites[""])
    from shoal.spider.declared.whole_file import SiteIndex, hosts_of, shared_settings

    starts: list[Any] = []
    files: dict[FilePath, str] = {}
    routers: dict[str, Router] = {}
    settings = shared_settings(file) | _times(file.document.get("every"), file.document.get("cron"))
    spider = Spider(file.name, (), **cast(Any, settings))
    for site in file.sites.values():
        prefix = f"{site.name}."
        routers[site.name] = Router(site.table, prefix)
        own = _starts(file, site, prefix)
        files |= {one: site.name for one in own if isinstance(one, FilePath)}
        starts += own
        _add_handlers(spider, file, site, prefix, hosts_of(site))
        _add_hooks(spider, site, [f"{prefix}{name}" for name in site.table.handler])
    spider.start = starts
    index = SiteIndex(file.sites.values())

    def route(url: str, source: FilePath | None) -> str:
        known = files.get(source) if source is not None else None
        name = known or index.site_of(url)
        return routers[name].handler_for(url) if name is not None else ""

    spider.route = route
    return spider


# -- where it begins


def _starts(file: SpiderFile, site: Site, prefix: str) -> list[Any]:
    table = site.table
    given = table.start if isinstance(table.start, list) else [table.start]
    starts: list[Any] = []
    for one in given:
        if isinstance(one, StartTable) and one.file is not None:
            starts.append((file.path.parent / one.file).resolve())
        else:
            url = one if isinstance(one, str) else one.url or ""
            named = "" if isinstance(one, str) else one.handler or ""
            handler = f"{prefix}{named}" if named else Router(table, prefix).handler_for(url)
            starts.append(Request(start_url(url), handler))
    return [*starts, *_sources(table, prefix)]


def start_url(url: str) -> str:
    """As it is typed: the scheme may be missing. Raises UrlError."""
    try:
        return typed_url(url)
    except ValueError as error:
        raise UrlError(str(error)) from None


def _sources(table: SiteTable, prefix: str) -> Iterator[Any]:
    """Sitemaps and feeds. What fits no `match` is not fetched, if there is any."""
    rules = {
        url_pattern(text): f"{prefix}{name}"
        for name, one in handlers_of(table).items()
        for text in keys_of(one.match)
    }
    included = [url_pattern(text) for text in keys_of(table.include)]
    excluded = [url_pattern(text) for text in keys_of(table.exclude)]
    first = next((f"{prefix}{name}" for name in handlers_of(table)), "")
    for kind, given in (("Sitemap", table.sitemap), ("Feed", table.feed)):
        for one in given if isinstance(given, list) else [given]:
            source = SourceTable(url=one) if isinstance(one, str) else one
            named = f"{prefix}{source.handler}" if source.handler else "" if rules else first
            yield _source(kind)(
                start_url(source.url),
                include=all_of(included, () if named else rules),
                exclude=[pattern.source for pattern in excluded],
                since=source.since,
                handler=named or {pattern.source: name for pattern, name in rules.items()},
            )


def _source(kind: str) -> Any:
    import shoal

    make = getattr(shoal, kind, None)
    if make is None:
        raise SpiderError(f"this version of Shoal has no {kind.lower()} as a start")
    return make


# -- handlers


def _add_handlers(
    spider: Spider, file: SpiderFile, site: Site, prefix: str, hosts: Callable[[str], bool] | None
) -> None:
    depth = site.settings.get("depth") if hosts is not None else None
    router = Router(site.table, prefix)
    for name, table in handlers_of(site.table).items():
        links = Links(link_rules(table, name, prefix, router), site.table, hosts, depth)
        function = _imported(table.function) if table.function else _function(table, site.name, links)
        if not table.function:
            function.__name__ = function.__qualname__ = f"{prefix}{name}"  # as logs name it
            setattr(function, HANDLER_CODE, repr(table))
        made = spider.add_handler(
            function,
            name=f"{prefix}{name}",
            key=keys_of(table.key) or None,
            lane=table.lane or DEFAULT_LANE,
            priority=table.priority,
            item=table.item or name,
            pool=table.pool or "",
            country=table.country or "",
            wait_for=table.wait_for or "",
            files=keys_of(table.files),
            revisit=table.revisit or "",
        )
        if table.fields:
            spider.handlers[made.name] = replace(made, schemas=(_schema(made, table),))


def _function(table: HandlerTable, site: str, links: Links) -> Callable[[Page], Iterator[object]]:
    fields = fields_of(table.fields)
    each = each_scopes(table.each) if table.each is not None else None

    def handle(page: Page) -> Iterator[object]:
        look = Look(page, site)
        if fields and (table.when is None or page.first(table.when) is not None):
            scopes = [PAGE] if each is None else look.bounded(iter(each(look, PAGE)))
            for scope in scopes:
                yield read_item(fields, look, scope)
        yield from links.requests(look)

    return handle


def _schema(handler: Handler, table: HandlerTable) -> DeclaredSchema:
    hints = {name: _hint(given) for name, given in table.fields.items() if given is not False}
    required = tuple(name for name, given in table.fields.items() if _is_required(given))
    kind = TypedDict(handler.item.title() or "Item", hints)  # type: ignore[misc]

    def check(data: bytes) -> object:
        raise NotImplementedError  # `checked_mapping` is all that is asked

    return DeclaredSchema(kind, handler.item, check, None, False, False, required)


def _is_required(given: FieldLike) -> bool:
    return isinstance(given, FieldTable) and given.required


def _hint(given: FieldLike) -> Any:
    """The Python type of a field, by which databases choose a column."""
    if not isinstance(given, FieldTable):
        return str
    if given.each is not None:
        return list[dict[str, Any]]
    if given.fields is not None:
        return dict[str, Any]
    kind: Any = Any if given.type is None else PYTHON_TYPES[given.type]
    if given.type is None and given.json is None and (given.css or given.xpath or given.meta):
        kind = str
    return list.__class_getitem__(kind) if given.list_ else kind


# -- what is written in Python


def _imported(address: str) -> Callable[..., Any]:
    from shoal.spider.loading import import_address

    found: Callable[..., Any] = import_address("function", address)
    return found


def _add_hooks(spider: Spider, site: Site, handlers: list[str] | None) -> None:
    from shoal.spider.loading import import_address

    for kind, given in site.table.hooks.items():
        for address in keys_of(given):
            function = import_address(f"hooks.{kind}", address)
            if handlers is not None and kind in ("before_request", "after_response", "on_item"):
                spider.add_hook(kind, function, handler=handlers)
            elif not any(hook.kind == kind and hook.function is function for hook in spider.hooks):
                spider.add_hook(kind, function)
