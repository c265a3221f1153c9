"""The tables, their version, how the file is opened, and its time.

Clustered keys keep reads short: a host's seen URLs lie together, and so do a queue's tasks, in the order of claiming.
`queue` has one row for each job, lane and host that has or had work. Queues with pending tasks are in one of three
indexes: by the time when their host is due; once it is due, by their place in line; or in the crowd of a domain that is
not due. So a claim costs the same with ten idle hosts or a hundred thousand.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw

from shoal.clock import Clock, SystemClock
from shoal.errors import StoreError, StoreVersionError
from shoal.frontier.clock import Timebase
from shoal.frontier.sqlite.faults import translated
from shoal.frontier.sqlite.presence import living, workers_folder

APPLICATION_ID = 0x53484F4C  # "SHOL"
VERSION = 10
_TRIES = 60_000  # a millisecond each

TABLES = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
INSERT INTO meta VALUES ('serial', 0);

CREATE TABLE job(
  id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, spec BLOB NOT NULL, state TEXT NOT NULL,
  created_at REAL NOT NULL, finished_at REAL NOT NULL DEFAULT 0,
  admitted INTEGER NOT NULL DEFAULT 0, pending INTEGER NOT NULL DEFAULT 0, delayed INTEGER NOT NULL DEFAULT 0,
  leased INTEGER NOT NULL DEFAULT 0, done INTEGER NOT NULL DEFAULT 0, dead INTEGER NOT NULL DEFAULT 0,
  retried INTEGER NOT NULL DEFAULT 0, duplicates INTEGER NOT NULL DEFAULT 0,
  over_budget INTEGER NOT NULL DEFAULT 0, stale INTEGER NOT NULL DEFAULT 0, items INTEGER NOT NULL DEFAULT 0,
  merged INTEGER NOT NULL DEFAULT 0, links_cut INTEGER NOT NULL DEFAULT 0, rejected INTEGER NOT NULL DEFAULT 0,
  waiting INTEGER NOT NULL DEFAULT 0);

-- Where a job's start URLs come from, and how far each was read.
CREATE TABLE source(
  job INTEGER, name TEXT, fed INTEGER NOT NULL DEFAULT 0, fed_all INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY(job, name)) WITHOUT ROWID;

-- The spider's own counters.
CREATE TABLE counter(
  job INTEGER, name TEXT, count INTEGER NOT NULL, PRIMARY KEY(job, name)) WITHOUT ROWID;

CREATE TABLE host(
  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, interval REAL NOT NULL, burst INTEGER NOT NULL,
  cap INTEGER NOT NULL, blocked_until REAL NOT NULL, in_flight INTEGER NOT NULL, next_at REAL NOT NULL,
  hold REAL NOT NULL DEFAULT 0, version INTEGER NOT NULL DEFAULT 0, domain INTEGER NOT NULL DEFAULT 0);
-- Apart from `host`, because a row is rewritten whole: a long robots.txt would travel with every claim.
CREATE TABLE host_state(host INTEGER PRIMARY KEY, state BLOB NOT NULL);

-- A registrable domain; `shared` once it has a second host. Only then do its hosts and their queues name it.
CREATE TABLE domain(
  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, first INTEGER NOT NULL, shared INTEGER NOT NULL DEFAULT 0,
  in_flight INTEGER NOT NULL DEFAULT 0, next_at REAL NOT NULL DEFAULT 0);
-- Which jobs ever had tasks there.
CREATE TABLE visit(domain INTEGER, job INTEGER, PRIMARY KEY(domain, job)) WITHOUT ROWID;
-- Queues wait there for their domain: when to look again.
CREATE TABLE crowd(
  domain INTEGER, job INTEGER, lane TEXT, due REAL NOT NULL, PRIMARY KEY(domain, job, lane)) WITHOUT ROWID;
CREATE INDEX crowd_due ON crowd(job, lane, due);

CREATE TABLE queue(
  id INTEGER PRIMARY KEY AUTOINCREMENT, job INTEGER NOT NULL, lane TEXT NOT NULL, host INTEGER NOT NULL,
  pending INTEGER NOT NULL DEFAULT 0, admitted INTEGER NOT NULL DEFAULT 0, due REAL NOT NULL DEFAULT 0,
  in_line INTEGER NOT NULL DEFAULT 0, place REAL NOT NULL DEFAULT 0, domain INTEGER NOT NULL DEFAULT 0,
  UNIQUE(host, job, lane));
CREATE INDEX queue_due ON queue(job, lane, due) WHERE pending > 0 AND in_line = 0;
CREATE INDEX queue_line ON queue(job, lane, place) WHERE pending > 0 AND in_line = 1;
CREATE INDEX queue_crowd ON queue(job, lane, domain, in_line, place) WHERE pending > 0 AND domain > 0;

-- Pending tasks by job and lane: the sum of its queues, at hand however many there are.
CREATE TABLE lane(job INTEGER, name TEXT, pending INTEGER NOT NULL, PRIMARY KEY(job, name)) WITHOUT ROWID;

-- Marks of pages that have or had a task: new ones are in `recent` at first. `merging` is one row: how many are there,
-- and where the last move to `seen` ended (seen.py).
CREATE TABLE seen(job INTEGER, host INTEGER, hash INTEGER, PRIMARY KEY(job, host, hash)) WITHOUT ROWID;
CREATE TABLE recent(job INTEGER, host INTEGER, hash INTEGER, PRIMARY KEY(job, host, hash)) WITHOUT ROWID;
CREATE TABLE merging(recent INTEGER NOT NULL, job INTEGER NOT NULL, host INTEGER NOT NULL, hash INTEGER NOT NULL);
INSERT INTO merging VALUES (0, 0, 0, 0);
-- Pages that redirected to one with a task of its own, and its URL.
CREATE TABLE merged(job INTEGER, hash INTEGER, url TEXT NOT NULL, PRIMARY KEY(job, hash)) WITHOUT ROWID;
CREATE TABLE row_key(job INTEGER, hash INTEGER, PRIMARY KEY(job, hash)) WITHOUT ROWID;
-- Of jobs whose pages and rows may come again: when they were done (expiring.py).
CREATE TABLE passed(
  job INTEGER, host INTEGER, hash INTEGER, at REAL NOT NULL, PRIMARY KEY(job, host, hash)) WITHOUT ROWID;
CREATE INDEX passed_at ON passed(job, at);

CREATE TABLE task(
  queue INTEGER, rank INTEGER, id INTEGER, attempt INTEGER NOT NULL, body BLOB NOT NULL,
  PRIMARY KEY(queue, rank, id)) WITHOUT ROWID;
-- Bodies of tasks that came to their queues with few others. They are empty in `task`, and `pending` has them all
-- (adding.py).
CREATE TABLE body(id INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE VIEW pending AS SELECT queue, rank, id, attempt, length(body) = 0 AS apart,
  iif(length(body), body, (SELECT b.body FROM body b WHERE b.id = task.id)) AS body FROM task;
CREATE TABLE delayed(
  due REAL, id INTEGER, queue INTEGER NOT NULL, rank INTEGER NOT NULL, attempt INTEGER NOT NULL, body BLOB NOT NULL,
  revisit INTEGER NOT NULL DEFAULT 0, PRIMARY KEY(due, id)) WITHOUT ROWID;
CREATE INDEX delayed_queue ON delayed(queue, revisit);
CREATE TABLE lease(
  token INTEGER PRIMARY KEY, worker TEXT NOT NULL, since REAL NOT NULL, deadline REAL NOT NULL,
  queue INTEGER NOT NULL, rank INTEGER NOT NULL, id INTEGER NOT NULL, attempt INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE worker(
  name TEXT PRIMARY KEY, seen_at REAL NOT NULL, until REAL NOT NULL, status BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE dead(
  id INTEGER PRIMARY KEY, job INTEGER NOT NULL, host TEXT NOT NULL, kind TEXT NOT NULL, at REAL NOT NULL,
  queue INTEGER NOT NULL, letter BLOB NOT NULL);
-- With all that letters are found by: to look at a letter is to read a part of its page.
CREATE INDEX dead_job ON dead(job, at, id, kind, host);
CREATE TABLE journal(job INTEGER, key TEXT, length INTEGER NOT NULL, PRIMARY KEY(job, key)) WITHOUT ROWID;

-- Jobs that were pruned.
CREATE TABLE past(name TEXT PRIMARY KEY, at REAL NOT NULL, record BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX past_at ON past(at);
-- Numbers of jobs that are gone, but not yet all of their rows.
CREATE TABLE dropped(job INTEGER PRIMARY KEY);
"""

