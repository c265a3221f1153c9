"""TOML spiders from a text, for tests."""

from __future__ import annotations

import tomllib
from pathlib import Path

from shoal.spider.declared.compiling import file_spider, site_spider
from shoal.spider.declared.reading_file import SpiderFile
from shoal.spider.declared.site_checks import site_problems
from shoal.spider.declared.whole_file import whole_problems
from shoal.spider.spider import Spider


def read(text: str, name: str = "shops.toml") -> SpiderFile:
    return SpiderFile(Path(name), text, tomllib.loads(text))


def declared(text: str, site: str = "") -> Spider:
    """The spider in a text that is right."""
    file = read(text)
    file.check(site_problems(file))
    return site_spider(file, file.sites[site]) if site else file_spider(file)


def problems(text: str) -> list[str]:
    """All that is wrong, in the order of the file."""
    file = read(text)
    found = [*file.problems, *site_problems(file)]
    if file.has_sites and not any(not one.is_warning for one in found):
        found += whole_problems(file)
    return [file.told(one) for one in sorted(found, key=lambda one: file.place(one.path).line)]
