"""Finds spiders by their address: FILE.py, FILE.py:name, FILE.toml, FILE.toml:site, module or module:name; or all in a
folder."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from hashlib import blake2b
from inspect import isclass, isfunction
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from shoal.errors import SettingsError, ShoalError, SpiderError, UsageError
from shoal.model.request import Request
from shoal.spider.arguments import Factory, returns_spider
from shoal.spider.spider import Spider, place_of_error, shown
from shoal.spider.start_sources import Feed, Sitemap, Source
from shoal.spider.start_tables import Table, is_table
from shoal.text import error_line, hide, without_secrets

if TYPE_CHECKING:
    from shoal.settings.keywords import SpiderSettings

T = TypeVar("T")


def load_spider(spec: str, arguments: Sequence[str] = ()) -> Spider:
    """The spider at `spec`; `arguments` (NAME=VALUE) are for a function that makes it. Errors in the user's code become
    one line with file and line number."""
    found = find_spider(spec)
    if isinstance(found, Factory):
        spider = make_spider(found, arguments)
    elif arguments and is_toml(spec):
        raise UsageError(f"-a: {spec} is written in TOML, and takes no arguments")
    elif arguments:
        address = spec.partition(":")[0]
        raise _no_arguments(found.name, _factories(_load(address, spec), address).values())
    else:
        spider = found
    spider.handler_named("")  # raises for a spider without handlers
    return spider


def _no_arguments(name: str, others: Iterable[Factory]) -> UsageError:
    """`others`: functions beside the spider that do take some."""
    known = ", ".join(other.address for other in others)
    what = (
        f"is one of these meant: {known}?"
        if known
        else ("write a function that does and returns it, such as def spider(category: str) -> Spider")
    )
    return UsageError(f"spider {name!r} takes no arguments: {what}")


def find_spider(spec: str) -> Spider | Factory:
    """What stands at `spec`: a spider, or a function that makes one."""
    if is_toml(spec):
        return _declared(spec)
    address, _, name = spec.partition(":")
    module = _load(address, spec)
    return _named(module, address, name) if name else _only(module, address)


def make_spider(factory: Factory, arguments: Sequence[str]) -> Spider:
    given = factory.read(arguments)
    for secret in given.secrets:
        hide(secret)  # whatever the spider's code raises or logs
    made: object = _run(lambda: factory.function(**given.values), factory.address)
    if not isinstance(made, Spider):
        if isinstance(made, Coroutine):
            made.close()
        raise SpiderError(f"{factory.address}() returned a {type(made).__name__}; it must return a Spider")
    made.made_by = given.made_by
    return made


def load_spiders(specs: Iterable[str], arguments: Sequence[str] = ()) -> dict[str, Spider]:
    """Every spider at these addresses, by name. Where there are functions only, those that they make."""
    spiders, factories = load_all(specs)
    if spiders and arguments:
        raise _no_arguments(next(iter(spiders)), factories.values())
    return spiders or {one.name: one for one in (make_spider(made, arguments) for made in factories.values())}


def load_all(specs: Iterable[str]) -> tuple[dict[str, Spider], dict[str, Factory]]:
    """Every spider at these addresses, by name, and every function that makes one; a folder means its Python files, a
    file all that it holds."""
    spiders: dict[str, Spider] = {}
    factories: dict[str, Factory] = {}
    for spec in specs:
        for one in _all_at(spec):
            known = factories.get(one.name) if isinstance(one, Factory) else spiders.get(one.name)
            if known is not None and known is not one and known != one:
                raise SpiderError(f"two spiders are named {one.name!r}: jobs name theirs, rename one of them")
            if isinstance(one, Factory):
                factories[one.name] = one
            else:
                spiders[one.name] = one
    return spiders, factories


def is_toml(spec: str) -> bool:
    """Whether the address is FILE.toml or FILE.toml:site."""
    return spec.endswith(".toml") or ".toml:" in spec


def _declared(spec: str) -> Spider:
    from shoal.spider.declared.opening import declared_spider

    return declared_spider(spec)


def _all_declared(path: str) -> list[Spider | Factory]:
    from shoal.spider.declared.opening import declared_spiders

    return [*declared_spiders(path)]


def _all_at(spec: str) -> list[Spider | Factory]:
    if spec.endswith(".toml"):
        found = _all_declared(spec)
    elif ":" in spec:
        found = [find_spider(spec)]
    elif Path(spec).is_dir():
        files = sorted(path for path in Path(spec).glob("*.py") if not path.name.startswith("_"))
        found = [one for path in files for one in _all_in(_load_file(path), str(path))]
        found += [one for path in _spiders_as_toml(Path(spec)) for one in _all_declared(path)]
    else:
        found = _all_in(_load(spec, spec), spec)
    if not found:
        raise SpiderError(f"no spider in {spec}: make one with spider = Spider('name', start=…)")
    for one in found:
        if isinstance(one, Spider):
            one.handler_named("")
    return found


def _spiders_as_toml(folder: Path) -> list[str]:
    """The TOML files of a folder that hold spiders, and not settings."""
    from shoal.spider.declared.opening import holds_spider

    return [str(path) for path in sorted(folder.glob("*.toml")) if holds_spider(path)]


def _all_in(module: ModuleType, address: str) -> list[Spider | Factory]:
    return [*_spiders(module).values(), *_factories(module, address).values()]


def _load(address: str, spec: str) -> ModuleType:
    if not address:
        raise SpiderError(f"no spider at {spec!r}: write FILE.py, FILE.py:name, module or module:name")
    is_file = address.endswith(".py") or os.sep in address
    return _load_file(Path(address)) if is_file else _load_module(address)


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise SpiderError(f"no such file: {path}")
    path = path.resolve()
    # A name of its own, so that a spider in json.py does not take the place of the json module.
    name = f"shoal_spider_{path.stem}_{blake2b(str(path).encode(), digest_size=4).hexdigest()}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SpiderError(f"{path} is not a Python file")
    module, loader = importlib.util.module_from_spec(spec), spec.loader
    sys.modules[name] = module  # dataclasses look their module up
    on_path(path.parent)
    try:
        _run(lambda: loader.exec_module(module), str(path))
    except ShoalError:
        del sys.modules[name]
        raise
    return module


def _load_module(name: str) -> ModuleType:
    on_path(Path.cwd())
    spec = _run(lambda: importlib.util.find_spec(name), name)
    if spec is None:
        raise SpiderError(f"no file or module named {name!r} here or among the installed packages")
    return _run(lambda: importlib.import_module(name), spec.origin or name)


def _run(load: Callable[[], T], where: str) -> T:
    """Runs the user's module; its errors become one line."""
    try:
        return load()
    except SyntaxError as error:
        place = f"{shown(error.filename or where)}:{error.lineno or 0}"
        raise SpiderError(f"{place}: {error.msg}") from error
    except ShoalError as error:
        raise type(error)(without_secrets(f"{place_of_error(error, where)}: {error}")) from error
    except (Exception, SystemExit) as error:
        raise SpiderError(f"{place_of_error(error, where)}: {error_line(error)}") from error
    finally:
        # logging.config.dictConfig silences, unless it is told not to, all loggers that it does not name.
        logging.getLogger("shoal").disabled = False


