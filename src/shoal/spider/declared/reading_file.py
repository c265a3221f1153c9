"""Reads a TOML file with spiders: its sites, put together from templates, and all that is wrong in it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any

import msgspec

from shoal.errors import SpiderError
from shoal.limits import TOML_FILE
from shoal.settings import Settings
from shoal.spider.declared.file_model import SiteTable
from shoal.spider.declared.merging import layers_of, merged_site
from shoal.spider.declared.positions import Path, Place, Positions
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
        if not any(not problem.is_warning for problem in self.problems):
            self._read_sites()

    def _read_sites(self) -> None:
        names = list(self.document.get("site", {})) or [""]
        for name in names:
            layers, problems = layers_of(self.document, name)
            self.problems += problems
            if problems:
                continue
            merged = merged_site(self.document, layers)
            own = {key: value for key, value in merged.items() if key in _OWN}
            settings = {key: value for key, value in merged.items() if key not in _OWN}
            self.sites[name] = Site(name, msgspec.convert(own, SiteTable), settings, tuple(layers))

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
        """The path of a key of a site in the file: in the strongest layer that has it."""
        for layer in reversed(site.layers):
            if (*layer, *path) in self._positions:
                return (*layer, *path)
        return (*site.layers[-1], *path)

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
        lines = text.count("\n") + 1
        return f"{shown(str(path))}:{lines}:1"
    return f"{shown(str(path))}:{found[1]}:{found[2]}"


def is_settings(document: Mapping[str, Any]) -> bool:
    """Whether a file holds settings, and no spider."""
    if _SPIDER_KEYS & document.keys():
        return False
    known = Settings.__struct_fields__
    return not document or any(key in known for key in document)


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
