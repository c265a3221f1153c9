"""Where the pages of a TOML spider lead: links that are followed, the next page, and which handler gets a URL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from shoal.html.page_links import join, target_of
from shoal.model.request import Request
from shoal.spider.declared.field_values import Field, fields_of, split_pseudo
from shoal.spider.declared.file_model import (
    FollowLike,
    FollowTable,
    HandlerTable,
    PaginateTable,
    SiteTable,
)
from shoal.spider.declared.json_path import json_path
from shoal.spider.declared.looking import PAGE, Look, Scope, attribute_of
from shoal.spider.declared.reading_file import handlers_of, keys_of
from shoal.spider.declared.url_patterns import UrlPattern, fits_any, url_pattern
from shoal.spider.page import FollowOptions

OUTSIDE = "links left out by include and exclude"  # a counter


class Router:
    """Which handler of a site gets a URL: the first whose `match` fits; else the one that gets the start."""

    def __init__(self, site: SiteTable, prefix: str) -> None:
        handlers = handlers_of(site)
        self._first = next((f"{prefix}{name}" for name in handlers), "")
        self._matches = [
            (f"{prefix}{name}", tuple(map(url_pattern, keys_of(table.match))))
            for name, table in handlers.items()
            if table.match
        ]

    def matching(self, url: str) -> str | None:
        return next((name for name, patterns in self._matches if fits_any(patterns, url)), None)

    def handler_for(self, url: str) -> str:
        return self.matching(url) or self._first


class Rule(Struct, frozen=True):
    """One way in which links are found and followed."""

    find: Callable[[Look, Scope], Iterable[str]]
    handler: Callable[[str], str | None]  # that a URL goes to; None: it is not followed
    include: tuple[UrlPattern, ...] = ()
    exclude: tuple[UrlPattern, ...] = ()
    carry: Mapping[str, Field] = {}
    lane: str | None = None
    priority: int | None = None
    is_next: bool = False  # another page of the same list: no deeper


class Links:
    """All that a handler follows."""

    def __init__(
        self,
        rules: tuple[list[Rule], PaginateTable | None],
        site: SiteTable,
        is_own: Callable[[str], bool] | None,
        depth: int | None,
    ) -> None:
        self._rules, self._pages = rules
        self._include = _patterns(site.include)
        self._exclude = _patterns(site.exclude)
        self._is_own = is_own  # whether a URL is on a host of the site; None: admission knows
        self._depth = depth

    def requests(self, look: Look) -> Iterator[Request]:
        page = look.page
        left_out = 0
        for rule in self._rules:
            options = self._options(rule, look)
            if not rule.is_next and self._depth is not None and page.depth >= self._depth:
                continue
            for target in dict.fromkeys(rule.find(look, PAGE)):
                url = join(page.base, target)
                if url is None or (self._is_own is not None and not self._is_own(url)):
                    continue
                handler = rule.handler(url)
                if handler is None:
                    continue
                if not rule.is_next and not self._wants(url, rule):
                    left_out += 1
                    continue
                yield page.follow(target, handler, **options)
        if left_out:
            page.count(OUTSIDE, left_out)
        if (pages := self._pages) is not None:
            yield from page.paginate(
                param=pages.param,
                total=pages.total,
                count=pages.count,
                per_page=pages.per_page,
                first=pages.first,
            )

    def _wants(self, url: str, rule: Rule) -> bool:
        included = not self._include or fits_any(self._include, url)
        own = not rule.include or fits_any(rule.include, url)
        return included and own and not fits_any((*self._exclude, *rule.exclude), url)

    def _options(self, rule: Rule, look: Look) -> FollowOptions:
        options: FollowOptions = {}
        if rule.carry:
            from shoal.spider.declared.field_values import Reading

            reading = Reading({})
            options["meta"] = {
                name: field.read(look, PAGE, reading, name) for name, field in rule.carry.items()
            }
        elif rule.is_next and look.page.task.meta:
            options["meta"] = look.page.task.meta
        if rule.lane is not None:
            options["lane"] = rule.lane
        if rule.priority is not None:
            options["priority"] = rule.priority
        if rule.is_next:
            options["depth"] = look.page.depth
        return options


def link_rules(
    table: HandlerTable, name: str, prefix: str, router: Router
) -> tuple[list[Rule], PaginateTable | None]:
    """The rules of a handler, in the order in which they stand."""
    rules: list[Rule] = []
    follow = table.follow
    if isinstance(follow, dict):
        for target, given in follow.items():
            rules += _rules(given, f"{prefix}{target}", router)
    elif follow is True or (isinstance(follow, str) and follow):
        rules.append(
            Rule(_finder(FollowTable(css=follow if isinstance(follow, str) else None)), router.matching)
        )
    if table.next is not None:
        given_next = FollowTable(css=table.next) if isinstance(table.next, str) else table.next
        own = f"{prefix}{name}"
        rules.append(_rule(given_next, lambda url: own, is_next=True))
    return rules, table.paginate


def _rules(given: FollowLike, target: str, router: Router) -> Iterator[Rule]:
    if isinstance(given, bool):
        if given:
            yield Rule(_finder(FollowTable()), lambda url: target if router.matching(url) == target else None)
        return
    for one in given if isinstance(given, list) else [given]:
        yield _rule(FollowTable(css=one) if isinstance(one, str) else one, lambda url: target)


def _rule(table: FollowTable, handler: Callable[[str], str | None], *, is_next: bool = False) -> Rule:
    return Rule(
        _finder(table),
        handler,
        _patterns(table.include),
        _patterns(table.exclude),
        fields_of(table.carry),
        table.lane,
        table.priority,
        is_next,
    )


def _patterns(given: str | list[str]) -> tuple[UrlPattern, ...]:
    return tuple(map(url_pattern, keys_of(given)))


def _finder(table: FollowTable) -> Callable[[Look, Scope], Iterable[str]]:
    """What gives the targets of links; without a place, all links of the page."""
    if table.json is not None:
        path = json_path(table.json)

        def find(look: Look, scope: Scope) -> Iterable[Any]:
            return [one for document in look.documents for one in _flat(path.find(document))]
    elif (expression := table.xpath) is not None:

        def find(look: Look, scope: Scope) -> Iterable[Any]:
            return [_target(one, "") for one in look.xpath(expression, scope)]
    elif table.css is not None:
        selector, attribute = split_pseudo(table.css)

        def find(look: Look, scope: Scope) -> Iterable[Any]:
            return [_target(node, attribute) for node in look.css(selector, scope)]
    else:

        def find(look: Look, scope: Scope) -> Iterable[Any]:
            return look.page._targets(None)

    made = table.url

    def targets(look: Look, scope: Scope) -> Iterator[str]:
        for one in find(look, scope):
            if one is not None and not isinstance(one, dict | list | bool) and (text := str(one).strip()):
                yield made.replace("{}", quote(text, safe="")) if made else text

    return targets


def _flat(values: list[Any]) -> Iterator[Any]:
    for one in values:
        if isinstance(one, list):
            yield from one
        else:
            yield one


def _target(found: Any, attribute: str) -> Any:
    if attribute:
        return attribute_of(found, attribute)
    if hasattr(found, "attributes"):
        return target_of(found)
    if hasattr(found, "get") and hasattr(found, "itertext"):
        return found.get("href") or found.get("src")
    return found
