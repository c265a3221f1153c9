"""Waits until a file of the user is saved: the spider, what it imports from its project, its settings, a saved page."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

_PAUSE = 0.15  # seconds between two looks

Stamp = tuple[int, int, int]  # when it was changed, its size, and which file it is


def project_files(*folders: Path) -> list[Path]:
    """The files of the modules that were imported from these folders, installed packages not among them."""
    return [path for _, path in _modules(folders)]


def forget_modules(*folders: Path) -> None:
    """The next import of these modules runs them again."""
    for name, _ in list(_modules(folders)):
        sys.modules.pop(name, None)


def _modules(folders: Iterable[Path]) -> Iterable[tuple[str, Path]]:
    roots = [str(folder.resolve()) + os.sep for folder in folders]
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name.partition(".")[0] in ("shoal", "__main__") or not isinstance(file, str):
            continue
        if "site-packages" not in file and any(os.path.abspath(file).startswith(root) for root in roots):
            yield name, Path(file)


@contextmanager
def without_bytecode() -> Iterator[None]:
    """Python keeps the bytecode of a module, and takes a source of the same second and size for the same one. Whoever
    saves twice in a second would run the old code."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


class Watch:
    """Remembers how files are now, and waits until one is another."""

    def __init__(self, files: Iterable[Path]) -> None:
        self._since = time.time_ns()
        self._known = {path: stamp_of(path) for path in files}

    def add(self, files: Iterable[Path]) -> None:
        """Files that were not known in the beginning. One that was saved since counts as saved."""
        for path in files:
            stamp = stamp_of(path)
            self._known.setdefault(path, stamp if stamp is None or stamp[0] < self._since else (0, 0, 0))

    def wait(self) -> Path:
        """The file that was saved. One that is gone is about to be replaced."""
        while True:
            for path, known in self._known.items():
                if (now := stamp_of(path)) is not None and now != known:
                    return path
            time.sleep(_PAUSE)


def stamp_of(path: Path) -> Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
