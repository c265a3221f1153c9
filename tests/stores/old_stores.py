"""Stores as older versions of Shoal wrote them, kept as text and put into a real server or file again.

Before a format changes, its last version writes one: `python tests/stores/old_stores.py layout5.json schema6.sql`.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shoal.frontier.protocol import Frontier
from shoal.frontier.redis.home import RedisFrontier
from shoal.frontier.sqlite import SqliteFrontier
from shoal.frontier.values import Cursor
from shoal.model import Dead, Done, Lease, Retry, Row, Settlement
from shoal.testing.conformance.tools import FAILED, ListJournal, claim, make_task, settle, spec
from shoal.testing.manual_clock import ManualClock
from shoal.testing.servers import ValkeyServer

FOLDER = Path(__file__).parent
PREFIX = "old"
SHARDS = 2
URLS = [f"http://h{n % 3}.test/{n}" for n in range(12)]
FOUND = "http://h5.test/found"
HELD = 2  # leases of a worker that is gone when somebody opens the store again


async def fill(frontier: Frontier) -> Sequence[Lease]:
    """A bit of everything: done, retried, dead, held and pending pages, rows, a note."""
    await frontier.open_job(spec(max_attempts=3))
    await frontier.add("job", [make_task(url) for url in URLS], Cursor(fed=12, fed_all=True))
    leases = (await claim(frontier, 5, worker="gone", lease_seconds=5.0)).leases
    rows = [Settlement(leases[0], Done(), (make_task(FOUND),), (Row(b'{"n": 1}\n', 11),))]
    await frontier.settle(rows, ListJournal("rows.jsonl"))
    await settle(frontier, leases[1], Retry(1.0, FAILED))
    await settle(frontier, leases[2], Dead(FAILED))
    await frontier.set_note("note", b"kept", 0)
    return leases[3:]


def dump_valkey(server: ValkeyServer) -> list[Any]:
    """Every key that does not expire: its name, its type, and the arguments of the command that makes it again."""
    kept = []
    for key in sorted(server.command("KEYS", f"{{{PREFIX}:*")):
        kind = server.command("TYPE", key)
        kind = kind.decode() if isinstance(kind, bytes) else kind
        if server.command("TTL", key) != -1:
            continue
        reading = {
            "hash": ("HGETALL", key),
            "set": ("SMEMBERS", key),
            "list": ("LRANGE", key, 0, -1),
            "zset": ("ZRANGE", key, 0, -1, "WITHSCORES"),
            "string": ("GET", key),
        }[kind]
        kept.append([_text(key), kind, _flat(server.command(*reading), kind)])
    return kept


def _flat(value: Any, kind: str) -> list[str]:
    match value:
        case dict():
            parts = [part for pair in value.items() for part in pair]
        case list() if kind == "zset":
            pairs = zip(value[::2], value[1::2], strict=True)
            parts = [part for member, score in pairs for part in (score, member)]
        case list():
            parts = value
        case set():
            parts = sorted(value)
        case _:
            parts = [value]
    return [_text(part) for part in parts]


def _text(data: bytes | str | int) -> str:
    return data.decode("latin-1") if isinstance(data, bytes) else str(data)


def load_valkey(server: ValkeyServer, name: str, prefix: str) -> None:
    """Puts a kept store into the server, under another prefix."""
    making = {"hash": "HSET", "set": "SADD", "list": "RPUSH", "zset": "ZADD", "string": "SET"}
    for key, kind, parts in json.loads((FOLDER / name).read_text()):
        key = key.replace(f"{{{PREFIX}:", f"{{{prefix}:", 1)
        server.command(making[kind], key, *(part.encode("latin-1") for part in parts))


def load_sqlite(name: str, path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.executescript((FOLDER / name).read_text())
    db.close()


def dump_sqlite(path: Path) -> str:
    with sqlite3.connect(path) as db:
        [version, application] = [
            db.execute(f"PRAGMA {p}").fetchone()[0] for p in ("user_version", "application_id")
        ]
        lines = [
            *db.iterdump(),
            f"PRAGMA user_version = {version};",
            f"PRAGMA application_id = {application};",
        ]
    db.close()
    return "\n".join(lines) + "\n"


async def _filled() -> tuple[str, str]:
    """What is kept of a store in Valkey, and of one in SQLite."""
    with tempfile.TemporaryDirectory() as folder:
        with ValkeyServer(folder) as server:
            frontier = RedisFrontier(f"{server.url}?prefix={PREFIX}&shards={SHARDS}", ManualClock())
            async with frontier:
                await fill(frontier)
            layout = json.dumps(dump_valkey(server), indent=0) + "\n"
        path = Path(folder, "store.db")
        async with SqliteFrontier(path, ManualClock()) as frontier:
            await fill(frontier)
        return layout, dump_sqlite(path)


if __name__ == "__main__":
    for name, text in zip(sys.argv[1:], asyncio.run(_filled()), strict=True):
        (FOLDER / name).write_text(text)
