"""Looks over a TOML spider: what `shoal check FILE.toml` shows; and tries its handlers on a page."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from shoal.config import load
from shoal.develop import code_secrets
from shoal.develop.findings import Finding
from shoal.develop.page_source import find_page
from shoal.develop.selector_check import finds, saved_pages
from shoal.develop.spider_code import Kind, SelectorUse
from shoal.develop.trying import Tried, check_is_page, run_handler
from shoal.errors import ShoalError, UsageError
from shoal.spider.declared.compiling import file_spider, site_spider
from shoal.spider.declared.field_values import split_pseudo
from shoal.spider.declared.file_model import HandlerTable
from shoal.spider.declared.opening import no_site, split_address
from shoal.spider.declared.reading_file import Site, SpiderFile, is_settings, read_file, walk
from shoal.spider.declared.site_checks import site_problems
from shoal.spider.declared.validating import Problem
from shoal.spider.declared.whole_file import SiteIndex, whole_problems
from shoal.spider.loading import load_spider, on_path
from shoal.spider.page import Page
from shoal.spider.spider import Spider, shown
from shoal.text.humanize import plural

_TOML = "toml"
_NAMES = 10  # of sites, in a row


def is_settings_file(target: str) -> bool:
    path, _ = split_address(target)
    if not path.is_file():
        raise UsageError(f"no such file: {path}")
    try:
        return is_settings(tomllib.loads(path.read_text("utf-8-sig")))
    except (OSError, ValueError, RecursionError):
        # What is no TOML is told by what the file looks like.
        return path.name == "shoal.toml"


def check_toml(
    target: str,
    *,
    config: Path | None,
    flags: Mapping[str, object],
    pages: Path,
    environ: Mapping[str, str],
) -> list[Finding]:
    """All that is wrong, each with line and column; if nothing is, what was looked at."""
    from shoal.develop.checking import check_settings

    path, name = split_address(target)
    on_path(path.resolve().parent)
    try:
        file = read_file(path)
    except ShoalError as error:
        return [Finding("loads", "wrong", str(error))]
    problems = [*file.problems, *site_problems(file)]
    if any(not problem.is_warning for problem in problems):
        return [*_told(file, problems), *_secrets(file)]
    if name and name not in file.sites:
        raise no_site(file, name)
    apart = list(whole_problems(file)) if file.has_sites and not name else []
    findings = [_loaded(file), *_told(file, [*problems, *apart])]
    try:
        spiders = _spiders(file, name, whole=not apart)
    except ShoalError as error:
        return [*findings, Finding("loads", "wrong", str(error))]
    for spider in spiders:
        findings += check_settings(spider, config, flags, environ)
    return [*findings, *_keys(file), *_selectors(file, name, pages), *_secrets(file)]


def _spiders(file: SpiderFile, name: str, *, whole: bool) -> list[Spider]:
    if name:
        return [site_spider(file, file.sites[name])]
    return [file_spider(file)] if whole else [site_spider(file, site) for site in file.sites.values()]


def _loaded(file: SpiderFile) -> Finding:
    handlers = [one for site in file.sites.values() for one in site.table.handler.values() if one]
    fields = sum(len(one.fields) for one in handlers if isinstance(one, HandlerTable))
    number = f"{plural(len(handlers), 'handler')}, {plural(fields, 'field')}"
    if not file.has_sites:
        return Finding("loads", "ok", f"spider {file.name}: {number}")
    names = list(file.sites)
    listed = ", ".join(names[:_NAMES]) + (", …" if len(names) > _NAMES else "")
    return Finding("loads", "ok", f"{plural(len(names), 'site')} ({listed}): {number}")


def _told(file: SpiderFile, problems: list[Problem]) -> Iterator[Finding]:
    placed = [(file.place(problem.path), problem) for problem in problems]
    for place, problem in sorted(placed, key=lambda one: (one[0].line, one[0].column)):
        subject = f"{problem.subject}: " if problem.subject else ""
        where = f"{shown(str(file.path))}:{place.line}:{place.column}"
        yield Finding(
            _TOML, "warning" if problem.is_warning else "wrong", f"{subject}{problem.said}", where=where
        )


def _keys(file: SpiderFile) -> Iterator[Finding]:
    """Which handlers write equal items more than once."""
    without: set[str] = set()
    for site in file.sites.values():
        for name, one in site.table.handler.items():
            if isinstance(one, HandlerTable) and one.fields and not one.key:
                without.add(name)
    if without:
        said = f"no key in {', '.join(sorted(without))}: equal items are written more than once"
        yield Finding("keys", "ok", said)
    else:
        yield Finding("keys", "ok", "every handler with fields has one")


# -- selectors on saved pages


def _selectors(file: SpiderFile, name: str, folder: Path) -> Iterator[Finding]:
    """The selectors of a site are tried on the saved pages of that site."""
    pages, unreadable = saved_pages(folder)
    yield from unreadable
    index = SiteIndex(file.sites.values()) if file.has_sites else None
    tried: dict[tuple[str | int, ...], tuple[SelectorUse, bool]] = {}
    for site in [file.sites[name]] if name else file.sites.values():
        own = [page for page in pages if index is None or index.site_of(page.url) == site.name]
        for path, kind, text in _uses(site) if own else ():
            at = file.place_in(site, path)
            use = SelectorUse(file.place(at).line, kind, text)
            before = tried.get(at, (use, False))[1]
            tried[at] = use, before or _is_found(use, own)
    if not tried:
        said = f"all can be read; none was tried: no saved pages of its sites in {folder}"
        yield Finding("selectors", "ok", said, f"shoal keep URL {folder} saves one")
        return
    for path, (use, is_found) in tried.items():
        if not is_found:
            said = f"{'.'.join(map(str, path))}: {use.kind} {use.text!r} finds nothing on saved pages of its site"
            do = "look at a page with shoal shell, or keep one where it finds something"
            yield Finding("selectors", "warning", said, do, f"{shown(str(file.path))}:{use.line}")
    found = sum(is_found for _, is_found in tried.values())
    yield Finding("selectors", "ok", f"{found} of {len(tried)} find something on saved pages in {folder}")


def _uses(site: Site) -> Iterator[tuple[tuple[str | int, ...], Kind, str]]:
    for path, value in walk(msgspec.to_builtins(site.table)):
        if not isinstance(value, str) or not path:
            continue
        if path[-1] == "xpath":
            yield path, "xpath", value
        elif path[-1] in ("css", "when") or (len(path) > 1 and path[-2] in ("fields", "any")):
            yield path, "css", split_pseudo(value)[0] or "*"


def _is_found(use: SelectorUse, pages: list[Page]) -> bool:
    return any(finds(use, page) for page in pages)


def _secrets(file: SpiderFile) -> Iterator[Finding]:
    found = list(code_secrets.secrets_in_settings(file.document))
    for secret in found:
        do = "write env:NAME or ${NAME} where proxies are named, or set it in the environment as SHOAL_…"
        place = file.place(tuple(secret.key.split(".")))
        where = f"{shown(str(file.path))}:{place.line}"
        yield Finding("secrets", "warning", f"{secret.kind} at {secret.key}", do, where)
    if not found:
        yield Finding("secrets", "ok", "none in the file")


# -- on a page


async def try_on_page(
    target: str,
    page: str,
    *,
    config: Path | None,
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    cache: Path | None,
) -> list[Tried]:
    """What the handlers make of a saved or live page: the one whose `match` fits, or all that read fields."""
    spider = load_spider(target)
    settings = load(config, spider.settings, environ, flags)
    found = await find_page(page, spider=spider, settings=settings, cache=cache)
    check_is_page(found)
    names = _handlers_for(spider, found.response.url, target)
    return [await run_handler(spider, found, name, settings=settings) for name in names]


def _handlers_for(spider: Spider, url: str, target: str) -> list[str]:
    from shoal.spider.declared.opening import open_file

    path, _ = split_address(target)
    file = open_file(path)
    first = spider.route(url, None) if spider.route is not None else ""
    site = first.rpartition(".")[0]
    reading = [
        name
        for name, handler in spider.handlers.items()
        if handler.schemas and name.rpartition(".")[0] == site
    ]
    table = file.sites.get(site) or next(iter(file.sites.values()))
    chosen = table.table.handler.get(first.rpartition(".")[2])
    if isinstance(chosen, HandlerTable) and chosen.match:
        return [first]
    return reading or [name for name, handler in spider.handlers.items() if handler.schemas] or [first]
