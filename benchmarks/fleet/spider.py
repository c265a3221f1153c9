"""The spider of the fleets: every page is a row that says who fetched it, and every link is followed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from shoal import Page, Request, Spider

spider = Spider("fleet", start=Path(os.environ.get("FLEET_START", "start.txt")), trust_start=True)


@spider.handler
def page(page: Page) -> Iterator[dict[str, object] | Request]:
    # A command is known by the number of its guardian, which is the process that was started.
    yield {"url": page.url, "worker": os.getppid()}
    yield from page.follow_all("a")
