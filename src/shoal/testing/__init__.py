"""What Shoal is tested with, for those who test a spider, a policy or a frontier of their own.

`page` makes a page for a handler, `run` crawls saved pages without a network (`crawl` in an event loop);
`ServedFolder` serves a folder on loopback. `ChaoticWeb` serves many hosts on loopback, each with its own bad habit,
in the test's event loop; `WebProcess` serves the same from a process of its own; `ManualClock` moves time by hand;
`state_in_memory` gives a handler the values of `spider.state`. `shoal.testing.shop` is a shop with a login, an API,
forms and files; `shoal.testing.shops` are fifty shops, each built in another manner.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shoal.testing.manual_clock import ManualClock
    from shoal.testing.offline import OfflineResults, crawl, run
    from shoal.testing.pages import page
    from shoal.testing.served_folder import ServedFolder
    from shoal.testing.state import state_in_memory
    from shoal.testing.web import ChaoticWeb, Hit, HostProfile, Site, WebProcess

__all__ = [
    "ChaoticWeb",
    "Hit",
    "HostProfile",
    "ManualClock",
    "OfflineResults",
    "ServedFolder",
    "Site",
    "WebProcess",
    "crawl",
    "page",
    "run",
    "state_in_memory",
]

# Loaded when first asked for: pytest imports this package in every run, with the plugin.
_HOMES = {
    "ChaoticWeb": "shoal.testing.web",
    "Hit": "shoal.testing.web",
    "HostProfile": "shoal.testing.web",
    "ManualClock": "shoal.testing.manual_clock",
    "OfflineResults": "shoal.testing.offline",
    "ServedFolder": "shoal.testing.served_folder",
    "Site": "shoal.testing.web",
    "WebProcess": "shoal.testing.web",
    "crawl": "shoal.testing.offline",
    "page": "shoal.testing.pages",
    "run": "shoal.testing.offline",
    "state_in_memory": "shoal.testing.state",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'shoal.testing' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
