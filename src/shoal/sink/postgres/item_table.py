"""The table of a kind of item: created if it is missing, checked if it exists. And its history of changes.

Shoal's own tables hold the item as `jsonb`, beside its key and times. A table without a column `item` is the user's:
then the item's fields go to the columns of the same names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from shoal.errors import SinkError
from shoal.sink.postgres.database import Connection

# Times are those of the pages: when the row was last seen, first seen, and last seen to be different.
TIMES = ("fetched_at", "first_seen", "changed_at")
CHECKED = "checked_at"  # when its page was last visited, and had it as it is
ABOUT = ("url", "job")  # the page it is from, and the job that wrote it
_OWN = {
    "key": "text",
    "item": "jsonb",
    **dict.fromkeys(ABOUT, "text"),
    **dict.fromkeys(TIMES, "timestamp with time zone"),
}
_LONGEST_NAME = 63 - len("_changes")  # bytes; PostgreSQL cuts longer names without a word

# Keys are compared byte by byte: quick, and the rows of a page are neighbours. Rows that are seen again change only
# their times, and fillfactor leaves room for that on their disk page, without an update of the index.
_CREATE = """
CREATE TABLE IF NOT EXISTS {name} (
  key text COLLATE "C" PRIMARY KEY,
  item jsonb NOT NULL,
  url text,
  job text,
  fetched_at timestamptz NOT NULL,
  first_seen timestamptz NOT NULL,
  changed_at timestamptz NOT NULL,
  checked_at timestamptz
) WITH (fillfactor = 80)"""

_COLUMNS = """
SELECT n.nspname, a.attname, format_type(a.atttypid, NULL)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.oid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped"""


class Table(Struct, frozen=True):
    name: str
    schema: str
    columns: Mapping[str, str]  # and their types

    @property
    def own(self) -> bool:
        return "item" in self.columns

    @property
    def place(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.name)}"


async def find_table(connection: Connection, name: str, by: Sequence[str]) -> Table:
    """The table of that name, created if necessary. Raises SinkError if rows with this key do not fit."""
    if len(name.encode()) > _LONGEST_NAME:
        raise SinkError(
            f"table {name!r}: PostgreSQL takes names of up to {_LONGEST_NAME} bytes; give the handler item='…'"
        )
    table = await _look(connection, name)
    if table is None:
        async with connection.transaction():
            await lock_schema(connection)
            await connection.execute(_CREATE.format(name=quoted(name)))
        table = await _look(connection, name)
        assert table is not None, name
    _check(table, by)
    return table


async def lock_schema(connection: Connection) -> None:
    """Locks until the end of the transaction: workers that start at once would collide when they create tables."""
    await connection.execute("SELECT pg_advisory_xact_lock(hashtext('shoal'), 0)")


async def _look(connection: Connection, name: str) -> Table | None:
    found = await connection.fetch(_COLUMNS, quoted(name))
    if not found:
        return None
    return Table(name, found[0][0], {column: type_ for _, column, type_ in found})


def _check(table: Table, by: Sequence[str]) -> None:
    if not table.own and not by:
        raise SinkError(
            f"table {table.name} has columns of its own, so its rows need a key: "
            "give the handler key='…', the column with a unique index"
        )
    wanted = _OWN if table.own else {"fetched_at": _OWN["fetched_at"]}
    for column, type_ in wanted.items():
        there = table.columns.get(column)
        if there is None:
            raise SinkError(
                f"table {table.name} has no column {column}: "
                f"ALTER TABLE {table.place} ADD COLUMN {column} {type_}, or give the handler item='…'"
            )
        if there != type_:
            raise SinkError(
                f"table {table.name}: column {column} is {there} and must be {type_}: "
                "change it, or give the handler item='…' for another table"
            )


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


async def add_checked(connection: Connection, table: Table) -> Table:
    """The table with a column for when a row was checked. A table of the user's has one only if he made it."""
    if CHECKED in table.columns or not table.own:
        return table
    async with connection.transaction():
        await lock_schema(connection)
        await connection.execute(f"ALTER TABLE {table.place} ADD COLUMN IF NOT EXISTS {CHECKED} timestamptz")
    return await _look(connection, table.name) or table


# -- the history of changes, written by a trigger
#
# Only the database sees both the old and the new row when several workers write at once; and a trigger also records
# changes by hand.


_TRIGGER = "shoal_history"
_THERE = "SELECT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = to_regclass($1) AND tgname = $2)"

_CREATE_HISTORY = """
CREATE TABLE IF NOT EXISTS {changes} (
  key text COLLATE "C" NOT NULL, at timestamptz NOT NULL, old jsonb NOT NULL, new jsonb NOT NULL
);
CREATE INDEX IF NOT EXISTS {index} ON {changes} (key, at);
CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $note$
DECLARE
  before jsonb := {before};
  after jsonb := {after};
BEGIN
  INSERT INTO {changes} (key, at, old, new)
  SELECT {key}, NEW.fetched_at,
    coalesce(jsonb_object_agg(field, before -> field) FILTER (WHERE before ? field), '{{}}'),
    coalesce(jsonb_object_agg(field, after -> field) FILTER (WHERE after ? field), '{{}}')
  FROM (SELECT jsonb_object_keys(before) AS field UNION SELECT jsonb_object_keys(after)) AS fields
  WHERE before -> field IS DISTINCT FROM after -> field
  HAVING count(*) > 0;
  RETURN NULL;
END $note$;
CREATE TRIGGER {trigger} AFTER UPDATE ON {place} FOR EACH ROW {when} EXECUTE FUNCTION {function}()"""


async def keep_history(connection: Connection, table: Table, by: Sequence[str]) -> None:
    """Makes sure that changes of this table are recorded in TABLE_changes."""
    if await _kept(connection, table):
        return
    async with connection.transaction():
        await lock_schema(connection)
        if not await _kept(connection, table):
            await connection.execute(statements(table, by))


async def _kept(connection: Connection, table: Table) -> bool:
    return bool((await connection.fetchrow(_THERE, table.place, _TRIGGER))[0])


def statements(table: Table, by: Sequence[str]) -> str:
    schema = quoted(table.schema)
    if table.own:
        before, after, key = "OLD.item", "NEW.item", "NEW.key"
        when = "WHEN (OLD.item IS DISTINCT FROM NEW.item)"
    else:
        # The row as JSON, without columns about the page.
        about = [*TIMES, CHECKED, *(name for name in ABOUT if name not in by)]
        names = "ARRAY[" + ", ".join(f"'{name}'" for name in about) + "]"
        before, after = f"to_jsonb(OLD) - {names}", f"to_jsonb(NEW) - {names}"
        columns = [f"NEW.{quoted(name)}" for name in by]
        key = f"{columns[0]}::text" if len(columns) == 1 else f"jsonb_build_array({', '.join(columns)})::text"
        when = ""
    return _CREATE_HISTORY.format(
        changes=f"{schema}.{quoted(f'{table.name}_changes')}",
        index=quoted(f"{table.name}_chg_at"),
        function=f"{schema}.{quoted(f'{table.name}_history')}",
        trigger=_TRIGGER,
        place=table.place,
        before=before,
        after=after,
        key=key,
        when=when,
    )


async def forget_history(connection: Connection, table: Table, before: float) -> None:
    """Deletes what was recorded before that time."""
    changes = f"{quoted(table.schema)}.{quoted(f'{table.name}_changes')}"
    await connection.execute(f"DELETE FROM {changes} WHERE at < to_timestamp($1)", before)
