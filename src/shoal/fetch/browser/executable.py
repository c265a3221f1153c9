"""Which browser is installed on this machine, and how to get one. Imports no playwright, and starts nothing."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from shoal.settings import Settings

_NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
    "microsoft-edge-stable",
)
_APPS = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
)
_IN_CACHE = (
    "chromium-*/chrome-linux*/chrome",
    "chromium-*/chrome-mac*/*.app/Contents/MacOS/*",
)
# The same engine without windows: cheaper, but easier to tell from a person's browser. So full ones come first.
_SHELLS = ("chromium-headless-shell", "chrome-headless-shell", "headless_shell", "headless-shell")
_SHELLS_IN_CACHE = ("chromium_headless_shell-*/*/*headless*shell",)
_HOW = (
    "install one (apt install chromium or chromium-headless-shell, brew install --cask chromium, "
    "playwright install chromium) or name one with browser_path"
)


def find_chromium(settings: Settings) -> Path | None:
    """The browser to start: the one in the settings, or a usual one."""
    if settings.browser_path:
        path = shutil.which(os.path.expanduser(settings.browser_path))
        return Path(path) if path else None
    return _usual()


def available(settings: Settings) -> bool:
    return _has_playwright() and find_chromium(settings) is not None


def why_not(settings: Settings) -> str:
    """Why there is no browser, and how to get one."""
    if not _has_playwright():
        return "the browser lane needs an extra: pip install 'shoal[browser]'"
    if settings.browser_path:
        return f"browser_path: {settings.browser_path} is not a program that can be started; {_HOW}"
    return f"there is no Chromium, Chrome or Edge: {_HOW}"


@lru_cache(1)
def _usual() -> Path | None:
    return find_full() or find_headless_shell()


def find_full() -> Path | None:
    """A browser with windows, in the usual places."""
    apps = (*_APPS, *(str(Path.home() / app.lstrip("/")) for app in _APPS))
    return _first((*_NAMES, *apps, *_downloaded(_IN_CACHE)))


def find_headless_shell() -> Path | None:
    """The engine without windows, in the usual places."""
    return _first((*_SHELLS, *_downloaded(_SHELLS_IN_CACHE)))


def is_headless_shell(path: Path) -> bool:
    """By its name: the browser itself tells only when it runs."""
    return re.search("headless.?shell", path.resolve().name) is not None


def _first(names: Iterable[str]) -> Path | None:
    return next((Path(path) for name in names if (path := shutil.which(name))), None)


def _downloaded(patterns: Iterable[str]) -> Iterator[str]:
    """What playwright has downloaded, the newest first."""
    for pattern in patterns:
        yield from sorted(map(str, _cache().glob(pattern)), reverse=True)


def _cache() -> Path:
    """Where playwright puts the browsers that it downloads."""
    path = os.environ.get("PLAYWRIGHT_BROWSERS_PATH", "")
    if path not in ("", "0"):  # 0: beside playwright's own files
        return Path(path)
    caches = "Library/Caches" if sys.platform == "darwin" else ".cache"
    return Path.home() / caches / "ms-playwright"


@lru_cache(1)
def _has_playwright() -> bool:
    return find_spec("playwright") is not None
