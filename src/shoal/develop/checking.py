"""Looks over a spider or a settings file without crawling: what `shoal check` shows."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib.util import find_spec
from inspect import unwrap
from pathlib import Path
from sysconfig import get_path
from types import ModuleType

from shoal.admit import Admission
from shoal.admit.sending import has_scheme
from shoal.admit.sizes import OversizeError, stored_size
from shoal.config import load
from shoal.develop import code_secrets
from shoal.develop.findings import Finding
from shoal.develop.item_check import check_items
from shoal.develop.selector_check import check_selectors, saved_pages
from shoal.develop.spider_code import Code, HandlerUse, read_code
from shoal.errors import ShoalError, UsageError
from shoal.model import Refused
from shoal.model.request import HANDLER_NAME, Request
from shoal.runtime.admission import make_admission
from shoal.runtime.job_plan import JobPlan, check_parts
from shoal.settings import Settings
from shoal.spider.default import summary_spider
from shoal.spider.loading import is_toml, load_spiders, on_path
from shoal.spider.spider import Spider, shown
from shoal.spider.start_sources import Source, handlers_of_entries
from shoal.spider.start_tables import Table
from shoal.text import shown_url
from shoal.text.humanize import plural

_STARTS = 1_000  # start URLs that are looked at
_PYTHON = get_path("stdlib") + os.sep


def check(
    target: str,
    *,
    config: Path | None,
    flags: Mapping[str, object],
    pages: Path,
    environ: Mapping[str, str],
    arguments: Sequence[str] = (),
) -> list[Finding]:
    """What is found about a spider (FILE.py, FILE.py:name, FILE.toml, module, a folder) or a settings file. Raises
    UsageError if there is no such thing. `arguments` (NAME=VALUE) are for a function that makes the spider."""
    if is_toml(target):
        from shoal.develop.toml_check import check_toml, is_settings_file

        if is_settings_file(target):
            return list(_check_file(Path(target)))
        return check_toml(target, config=config, flags=flags, pages=pages, environ=environ)
    _check_exists(target)
    try:
        spiders = load_spiders([target], arguments)
    except ShoalError as error:
        if type(error) is UsageError:  # of the arguments
            raise
        return [Finding("loads", "wrong", str(error)), *_secrets_of_broken(target)]
    findings: list[Finding] = []
    codes: dict[Path, Code] = {}
    for spider in spiders.values():
        modules = _modules_of(spider)
        read = {path: codes.get(path) or read_code(path) for path in modules}
        own = [code for code in read.values() if code is not None]
        codes |= {code.path: code for code in own}
        findings += _check_spider(spider, modules, own, config, flags, environ)
        findings += [_unread(path) for path, code in read.items() if code is None]
    kept, unreadable = saved_pages(pages)
    findings += [*unreadable, *check_selectors(codes.values(), kept, pages), *_check_secrets(codes.values())]
    return findings


def _unread(path: Path) -> Finding:
    found = "its text cannot be read, so what it names is not checked"
    return Finding(
        "loads", "warning", found, "save it as Python that is not nested too deeply", shown(str(path))
    )


def _check_exists(target: str) -> None:
    """Raises UsageError. The errors of what is there say themselves what to do."""
    if has_scheme(target):
        raise UsageError(
            f"{shown_url(target)} is a URL: shoal fetch looks at a page, shoal check at a spider"
        )
    address = target.partition(":")[0].strip()
    if not address:
        exists = False
    elif address.endswith(".py") or os.sep in address or Path(address).is_dir():
        exists = Path(address).exists()
    else:
        on_path(Path.cwd())
        try:
            exists = find_spec(address) is not None
        except ModuleNotFoundError as error:
            exists = not address.startswith(error.name or address)
        except Exception:
            exists = True  # what is wrong with its package is told when it is loaded
    if not exists:
        raise UsageError(
            f"there is no {address or repr(target)}: give FILE.py, FILE.py:name, FILE.toml, module or a folder"
        )


# -- a spider


def _check_spider(
    spider: Spider,
    modules: Mapping[Path, ModuleType],
    codes: Sequence[Code],
    config: Path | None,
    flags: Mapping[str, object],
    environ: Mapping[str, str],
) -> Iterator[Finding]:
    handlers = plural(len(spider.handlers), "handler")
    yield Finding("loads", "ok", f"spider {spider.name}: {handlers} ({', '.join(spider.handlers)})")
    yield from check_settings(spider, config, flags, environ)
    yield from _check_handlers(spider, modules, codes)
    yield from check_items(spider, codes)


def check_settings(
    spider: Spider, config: Path | None, flags: Mapping[str, object], environ: Mapping[str, str]
) -> Iterator[Finding]:
    """One row for settings, and one for the start; or what is wrong with them."""
    try:
        settings = load(config, spider.settings, environ, flags)
        check_parts(JobPlan(spider, settings, spider.name))
    except ShoalError as error:
        yield Finding("settings", "wrong", str(error), where=spider.name)
    else:
        yield Finding(
            "settings", "ok", repr(settings).removeprefix("Settings(").removesuffix(")") or "as usual"
        )
        yield from _check_start(spider, settings)


def _check_start(spider: Spider, settings: Settings) -> Iterator[Finding]:
    start = spider.start
    if callable(start):
        yield Finding("start", "ok", "a function, which is not called here")
        return
    if not start:
        yield Finding(
            "start",
            "warning",
            "it has no start URLs",
            f"Spider({spider.name!r}, start=…), or give some with shoal submit",
        )
        return
    entries = spider.listed_starts()
    admission = make_admission(spider, settings)
    bad = 0
    for entry in entries[:_STARTS]:
        if (problem := _problem_of_start(entry, admission)) is not None:
            bad += 1
            yield Finding("start", "wrong", *problem, spider.name)
    if not bad:
        yield Finding("start", "ok", plural(len(entries), "start"))


def _problem_of_start(entry: object, admission: Admission) -> tuple[str, str] | None:
    """What is wrong, and what to do."""
    file = entry.path if isinstance(entry, Table) and not entry.is_query else entry
    if isinstance(file, Path):
        if file == Path("-") or file.is_file():
            return None
        return f"there is no file {file}", "write it, or name another"
    if isinstance(entry, Table):
        return None
    request = Request(entry) if isinstance(entry, str) else entry
    if isinstance(request, Source):
        request = request.request()
    assert isinstance(request, Request)
    try:
        stored_size(request)
    except OversizeError as error:
        advice = "a crawl stores requests: make it smaller, or of plain values"
        return f"{shown_url(request.url)}: {error}", advice
    if isinstance(refused := admission.admit(request), Refused):
        found = f"{refused.url}: refused ({refused.reason}), so a crawl would not fetch it"
        return found, "mend the URL or the settings of its scope"
    return None


# -- the handlers that requests name


def _check_handlers(
    spider: Spider, modules: Mapping[Path, ModuleType], codes: Sequence[Code]
) -> Iterator[Finding]:
    mine = _first_lines(spider)
    named: set[str] = set()
    bad = uses = 0
    for code in codes:
        others = _handlers_of_others(spider, modules[code.path])
        for use in code.handlers:
            if (code.path, use.within) in others:
                continue
            uses += 1
            where = f"{shown(str(code.path))}:{use.line}"
            name = _name_used(use, modules[code.path], spider)
            if name is None:
                bad += 1
                yield _no_function(spider, use.variable, where)
                continue
            named.add(name)
            if not name or name in spider.handlers:
                continue
            if (code.path, use.within) not in mine and name in _all_handlers(modules[code.path]):
                continue  # a function that another spider uses
            bad += 1
            yield _no_handler(spider, name, where)
    for name in set(_start_handlers(spider)) - named - {""}:
        named.add(name)
        if name and name not in spider.handlers:
            bad += 1
            yield _no_handler(spider, name, "start")
    first = next(iter(spider.handlers), "")
    idle = [name for name in spider.handlers if name not in named and name != first]
    is_all = len(codes) == len(modules) and not any(code.is_open for code in codes) and "" not in named
    if idle and is_all and not callable(spider.start):
        do = f"name it where a page is followed: page.follow(…, {idle[0]})"
        yield Finding("handlers", "warning", f"no request leads to {', '.join(idle)}", do, spider.name)
    if not bad:
        said = (
            f"{plural(uses, 'place')} in the code where a request names one"
            if uses
            else "no request names one"
        )
        yield Finding("handlers", "ok", said)


def _no_handler(spider: Spider, name: str, where: str) -> Finding:
    found = f"spider {spider.name} has no handler {name!r}; it has {', '.join(spider.handlers)}"
    near = get_close_matches(name, spider.handlers, 1)
    do = f"did you mean {near[0]!r}?" if near else "name one of these"
    return Finding("handlers", "wrong", found, do, where)


def _no_function(spider: Spider, name: str, where: str) -> Finding:
    do = "put @spider.handler above it, or name another function"
    return Finding("handlers", "wrong", f"{name} is not a handler of spider {spider.name}", do, where)


def _name_used(use: HandlerUse, module: ModuleType, spider: Spider) -> str | None:
    """The handler that is named, "" if that is not known; None: a function that is no handler."""
    value = getattr(module, use.variable, None) if use.variable else use.text
    if isinstance(value, str):
        return value
    if not callable(value):  # a name inside a function: of a handler there, or of anything
        return use.variable if use.variable in spider.handlers else ""
    name = getattr(value, HANDLER_NAME, None)
    return name if isinstance(name, str) else None


def _start_handlers(spider: Spider) -> Iterator[str]:
    """The handlers that the start names."""
    for entry in () if callable(spider.start) else spider.listed_starts():
        if isinstance(entry, Source):
            yield from handlers_of_entries(entry.request())
        elif isinstance(entry, Request | Table):
            yield entry.handler


def _first_lines(spider: Spider) -> dict[tuple[Path, int], str]:
    """The handlers by file and first line."""
    found: dict[tuple[Path, int], str] = {}
    for handler in spider.handlers.values():
        code = getattr(unwrap(handler.function), "__code__", None)
        if code is not None:
            found[Path(code.co_filename), code.co_firstlineno] = handler.name
    return found


def _spiders_of(module: ModuleType) -> list[Spider]:
    return [value for value in vars(module).values() if isinstance(value, Spider)]


def _handlers_of_others(spider: Spider, module: ModuleType) -> set[tuple[Path, int]]:
    """Handlers of other spiders in the same file, and not of this one."""
    others = [one for one in _spiders_of(module) if one is not spider]
    return {place for other in others for place in _first_lines(other)} - _first_lines(spider).keys()


def _all_handlers(module: ModuleType) -> set[str]:
    return {name for spider in _spiders_of(module) for name in spider.handlers}


# -- the files of a spider


def _modules_of(spider: Spider) -> dict[Path, ModuleType]:
    """The modules in which the spider and its handlers are, and those beside and below them that were imported."""
    files = {path for path, _ in _first_lines(spider)}
    folders = {path.parent for path in files}
    found: dict[Path, ModuleType] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not file.endswith(".py"):
            continue
        path = Path(file)
        holds = any(value is spider for value in vars(module).values())
        beside = not folders.isdisjoint(path.parents) and not _is_foreign(name, file)
        if path in files or holds or beside:
            found[path] = module
    return found


def _is_foreign(name: str, file: str) -> bool:
    """Whether a module is of Python, of a package that is installed, of Shoal, or of another spider."""
    own = name.startswith(("shoal.", "shoal_spider_")) or name in ("shoal", "__main__")
    return own or "-packages" in file or file.startswith(_PYTHON)


# -- secrets


def _check_secrets(codes: Iterable[Code]) -> Iterator[Finding]:
    number = files = 0
    for code in codes:
        files += 1
        text = code.path.read_text("utf-8", "replace")
        for secret in code_secrets.secrets_in_code(code.tree, text):
            number += 1
            yield Finding(
                "secrets",
                "wrong",
                f"{secret.kind} in the code",
                f"read it from the environment: os.environ[…]; if it is none, write {code_secrets.EXEMPT} behind it",
                f"{shown(str(code.path))}:{secret.line}",
            )
    if not number:
        yield Finding("secrets", "ok", f"none in {plural(files, 'file')}")


def _secrets_of_broken(target: str) -> list[Finding]:
    """Those in a file that can be read, though it cannot be run."""
    path = Path(target.partition(":")[0])
    code = read_code(path) if path.suffix == ".py" else None
    return [] if code is None else [found for found in _check_secrets([code]) if found.state != "ok"]


# -- a settings file


def _check_file(path: Path) -> Iterator[Finding]:
    if not path.is_file():
        raise UsageError(f"no such file: {path}")
    spider = summary_spider("check", ())
    try:
        settings = load(path, {}, {}, {})
        yield Finding("loads", "ok", f"{path}: settings")
        check_parts(JobPlan(spider, settings, "check"))
    except ShoalError as error:
        yield Finding("settings", "wrong", str(error))
    else:
        yield Finding(
            "settings", "ok", repr(settings).removeprefix("Settings(").removesuffix(")") or "as usual"
        )
    try:
        table = tomllib.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return
    found = list(code_secrets.secrets_in_settings(table))
    for secret in found:
        do = "write env:NAME or ${NAME} where proxies are named, or set it in the environment as SHOAL_…"
        yield Finding("secrets", "warning", f"{secret.kind} at {secret.key}", do, str(path))
    if not found:
        yield Finding("secrets", "ok", "none in the file")
