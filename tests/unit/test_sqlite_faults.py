"""Each complaint of SQLite becomes one line that says what to do next."""

from __future__ import annotations

import errno
import os

import apsw
import pytest

from shoal.errors import StoreError, StoreFull
from shoal.frontier.sqlite.faults import translate, translated

PATH = "/data/.shoal/store.db"


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (apsw.FullError("database or disk is full"), StoreFull, "no space left"),
        (apsw.ReadOnlyError("attempt to write a readonly database"), StoreFull, "check its permissions"),
        (apsw.PermissionsError("access permission denied"), StoreFull, "check its permissions"),
        (apsw.IOError("disk I/O error"), StoreFull, "check the disk"),
        (apsw.CantOpenError("unable to open database file"), StoreError, "its folder exists and is writable"),
        (apsw.NotADBError("file is not a database"), StoreError, "is not a Shoal store"),
        (apsw.CorruptError("malformed"), StoreError, "is damaged"),
        (apsw.BusyError("locked"), StoreError, "locked by another program"),
        (apsw.SchemaChangeError("the schema has changed"), StoreError, "failed: the schema has changed"),
    ],
)
def test_what_a_person_reads(error: apsw.Error, kind: type[StoreError], words: str) -> None:
    told = translate(error, PATH)
    assert type(told) is kind
    assert PATH in str(told)
    assert words in str(told)
    assert "\n" not in str(told)
    assert told.exit_code == 3


@pytest.mark.parametrize("error", [apsw.FullError("x"), apsw.ReadOnlyError("x"), apsw.IOError("x")])
def test_trouble_with_the_disk_promises_that_nothing_is_lost(error: apsw.Error) -> None:
    assert "nothing that was committed is lost" in str(translate(error, PATH))
    assert "run the same command again" in str(translate(error, PATH))


def test_the_cause_is_kept() -> None:
    cause = apsw.FullError("database or disk is full")
    with pytest.raises(StoreFull) as caught, translated(PATH):
        raise cause
    assert caught.value.__cause__ is cause


def test_an_error_of_the_file_system_is_told_too() -> None:
    with pytest.raises(StoreError, match=r"cannot use the store at .*: Permission denied"), translated(PATH):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def test_other_errors_pass() -> None:
    with pytest.raises(KeyError), translated(PATH):
        raise KeyError("x")
