"""Sees to it that there is a browser for the tests: `python -m shoal.testing.chromium`.

Prints where it is. If there is none it is installed, where that needs no more than a Debian and the right to do so;
else a line says how to get one, and under CI that is an error: elsewhere the tests that need it are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from shoal.fetch.browser.finding import find_chromium, why_not
from shoal.settings import Settings


def main() -> int:
    settings = Settings(browser_path=os.environ.get("SHOAL_BROWSER_PATH", ""))
    path = find_chromium(settings) or _installed()
    print(path or why_not(settings), file=sys.stdout if path else sys.stderr)
    return 0 if path or not os.environ.get("CI") else 1


def _installed() -> Path | None:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return None
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update"], ["install", "--yes", "--no-install-recommends", "chromium"]):
        subprocess.run(
            ["apt-get", "--quiet", "--quiet", *words], env=environment, stdout=sys.stderr, check=False
        )
    path = shutil.which("chromium")
    return Path(path) if path else None


if __name__ == "__main__":
    sys.exit(main())
