"""SQLite's errors, in words that say what to do next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from shoal.errors import StoreError, StoreFull

_RESUME = "nothing that was committed is lost; then run the same command again"


@contextmanager
def translated(path: str) -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        raise translate(error, path) from error
    except OSError as error:
        raise StoreError(f"cannot use the store at {path}: {error.strerror or error}") from error


def translate(error: apsw.Error, path: str) -> StoreError:
    match error:
        case apsw.FullError():
            return StoreFull(f"no space left for the store at {path}: free some space, {_RESUME}")
        case apsw.ReadOnlyError() | apsw.PermissionsError():
            return StoreFull(f"the store at {path} cannot be written: check its permissions, {_RESUME}")
        case apsw.IOError():
            return StoreFull(f"I/O error on the store at {path} ({error}): check the disk, {_RESUME}")
        case apsw.CantOpenError():
            return StoreError(
                f"cannot open the store at {path}: check that its folder exists and is writable"
            )
        case apsw.NotADBError():
            return StoreError(f"{path} is not a Shoal store: choose another path with --store")
        case apsw.CorruptError():
            return StoreError(
                f"the store at {path} is damaged ({error}): restore a copy, or start again with --fresh"
            )
        case apsw.BusyError():
            return StoreError(
                f"the store at {path} has been locked by another program for a minute: end it and retry"
            )
    return StoreError(f"the store at {path} failed: {error}")
