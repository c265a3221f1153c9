"""What changed, and when: a trigger notes it beside the table.

A trigger, because only the database sees both the row that was there and the one that takes its place when several
workers write at once, and because it notes changes by hand as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.sink.postgres.link import Connection
from shoal.sink.postgres.tables import ABOUT, TIMES, Table, lock_schema, quoted

_TRIGGER = "shoal_history"
_THERE = "SELECT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = to_regclass($1) AND tgname = $2)"

_CREATE = """
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
    """Makes sure that changes of this table are noted in TABLE_changes."""
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
        # A row in JSON, without what is about the page and not about the item.
        about = [*TIMES, *(name for name in ABOUT if name not in by)]
        names = "ARRAY[" + ", ".join(f"'{name}'" for name in about) + "]"
        before, after = f"to_jsonb(OLD) - {names}", f"to_jsonb(NEW) - {names}"
        columns = [f"NEW.{quoted(name)}" for name in by]
        key = f"{columns[0]}::text" if len(columns) == 1 else f"jsonb_build_array({', '.join(columns)})::text"
        when = ""
    return _CREATE.format(
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
