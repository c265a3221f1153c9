"""Settings of a user who checks types: `make types` reads this file, and nothing runs it. An error that is not found is
reported, too: its comment would be unused."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import shoal
from shoal import Results, Spider

if TYPE_CHECKING:
    import polars

spider = Spider(
    "typed",
    "https://shop.example/",
    rate=2,
    host={"slow.example": {"rate": 0.5}},
    plugins=["metrics", object()],
    proxies={"fast": ["http://proxy.example:8080"]},
    output=["shop.csv"],
    referer="origin",
)
Spider("misspelt", rat=2)  # type: ignore[call-arg]
Spider("wrong type", rate="fast")  # type: ignore[arg-type]
Spider("wrong word", dedupe="sometimes")  # type: ignore[arg-type]


def results() -> Results:
    shoal.run(spider, per_hots=2)  # type: ignore[call-arg]
    shoal.run(spider, fresh="yes")  # type: ignore[arg-type]
    return shoal.run(spider, store=Path("shop.db"), output="shop.jsonl", job="mine", max_pages=100)


async def also() -> dict[str, str]:
    await shoal.crawl(spider, robot=False)  # type: ignore[call-arg]
    found = await shoal.crawl(spider, robots=False)
    first: dict[str, str] = found[0]
    rest: Results = found[1:]
    table: polars.DataFrame = rest.to_polars()
    return first if table.height else {}
