"""Which browser is installed on this machine, and how to get one. Imports no playwright, and starts nothing."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
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
    "chromium_headless_shell-*/*/*headless*shell",
)
_HOW = (
    "install one (apt install chromium, brew install --cask chromium, playwright install chromium) "
    "or name one with browser_path"
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
    return next((Path(path) for name in _candidates() if (path := shutil.which(name))), None)


def _candidates() -> Iterator[str]:
    yield from _NAMES
    yield from (*_APPS, *(str(Path.home() / app.lstrip("/")) for app in _APPS))
    for pattern in _IN_CACHE:
        yield from sorted(map(str, _cache().glob(pattern)), reverse=True)  # the newest first


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