def on_path(folder: Path) -> None:
    """Lets a spider import what lies beside it, as in `python FILE.py`."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _spiders(module: ModuleType) -> dict[str, Spider]:
    found: dict[int, tuple[str, Spider]] = {}
    for name, value in vars(module).items():
        if isinstance(value, Spider):
            found.setdefault(id(value), (name, value))
    return dict(found.values())


def _factories(module: ModuleType, address: str) -> dict[str, Factory]:
    """The functions of the module that say that they return a spider."""
    return {
        name: Factory(value, f"{address}:{name}")
        for name, value in vars(module).items()
        if isfunction(value)
        and value.__module__ == module.__name__
        and not name.startswith("_")
        and returns_spider(value)
    }


def _only(module: ModuleType, address: str) -> Spider | Factory:
    """The one spider of the module. A function counts if there is no spider: with one, it is probably how that was
    made."""
    found: Mapping[str, Spider | Factory] = _spiders(module) or _factories(module, address)
    if not found:
        raise SpiderError(
            f"no spider in {address}: make one with spider = Spider('name', start=…), or in a function "
            "def spider(…) -> Spider"
        )
    if len(found) > 1:
        choices = ", ".join(f"{address}:{name}" for name in found)
        raise SpiderError(f"{address} holds {len(found)} spiders; choose one: {choices}")
    return next(iter(found.values()))


def _named(module: ModuleType, address: str, name: str) -> Spider | Factory:
    found = getattr(module, name, None)
    if isinstance(found, Spider):
        return found
    if callable(found) and not isclass(found):
        return Factory(found, f"{address}:{name}")
    names = [*_spiders(module), *_factories(module, address)]
    choices = ", ".join(f"{address}:{other}" for other in names) or "none"
    raise SpiderError(f"no spider named {name!r} in {address}; it holds {choices}")


# -- parts that a setting names by their address


def import_address(setting: str, address: str) -> Any:
    """What stands at `module:Class`: beside the spider, in the current folder, or in an installed package."""
    module, colon, name = address.partition(":")
    if not (colon and module and name):
        raise SettingsError(f"{setting}: {address!r} is not an address; write module:Class")
    on_path(Path.cwd())
    try:
        found: object = getattr(importlib.import_module(module), name, None)
    except (Exception, SystemExit) as error:
        where = place_of_error(error)
        at = f" ({where})" if where and not isinstance(error, ModuleNotFoundError) else ""
        raise SettingsError(f"{setting}: {address!r} cannot be imported{at}: {error_line(error)}") from error
    if not callable(found):
        raise SettingsError(f"{setting}: {address!r} cannot be imported: {module} has no class {name}")
    return found


# -- where a spider comes from, as worker processes are told


class SpiderSource(Struct, frozen=True):
    """A spider's address (FILE.py, FILE.py:name, module:name), or the URLs of a crawl without code."""

    name: str  # of the job
    spec: str | None = None
    urls: tuple[str, ...] = ()
    input: str | None = None  # a file of URLs, one a line, read after `urls`; "-": standard input
    feeds: str = ""  # the name of its URLs among the sources of a job; "": they are the spider's own start
    checks: tuple[str, ...] = ()  # what `--check-links` checks; none: it is no link check
    arguments: tuple[str, ...] = ()  # NAME=VALUE, as they were typed: secrets among them
    sitemaps: tuple[str, ...] = ()
    feed_urls: tuple[str, ...] = ()
    since: str = ""  # of sitemaps and feeds, those of a spider included
    column: str = ""  # with the URLs, if `input` is a table

    def __repr__(self) -> str:
        return f"<SpiderSource {self.spec or self.name}>"

    def load(self) -> Spider:
        if self.spec is not None:
            spider = load_spider(self.spec, self.arguments)
            if self.since:
                start_since(spider, self.since)
            return spider
        if self.checks:
            from shoal.spider.link_check import link_spider

            return link_spider(self.name, self.start(), self.checks)
        from shoal.spider.default import summary_spider

        return summary_spider(self.name, self.start(), **self.settings)

    def start(self) -> list[str | Request | Path | Source | Table]:
        since = self.since or None
        sources = (
            *(Sitemap(url, since=since) for url in self.sitemaps),
            *(Feed(url, since=since) for url in self.feed_urls),
        )
        return [*self.urls, *([self._input()] if self.input else []), *sources]

    def _input(self) -> Path | Table:
        path = Path(self.input or "")
        return Table(path, url=self.column) if is_table(path) else path

    @property
    def settings(self) -> SpiderSettings:
        """Who names a sitemap wants its pages, and not all that they link to."""
        only_sources = (self.sitemaps or self.feed_urls) and not self.urls and not self.input
        return {"depth": 0} if only_sources else {}


def start_since(spider: Spider, since: str) -> None:
    """Takes only what has changed since then from the sitemaps and feeds of the spider's start."""
    start = spider.start
    entries = [] if callable(start) else start if isinstance(start, list | tuple) else [start]
    if not any(isinstance(entry, Source) for entry in entries):
        raise UsageError(f"--since: spider {spider.name!r} starts with no Sitemap and no Feed")
    spider.start = [entry.changed_since(since) if isinstance(entry, Source) else entry for entry in entries]
