"""The rows of a PostgreSQL query as start URLs."""

from __future__ import annotations

import asyncpg  # type: ignore[import-untyped]
import pytest

from shoal import Spider, Table
from shoal.errors import SpiderError


async def urls(table: Table) -> list[tuple[str, object]]:
    return [(request.url, request.meta) async for _, request, _ in Spider("any", start=table).starts()]


async def test_rows_of_a_query_are_streamed_and_cannot_write(postgres: str) -> None:
    connection = await asyncpg.connect(postgres)
    await connection.execute(
        "create table product as select 'https://a.example/' || n as url, n as sku, n::numeric / 10 as price,"
        " date '2026-01-31' as day from generate_series(1, 1200) n"
    )
    found = await urls(Table(postgres, query="select * from product order by sku"))
    assert len(found) == 1200
    assert found[14] == (
        "https://a.example/15",
        {"sku": 15, "price": "1.5000000000000000", "day": "2026-01-31"},
    )
    with pytest.raises(SpiderError, match="read-only"):
        await urls(Table(postgres, query="delete from product returning url"))
    with pytest.raises(SpiderError, match="cannot read postgresql"):
        await urls(Table(postgres, query="select nothing from nowhere"))
    assert await connection.fetchval("select count(*) from product") == 1200
    await connection.close()