# By the version that they begin with, one after the other in the transaction that opens the file: all or nothing.
STEPS = {
    4: """
ALTER TABLE job ADD COLUMN merged INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN links_cut INTEGER NOT NULL DEFAULT 0;
CREATE TABLE merged(job INTEGER, hash INTEGER, url TEXT NOT NULL, PRIMARY KEY(job, hash)) WITHOUT ROWID;
""",
    # One cursor a job became one for each source. Whose the old one was is known if it had reached the end, or if a
    # coordinator feeds the job (its note says so): the spider's own start. Otherwise it was the list of a command: when
    # that is run again, the list is read from its beginning, and dedupe drops most of it.
    5: """
CREATE TABLE source(
  job INTEGER, name TEXT, fed INTEGER NOT NULL DEFAULT 0, fed_all INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY(job, name)) WITHOUT ROWID;
INSERT INTO source SELECT id, '', fed, fed_all FROM job
  WHERE fed_all OR instr(spec, CAST('fed_by' AS BLOB) || x'AB' || CAST('coordinator' AS BLOB));
ALTER TABLE job DROP COLUMN fed;
ALTER TABLE job DROP COLUMN fed_all;
CREATE TABLE past(name TEXT PRIMARY KEY, at REAL NOT NULL, record BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX past_at ON past(at);
CREATE TABLE dropped(job INTEGER PRIMARY KEY);
DROP INDEX dead_job;
CREATE INDEX dead_job ON dead(job, at, id, kind, host);
""",
    6: """
ALTER TABLE job ADD COLUMN rejected INTEGER NOT NULL DEFAULT 0;
CREATE TABLE counter(
  job INTEGER, name TEXT, count INTEGER NOT NULL, PRIMARY KEY(job, name)) WITHOUT ROWID;
""",
    7: """
ALTER TABLE job ADD COLUMN waiting INTEGER NOT NULL DEFAULT 0;
ALTER TABLE delayed ADD COLUMN revisit INTEGER NOT NULL DEFAULT 0;
CREATE TABLE passed(
  job INTEGER, host INTEGER, hash INTEGER, at REAL NOT NULL, PRIMARY KEY(job, host, hash)) WITHOUT ROWID;
CREATE INDEX passed_at ON passed(job, at);
CREATE INDEX delayed_queue ON delayed(queue, revisit);
""",
    8: """
CREATE TABLE recent(job INTEGER, host INTEGER, hash INTEGER, PRIMARY KEY(job, host, hash)) WITHOUT ROWID;
CREATE TABLE merging(recent INTEGER NOT NULL, job INTEGER NOT NULL, host INTEGER NOT NULL, hash INTEGER NOT NULL);
INSERT INTO merging VALUES (0, 0, 0, 0);
""",
    9: """
CREATE TABLE body(id INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE VIEW pending AS SELECT queue, rank, id, attempt, length(body) = 0 AS apart,
  iif(length(body), body, (SELECT b.body FROM body b WHERE b.id = task.id)) AS body FROM task;
""",
}

