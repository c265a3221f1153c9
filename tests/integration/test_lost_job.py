"""A crawl whose job is not in its store any more."""

from __future__ import annotations

from pathlib import Path

import pytest

import shoal
from shoal import Page, Spider
from shoal.errors import ShoalError
from shoal.frontier import open_frontier
from shoal.testing import HostProfile, WebProcess


def test_it_ends_and_blames_no_command_for_certain(tmp_path: Path) -> None:
    """The job may be gone because a server came back empty: nobody else has to have done anything."""
    store = str(tmp_path / "shoal.db")
    with WebProcess({"site": HostProfile("fast", pages=3)}) as web:
        spider = Spider("books", start=web.start_urls, rate=0, robots=False)

        @spider.handler
        async def page(page: Page) -> None:
            async with open_frontier(store) as frontier:
                await frontier.drop_job("books")

        with pytest.raises(ShoalError) as told:
            shoal.run(spider, store=store)
    assert str(told.value) == (
        "job books was forgotten or started anew by another command, or its store lost it, so this one ends"
    )
