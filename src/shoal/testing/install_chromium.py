"""Sees to it that there is a browser for the tests: `python -m shoal.testing.install_chromium`.

Prints where it is. If there is none, Chromium and its headless shell are installed, where that needs no more than a
Debian and the right to do so; else a line says how to get one, and under CI that is an error: elsewhere the tests that
need it are skipped. Where one of the two is there, it is enough.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from shoal.fetch.browser.executable import find_chromium, why_not
from shoal.settings import Settings

_FULL, _SHELL = "chromium", "chromium-headless-shell"  # packages, and programs
_PATIENCE = ("DPkg::Lock::Timeout=120", "Acquire::http::Timeout=30", "Acquire::https::Timeout=30")  # seconds


def main() -> int:
    settings = Settings(browser_path=os.environ.get("SHOAL_BROWSER_PATH", ""))
    path = find_chromium(settings)
    found = [path] if path is not None else []
    if not found and not settings.browser_path:
        found = _installed()
    if not found:
        sys.stderr.write(f"{why_not(settings)}\n")
        return 1 if os.environ.get("CI") else 0
    sys.stdout.writelines(f"{path}\n" for path in found)
    return 0


def _installed() -> list[Path]:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return []
    sys.stderr.write(f"no browser for the tests yet: apt-get installs {_FULL} and {_SHELL}\n")
    # What there is may do even if the lists cannot be brought up to date, so the one does not depend on the other.
    _apt_get("update")
    _install(_FULL, _SHELL)
    if shutil.which(_FULL) is None:
        _install(_FULL)  # of two packages none is installed if one is not known there
    return [Path(path) for name in (_FULL, _SHELL) if (path := shutil.which(name))]


def _install(*packages: str) -> None:
    _apt_get("install", "--yes", "--no-install-recommends", *packages)


def _apt_get(*words: str) -> None:
    """Says only what went wrong, on stderr; asks nothing, and does not wait for ever for others or the network."""
    subprocess.run(
        ["apt-get", "--quiet=2", *(f"--option={option}" for option in _PATIENCE), *words],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        check=False,
    )


if __name__ == "__main__":
    sys.exit(main())
