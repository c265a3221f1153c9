"""`shoal guess` on every shop, from its home page; then a crawl by the file that it wrote, as it is."""

from __future__ import annotations

from pathlib import Path

from benchmarks.shops.crawling import Crawl, command
from benchmarks.shops.judging import Verdict, judge
from shoal.testing.shops import Storefront

_DEADLINE = 120.0


def by_guess(front: Storefront, folder: Path) -> Verdict:
    """A shop for which nothing was written has no rows."""
    place = folder / front.plan.name
    place.mkdir()
    file = f"{front.plan.name}.toml"
    guess = command(place, ["guess", f"{front.base}/", "-o", file, "-s", "rate=0"], {})
    if guess.wait(_DEADLINE):
        return judge([front], [])[0]
    checked = command(place, ["check", file], {}).wait(_DEADLINE)
    crawl = Crawl(place, [file], {})
    crawl.run(len(front.products))
    verdict = judge([front], crawl.rows())[0]
    if checked:
        verdict.wrong.append(f"shoal check ended with {checked}: {crawl.log()[:300]}")
    return verdict
