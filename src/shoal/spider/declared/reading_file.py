"""Reads a TOML file with spiders: its sites, put together from templates, and all that is wrong in it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any

import msgspec

from shoal.errors import SpiderError
from shoal.limits import TOML_FILE
from shoal.spider.declared.file_model import HandlerTable, SiteTable
from shoal.spider.declared.positions import Path, Place, Positions
from shoal.spider.declared.site_templates import layers_of, merged_site
from shoal.spider.declared.validating import Problem, file_problems
from shoal.spider.spider import shown

_SPIDER_KEYS = frozenset({"start", "sitemap", "feed", "handler", "site", "template"})
_AT = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$")
_OWN = frozenset(field.encode_name for field in msgspec.structs.fields(SiteTable))


class Site(msgspec.Struct, frozen=True):
    """One site, with all that it has from its templates."""

    name: str  # in the file; "": the file is one site
    table: SiteTable
    settings: dict[str, Any]
    layers: tuple[Path, ...]  # where its parts stand, from weak to strong


class SpiderFile:
    """A file as it was read."""

    def __init__(self, path: FilePath, text: str, document: dict[str, Any]) -> None:
        self.path = path
        self.text = text
        self.document = document
        self.problems = list(file_problems(document))
        self.sites: dict[str, Site] = {}
        self._read_sites(_without(document, [problem.path for problem in self.problems]))

    def _read_sites(self, document: dict[str, Any]) -> None:
        """What is wrong was left out: so what else is wrong is told at once."""
        for name in list(document.get("site", {})) or [""]:
            layers, problems = layers_of(document, name)
            self.problems += problems
            if problems:
                continue
            merged = merged_site(document, layers)
            own = {key: value for key, value in merged.items() if key in _OWN}
            settings = {key: value for key, value in merged.items() if key not in _OWN}
            try:
                self.sites[name] = Site(name, msgspec.convert(own, SiteTable), settings, tuple(layers))
            except msgspec.ValidationError as error:  # of layers that do not fit together
                self.problems.append(Problem(layers[-1], f"its templates do not fit together: {error}"))

    @property
    def name(self) -> str:
        return str(self.document.get("name") or self.path.stem)

    @property
    def has_sites(self) -> bool:
        return bool(self.document.get("site"))

    @cached_property
    def _positions(self) -> Positions:
        return Positions(self.text)

    def place(self, path: Path) -> Place:
        return self._positions.of(path)

    def place_in(self, site: Site, path: Path) -> Path:
        """The path of a key of a site in the file: in the strongest layer that has it, or what is nearest above it."""
        while path:
            # The long form of a list has `any`, which need not stand there.
            for known in (path, tuple(part for part in path if part != "any")):
                for layer in reversed(site.layers):
                    if (*layer, *known) in self._positions:
                        return (*layer, *known)
            path = path[:-1]
        return site.layers[-1]

    def told(self, problem: Problem) -> str:
        """A problem as one line: file, line, column, key, what is wrong."""
        place = self.place(problem.path)
        subject = f"{problem.subject}: " if problem.subject else ""
        return f"{shown(str(self.path))}:{place.line}:{place.column}: {subject}{problem.said}"

    def check(self, more: Iterable[Problem] = ()) -> None:
        """Raises SpiderError for the first thing that is wrong."""
        wrong = [problem for problem in (*self.problems, *more) if not problem.is_warning]
        if wrong:
            wrong.sort(key=lambda problem: self.place(problem.path).line)
            others = len(wrong) - 1
            also = f" (and {others} more: shoal check {shown(str(self.path))})" if others else ""
            raise SpiderError(f"{self.told(wrong[0])}{also}")


def read_file(path: FilePath) -> SpiderFile:
    """Raises SpiderError for what is no TOML, and for a settings file."""
    text = _text(path)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SpiderError(
            f"{_place(path, str(error), text)}: not valid TOML: {_AT.sub('', str(error))}"
        ) from None
    except RecursionError:
        raise SpiderError(f"{shown(str(path))}: nested too deeply") from None
    if is_settings(document):
        raise SpiderError(
            f"{shown(str(path))} holds settings and no spider: it has neither start nor handler; "
            f"give it as --config {shown(str(path))}"
        )
    return SpiderFile(path, text, document)


def _text(path: FilePath) -> str:
    where = shown(str(path))
    if not path.is_file():
        raise SpiderError(f"no such file: {where}")
    try:
        size = path.stat().st_size
        if size > TOML_FILE:
            raise SpiderError(
                f"{where} has {size:,} bytes; {TOML_FILE:,} are the most: split it into several"
            )
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise SpiderError(f"{where}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise SpiderError(f"{where}: is not UTF-8 text; save it as UTF-8") from None


def _place(path: FilePath, said: str, text: str) -> str:
    found = _AT.search(said)
    if found is None or found[1] is None:
        lines = text.split("\n")
        return f"{shown(str(path))}:{len(lines)}:{len(lines[-1]) + 1}"
    return f"{shown(str(path))}:{found[1]}:{found[2]}"


def is_settings(document: Mapping[str, Any]) -> bool:
    """Whether a file holds settings, and no spider."""
    return not _SPIDER_KEYS & document.keys()


def handlers_of(table: SiteTable) -> dict[str, HandlerTable]:
    """The handlers of a site, with the one that gets the start before the others: the first that no other leads to."""
    handlers = {name: one for name, one in table.handler.items() if isinstance(one, HandlerTable)}
    targets = {
        target
        for name, one in handlers.items()
        if isinstance(one.follow, dict)
        for target in one.follow
        if target != name
    }
    first = next((name for name in handlers if name not in targets), next(iter(handlers), ""))
    return {name: handlers[name] for name in sorted(handlers, key=lambda name: name != first)}


def _without(document: dict[str, Any], paths: list[Path]) -> dict[str, Any]:
    """A copy that lacks what is at these paths. Entries of lists are emptied from behind, so that places stay right."""
    if not paths:
        return document
    copied: dict[str, Any] = deepcopy(document)
    for path in sorted(paths, key=lambda one: tuple(str(part).rjust(8) for part in one), reverse=True):
        inside: Any = copied
        for part in path[:-1]:
            inside = inside[part] if _has_part(inside, part) else None
        if path and _has_part(inside, path[-1]):
            del inside[path[-1]]
    return copied


def _has_part(value: Any, part: str | int) -> bool:
    if isinstance(value, dict):
        return part in value
    return isinstance(value, list) and isinstance(part, int) and part < len(value)


def keys_of(given: str | list[str]) -> list[str]:
    """What may be one or several."""
    return [given] if isinstance(given, str) else given


def walk(table: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every table and value of a document with its path."""
    waiting: list[tuple[Path, Any]] = [(path, table)]
    while waiting:
        at, value = waiting.pop()
        yield at, value
        inner = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        )
        waiting += [((*at, key), one) for key, one in inner]
