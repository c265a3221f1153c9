"""Where a spider comes from, in words that another process can read: that is how worker processes build theirs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from shoal.spider.spider import Spider


class SpiderSource(Struct, frozen=True):
    """A spider's address (FILE.py, FILE.py:name, module:name), or the URLs of a crawl without code."""

    name: str  # of the job
    spec: str | None = None
    urls: tuple[str, ...] = ()
    input: str | None = None  # a file of URLs, one a line, read after `urls`; "-": standard input
    feeds: str = (
        ""  # what its URLs are called among the sources of a job; "": they are the spider's own start
    )

    def load(self) -> Spider:
        if self.spec is not None:
            from shoal.spider.loading import load_spider

            return load_spider(self.spec)
        from shoal.spider.default import summary_spider

        return summary_spider(self.name, [*self.urls, *([Path(self.input)] if self.input else [])])
