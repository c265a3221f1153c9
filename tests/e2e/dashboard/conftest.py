"""The store of a real crawl, and a real dashboard on a free port that shows it."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import shoal
from e2e.dashboard.viewer import Viewer, spider_of, viewing
from shoal.dashboard.server import Options, dashboard
from shoal.testing import HostProfile, WebProcess


@pytest.fixture(scope="session")
def web() -> Iterator[WebProcess]:
    with WebProcess({"good": HostProfile(pages=6), "other": HostProfile(pages=3)}) as web:
        yield web


@pytest.fixture(scope="session")
def crawled(web: WebProcess, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished crawl: pages done, four that were not there, two whose handler failed."""
    store = tmp_path_factory.mktemp("crawled") / "shoal.db"
    results = shoal.run(spider_of(web), store=store)
    assert results.view.job.state == "finished"
    return store


@pytest.fixture
def store(crawled: Path, tmp_path: Path) -> str:
    """A copy for one test."""
    for file in crawled.parent.iterdir():
        if file.is_file():
            shutil.copy(file, tmp_path)
    return str(tmp_path / crawled.name)


@pytest.fixture
async def stranger(store: str) -> AsyncIterator[Viewer]:
    """Somebody who has not logged in."""
    async with dashboard(Options(store, port=0)) as served, viewing(served) as viewer:
        yield viewer


@pytest.fixture
async def viewer(stranger: Viewer) -> Viewer:
    await stranger.log_in()
    return stranger
