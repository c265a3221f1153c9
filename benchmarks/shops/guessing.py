"""`shoal guess` on every shop, from its home page; then a crawl by the file that it wrote, as it is.

In one process: a command for each step would take longer to start than to run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import shoal
from benchmarks.shops.judging import Verdict, judge
from shoal.develop.guessing.fetching_pages import SitePages
from shoal.develop.guessing.guess_file import written
from shoal.develop.guessing.site_guess import Explorer
from shoal.errors import ShoalError
from shoal.settings import Settings
from shoal.spider.declared.opening import declared_spider
from shoal.testing.shops import Storefront


def by_guess(fronts: Sequence[Storefront], folder: Path) -> list[Verdict]:
    return [asyncio.run(_by_guess(front, folder)) for front in fronts]


async def _by_guess(front: Storefront, folder: Path) -> Verdict:
    """A shop for which nothing was written has no rows."""
    home, settings = f"{front.base}/", Settings(rate=0, allow_network=["127.0.0.0/8"])
    guess = await Explorer(SitePages([home], settings, None, offline=False).fetch).guess(
        [home], front.plan.name
    )
    if guess is None:
        return judge([front], [])[0]
    file = folder / f"{front.plan.name}.toml"
    file.write_text(written(guess), "utf-8")
    try:
        spider = declared_spider(str(file))  # checked like `shoal check` does
    except ShoalError as error:
        verdict = judge([front], [])[0]
        verdict.wrong.append(f"the file is not in order: {error}")
        return verdict
    results = await shoal.crawl(spider, rate=0)
    return judge([front], results)[0]