PRAGMAS = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA wal_autocheckpoint = 16000;
PRAGMA journal_size_limit = 67108864;
PRAGMA cache_size = -65536;
PRAGMA temp_store = MEMORY;
"""


def connect(path: str) -> apsw.Connection:
    """Opens (and if new, makes) the file; refuses what is not ours or not our version."""
    with translated(path):
        if path != ":memory:":
            _make_private(Path(path))
        db = apsw.Connection(path)
        try:
            # Another process may hold the lock for a commit: look again every millisecond, for a minute at most.
            db.set_busy_handler(_wait_a_little)
            _keep_plans(db)
            _make_ready(db)
            db.execute("BEGIN IMMEDIATE")
            _prepare(db, path)
            db.execute("COMMIT")
        except BaseException:
            db.close(True)
            raise
    return db


def _make_private(path: Path) -> None:
    """A new store is readable by its owner only: it holds pages, cookies and what handlers put into requests. An
    existing file keeps its rights. (SQLite gives its other files the rights of this one.)"""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(OSError):  # SQLite has the better message for a bad path
        # Only if it is new: closing a file drops all locks that this process has on it.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _keep_plans(db: apsw.Connection) -> None:
    """One plan for a statement, whatever its parameters are. Without this, a SQLite with STAT4 compiles a statement
    anew at each call, in case that another value of a parameter has a better plan."""
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)


def _make_ready(db: apsw.Connection) -> None:
    """Switching to WAL does not call the busy handler: without this, two processes that open a new file at once
    fail."""
    for tries in range(_TRIES):
        try:
            db.execute(PRAGMAS).fetchall()  # all of them: the first answers, and stops before the others
            return
        except apsw.BusyError:
            _wait_a_little(tries)
    db.execute(PRAGMAS).fetchall()


def _wait_a_little(tries: int) -> bool:
    time.sleep(0.001)
    return tries < _TRIES


def _prepare(db: apsw.Connection, path: str) -> None:
    version, application = db.pragma("user_version"), db.pragma("application_id")
    if application == 0 and not db.execute("SELECT 1 FROM sqlite_master").fetchone():
        db.execute(TABLES)
        db.execute(f"PRAGMA user_version = {VERSION}; PRAGMA application_id = {APPLICATION_ID}")
    elif application != APPLICATION_ID:
        raise StoreError(f"{path} is a database, but not one of Shoal's: choose another path with --store")
    elif version != VERSION:
        _upgrade(db, path, version)


def _upgrade(db: apsw.Connection, path: str, version: int) -> None:
    """Upgrades the file step by step to this version; raises if that is impossible, or if older workers use it."""
    if version not in STEPS:
        age = "a newer" if version > VERSION else "an older"
        raise StoreVersionError(
            f"{path} was written by {age} version of Shoal (schema {version}, this one uses {VERSION}): "
            "finish the crawl with that version or choose another path with --store"
        )
    if path != ":memory:" and (workers := living(workers_folder(path))):
        raise StoreVersionError(
            f"{path} is in use by {len(workers)} process(es) of an older version of Shoal (schema {version}, this one"
            f" uses {VERSION}): let them end or stop them, then run this again, which upgrades the file"
        )
    for step in range(version, VERSION):
        db.execute(STEPS[step])
    db.execute(f"PRAGMA user_version = {VERSION}")


def check_version(db: apsw.Connection) -> None:
    """Called in every transaction: a newer version of Shoal may have upgraded the file meanwhile."""
    version = db.execute("PRAGMA user_version").get
    if version != VERSION:
        raise StoreVersionError(
            f"{db.filename} was upgraded to schema {version} while this was running, which knows {VERSION}:"
            " start that version of Shoal"
        )


def shared_timebase(db: apsw.Connection, clock: Clock | None = None, boot: str | None = None) -> Timebase:
    """One time for all processes that share the file.

    The monotonic clock is the same for all processes of a machine, but starts anew with every boot. So the file stores
    the boot, and the difference between its own time and that clock. The first process after a boot sets the difference
    anew, and never goes back behind the last known time, even if the wall clock was set back.
    """
    clock = clock or SystemClock()
    boot = boot_id() if boot is None else boot
    db.execute("BEGIN IMMEDIATE")
    rows: list[Any] = db.execute(
        "SELECT key, value FROM meta WHERE key IN ('boot', 'offset', 'last')"
    ).fetchall()
    known: dict[str, Any] = dict(rows)
    same_boot = known.get("boot") == boot and clock.monotonic() + known["offset"] >= known["last"]
    if same_boot:
        timebase = Timebase(clock, known["offset"])
    else:
        timebase = Timebase(clock)
        if (last := known.get("last")) is not None and timebase.now() < last:
            timebase = Timebase(clock, last - clock.monotonic())
    facts = (("boot", boot), ("offset", timebase.offset), ("last", timebase.now()))
    db.executemany("INSERT OR REPLACE INTO meta(key, value) VALUES (?, ?)", facts)
    db.execute("COMMIT")
    return timebase


def boot_id() -> str:
    """Names this run of the machine; empty where the system has no such name."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
