"""Rows in a real PostgreSQL: upserts, tables, history, concurrent writers, a server that comes and goes."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import re
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import msgspec
import pytest
from msgspec.structs import replace

from shoal import Page, Spider, crawl
from shoal.develop.probe import Place
from shoal.develop.server_probes import postgresql
from shoal.errors import ShoalError, SinkError
from shoal.fetch.browser.chromium import children_of
from shoal.model import Dead, Done, ItemNote, Lease, Revisit, Row, Settlement, Task
from shoal.model.page_record import PageRecord
from shoal.settings import Settings
from shoal.sink import open_sink
from shoal.sink.jsonl import encode_row
from shoal.sink.postgres.address import read_address
from shoal.sink.postgres.database import Database
from shoal.sink.postgres.sink import PostgresSink
from shoal.spider.spider import Handler
from shoal.testing import ChaoticWeb, HostProfile
from shoal.testing.conformance.tools import make_task
from shoal.testing.servers import PostgresServer

BOOK = Handler("book", print, key=("upc",))
PLAIN = Handler("note", print)
T0 = 1_700_000_000.0


def page(*items: object, at: float = T0, handler: Handler = BOOK, url: str = "http://a/1") -> Settlement:
    task = Task(url, id=1, job="j", fingerprint=hash(url) >> 1)
    return Settlement(
        Lease(1, task, 0.0, 0), Done(), (), tuple(encode_row(item, handler, at) for item in items)
    )


def book(upc: str, price: float = 1.0, **more: object) -> dict[str, object]:
    return {"upc": upc, "price": price, **more}


@asynccontextmanager
async def opened(output: str, job: str = "j", answer: float = 60.0) -> AsyncIterator[PostgresSink]:
    sink = PostgresSink(output, job=job, database=Database(read_address(output), answer=answer))
    await sink.open()
    try:
        yield sink
    finally:
        await sink.close()


async def ask(url: str, query: str, *values: object) -> list[tuple[Any, ...]]:
    connection = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(query, *values)]
    finally:
        await connection.close()


async def items(url: str, table: str = "book") -> dict[str, Any]:
    rows = await ask(url, f"SELECT key, item FROM {table}")
    return {key: msgspec.json.decode(item) for key, item in rows}


async def until(met: Callable[[], Awaitable[bool]], seconds: float = 30.0) -> None:
    async with asyncio.timeout(seconds):
        while not await met():  # noqa: ASYNC110 (what is waited for is outside this loop)
            await asyncio.sleep(0.01)


async def refused(output: str, *batch: Settlement) -> str:
    """The one line that a person reads."""
    with pytest.raises(ShoalError) as told:
        async with opened(output) as sink:
            await sink.write(batch)
    assert "\n" not in str(told.value)
    return str(told.value)


# -- rows


async def test_a_table_is_made_for_every_kind_of_item(postgres: str) -> None:
    sink = open_sink(postgres, job="shop")
    assert sink.journal is None
    await sink.open()
    await sink.write(
        [page(book("1", title="One")), page({"a": 1}, {"a": 2}, handler=PLAIN, url="http://a/2")]
    )
    await sink.write([])
    await sink.close()
    ((key, item, url, job, *times),) = await ask(postgres, "SELECT * FROM book")
    assert (key, msgspec.json.decode(item)) == ("1", {"upc": "1", "price": 1.0, "title": "One"})
    assert (url, job) == ("http://a/1", "shop")
    assert [moment.timestamp() for moment in times] == [T0] * 4
    assert sorted(item["a"] for item in (await items(postgres, "note")).values()) == [1, 2]


async def test_the_freshest_row_of_a_key_stays(postgres: str) -> None:
    times = "SELECT (item->>'price')::int, " + ", ".join(
        f"extract(epoch FROM {name})::float - {T0}" for name in ("fetched_at", "first_seen", "changed_at")
    )
    async with opened(postgres) as sink:

        async def after(price: int, seconds: float) -> tuple[Any, ...]:
            await sink.write([page(book("1", price), at=T0 + seconds)])
            (row,) = await ask(postgres, f"{times} FROM book")
            return row

        assert await after(1, 0) == (1, 0, 0, 0)
        assert await after(2, 10) == (2, 10, 0, 10)
        assert await after(3, 5) == (2, 10, 0, 10)  # comes too late
        assert await after(9, 10) == (2, 10, 0, 10)  # the same moment: settled
        assert await after(2, 20) == (2, 20, 0, 10)  # seen again, unchanged
        assert await after(4, 30) == (4, 30, 0, 30)


async def test_one_batch_may_hold_a_key_twice(postgres: str) -> None:
    async with opened(postgres) as sink:
        await sink.write([page(book("1", 5), at=T0 + 5), page(book("1", 3), at=T0 + 3, url="http://a/2")])
        await sink.write([page(book("2", 1), book("2", 2))])  # on one page: the last
    assert {key: item["price"] for key, item in (await items(postgres)).items()} == {"1": 5, "2": 2}


async def test_a_page_fetched_again_replaces_its_rows(postgres: str) -> None:
    def notes(*words: str, at: float, url: str = "http://a/1") -> Settlement:
        return page(*[{"word": word} for word in words], at=at, handler=PLAIN, url=url)

    async def words() -> list[str]:
        return sorted(item["word"] for item in (await items(postgres, "note")).values())

    async with opened(postgres) as sink:
        await sink.write([notes("a", "b", "c", at=T0), notes("other", at=T0, url="http://a/2")])
        await sink.write([notes("a", "b", "c", at=T0)])
        assert await words() == ["a", "b", "c", "other"]
        await sink.write([notes("x", at=T0 + 1)])
        assert await words() == ["other", "x"]
        await sink.write([notes("late", "later", at=T0 + 0.5)])
        assert await words() == ["later", "other", "x"]  # only where nothing fresher is
        await sink.write([notes("p", "q", "r", at=T0 + 9)])
        await sink.write([notes("late", at=T0 + 8)])
        assert await words() == ["other", "p", "q", "r"]  # what comes too late removes nothing


async def test_a_request_without_a_fingerprint_replaces_its_rows_at_its_next_visit(postgres: str) -> None:
    """Though its task has another id then."""
    first = page({"word": "a"}, handler=PLAIN)
    task = replace(first.lease.task, fingerprint=None)
    again = replace(Revisit(1.0, PageRecord(visits=1)).task(task), id=7)
    later = page({"word": "b"}, handler=PLAIN, at=T0 + 1)
    async with opened(postgres) as sink:
        await sink.write([replace(first, lease=replace(first.lease, task=task))])
        await sink.write([replace(later, lease=replace(later.lease, task=again))])
    assert [item["word"] for item in (await items(postgres, "note")).values()] == ["b"]


async def test_unchanged_rows_do_not_touch_the_index(postgres: str) -> None:
    async with opened(postgres) as sink:
        for hour in range(6):
            await sink.write([page(*[book(str(n), text="x" * 50) for n in range(100)], at=T0 + hour * 3600)])
    query = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'book'"

    async def counted() -> bool:
        return (await ask(postgres, query))[0][0] == 500

    await until(counted)
    assert (await ask(postgres, query))[0][1] > 250


async def test_ten_thousand_rows_at_once(postgres: str) -> None:
    batch = [
        page(*[book(f"{p}-{n}") for n in range(100)], url=f"http://a/{p}", at=T0 + p) for p in range(100)
    ]
    async with opened(postgres) as sink:
        started = time.monotonic()
        await sink.write(batch)
        assert time.monotonic() - started < 60, "a statement for each row would take minutes"
        await sink.write(batch)
    assert await ask(postgres, "SELECT count(*), count(DISTINCT url) FROM book") == [(10_000, 100)]


async def test_characters_without_a_place_in_text(postgres: str) -> None:
    async with opened(postgres) as sink:
        await sink.write([page(book("\0a\0", text="x\0y", odd="\\u0000 \U0001f41f \x1f"))])
    assert await items(postgres) == {"a": book("a", text="xy", odd="\\u0000 \U0001f41f \x1f")}


async def test_names_of_tables_are_taken_as_they_are(postgres: str) -> None:
    odd = Handler("page", print, key=("upc",), item='Odd "name"; DROP TABLE x')
    async with opened(f"{postgres}?history=1") as sink:
        await sink.write([page(book("1"), handler=odd)])
        await sink.write([page(book("1", 2), handler=odd, at=T0 + 1)])
    assert await items(postgres, '"Odd ""name""; DROP TABLE x"') == {"1": book("1", 2)}
    long = Handler("x" * 56, print)
    assert "give the handler item=" in await refused(postgres, page({}, handler=long))


# -- several writers


async def test_workers_with_the_same_keys_do_not_stand_in_each_others_way(postgres: str) -> None:
    keys = [str(n) for n in range(200)]

    async def worker(number: int) -> None:
        async with opened(f"{postgres}?history=1", job=f"w{number}") as sink:
            for turn in range(10):
                order = keys if number % 2 else keys[::-1]
                at = T0 + turn * 4 + number
                await sink.write([page(*[book(key, at - T0) for key in order], at=at)])

    async with asyncio.timeout(60):
        await asyncio.gather(*map(worker, range(4)))
    assert {item["price"] for item in (await items(postgres)).values()} == {39.0}
    # Each key's changes are one chain of growing prices: nothing was noted that did not happen.
    query = "SELECT key, (old->>'price')::float, (new->>'price')::float FROM book_changes ORDER BY key, at"
    chains: dict[str, list[tuple[float, float]]] = {}
    for key, old, new in await ask(postgres, query):
        chains.setdefault(key, []).append((old, new))
    assert len(chains) == 200
    for chain in chains.values():
        assert chain[-1][1] == 39.0
        assert all(old < new for old, new in chain)
        assert all(before[1] == after[0] for before, after in pairwise(chain))
    assert await ask(
        postgres, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    ) == [(0,)]


# -- history


async def test_history_tells_what_changed_and_when(postgres: str) -> None:
    async with opened(f"{postgres}?history=1") as sink:
        for seconds, item in enumerate(
            [
                book("1", 5, title="One", stock=3),
                book("1", 5, title="One", stock=3),
                book("1", 4, title="One", sale=True),
                book("1", 4, title="Eins", sale=True),
            ]
        ):
            await sink.write([page(item, at=T0 + seconds)])
        await sink.write([page(book("1", 99), at=T0 + 1)])
    rows = await ask(
        postgres,
        "SELECT key, extract(epoch FROM at)::float - $1, old::text, new::text FROM book_changes ORDER BY at",
        T0,
    )
    decoded = [(*row[:2], *map(msgspec.json.decode, row[2:])) for row in rows]
    assert decoded == [
        ("1", 2, {"price": 5, "stock": 3}, {"price": 4, "sale": True}),
        ("1", 3, {"title": "One"}, {"title": "Eins"}),
    ]


async def test_without_history_nothing_is_noted(postgres: str) -> None:
    async with opened(postgres) as sink:
        await sink.write([page(book("1"))])
    assert await ask(postgres, "SELECT to_regclass('book_changes')::text") == [(None,)]


# -- tables that somebody else made

TYPED = """CREATE TABLE book (
    id bigserial PRIMARY KEY, upc text UNIQUE, price numeric(8, 2), tags text[], seen_on date, note text DEFAULT 'mine',
    url text, fetched_at timestamptz, first_seen timestamptz, changed_at timestamptz)"""


async def test_fields_go_to_the_columns_of_a_table_that_is_there(postgres: str) -> None:
    await ask(postgres, TYPED)
    first = {"upc": "1", "price": "12.50", "tags": ["a", "b"], "seen_on": "2031-05-30"}
    async with opened(postgres) as sink:
        await sink.write([page(first, {"upc": "2", "price": 3}, {"upc": "2", "price": 4})])
        await sink.write([page({"upc": "1", "price": 9}, at=T0 + 5)])
        await sink.write([page({"upc": "1", "price": 7}, at=T0 + 3)])
    query = """SELECT id, upc, price::text, tags, seen_on::text, note, url,
        extract(epoch FROM changed_at)::float - $1, extract(epoch FROM first_seen)::float - $1 FROM book ORDER BY upc"""
    one, two = await ask(postgres, query, T0)
    assert one[1:] == ("1", "9.00", ["a", "b"], "2031-05-30", "mine", "http://a/1", 5, 0)
    assert two[1:] == ("2", "4.00", None, None, "mine", "http://a/1", 0, 0)


async def test_history_of_such_a_table(postgres: str) -> None:
    await ask(postgres, TYPED)
    async with opened(f"{postgres}?history=1") as sink:
        for seconds, price in enumerate([1, 1, 2]):
            await sink.write([page({"upc": "1", "price": price}, at=T0 + seconds)])
    rows = await ask(
        postgres, "SELECT key, old->>'price', new->>'price', (new - 'price')::text FROM book_changes"
    )
    assert rows == [("1", "1.00", "2.00", "{}")]


@pytest.mark.parametrize(
    ("table", "item", "told"),
    [
        (
            "upc text PRIMARY KEY, price int",
            book("1", 1),
            "no column fetched_at: ALTER TABLE .* ADD COLUMN fetched_at",
        ),
        (
            "upc text PRIMARY KEY, fetched_at text",
            book("1"),
            "fetched_at is text and must be timestamp with time zone",
        ),
        (
            "upc text, price int, fetched_at timestamptz",
            book("1", 1),
            r"no unique index on the key .*CREATE UNIQUE INDEX",
        ),
        ("price int, fetched_at timestamptz", book("1", 1), "no column for the field 'upc'.*ADD COLUMN"),
        ("key text PRIMARY KEY, item jsonb", book("1"), "no column url: ALTER TABLE"),
        ("key text PRIMARY KEY, item text", book("1"), "column item is text and must be jsonb"),
    ],
)
async def test_a_table_that_does_not_fit_is_named(postgres: str, table: str, item: object, told: str) -> None:
    await ask(postgres, f"CREATE TABLE book ({table})")
    assert re.search(told, await refused(postgres, page(item)))


async def test_a_table_with_columns_needs_a_key(postgres: str) -> None:
    await ask(postgres, "CREATE TABLE note (a int, fetched_at timestamptz)")
    assert "give the handler key=" in await refused(postgres, page({"a": 1}, handler=PLAIN))


# -- what one page can get wrong


@pytest.mark.parametrize(
    ("table", "item", "told"),
    [
        (
            "upc text PRIMARY KEY, price int, fetched_at timestamptz",
            {"upc": "1", "price": "free"},
            r"column price \(integer\) does not take the text that http://a/1 has for it",
        ),
        (
            "upc text PRIMARY KEY, price int NOT NULL, fetched_at timestamptz",
            {"upc": "1", "price": None},
            'column price: null value in column "price"',
        ),
        (
            "upc text PRIMARY KEY, price int CONSTRAINT cheap CHECK (price < 10), fetched_at timestamptz",
            book("1", 10),
            'violates check constraint "cheap"',
        ),
        (
            "upc text PRIMARY KEY, price int, other text, fetched_at timestamptz",
            book(random.Random(1).randbytes(9_000).hex(), 1),
            "index row",
        ),
        (
            "upc text PRIMARY KEY, price int, fetched_at timestamptz",
            book("1", 1, surprise="from the page"),
            "no column for the field 'surprise'",
        ),
    ],
)
async def test_an_item_with_a_value_that_its_column_refuses_is_rejected_alone(
    postgres: str, table: str, item: dict[str, Any], told: str
) -> None:
    await ask(postgres, f"CREATE TABLE book ({table})")
    good = [page(book(f"good-{n}", 1), url=f"http://a/good-{n}") for n in range(20)]
    link = make_task("http://a/2")
    bad = replace(page(book("fine", 2), item), found=(link,), counts=(("books", 2),))
    async with opened(postgres) as sink:
        assert await sink.write(good[:3]) == good[:3]
        settled = await sink.write([*good[3:11], bad, *good[11:]])
    assert [one for one in settled if not one.rejected] == good[3:]
    [of_bad] = [one for one in settled if one.rejected]
    assert of_bad == replace(bad, rows=bad.rows[:1], rejected=of_bad.rejected), "the rest of the page is kept"
    [rejected] = of_bad.rejected
    assert rejected.body == bad.rows[1].data.rstrip()
    assert rejected.item == ItemNote("book", T0, hooked=True)
    failure = rejected.history[-1]
    assert (failure.kind, failure.at) == ("rejected", T0)
    assert re.search(told, failure.detail), failure.detail
    assert "\n" not in failure.detail
    written = await ask(postgres, "SELECT upc FROM book WHERE upc LIKE 'good%' OR upc = 'fine'")
    assert len(written) == 21


async def test_without_keys_a_page_is_refused_as_a_whole(postgres: str) -> None:
    """Its rows are told apart by their places."""
    link = make_task("http://a/2")
    deep = Row(b'{"a":' + b"[" * 50_000 + b"]" * 50_000 + b"}\n", table="note", at=T0)
    good = page({"a": 1}, handler=PLAIN)
    bad = replace(good, rows=(*good.rows, deep), found=(link,), counts=(("notes", 2),), rejected=(link,))
    async with opened(postgres) as sink:
        [buried] = await sink.write([bad])
    assert isinstance(buried.verdict, Dead)
    assert (buried.verdict.failure.kind, buried.found) == ("row_refused", (link,)), "its links are followed"
    assert (buried.rows, buried.counts, buried.rejected) == ((), (), ()), "these come when it is replayed"


async def test_every_page_of_a_batch_may_be_refused(postgres: str) -> None:
    await ask(postgres, "CREATE TABLE book (upc text PRIMARY KEY, price int, fetched_at timestamptz)")
    async with opened(postgres) as sink:
        settled = await sink.write([page({"upc": str(n), "price": "free"}) for n in range(5)])
        assert [(len(one.rows), len(one.rejected)) for one in settled] == [(0, 1)] * 5
        assert (await sink.write([page(book("1", 1))]))[0].rows


async def test_a_crawl_goes_on_after_a_page_that_the_table_refuses(postgres: str) -> None:
    await ask(
        postgres,
        "CREATE TABLE book (url text PRIMARY KEY, number int CHECK (number <> 7), fetched_at timestamptz)",
    )
    async with ChaoticWeb({"shop": HostProfile("fast", pages=20)}) as web:
        spider = Spider("shop", start=web.url("shop"), rate=0, robots=False, per_host=8)

        @spider.handler(key="url", item="book")
        def book(page: Page) -> Any:
            yield {"url": page.url, "number": int(page.url.rpartition("/p/")[2] or 0)}
            yield from page.follow_all("a", book)

        results = await crawl(spider, output=postgres)
    counters = results.view.job.counters
    [(pages,)] = await ask(postgres, "SELECT count(*) FROM book")
    assert (counters.rejected, counters.done, pages) == (1, counters.admitted, counters.admitted - 1)
    assert counters.items == pages


async def test_an_item_whose_key_equals_nothing_is_rejected_and_no_row_is_lost(
    postgres: str, tmp_path: Path
) -> None:
    """NaN is not even itself: written as null, such keys would all be one."""
    async with ChaoticWeb({"shop": HostProfile("fast", pages=6, links=6)}) as web:
        spider = Spider("shop", start=web.url("shop"), rate=0, robots=False, per_host=8)

        @spider.handler(key="number", item="book")
        def book(page: Page) -> Any:
            number = int(page.url.rpartition("/p/")[2] or 0)
            yield {"number": float("nan") if number in (2, 3) else number}
            yield from page.follow_all("a", book)

        for output in (postgres, tmp_path / "rows.jsonl"):
            counters = (await crawl(spider, output=output)).view.job.counters
            assert (counters.done, counters.rejected, counters.items) == (6, 2, 4)
    assert sorted(await ask(postgres, "SELECT key FROM book")) == [("0",), ("1",), ("4",), ("5",)]


async def test_a_refused_page_is_written_after_the_table_is_mended(postgres: str) -> None:
    await ask(postgres, "CREATE TABLE book (upc text PRIMARY KEY, price int, fetched_at timestamptz)")
    bad = page({"upc": "1", "price": "free"})
    async with opened(postgres) as sink:
        await sink.write([bad])
    await ask(postgres, "ALTER TABLE book ALTER price TYPE text")
    async with opened(postgres) as sink:
        await sink.write([bad])
    assert await ask(postgres, "SELECT upc, price FROM book") == [("1", "free")]


# -- what a person can get wrong


async def test_a_place_where_rows_cannot_go_is_told_at_once(
    postgres: str, postgres_server: PostgresServer
) -> None:
    where = urlsplit(postgres)
    closed = f"postgresql://me:hunter2@127.0.0.1:1{where.path}"
    told = {
        "nothing listens": await refused(closed),
        "no such name": await refused("postgresql://me:hunter2@db.invalid/x"),
        "no database": await refused(postgres_server.database_url("nowhere")),
        "no user": await refused(postgres.replace("shoal@", "stranger:hunter2@")),
        "bad port": await refused("postgresql://me:hunter2@127.0.0.1:port/x"),
        "bad option": await refused(f"{postgres}?sslmode=sideways"),
    }
    assert "connection refused; is PostgreSQL running there?" in told["nothing listens"]
    assert "cannot reach postgresql://db.invalid/x" in told["no such name"]
    assert 'database "nowhere" does not exist; create it' in told["no database"]
    assert "refuses the login" in told["no user"]
    assert "hunter2" not in " ".join(told.values())


async def test_a_wrong_password_is_told_without_repeating_it(
    postgres: str, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = postgres_server.folder / "data" / "pg_hba.conf"
    before = rules.read_text()
    user = f"u{os.getpid()}"
    await ask(postgres, f"CREATE USER {user} PASSWORD 'right'")
    await ask(postgres, f"GRANT CREATE ON SCHEMA public TO {user}")
    rules.write_text(f"host all {user} 127.0.0.1/32 scram-sha-256\n{before}")
    await ask(postgres, "SELECT pg_reload_conf()")
    try:
        guarded = postgres.replace("shoal@", f"{user}:hunter2@")

        async def guard_is_up() -> bool:
            return bool(await try_open(guarded))

        await until(guard_is_up)
        told = await try_open(guarded)
        assert "refuses the login" in told
        assert "PGPASSWORD" in told
        assert "hunter2" not in told
        monkeypatch.setenv("PGPASSWORD", "right")
        monkeypatch.setenv("PGUSER", user)
        monkeypatch.setenv("PGHOST", "127.0.0.1")
        monkeypatch.setenv("PGPORT", str(postgres_server.port))
        monkeypatch.setenv("PGDATABASE", urlsplit(postgres).path[1:])
        async with opened("postgresql://") as sink:
            await sink.write([page(book("1"))])
        for name in ("PGPASSWORD", "PGUSER"):
            monkeypatch.delenv(name)
        assert set(await items(postgres)) == {"1"}
    finally:
        rules.write_text(before)
        await ask(postgres, "SELECT pg_reload_conf()")
        await ask(postgres, f"DROP OWNED BY {user}")
        await ask(postgres, f"DROP USER {user}")


async def try_open(output: str) -> str:
    try:
        async with opened(output):
            return ""
    except SinkError as error:
        return str(error)


async def test_a_user_without_rights_is_told_what_to_grant(postgres: str) -> None:
    user = f"poor{os.getpid()}"
    await ask(postgres, f"CREATE USER {user}")
    try:
        poor = postgres.replace("shoal@", f"{user}@")
        assert f"GRANT CREATE ON SCHEMA public TO {user}" in await refused(poor)
        await ask(postgres, "CREATE TABLE other (a int)")
        await ask(postgres, f"GRANT INSERT ON other TO {user}")
        assert "may not create or write table book: permission denied" in await refused(poor, page(book("1")))
    finally:
        await ask(postgres, f"DROP OWNED BY {user}")
        await ask(postgres, f"DROP USER {user}")


# -- a server that comes and goes


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    folder = tempfile.mkdtemp(prefix="shoal-postgres-")
    try:
        with PostgresServer(folder) as server:
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def write_on(sink: PostgresSink, done: list[int], stop: asyncio.Event) -> None:
    number = 0
    while not stop.is_set():
        await sink.write([page(*[book(f"{number}-{n}") for n in range(20)], url=f"http://a/{number}")])
        done.append(number)
        number += 1


async def more(done: list[int], count: int = 5) -> None:
    wanted = len(done) + count

    async def enough() -> bool:
        return len(done) >= wanted

    await until(enough)


async def test_rows_wait_for_a_server_that_is_killed_restarted_or_hangs(
    own_server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "shoal")
    done: list[int] = []
    stop = asyncio.Event()

    async def away() -> bool:
        return bool(caplog.messages) and "is away" in caplog.messages[-1]

    def resume() -> None:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)

    stopped: list[int] = []
    troubles = [
        (own_server.kill, own_server.start),
        (own_server.stop, own_server.start),
        (lambda: stopped.extend(hang(own_server)), resume),
    ]
    answer = 8.0  # longer than a busy machine keeps an answer: only a server that hangs is away
    async with opened(own_server.url, answer=answer) as sink, asyncio.TaskGroup() as group:
        group.create_task(write_on(sink, done, stop))
        await more(done)
        for begin, end in troubles:
            await asyncio.to_thread(begin)
            try:
                await until(away)
                held = len(done)
                await asyncio.sleep(0.3)
                assert len(done) == held
            finally:
                await asyncio.to_thread(end)
            await more(done)
        stop.set()
    assert ["is away" in line for line in caplog.messages] == [True, False] * 3
    assert ["is back after" in line for line in caplog.messages] == [False, True] * 3
    rows = await ask(own_server.url, "SELECT count(*), count(DISTINCT url) FROM book")
    assert rows == [(20 * len(done), len(done))]


def hang(server: PostgresServer) -> list[int]:
    """Stops the server and its children, as a machine that hangs would."""
    for pid in (pids := [server.pid, *children_of(server.pid)]):
        os.kill(pid, signal.SIGSTOP)
    return pids


async def test_a_writer_can_be_called_off_while_the_server_is_away(own_server: PostgresServer) -> None:
    async with opened(own_server.url) as sink:
        await sink.write([page(book("1"))])
        own_server.stop()
        writing = asyncio.create_task(sink.write([page(book("2"))]))
        await asyncio.sleep(0.3)
        assert not writing.done()
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing


async def test_a_crawl_goes_on_through_a_restart_and_a_kill_of_the_database(
    own_server: PostgresServer, tmp_path: Path
) -> None:
    """Every page has one row, though the server went away twice in the middle."""
    hosts = {f"h{n}.test": HostProfile("slow", latency=0.01, pages=60) for n in range(4)}
    async with ChaoticWeb(hosts) as web:
        start = [web.url(host, f"/p/{n}") for n in range(60) for host in web.spec.hosts]
        spider = Spider("shop", start, rate=0, per_host=1, robots=False, allow_network=["127.0.0.0/8"])

        @spider.handler(item="sheet")
        def sheet(page: Page) -> list[dict[str, object]]:
            return [{"url": page.url, "n": n} for n in range(3)]

        async def rows() -> int:
            try:
                return int((await ask(own_server.url, "SELECT count(*) FROM sheet"))[0][0])
            except asyncpg.UndefinedTableError:
                return 0

        async def trouble() -> None:
            for enough, end in ((30, own_server.stop), (300, own_server.kill)):

                async def far(enough: int = enough) -> bool:
                    return await rows() >= enough

                await until(far)
                await asyncio.to_thread(end)
                await asyncio.sleep(0.2)
                await asyncio.to_thread(own_server.start)

        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            crawling = group.create_task(crawl(spider, store=tmp_path / "shoal.db", output=own_server.url))
            group.create_task(trouble())
    results = crawling.result()
    assert results.items == []
    counters = results.view.job.counters
    assert (counters.done, counters.dead, counters.items) == (240, 0, 720)
    found = await ask(
        own_server.url, "SELECT url, count(*), count(DISTINCT item->>'n') FROM sheet GROUP BY url"
    )
    assert sorted(found) == sorted((url, 3, 3) for url in start)


async def test_a_table_that_was_dropped_is_made_again(postgres: str) -> None:
    async with opened(postgres) as sink:
        await sink.write([page(book("1"))])
        await ask(postgres, "DROP TABLE book")
        await sink.write([page(book("2"))])
    assert set(await items(postgres)) == {"2"}


# -- shoal doctor


async def test_doctor_tells_what_the_database_is_and_may_do(postgres: str) -> None:
    place = Place(Settings(), ":memory:", [postgres], [], {})
    [found] = await postgresql(place)
    assert (found.state, found.found.endswith("its user may make tables")) == ("ok", True), found
    connection = await asyncpg.connect(postgres)
    try:
        await connection.execute("CREATE ROLE weak LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        address = urlsplit(postgres)
        url = address._replace(netloc=f"weak:hunter22@{address.netloc.rpartition('@')[2]}").geturl()
        [found] = await postgresql(replace(place, outputs=[url]))
        assert (found.state, found.found.endswith("its user may make no tables")) == ("warning", True), found
        assert "hunter22" not in f"{found}"
    finally:
        await connection.execute("DROP ROLE IF EXISTS weak")
        await connection.close()
    [found] = await postgresql(replace(place, outputs=[f"{postgres}_gone"]))
    assert found.state == "wrong"
    assert "createdb" in found.do
