"""What the file holds, by kind: numbers from counters, sizes from samples. No large table is read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import apsw

from shoal.errors import StoreError
from shoal.frontier.sqlite.connection import Session
from shoal.frontier.sqlite.faults import translated
from shoal.frontier.sqlite.schema import VERSION, connect
from shoal.frontier.values import Inventory, inventory

_SAMPLE = 500  # rows
_NUMBER = 9  # bytes of a large integer with its header
_SYNCHRONOUS = {0: "off", 1: "normal", 2: "full", 3: "extra"}


def take_stock(session: Session, path: str) -> Inventory:
    db = session.db
    counts = _counts(session)
    page, pages, free = (int(db.pragma(name)) for name in ("page_size", "page_count", "freelist_count"))
    sizes = {**_sizes(session, counts), "unused": free * page}
    durability = {
        "journal": str(db.pragma("journal_mode")),
        "synchronous": _SYNCHRONOUS.get(int(db.pragma("synchronous")), "?"),
    }
    disk = None if path == ":memory:" else shutil.disk_usage(Path(path).absolute().parent).free
    used = pages * page + _length(f"{path}-wal")
    return inventory(
        f"schema {VERSION}", counts, sizes, used, free=disk, durability=durability, estimated=True
    )


def _counts(session: Session) -> dict[str, int]:
    jobs, pending, delayed, leased, admitted, dead, items = _numbers(
        session,
        "SELECT count(*), total(pending), total(delayed), total(leased), total(admitted), total(dead), total(items)"
        " FROM job",
    )
    histories, _ = _numbers(session, _NOTES, ("note:history:", "note:history;"))
    notes, _ = _numbers(session, _NOTES, ("note:", "note;"))
    return {
        "queues": pending + delayed,
        "in hand": leased,
        "seen": admitted,
        "row keys": items if session.value("SELECT 1 FROM row_key LIMIT 1") else 0,
        "dead letters": _rows(session, "dead") if dead else 0,
        "jobs": jobs,
        "pruned jobs": _rows(session, "past"),
        "hosts": _rows(session, "host"),
        "history": histories,
        "notes": notes - histories,
        "workers": _rows(session, "worker"),
        "result positions": _rows(session, "journal"),
    }


def _sizes(session: Session, counts: Mapping[str, int]) -> dict[str, int]:
    """Bytes, by kind."""
    merged, pending, delayed = _numbers(
        session, "SELECT total(merged), total(pending), total(delayed) FROM job"
    )
    _, history = _numbers(session, _NOTES, ("note:history:", "note:history;"))
    _, events = _numbers(session, _NOTES, ("note:events", "note:events "))
    _, notes = _numbers(session, _NOTES, ("note:", "note;"))
    return {
        "queues": pending * _mean(session, "pending", "length(body)", 3 * _NUMBER)
        # Pages that wait for their next visit are here, with what is remembered of them.
        + delayed * _mean(session, "delayed", "length(body)", 4 * _NUMBER),
        "in hand": counts["in hand"] * _mean(session, "lease", "length(body)", 8 * _NUMBER),
        "seen": counts["seen"] * 2 * _NUMBER + merged * _mean(session, "merged", "length(url)", 2 * _NUMBER),
        "row keys": counts["row keys"] * (_NUMBER + 4),
        "dead letters": counts["dead letters"]
        * _mean(session, "dead", "length(letter) + length(host) + length(kind)", 60),
        "jobs": counts["jobs"] * _mean(session, "job", "length(spec)", 120),
        "pruned jobs": counts["pruned jobs"] * _mean(session, "past", "length(record)", 40),
        "hosts": counts["hosts"] * (110 + _mean(session, "host_state", "length(state)", 8)),
        "history": history,
        "events": events,
        "notes": notes - history - events,
        "result positions": counts["result positions"] * _mean(session, "journal", "length(key)", 12),
        "workers": counts["workers"] * _mean(session, "worker", "length(status)", 40),
    }


_NOTES = "SELECT count(*), total(length(value)) FROM meta WHERE key >= ? AND key < ?"


def _numbers(session: Session, query: str, bindings: tuple[Any, ...] = ()) -> list[int]:
    row = session.row(query, bindings)
    return [int(number) for number in row] if row is not None else []


def _rows(session: Session, table: str) -> int:
    return int(session.value(f"SELECT count(*) FROM {table}"))


def _mean(session: Session, table: str, length: str, besides: int) -> int:
    """The mean length in the first rows. `besides`: bytes that a row has besides."""
    mean = session.value(f"SELECT avg(size) FROM (SELECT {length} AS size FROM {table} LIMIT {_SAMPLE})")
    return int(mean or 0) + besides


def _length(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


# -- making the file smaller

_BESIDE_OTHERS = 500 * 1024 * 1024  # bytes: workers wait for a few seconds


def compact(path: str, *, others: bool) -> int:
    """Rewrites the file without its unused pages; returns how many bytes smaller it is. `others`: workers use it, and
    can wait for its lock for a minute at most."""
    if path == ":memory:":
        return 0
    before = _length(path) + _length(f"{path}-wal")
    db = connect(path)
    try:
        with translated(path):
            page, pages, free = (
                int(db.pragma(name)) for name in ("page_size", "page_count", "freelist_count")
            )
            needed = (pages - free) * page
            _check_room(path, needed, others)
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except apsw.Error as error:  # pragma: no cover (translated)
        raise StoreError(str(error)) from error
    finally:
        db.close()
    return max(0, before - _length(path) - _length(f"{path}-wal"))


def _check_room(path: str, needed: int, others: bool) -> None:
    free = shutil.disk_usage(Path(path).absolute().parent).free
    if free < 2 * needed:  # for the copy, and the log
        raise StoreError(
            f"to compact {path} takes {2 * needed >> 20:,} MB of disk for a while, and {free >> 20:,} MB are free: make"
            " room, or copy the file to where there is"
        )
    if others and needed > _BESIDE_OTHERS:
        raise StoreError(
            f"{path} holds {needed >> 20:,} MB, and those who work with it would wait too long while it is written"
            " anew: stop them, compact it, and start them again"
        )
