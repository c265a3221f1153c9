"""Shoal: a web scraping engine whose queue is the control system."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from shoal.errors import ShoalError
    from shoal.model.request import Request
    from shoal.runtime.adding import Additions, add
    from shoal.runtime.crawl import crawl, run
    from shoal.runtime.results import Results
    from shoal.spider.arguments import Secret
    from shoal.spider.handlers import Drop, Retry
    from shoal.spider.hooks import JobSummary, OutgoingRequest
    from shoal.spider.inner import FetchFailed
    from shoal.spider.login import LoginFailed, LoginSession
    from shoal.spider.page import Page
    from shoal.spider.plugins import Plugin
    from shoal.spider.spider import Spider
    from shoal.spider.start_sources import Feed, Sitemap
    from shoal.spider.start_tables import Table

__all__ = [
    "Additions",
    "Drop",
    "Feed",
    "FetchFailed",
    "JobSummary",
    "LoginFailed",
    "LoginSession",
    "OutgoingRequest",
    "Page",
    "Plugin",
    "Request",
    "Results",
    "Retry",
    "Secret",
    "ShoalError",
    "Sitemap",
    "Spider",
    "Table",
    "__version__",
    "add",
    "crawl",
    "run",
]

# Loaded when first asked for: `import shoal` and `shoal --help` stay quick. No module may share a public name: once
# imported, it would stand in its place.
_HOMES = {
    "Additions": "shoal.runtime.adding",
    "Drop": "shoal.spider.handlers",
    "Feed": "shoal.spider.start_sources",
    "FetchFailed": "shoal.spider.inner",
    "JobSummary": "shoal.spider.hooks",
    "LoginFailed": "shoal.spider.login",
    "LoginSession": "shoal.spider.login",
    "OutgoingRequest": "shoal.spider.hooks",
    "Page": "shoal.spider.page",
    "Plugin": "shoal.spider.plugins",
    "Request": "shoal.model.request",
    "Results": "shoal.runtime.results",
    "Retry": "shoal.spider.handlers",
    "Secret": "shoal.spider.arguments",
    "ShoalError": "shoal.errors",
    "Sitemap": "shoal.spider.start_sources",
    "Spider": "shoal.spider.spider",
    "Table": "shoal.spider.start_tables",
    "add": "shoal.runtime.adding",
    "crawl": "shoal.runtime.crawl",
    "run": "shoal.runtime.crawl",
}


# Modules that are for users, too: `shoal.testing` without an import of its own.
_MODULES = ("extend", "testing")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"shoal.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'shoal' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
