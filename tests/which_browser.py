"""Which browser the tests open pages in.

In a headless shell, where one is installed: a page takes a quarter of the processor time there. So it is put before all
others, under the name that is looked for first, and crawls that tests start find it, too. Tests of what may differ
open pages in the full browser as well, whose path is `FULL`. SHOAL_BROWSER_PATH names another for those in the shell.
"""

from __future__ import annotations

import os
from pathlib import Path

from shoal.fetch.browser.executable import find_full, find_headless_shell

_FOLDER = Path(__file__).parents[1] / ".pytest_cache" / "browser"


def _choose() -> str:
    """The path of the full browser; empty where there is none, so that the other is found."""
    paths = [path for path in os.environ.get("PATH", "").split(os.pathsep) if path != str(_FOLDER)]
    os.environ["PATH"] = os.pathsep.join(paths)
    full, quick = find_full(), os.environ.get("SHOAL_BROWSER_PATH") or find_headless_shell()
    if quick:
        _FOLDER.mkdir(parents=True, exist_ok=True)
        link = _FOLDER / f"chromium.{os.getpid()}"
        link.symlink_to(quick)
        link.replace(_FOLDER / "chromium")  # at once, for several processes do it
        os.environ["PATH"] = os.pathsep.join([str(_FOLDER), *paths])
    return str(full or "")


FULL = _choose()
