"""Sees to it that there is a browser for the tests: `python -m shoal.testing.install_chromium`.

Prints where it is. If there is none it is installed, where that needs no more than a Debian and the right to do so;
else a line says how to get one, and under CI that is an error: elsewhere the tests that need it are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from shoal.fetch.browser.executable import find_chromium, why_not
from shoal.settings import Settings

_PATIENCE = ("DPkg::Lock::Timeout=120", "Acquire::http::Timeout=30", "Acquire::https::Timeout=30")  # seconds


def main() -> int:
    settings = Settings(browser_path=os.environ.get("SHOAL_BROWSER_PATH", ""))
    path = find_chromium(settings)
    if path is None and not settings.browser_path:
        path = _installed()
    print(path or why_not(settings), file=sys.stdout if path else sys.stderr)
    return 0 if path or not os.environ.get("CI") else 1


def _installed() -> Path | None:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return None
    sys.stderr.write("no browser for the tests yet: apt-get installs chromium\n")
    # What there is may do even if the lists cannot be brought up to date, so the one does not depend on the other.
    _apt_get("update")
    _apt_get("install", "--yes", "--no-install-recommends", "chromium")
    path = shutil.which("chromium")
    return Path(path) if path else None


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
