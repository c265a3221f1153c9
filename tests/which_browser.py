"""Which browser the tests open pages in, and at which priority.

In a headless shell, where one is installed: a page takes about half the processor time there. So it is put before all
others, under the name that is looked for first, and crawls that tests start find it, too. Tests of what may differ
open pages in the full browser as well, whose path is `FULL`. SHOAL_BROWSER_PATH names another for those in the shell.

Browsers have a low priority, so that plain pages come first: beside a busy process one gets a tenth of the processor. A
test has no plain pages to put first, but waits for its browser as long as that lasts. So the command that lowers the
priority does nothing, except in tests of just that (`low_priority`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from shoal.fetch.browser.executable import find_full, find_headless_shell

_FOLDER = Path(__file__).parents[1] / ".pytest_cache" / "browser"
_BROWSER, _COMMANDS = _FOLDER / "chromium", _FOLDER / "commands" / "nice"
_NICE = '#!/bin/sh\nshift 2  # -n 10\nexec "$@"\n'


def _choose() -> str:
    """The path of the full browser; empty where there is none, so that the other is found."""
    os.environ["PATH"] = path = _path_without(_BROWSER.parent, _COMMANDS.parent)
    full, quick = find_full(), os.environ.get("SHOAL_BROWSER_PATH") or find_headless_shell()
    _COMMANDS.parent.mkdir(parents=True, exist_ok=True)
    made = _FOLDER / uuid4().hex  # several processes do it at once
    made.write_text(_NICE)
    made.chmod(0o755)
    made.replace(_COMMANDS)
    folders = [_COMMANDS.parent]
    if quick:
        made.symlink_to(quick)
        made.replace(_BROWSER)
        folders.append(_BROWSER.parent)
    os.environ["PATH"] = os.pathsep.join([*map(str, folders), path])
    return str(full or "")


def _path_without(*folders: Path) -> str:
    paths = os.environ.get("PATH", "").split(os.pathsep)
    return os.pathsep.join(path for path in paths if Path(path) not in folders)


@contextmanager
def our_priority() -> Iterator[None]:
    """Also for the driver, which is not started by the command."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shoal.fetch.browser.chromium._NICE", 0)
        yield


@contextmanager
def low_priority() -> Iterator[None]:
    """What is started now has the priority that it has for a user."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", _path_without(_COMMANDS.parent))
        patch.setattr("shoal.fetch.browser.chromium._NICE", 10)
        yield


FULL = _choose()
